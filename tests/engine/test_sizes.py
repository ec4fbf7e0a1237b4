"""Legal sizes agree with trying every size, cost little, and explain themselves."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.engine.model import (
    MOST_AMOUNT,
    MOST_MEMBERS,
    Gang,
    Job,
    Life,
    Progress,
    Role,
    Segment,
    Shape,
    SizeRule,
    Speed,
)
from tutti.engine.sizes import (
    job_sizes,
    largest_legal,
    legal,
    legal_sizes,
    marginal,
    nearest,
    next_legal,
    role_rule,
    role_sizes,
    why_not,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "size-rules.md"
GB = 10**9

rules = st.builds(
    SizeRule,
    multiple=st.integers(1, 9),
    power_of_two=st.booleans(),
    sizes=st.one_of(st.just(()), st.lists(st.integers(-3, 70), max_size=8).map(tuple)),
    state_bytes=st.integers(0, 300),
    member_bytes=st.integers(0, 40),
    batch=st.one_of(st.just(0), st.integers(1, 400)),
)
bounds = st.integers(-5, 90)


def naive(rule: SizeRule, size: int) -> bool:
    return (
        size >= 1
        and size % rule.multiple == 0
        and (not rule.power_of_two or size.bit_count() == 1)
        and (not rule.sizes or size in rule.sizes)
        and size * rule.member_bytes >= rule.state_bytes
        and (rule.batch == 0 or rule.batch % size == 0)
    )


@given(rules, bounds, bounds)
def test_legal_sizes_are_those_found_by_trying_every_one(rule, low, high):
    tried = [size for size in range(max(low, 1), high + 1) if naive(rule, size)]

    assert list(legal_sizes(rule, low, high)) == tried
    assert largest_legal(rule, low, high) == (tried[-1] if tried else None)
    assert all(legal(rule, size) == naive(rule, size) for size in range(low, high + 1))


@given(rules, bounds, bounds, bounds)
def test_the_nearest_legal_sizes_enclose_a_size(rule, size, low, high):
    inside = [other for other in range(max(low, 1), high + 1) if naive(rule, other)]

    below, above = nearest(rule, size, low, high)

    assert below == max((other for other in inside if other < size), default=None)
    assert above == min((other for other in inside if other > size), default=None)
    assert next_legal(rule, size, high) == min(
        (other for other in range(max(size + 1, 1), high + 1) if naive(rule, other)), default=None
    )


@given(rules, bounds)
def test_an_illegal_size_is_explained_and_a_legal_one_is_not(rule, size):
    said = why_not(rule, size)

    assert bool(said) != naive(rule, size)
    if said:
        below, above = nearest(rule, size)
        assert all(f"{near:,}" in said for near in (below, above) if near is not None)


@pytest.mark.parametrize(
    ("rule", "size", "said"),
    [
        pytest.param(
            SizeRule(multiple=8),
            20,
            "tensor x pipeline groups of 8: 20 is not a multiple of 8; nearest legal sizes are 16 and 24",
            id="tensor x pipeline groups",
        ),
        pytest.param(
            SizeRule(power_of_two=True),
            12,
            "12 is not a power of two; nearest legal sizes are 8 and 16",
            id="a power of two",
        ),
        pytest.param(
            SizeRule(sizes=(4, 6, 12)),
            13,
            "13 is not one of the listed sizes (4, 6, 12); nearest legal size is 12",
            id="a list",
        ),
        pytest.param(
            SizeRule(state_bytes=300 * GB, member_bytes=80 * GB),
            3,
            "the sharded state of 300 GB needs at least 4 members of 80 GB, and 3 hold 240 GB; nearest legal size is 4",
            id="the memory that holds the sharded state",
        ),
        pytest.param(
            SizeRule(batch=512),
            6,
            "a global batch of 512 does not divide evenly over 6 members; nearest legal sizes are 4 and 8",
            id="a divisor of the batch",
        ),
        pytest.param(
            SizeRule(sizes=(0,)),
            3,
            "3 is not one of the listed sizes (0); no size is legal",
            id="nothing is legal",
        ),
        pytest.param(SizeRule(multiple=4), 0, "0 is no number of members; nearest legal size is 4", id="zero"),
        pytest.param(
            SizeRule(multiple=8, power_of_two=True),
            20,
            "tensor x pipeline groups of 8: 20 is not a multiple of 8; 20 is not a power of two; "
            "nearest legal sizes are 16 and 32",
            id="two parts broken at once",
        ),
    ],
)
def test_the_sentence_carries_the_numbers(rule, size, said):
    assert why_not(rule, size) == said


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(SizeRule(), id="any size"),
        pytest.param(SizeRule(multiple=3, state_bytes=10**9, member_bytes=7000), id="multiple and memory"),
        pytest.param(SizeRule(power_of_two=True), id="powers"),
        pytest.param(SizeRule(batch=720_720, multiple=2), id="a batch with many divisors"),
        pytest.param(SizeRule(batch=MOST_AMOUNT - 1), id="a batch as large as an amount can be"),
    ],
)
def test_a_million_members_make_no_long_list(rule):
    found = legal_sizes(rule, 1, MOST_MEMBERS)

    assert isinstance(found, range) or len(found) < 300
    assert legal(rule, found[0])
    assert legal(rule, found[-1])


def test_no_rule_reaches_beyond_the_largest_gang():
    assert not legal(SizeRule(), MOST_MEMBERS + 1)
    assert why_not(SizeRule(), MOST_MEMBERS + 1).startswith("1,000,001 is more than 1,000,000 members")
    assert largest_legal(SizeRule(batch=MOST_AMOUNT), 1, MOST_AMOUNT) == 1 << 19


def test_a_role_gets_the_legal_sizes_between_its_bounds():
    role = Role(min=5, want=20, max=40, shapes=(Shape({"gpu": 1}),), rule=SizeRule(multiple=8))

    sizes = role_sizes(role)

    assert (sizes.low, sizes.want, sizes.high) == (8, 16, 40)
    assert list(sizes.legal) == [8, 16, 24, 32, 40]


def test_a_wish_below_every_legal_size_becomes_the_smallest_legal_one():
    sizes = role_sizes(Role(min=5, want=6, max=12, rule=SizeRule(power_of_two=True)))

    assert (sizes.low, sizes.want, sizes.high) == (8, 8, 8)


def test_a_role_without_a_legal_size_says_so():
    assert not role_sizes(Role(min=5, want=6, max=7, rule=SizeRule(multiple=8))).legal


def test_segments_count_as_a_multiple():
    role = Role(min=4, want=30, rule=SizeRule(multiple=4), segment=Segment("rack", 6))

    assert role_rule(role).multiple == 12
    assert role_sizes(role).want == 24


def test_a_shape_may_bring_its_own_sizes():
    role = Role(min=16, shapes=(Shape({"gpu": 8}), Shape({"gpu": 64}, min=2)))

    assert role_sizes(role, 0).low == 16
    assert role_sizes(role, 1).low == 2


def test_what_the_job_reports_narrows_only_the_role_that_sets_the_pace():
    gang = Gang("a", (Role("ps", 2, max=0), Role("worker", 2, max=16)))
    job = Job(gang, Life(progress=Progress(legal_sizes=(16, 3, 4, 12, 64))))

    assert job_sizes(job, 1).legal == (3, 4, 12, 16)
    assert list(job_sizes(job, 0).legal) == [2]
    assert list(job_sizes(Job(gang), 1).legal) == list(range(2, 17))


def test_a_members_worth_falls_along_the_speed_curve():
    speed = Speed(((1, 1000), (4, 3400), (8, 5000)))

    assert marginal(speed, 1, 4) == 800
    assert marginal(speed, 4, 8) == marginal(speed, 8, 4) == 400
    assert marginal(speed, 8, 16) == 0
    assert marginal(Speed(), 5, 9) == 1000
    assert marginal(speed, 4, 4) == 0


def test_the_examples_of_the_page_are_true():
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    assert len(examples) >= 6
    for example in examples:
        exec(compile(example, PAGE.name, "exec"), names)
