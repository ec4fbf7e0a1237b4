"""Where members sit: the rules as tables over drawn clusters, and random clusters against counting node by node."""

from random import Random

import pytest

from tests.clusters import drawn, gang, seat, seats, where
from tutti.engine.model import NEVER, Arrange, Cap, Near, Seats, Segment, Shape, SizeRule
from tutti.engine.place import Need, Outlook
from tutti.engine.profile import Profile
from tutti.engine.sizes import Sizes
from tutti.engine.world import World

TWO = "a: 8 8 | b: 8 8"
ZONES = "y/a: 8 8 | y/b: 8 8 | z/c: 8 8 | z/d: 8 8"


def outlook_on(world: World, members: int = 1, gpu: int = 1, **fields) -> Outlook:
    view = world.view()
    asking = gang("asking", members, gpu, **fields)
    need = Need(view, asking, asking.roles[0], 0)
    profile = Profile(view, 0, 100, view.class_ready)
    eligible = view.topology.eligible(*need.key)
    return Outlook(profile, need, 0, 1, profile.usable & eligible[profile.kind])


def placed(world: World, members: int, gpu: int = 1, **fields) -> str:
    """Where so many members would sit now, or 'nowhere'."""
    outlook = outlook_on(world, members, gpu, **fields)
    chosen = outlook.choose(members)
    if chosen is None:
        return "nowhere"
    view = world.view()
    runs = sorted(zip(chosen.positions.tolist(), chosen.counts.tolist(), strict=True))
    nodes = tuple(int(view.by_line[position]) for position, _ in runs)
    return where((Seats(nodes, tuple(count for _, count in runs)),), view)


@pytest.mark.parametrize(
    ("cluster", "members", "gpu", "expected"),
    [
        pytest.param("8 8", 1, 1, "n0", id="the first of equals"),
        pytest.param("8 4", 1, 1, "n1", id="where it leaves the least behind"),
        pytest.param("8 4", 1, 8, "n0", id="where it fits at all"),
        pytest.param("8 4 2", 4, 1, "n1*4", id="one node that holds all, tightly"),
        pytest.param("8 8 4", 12, 1, "n0*8,n2*4", id="full nodes, and the rest where it is tight"),
        pytest.param("8 8 8", 9, 1, "n0*8,n1", id="the rest on the next in line"),
        pytest.param("8 8 8", 3, 8, "n0,n1,n2", id="one member each"),
        pytest.param("8 8", 5, 3, "nowhere", id="two of three cards fit on a node, not two and two thirds"),
        pytest.param("8d 8q 8x 8", 8, 1, "n3*8", id="only nodes that are well"),
        pytest.param("8-6 8", 2, 1, "n0*2", id="beside others' use"),
        pytest.param("8-6 8", 3, 1, "n1*3", id="not on what others use"),
    ],
)
def test_packed(cluster, members, gpu, expected):
    assert placed(drawn(cluster), members, gpu) == expected


@pytest.mark.parametrize(
    ("cluster", "members", "fields", "expected"),
    [
        pytest.param("8 8 8", 3, {}, "n0,n1,n2", id="one each"),
        pytest.param("8 8 8", 4, {}, "n0*2,n1,n2", id="the second round starts at the front"),
        pytest.param("1 8 8", 7, {}, "n0,n1*3,n2*3", id="as even as the room allows"),
        pytest.param("1 1", 3, {}, "nowhere", id="no room"),
        pytest.param("8 8", 3, {"caps": (Cap("node", 1),)}, "nowhere", id="a cap on the node"),
    ],
)
def test_spread(cluster, members, fields, expected):
    assert placed(drawn(cluster), members, arrange=Arrange.SPREAD, **fields) == expected


@pytest.mark.parametrize(
    ("cluster", "members", "fields", "expected"),
    [
        pytest.param("a: 8 | b: 4 4", 8, {"within": "rack"}, "a0*8", id="one rack, of equals the first"),
        pytest.param("a: 8 8 | b: 8", 8, {"within": "rack"}, "b0*8", id="the tightest rack"),
        pytest.param(TWO, 17, {"within": "rack"}, "nowhere", id="no rack holds it"),
        pytest.param("a: 8 8 | b: 8", 8, {"role_within": "rack"}, "b0*8", id="the tightest rack for one role"),
        pytest.param("8 8", 8, {"within": "rack"}, "nowhere", id="nodes outside any rack"),
        pytest.param(ZONES, 24, {"within": "zone"}, "a0*8,a1*8,b0*8", id="one zone"),
        pytest.param("a: 8 8 | b: 8", 8, {"role_near": "rack"}, "b0*8", id="liked: the tightest rack"),
        pytest.param(ZONES, 24, {"role_near": "rack"}, "a0*8,a1*8,b0*8", id="liked: the next level that holds it"),
        pytest.param("a: 8 8 | b: 8", 20, {"role_near": "rack"}, "a0*8,a1*8,b0*4", id="liked: few racks, else"),
    ],
)
def test_close_together(cluster, members, fields, expected):
    assert placed(drawn(cluster), members, **fields) == expected


