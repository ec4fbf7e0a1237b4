"""The search for several roles agrees with trying everything, and every answer can be carried out."""

from collections import Counter, defaultdict
from itertools import product
from unittest.mock import ANY, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.engine.model import Cap, Segment
from tutti.engine.pack import Bin, OutOfBudget, Packed, Part, Want, pack

LEVELS = ("pool", "zone", "rack", "node")


# -- an independent opinion on what is right


def wrongs(wants, bins, within, found):
    """What is wrong with seats: nodes, room, numbers, domains."""
    used: Counter[int] = Counter()
    for part in found.parts:
        used[part.bin] += part.nodes
        yield from node_wrongs(wants, bins[part.bin], part.members)
        if part.nodes < 1:
            yield "a part without nodes"
    yield from (f"bin {b} has only {bins[b].weight} nodes" for b, nodes in used.items() if nodes > bins[b].weight)
    singles = [(bins[p.bin], p.members) for p in found.parts for _ in range(p.nodes)]
    yield from domain_wrongs(wants, singles, within)


def node_wrongs(wants, node, members):
    for resource, free in enumerate(node.free):
        if sum(n * want.ask[resource] for n, want in zip(members, wants, strict=True)) > max(free, 0):
            yield f"too much of {resource}"
    if any(n > most for n, most in zip(members, node.fits, strict=True)):
        yield "more members than the role may have on a node"


def domain_wrongs(wants, singles, within):
    """Counts, caps, segments and `within`, from the members of single nodes."""
    held: dict[str, dict] = {level: defaultdict(lambda: [0] * len(wants)) for level in LEVELS}
    for number, (node, members) in enumerate(singles):
        at = {**dict(node.path), "node": number}
        for level, role in product(LEVELS, range(len(wants))):
            held[level][at.get(level)][role] += members[role]
    for role, want in enumerate(wants):
        if sum(members[role] for _, members in singles) != want.count:
            yield f"not {want.count} members of {role}"
        yield from role_wrongs(role, want, held)
    if within and scattered(held[within], [role for role, want in enumerate(wants) if want.bound]):
        yield f"the gang is not in one {within}"


def role_wrongs(role, want, held):
    for cap in want.caps:
        if any(n[role] > cap.members for domain, n in held[cap.level].items() if domain is not None):
            yield f"too many of {role} in one {cap.level}"
    if want.segment and want.segment.members > 1:
        parts = {domain: n[role] for domain, n in held[want.segment.level].items() if n[role]}
        if None in parts or any(n % want.segment.members for n in parts.values()):
            yield f"a broken segment of {role}"
    if want.within and scattered(held[want.within], [role]):
        yield f"{role} is not in one {want.within}"


def scattered(held, roles):
    where = {domain for domain, n in held.items() if any(n[role] for role in roles)}
    return len(where) > 1 or None in where


def fits_by_trying(wants, bins, within):
    nodes = [one for one in bins for _ in range(one.weight)]
    choices = [
        [v for v in product(*(range(want.count + 1) for want in wants)) if not any(node_wrongs(wants, node, v))]
        for node in nodes
    ]

    def tried(at, left, chosen):
        if not any(left):
            singles = [(node, members) for node, members in zip(nodes, chosen, strict=False) if any(members)]
            return not any(domain_wrongs(wants, singles, within))
        if at == len(nodes):
            return False
        return any(
            tried(at + 1, tuple(a - b for a, b in zip(left, v, strict=True)), [*chosen, v])
            for v in choices[at]
            if all(a >= b for a, b in zip(left, v, strict=True))
        )

    return tried(0, tuple(want.count for want in wants), [])


# -- small worlds


def seldom(strategy, otherwise):
    return st.one_of(*[st.just(otherwise)] * 4, strategy)


@st.composite
def worlds(draw):
    """A few roles and nodes; about as many gangs fit as do not."""
    roles = draw(st.sampled_from([1, 2, 2, 3]))
    most = (6, 4, 3)[roles - 1]
    level = st.sampled_from(LEVELS)
    wants = tuple(
        Want(
            count=draw(st.integers(1, most)) if draw(st.integers(0, 9)) else 0,
            ask=draw(st.tuples(st.integers(0, 3), st.integers(0, 1))),
            within=draw(seldom(level, "")),
            segment=draw(seldom(st.builds(Segment, level, st.integers(1, 3)), None)),
            caps=draw(seldom(st.builds(Cap, level, st.integers(1, 3)).map(lambda cap: (cap,)), ())),
            bound=draw(seldom(st.just(False), True)),
        )
        for _ in range(roles)
    )
    bins: list[Bin] = []
    left = draw(st.integers(2, 5))
    while left:
        place = draw(st.sampled_from([(1, 2, 4), (1, 2, 5), (1, 3, 6), (1, 3), (1, 3, 7), (8, 9, 10)]))
        weight = draw(st.integers(1, min(left, 3)))
        left -= weight
        free = draw(st.tuples(st.integers(1, 8), st.integers(1, 6))) if draw(st.integers(0, 9)) else (-1, 3)
        fits = tuple(draw(seldom(st.integers(0, 2), 9)) for _ in range(roles))
        bins.append(Bin(weight, free, fits, tuple(zip(LEVELS, place, strict=False))))
    return wants, tuple(bins), draw(seldom(level, ""))


