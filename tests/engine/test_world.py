"""The world: whatever happens it stays consistent, forgets nothing, and what was seen of it stays as it was."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.clusters import drawn, gang, lasting, seat, seats, submit
from tests.worlds import MEDIUM, Scene, scenes
from tutti.engine import events as ev
from tutti.engine.model import (
    NEVER,
    SECOND,
    Domain,
    Listing,
    Node,
    NodeState,
    Pool,
    Progress,
    Promise,
    Queue,
    Role,
    Seats,
    Shape,
    State,
    Window,
)
from tutti.engine.view import View
from tutti.engine.world import World

# -- events nobody would expect, in any order

names = st.sampled_from(["g0", "g1", "w0", "w1", "ghost"])
places = st.sampled_from(["n0", "n1", "n2", "n9"])
moments = st.integers(0, 2000).map(lambda s: s * SECOND)
few = st.integers(-1, 3)
some = st.lists(few, max_size=2).map(tuple)
given_seats = st.lists(st.builds(Seats, some, some, few), max_size=2).map(tuple)
promises = st.builds(Promise, start=moments, end=moments, seats=given_seats, given=moments)
some_gangs = st.builds(
    gang, names, st.integers(1, 3), gpu=st.sampled_from([1, 2, 4]), run_s=st.sampled_from([0, 60]),
    queue=st.sampled_from(["qa", "qb", "nowhere"]), after=st.sampled_from([(), ("g0",), ("any:w0",), ("failed:g1",)]),
)  # fmt: skip
some_nodes = st.builds(
    Node, places, st.dictionaries(st.sampled_from(["gpu", "cpu", "new"]), st.integers(0, 8), max_size=2),
    place=st.sampled_from([(), ("a",), ("a", "b")]), state=st.sampled_from(NodeState),
    foreign=st.dictionaries(st.just("gpu"), st.integers(0, 9), max_size=1),
)  # fmt: skip
anything = st.one_of(
    st.builds(ev.Submitted, moments, some_gangs, st.integers(0, 1)),
    st.builds(ev.Changed, moments, some_gangs),
    st.builds(ev.MembersSeen, moments, names, st.integers(0, 2)),
    st.builds(ev.Held, moments, names),
    st.builds(ev.Released, moments, names),
    st.builds(ev.Starting, moments, names, given_seats),
    st.builds(ev.Running, moments, names),
    st.builds(ev.Resized, moments, names, given_seats),
    st.builds(ev.Leaving, moments, names, names, moments),
    st.builds(ev.Stays, moments, names),
    st.builds(ev.Evicted, moments, names, st.booleans(), st.integers(0, 99)),
    st.builds(ev.Refused, moments, names, moments),
    st.builds(ev.MemberLost, moments, names, few, some, some),
    st.builds(ev.MembersDone, moments, names, few, some, some),
    st.builds(ev.Ended, moments, names, st.sampled_from(State)),
    st.builds(ev.Reported, moments, names, st.builds(Progress, few, few, few, moments)),
    st.builds(ev.Estimated, moments, names, st.just(lasting(30))),
    st.builds(ev.Promised, moments, names, st.none() | promises),
    st.builds(ev.TurnTaken, moments, names),
    st.builds(ev.NodeSeen, moments, some_nodes),
    st.builds(ev.NodeTurned, moments, places, st.sampled_from(NodeState), moments, st.booleans()),
    st.builds(ev.NodeGone, moments, places),
    st.builds(ev.PoolSet, moments, st.sampled_from([Pool("default"), Pool("default", ("zone", "rack"))])),
    st.builds(ev.DomainSet, moments, st.just(Domain("default", ("a",), {"switch": 1}))),
    st.builds(ev.QueueSet, moments, st.builds(Queue, st.sampled_from(["qa", "qb"]))),
    st.builds(ev.QueueGone, moments, st.sampled_from(["qa", "qb"])),
    st.builds(ev.WindowSet, moments, st.just(Window("w", 0, NEVER, ("n0",)))),
    st.builds(ev.WindowGone, moments, st.just("w")),
)  # fmt: skip
stories = st.tuples(scenes(), st.lists(anything, max_size=12)).map(lambda s: Scene(s[0].events + tuple(s[1]), s[0].now))


def free_by_node(world: World) -> dict[str, dict[str, int]]:
    """What is free on each node, added up from the listing alone."""
    listing = world.listing()
    free = {
        node.name: {r: node.capacity.get(r, 0) - node.foreign.get(r, 0) for r in world.resources}
        for node in listing.nodes
    }
    for job in listing.jobs:
        for role, held in zip(job.gang.roles, job.life.seats, strict=False):
            for node, count in zip(held.nodes, held.counts, strict=True):
                for resource, amount in role.shapes[held.shape].ask.items():
                    if resource in world.resources:
                        free[listing.nodes[node].name][resource] -= amount * count
    return free


def free_by_class(view: View) -> dict[str, dict[str, int]]:
    """The same as the columns have it."""
    return {
        node.name: dict(zip(view.resources, view.class_free[:, view.class_of[at]].tolist(), strict=True))
        for at, node in enumerate(view.nodes)
        if node is not None
    }


def held_by_queue(listing: Listing) -> dict[str, int]:
    """Cards held in each queue, added up from the listing alone."""
    held: dict[str, int] = {}
    for job in listing.jobs:
        for role, seated in zip(job.gang.roles, job.life.seats, strict=False):
            amount = role.shapes[seated.shape].ask.get("gpu", 0) * seated.members if seated.nodes else 0
            held[job.gang.queue] = held.get(job.gang.queue, 0) + amount
    return {queue: amount for queue, amount in held.items() if amount}


@given(stories)
def test_whatever_happens_the_columns_agree_with_the_records_and_a_listing_is_the_same_world(scene):
    """One story is told for all of these: to tell it takes longer than to look at how it ends."""
    world = scene.world()
    agree(world, world.view())
    are_queued_or_seated(world.view())
    equals_its_listing(world)
    says_why_nothing_changed(world)


def agree(world, view):
    """The columns of a view say what the records say."""
    assert free_by_class(view) == free_by_node(world)
    counted = np.bincount(view.class_of[[i for i, n in enumerate(view.nodes) if n]], minlength=len(view.class_weight))
    assert counted.tolist() == view.class_weight.tolist()
    at = view.resources.get("gpu")
    kept = {name: use.total[at] for name, use in view.use.items() if at is not None and use.total[at]}
    assert at is None or kept == held_by_queue(world.listing())


def are_queued_or_seated(view):
    """Every gang is either."""
    taken = {slot for slot, job in enumerate(view.jobs) if job is not None}
    assert set(view.queued) | set(view.seated) == taken
    assert not set(view.queued) & set(view.seated)


def equals_its_listing(world):
    """The world that is loaded from a listing equals the one reached through events."""
    listing = world.listing()
    again = World.load(listing)
    assert again.listing() == listing
    assert free_by_class(again.view()) == free_by_node(again)


def test_what_is_held_of_a_resource_that_no_node_has_any_more_is_in_the_listing():
    world = seat(drawn("4"), gang("runs", 2, 1), "n0")
    bare = replace(world.listing().nodes[0], capacity={})
    world.apply(ev.NodeSeen(SECOND, bare))
    equals_its_listing(world)
    assert free_by_class(World.load(world.listing()).view()) == free_by_class(world.view())


def says_why_nothing_changed(world):
    """An event that changes nothing leaves everything as it is, and says why."""
    version, listing = world.version, world.listing()
    touched = world.apply(ev.Running(0, "nobody"))
    assert touched.note
    assert world.version == version
    assert world.listing() == listing


@given(stories, st.lists(anything, max_size=4))
def test_a_listed_world_goes_on_like_the_one_reached_through_events(scene, later):
    one = scene.world()
    other = World.load(one.listing())
    later = [
        event
        for event in later
        if not isinstance(event, ev.Starting | ev.Resized | ev.MemberLost | ev.MembersDone | ev.Promised)
    ]

    for event in later:
        assert bool(one.apply(event).note) == bool(other.apply(event).note), event

    assert other.listing() == one.listing()


def frozen(view: View) -> list[object]:
    """Everything a view shows, copied."""
    shown = []
    for name in view.__slots__:
        value = getattr(view, name, None) if name[0] != "_" and name != "touches" else None
        shown.append(value.tolist() if isinstance(value, np.ndarray) else repr(value) if name == "use" else value)
    use = {name: (use.total.copy(), use.floor.copy(), use.past.copy(), use.at) for name, use in view.use.items()}
    plain = [v.copy() if isinstance(v, dict | list) else v for v in shown if not isinstance(v, str)]
    free = {domain: dict(left) for domain, left in view.domain_free.items()}
    # The list of touches goes on; a view speaks of its beginning only.
    return [plain, use, free, view.touches[: view.touched]]


def classes(view: View) -> list[object]:
    """What a view shows of the classes of nodes."""
    names = ("class_of", "class_weight", "class_free", "class_kind", "class_ready")
    held = ("entry_class", "entry_slot", "entry_amount")
    return [*(getattr(view, name).tolist() for name in (*names, *held)), view.loads.copy()]


@given(stories, st.lists(anything, max_size=6))
def test_a_view_never_changes_whether_somebody_looked_at_it_before_or_not(scene, later):
    looked_at, glanced_at = scene.world(), scene.world()
    view, glance = looked_at.view(), glanced_at.glance()
    before = frozen(view)

    for event in later:
        looked_at.apply(event)
        glanced_at.apply(event)

    assert frozen(view) == before
    assert classes(glance) == classes(view)


def test_nothing_is_left_to_work_out_in_a_view_that_is_given_away():
    """Whoever has it may be in another thread, where the world must not be looked at."""
    world = submit(drawn("8 8"), gang("one"))
    world.glance()
    view = world.view()

    assert view._world is None
    assert view._late is None
    for name in set(View.__slots__) - {"__weakref__"}:
        object.__getattribute__(view, name)


def test_two_views_of_one_moment_are_both_safe():
    world = submit(drawn("8 8"), gang("one"))
    first = world.view()
    second = world.view()
    before = frozen(first)
    del second

    world.apply(ev.Starting(0, "one", (seats(world, "n0"),)))

    assert frozen(first) == before


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(ev.MemberLost(0, "pair", -1, (0,), (1,)), id="a role below the first"),
        pytest.param(ev.MemberLost(0, "pair", 0, (0,), (-1,)), id="a negative number of members"),
        pytest.param(ev.MemberLost(0, "pair", 0, (0,), (2,)), id="more members than there are"),
        pytest.param(ev.MemberLost(0, "pair", 0, (0, 0), (1, 1)), id="a node named twice"),
        pytest.param(ev.MembersDone(0, "pair", 0, (7,), (1,)), id="a node that is not there"),
        pytest.param(ev.Resized(0, "pair", (Seats((0,), (1,), -1),)), id="a shape below the first"),
        pytest.param(ev.Resized(0, "pair", (Seats((0, 1), (1,)),)), id="nodes without counts"),
        pytest.param(ev.Resized(0, "pair", ()), id="no seats for its role"),
    ],
)
def test_an_impossible_event_changes_nothing(event):
    world = seat(drawn("8 8"), gang("pair", 2, gpu=8), "n0 n1")
    before = world.listing()

    touched = world.apply(event)

    assert touched.note
    assert world.listing() == before


def test_nobody_can_write_to_a_view():
    view = drawn("8 8").view()

    with pytest.raises(ValueError, match="read-only"):
        view.class_free[0, 0] = 1


@given(scenes(MEDIUM))
def test_scenes_are_consistent(scene):
    """No scene puts more on a node than it has, apart from what others use."""
    for node, free in free_by_class(scene.view()).items():
        for resource, amount in free.items():
            assert amount >= 0, (node, resource)


# -- examples


def test_a_gang_moves_through_its_life():
    world = submit(drawn("8 8"), gang("pair", 2, gpu=8, run_s=60))
    world.apply(ev.Starting(5 * SECOND, "pair", (seats(world, "n0 n1"),)))
    world.apply(ev.Running(6 * SECOND, "pair"))
    running = world.view()
    world.apply(ev.Evicted(10 * SECOND, "pair", kept=4 * SECOND))
    waiting = world.view()

    assert running.held(0).life.state is State.RUNNING
    assert running.ends[0].tolist() == [66 * SECOND] * 3
    assert running.class_free[0, running.class_of[:2]].tolist() == [0, 0]
    assert waiting.held(0).life.state is State.WAITING
    assert waiting.held(0).life.ran == 4 * SECOND
    assert waiting.ends[0].tolist() == [NEVER] * 3
    assert waiting.class_free[0, waiting.class_of[:2]].tolist() == [8, 8]


def test_a_lost_node_takes_its_members_with_it():
    world = seat(drawn("8 8"), gang("pair", 2, gpu=8), "n0 n1")

    world.apply(ev.NodeTurned(SECOND, "n1", NodeState.LOST))

    life = world.view().held(0).life
    assert life.state is State.DEGRADED
    assert life.seats == (seats(world, "n0"),)
    assert life.lost == (seats(world, "n1"),)


@pytest.mark.parametrize(
    ("outcome", "left"),
    [
        pytest.param(State.FINISHED, ("never:first",), id="finished: those who wait for a failure wait for ever"),
        pytest.param(State.FAILED, (), id="failed"),
    ],
)
def test_dependents_hear_how_it_ended(outcome, left):
    world = submit(drawn("8"), gang("first"), gang("second", after=("failed:first", "any:first")))

    world.apply(ev.Ended(SECOND, "first", outcome))

    assert world.view().held(1).gang.after == left


def test_use_is_booked_over_time_and_survives_a_listing():
    world = seat(drawn("8"), gang("one", gpu=4), "n0")
    world.apply(ev.NodeTurned(10 * SECOND, "n0", NodeState.DRAINING))
    other = World.load(world.listing())

    for each in (world, other):
        each.apply(ev.Ended(100 * SECOND, "one"))

    assert world.view().use["default"].past == [400]
    assert other.view().use["default"].past == [400]


def test_a_promise_on_a_node_that_went_away_keeps_the_rest():
    world = submit(drawn("8 8"), gang("pair", 2, gpu=8))
    world.apply(ev.Promised(0, "pair", Promise(SECOND, 2 * SECOND, (seats(world, "n0 n1"),), 0)))
    world.apply(ev.NodeGone(0, "n0"))

    promise = world.listing().jobs[0].life.promise

    assert promise is not None
    assert promise.seats == (Seats((0,), (1,)),)


def test_roles_may_share_a_node():
    two = gang("two", role_name="a")
    both = Role("b", shapes=(Shape({"gpu": 2}),))
    world = seat(drawn("8"), type(two)("two", (two.roles[0], both)), "n0*3", "n0*2")

    assert world.view().class_free[0, world.view().class_of[0]] == 1