@pytest.mark.parametrize(
    ("cluster", "members", "fields", "expected"),
    [
        pytest.param("8 8", 2, {"caps": (Cap("node", 1),)}, "n0,n1", id="one on a node"),
        pytest.param("8 8", 3, {"caps": (Cap("node", 1),)}, "nowhere", id="more than nodes"),
        pytest.param(TWO, 4, {"caps": (Cap("rack", 2),)}, "a0*2,b0*2", id="two in a rack"),
        pytest.param(TWO, 5, {"caps": (Cap("rack", 2),)}, "nowhere", id="more than the racks take"),
        pytest.param("a: 7 | b: 7", 8, {"segment": Segment("rack", 4)}, "a0*4,b0*4", id="whole groups only"),
        pytest.param("a: 7 | b: 3", 8, {"segment": Segment("rack", 4)}, "nowhere", id="a rack without a whole group"),
        pytest.param("8 8", 2, {"marks": ("m",), "repels": (Near("m", "node"),)}, "n0,n1", id="away from one's own"),
        pytest.param(TWO, 2, {"marks": ("m",), "repels": (Near("m", "rack"),)}, "a0,b0", id="a rack for each"),
    ],
)
def test_caps_and_groups(cluster, members, fields, expected):
    assert placed(drawn(cluster), members, **fields) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param(Shape({"gpu": 1}, tags=(("fast",),)), "n1", id="a tag it asks for"),
        pytest.param(Shape({"gpu": 1}, avoid=("fast",)), "n0", id="a tag it avoids"),
        pytest.param(Shape({"gpu": 1}, tags=(("fast",), ("big",))), "nowhere", id="all of its tags"),
        pytest.param(Shape({"gpu": 1}, tags=(("fast", "big"),)), "n1", id="one of several tags"),
        pytest.param(Shape({"gpu": 8}, tolerate=("!odd",)), "n2", id="a taint that it tolerates"),
        pytest.param(Shape({"gpu": 8}), "nowhere", id="a taint that it does not"),
    ],
)
def test_kinds_of_nodes(shape, expected):
    assert placed(drawn("4 2+fast 8+!odd"), 1, shapes=(shape,)) == expected


@pytest.mark.parametrize(
    ("cluster", "sizes", "rule", "expected"),
    [
        pytest.param("8", (1, 4, 4), SizeRule(), 4, id="all that is wanted"),
        pytest.param("3", (1, 4, 4), SizeRule(), 3, id="as much as fits"),
        pytest.param("3", (1, 4, 4), SizeRule(power_of_two=True), 2, id="a legal size"),
        pytest.param("3", (4, 4, 4), SizeRule(), 0, id="not even the minimum"),
    ],
)
def test_the_size_that_fits(cluster, sizes, rule, expected):
    outlook = outlook_on(drawn(cluster), rule=rule)
    low, want, high = sizes
    assert outlook.size(Sizes(low, want, high, ())) == expected


def test_later_seats_are_chosen_where_they_are_least_in_the_way_now():
    world = seat(drawn("8 8"), gang("running", 1, 8, 60), "n0")
    view = world.view()
    profile = Profile(view, 0, 100, view.class_ready)
    asking = gang("asking", 1, 8)
    need = Need(view, asking, asking.roles[0], 0)
    first, last = profile.slots(60_000_000, NEVER)
    outlook = Outlook(profile, need, first, last, profile.usable[: profile.count])
    now = profile.members(0, 1, need.ask, profile.usable[: profile.count])
    chosen = outlook.choose(1, now)
    assert chosen is not None
    assert [int(view.by_line[p]) for p in chosen.positions] == list(seats(view, "n0").nodes)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("arrange", Arrange)
def test_exactly_so_many_on_nodes_that_hold_them(seed, arrange):
    draw = Random(seed)
    racks = [[draw.choice([1, 2, 4, 8]) for _ in range(draw.randint(1, 4))] for _ in range(draw.randint(1, 3))]
    world = drawn(" | ".join(f"r{i}: {' '.join(map(str, rack))}" for i, rack in enumerate(racks)))
    gpu, within, members = draw.choice([1, 2, 3]), draw.choice(["", "rack"]), draw.randint(1, 12)
    holds = [[amount // gpu for amount in rack] for rack in racks]
    most = max(map(sum, holds)) if within else sum(map(sum, holds))

    outlook = outlook_on(world, members, gpu, within=within, arrange=arrange)
    chosen = outlook.choose(members)

    assert outlook.capacity() == most
    assert (chosen is not None) == (members <= most)
    if chosen is not None:
        flat = [(rack, amount) for rack, row in enumerate(holds) for amount in row]
        assert int(chosen.counts.sum()) == members
        assert len(set(chosen.positions.tolist())) == len(chosen.positions)
        assert all(0 < n <= flat[p][1] for p, n in zip(chosen.positions, chosen.counts, strict=True))
        assert not within or len({flat[p][0] for p in chosen.positions}) == 1
        spread = arrange is Arrange.SPREAD and not within
        least = sum(min(amount, int(chosen.counts.max()) - 1) for _, amount in flat)
        assert not spread or members > least, "nobody gets a second member while another could get its first"