@given(worlds(), st.integers(0, 60))
def test_the_answer_is_that_of_trying_everything(world, budget):
    wants, bins, within = world

    found = pack(wants, bins, within)
    with patch("tutti.engine.pack.SMALL", 0):
        assert (pack(wants, bins, within) is None) == (found is None), "shortcuts change nothing"

    assert not isinstance(found, OutOfBudget)
    assert (found is not None) == fits_by_trying(wants, bins, within)
    assert not list(wrongs(wants, bins, within, found or Packed(()))) or found is None
    assert found == pack(wants, bins, within), "the same question gets the same answer"
    assert pack(wants, bins, within, budget) in (found, OutOfBudget(ANY)), "cut short is not wrong"


# -- examples


def rack(number, weight, *free, roles=2):
    return Bin(weight, free, (99_999,) * roles, (("pool", 0), ("rack", number)))


def test_a_gang_for_which_either_role_first_fails():
    # Workers first fill 6 of 7 and 2 of 4; the server first takes 3 of 4. Neither leaves room for all of the other.
    assert pack((Want(4, (2,)), Want(1, (3,))), (rack(1, 1, 7), rack(1, 1, 4))) == Packed(
        (Part(0, 1, (2, 1)), Part(1, 1, (2, 0)))
    )


def test_one_member_too_many_is_proved_impossible():
    assert pack((Want(2, (2,)), Want(2, (3,))), (rack(1, 1, 4), rack(1, 1, 3))) is None


def test_all_of_a_gang_in_the_tightest_rack_that_holds_it():
    wants = (Want(4, (2,)), Want(1, (1,)))
    bins = (rack(1, 4, 8), rack(2, 2, 5), rack(3, 2, 4))

    found = pack(wants, bins, within="rack")

    assert isinstance(found, Packed)
    assert {part.bin for part in found.parts} == {1}


def test_without_need_a_gang_is_not_spread_over_racks():
    found = pack((Want(4, (2,)), Want(1, (1,))), (rack(1, 4, 8), rack(2, 2, 5), rack(3, 2, 4)))

    assert isinstance(found, Packed)
    assert {part.bin for part in found.parts} == {1}


def test_segments_of_the_largest_role_leave_room_for_another_role():
    wants = (Want(8, (1,), segment=Segment("rack", 4)), Want(1, (2,)))

    assert isinstance(pack(wants, (rack(1, 1, 5), rack(2, 1, 5), rack(3, 1, 2))), Packed)
    assert pack(wants, (rack(1, 1, 5), rack(2, 1, 5), rack(3, 1, 1))) is None


def test_a_role_that_is_not_bound_may_sit_outside():
    wants = (Want(2, (2,)), Want(1, (2,), bound=False))
    bins = (rack(1, 1, 4), rack(2, 1, 2))

    assert isinstance(pack(wants, bins, within="rack"), Packed)
    assert pack((wants[0], Want(1, (2,))), bins, within="rack") is None


def test_a_node_that_others_overfill_still_takes_whoever_asks_for_nothing_of_that():
    assert isinstance(pack((Want(2, (1, 0)), Want(1, (1, 0))), (rack(1, 1, 3, -5),)), Packed)


def test_nobody_needs_no_seat():
    assert pack((), ()) == Packed(())
    assert pack((Want(0, (1,)),), ()) == Packed(())
    assert pack((Want(1, (1,)),), ()) is None


BIG = (Want(512, (8, 1000)), Want(2, (0, 30_000)), Want(1, (1, 5000), within="rack"))


@pytest.mark.parametrize(
    "bins",
    [
        pytest.param([rack(i, 25, 8, 32_000, roles=3) for i in range(40)], id="a thousand equal nodes"),
        pytest.param([rack(i // 25, 1, 8 + i % 9, 31_000 + i, roles=3) for i in range(1000)], id="no two alike"),
    ],
)
def test_a_wide_gang_with_servers_and_a_launcher_is_cheap(bins):
    found = pack(BIG, bins, budget=2_000_000)

    assert isinstance(found, Packed)
    assert not list(wrongs(BIG, bins, "", found))


def test_a_search_that_would_take_too_long_says_so():
    wants = (Want(3000, (3,)), Want(2000, (5,)), Want(1000, (7,)))

    assert isinstance(pack(wants, [rack(i, 3, 1000 + i, roles=3) for i in range(40)], budget=1_000_000), OutOfBudget)
