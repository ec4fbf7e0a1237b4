"""Every kind of bad gang is named in a sentence, and a good one passes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.engine.model import (
    HOUR,
    MOST_AMOUNT,
    MOST_MEMBERS,
    NEVER,
    Arrange,
    Cap,
    Coupling,
    Domain,
    Estimate,
    Gang,
    Listing,
    Near,
    Node,
    Pool,
    Role,
    Segment,
    Shape,
    SizeRule,
    Speed,
)
from tutti.engine.validate import faults, unknown_names
from tutti.engine.world import World

GPU = (Shape({"gpu": 1}),)
HUGE = 1 << 80


def role(**fields: Any) -> Role:
    return Role(**{"shapes": GPU, "min": 4, **fields})


def gang(*roles: Role, **fields: Any) -> Gang:
    return Gang(**{"name": "a", "roles": roles or (role(),), **fields})


def cluster():
    return World.load(
        Listing(
            pools=(Pool("default", ("zone", "rack")),),
            nodes=(Node("n1", {"gpu": 8, "memory": 100}, place=("z", "r")),),
            domains=(Domain("default", ("z", "r"), {"sharp": 2}),),
        )
    ).view()


@pytest.mark.parametrize(
    "sound",
    [
        pytest.param(gang(), id="the plainest gang"),
        pytest.param(
            gang(role(name="ps", min=1), role(min=2, want=4, max=8), within="zone", near="rack"), id="two roles"
        ),
        pytest.param(gang(role(min=3, max=9, rule=SizeRule(multiple=8))), id="a minimum below the first legal size"),
        pytest.param(gang(role(min=8, within="rack", segment=Segment("zone", 4))), id="a segment level outside within"),
        pytest.param(gang(role(within="rack", caps=(Cap("node", 1),))), id="a cap inside the common domain"),
        pytest.param(gang(role(min=1, within="node", arrange=Arrange.SPREAD)), id="one member spreads anywhere"),
        pytest.param(gang(role(min=0, want=5, coupling=Coupling.LOOSE)), id="loose members from none up"),
        pytest.param(gang(role(shapes=(Shape({"gpu": 8}), Shape({"gpu": 64}, min=2))), name="b"), id="two shapes"),
        pytest.param(gang(after=("b", "any:c", "failed:d"), deadline=5, submitted=4), id="dependencies and a deadline"),
        pytest.param(gang(role(repels=(Near("db"),), needs=(Near("db", "rack"),))), id="near a mark, not on its node"),
        pytest.param(gang(domain_ask={"rack": {"sharp": 1}}), id="a domain's resource"),
    ],
)
def test_a_sound_gang_has_no_faults(sound):
    assert faults(sound) == ()
    assert faults(sound, cluster()) == ()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        pytest.param(gang(name=""), "gang: it has no name", id="no name"),
        pytest.param(Gang("a", ()), "gang: it has no roles, so there is nothing to start", id="no roles"),
        pytest.param(
            gang(role(), role(name="ps"), role()),
            "gang: 2 roles are called 'worker'; give each its own name",
            id="a name twice",
        ),
        pytest.param(
            gang(role(min=0)), "role 'worker': it has zero members; give it a min of at least 1", id="zero members"
        ),
        pytest.param(
            gang(role(min=0, coupling=Coupling.LOOSE)),
            "role 'worker': it has zero members; give it a min of at least 1",
            id="zero loose members",
        ),
        pytest.param(
            gang(role(min=-2)), "role 'worker': min is -2; there are no negative members", id="negative members"
        ),
        pytest.param(
            gang(role(max=MOST_MEMBERS + 1)),
            "role 'worker': max is 1,000,001; a role has at most 1,000,000 members",
            id="too many members",
        ),
        pytest.param(
            gang(role(min=4, want=2)), "role 'worker': it wants 2 members and needs at least 4", id="want below min"
        ),
        pytest.param(
            gang(role(min=4, max=3)),
            "role 'worker': it needs at least 4 members and may have at most 3",
            id="max below min",
        ),
        pytest.param(
            gang(role(min=2, want=6, max=5)),
            "role 'worker': it wants 6 members and may have at most 5",
            id="max below want",
        ),
        pytest.param(
            gang(role(shapes=(Shape({"gpu": 1}, min=9, max=3),))),
            "role 'worker': it needs at least 9 members and may have at most 3 on shape 1",
            id="bounds of a shape",
        ),
        pytest.param(
            gang(role(shapes=())),
            "role 'worker': it has no shapes, so nobody knows what a member asks for",
            id="no shapes",
        ),
        pytest.param(
            gang(role(shapes=(Shape({"gpu": 0}),))),
            "role 'worker': a member asks for nothing; name at least one resource and an amount",
            id="asks for nothing",
        ),
        pytest.param(
            gang(role(shapes=(Shape({"gpu": 1, "cpu": -1}),))),
            "role 'worker': 'cpu' per member is -1; it cannot be negative",
            id="a negative amount",
        ),
        pytest.param(
            gang(role(shapes=(Shape({"gpu": HUGE}),))),
            f"role 'worker': 'gpu' per member is {HUGE:,}; no more than {MOST_AMOUNT:,} can be counted",
            id="a huge amount",
        ),
        pytest.param(
            gang(role(min=1000, shapes=(Shape({"gpu": MOST_AMOUNT}),))),
            "role 'worker': 1,000 members ask for more 'gpu' together than can be counted",
            id="a huge sum",
        ),
        pytest.param(
            gang(role(min=5, max=7, rule=SizeRule(multiple=8))),
            "role 'worker': no size between 5 and 7 is legal; nearest legal size is 8",
            id="no legal size",
        ),
        pytest.param(
            gang(role(min=20, rule=SizeRule(multiple=8))),
            "role 'worker': no size at 20 is legal; nearest legal sizes are 16 and 24",
            id="the only size is not legal",
        ),
        pytest.param(
            gang(role(min=4, max=7, segment=Segment("rack", 8))),
            "role 'worker': a segment of 8 is larger than the role, which has at most 7",
            id="a segment larger than the role",
        ),
        pytest.param(
            gang(role(min=9, max=15, segment=Segment("rack", 8))),
            "role 'worker': no legal size between 9 and 15 is a multiple of its segments of 8; "
            "nearest legal sizes are 8 and 16",
            id="a segment that divides no legal size",
        ),
        pytest.param(
            gang(role(segment=Segment("rack", 0))),
            "role 'worker': its segments have 0 members; the least is 1",
            id="a segment of nobody",
        ),
        pytest.param(
            gang(role(caps=(Cap("rack", 0),))),
            "role 'worker': at most 0 members in one rack leave no room for any; the least is 1",
            id="a cap of zero",
        ),
        pytest.param(
            gang(role(rule=SizeRule(multiple=0))),
            "role 'worker': its size rule asks for a multiple of 0; the least is 1",
            id="a multiple of zero",
        ),
        pytest.param(
            gang(role(rule=SizeRule(state_bytes=5))),
            "role 'worker': its size rule gives state_bytes but not member_bytes, so no size is known to hold the "
            "state",
            id="state without memory",
        ),
        pytest.param(
            gang(role(coupling=Coupling.LOOSE, segment=Segment("rack", 2))),
            "role 'worker': it is loose, so its members come one by one and cannot come in segments",
            id="loose segments",
        ),
        pytest.param(
            gang(role(caps=(Cap("rack", 2),)), within="rack"),
            "role 'worker': all of at least 4 members in one rack, but at most 2 members in one rack",
            id="together in a rack, at most two in a rack",
        ),
        pytest.param(
            gang(role(caps=(Cap("pool", 2),), within="rack")),
            "role 'worker': all of at least 4 members in one rack, but at most 2 members in one pool",
            id="a cap on everything",
        ),
        pytest.param(
            gang(role(marks=("port:80",), repels=(Near("port:80"),), within="node")),
            "role 'worker': all of at least 4 members in one node, but no two members in one node "
            "(each repels the mark 'port:80' of the other)",
            id="together on a node, one port",
        ),
        pytest.param(
            gang(role(segment=Segment("node", 4), caps=(Cap("node", 2),))),
            "role 'worker': segments of 4 members inside one node, but at most 2 members in one node",
            id="a segment larger than the cap",
        ),
        pytest.param(
            gang(role(arrange=Arrange.SPREAD, within="node")),
            "role 'worker': its 4 members are to be spread and all on one node; drop one of the two",
            id="spread on one node",
        ),
        pytest.param(
            gang(role(needs=(Near("db"),), repels=(Near("db", "rack"),))),
            "role 'worker': it needs to be near the mark 'db' and repels it",
            id="needs what it repels",
        ),
        pytest.param(
            gang(role(shapes=(Shape({"gpu": 1}, tags=(("kind=a",),), avoid=("kind=a",)),))),
            "role 'worker': it needs a node with 'kind=a' and avoids every such node",
            id="needs what it avoids",
        ),
        pytest.param(gang(after=("a",)), "gang: it waits for itself ('after' names the gang)", id="after itself"),
        pytest.param(gang(after=("any:a",)), "gang: it waits for itself ('after' names the gang)", id="after any end"),
        pytest.param(gang(after=("any:",)), "gang: 'after' has the entry 'any:', which names no gang", id="after none"),
        pytest.param(
            gang(submitted=HOUR, deadline=HOUR), "gang: its deadline had passed when it was submitted", id="too late"
        ),
        pytest.param(gang(min_run=-1), "gang: min_run is -1; a time is not negative", id="a negative time"),
        pytest.param(
            gang(estimate=Estimate(limit=NEVER + 1)),
            f"gang: estimate.limit is {NEVER + 1:,}, which is later than any time",
            id="a time beyond all times",
        ),
        pytest.param(
            gang(speed=Speed(((4, 10), (2, 20)))), "gang: the sizes of the speed curve do not rise", id="a bent curve"
        ),
        pytest.param(
            gang(domain_ask={"rack": {"sharp": -1}}),
            "gang: 'sharp' of each rack is -1; it cannot be negative",
            id="a negative amount of a domain",
        ),
    ],
)
def test_what_is_wrong_is_said(bad, said):
    assert said in faults(bad)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        pytest.param(
            gang(role(within="rak")),
            "role 'worker': no topology level is called 'rak'; did you mean 'rack'?",
            id="a level misspelt",
        ),
        pytest.param(
            gang(within="Rack"), "gang: no topology level is called 'Rack'; did you mean 'rack'?", id="upper case"
        ),
        pytest.param(
            gang(role(shapes=(Shape({"gpus": 1}),))),
            "role 'worker': no node has 'gpus'; did you mean 'gpu'?",
            id="a resource misspelt",
        ),
        pytest.param(
            gang(role(shapes=(Shape({"xyz": 1}),))),
            "role 'worker': no node has 'xyz'; known are 'gpu', 'memory'",
            id="a resource nobody has",
        ),
        pytest.param(
            gang(domain_ask={"rack": {"shark": 1}}),
            "gang: no rack has 'shark'; did you mean 'sharp'?",
            id="a domain's resource misspelt",
        ),
    ],
)
def test_with_a_view_unknown_names_are_said_with_the_nearest_known_one(bad, said):
    assert faults(bad) == ()
    assert faults(bad, cluster()) == unknown_names(bad, cluster()) == (said,)


def test_with_a_view_the_order_of_levels_is_known():
    bad = gang(role(within="rack", caps=(Cap("zone", 2),)))
    fine = gang(role(within="zone", caps=(Cap("rack", 2),)))

    assert faults(bad) == ()
    assert faults(bad, cluster()) == (
        "role 'worker': all of at least 4 members in one rack, but at most 2 members in one zone",
    )
    assert faults(fine, cluster()) == ()


numbers = st.sampled_from([-HUGE, -1, 0, 1, 2, 3, 8, MOST_MEMBERS, MOST_AMOUNT, HUGE])
levels = st.sampled_from(["", "node", "rack", "zone", "nowhere", "pool"])
wild_roles = st.builds(
    Role,
    name=st.sampled_from(["worker", "ps", ""]),
    min=numbers,
    want=numbers,
    max=numbers,
    shapes=st.lists(
        st.builds(Shape, st.dictionaries(st.sampled_from(["gpu", "x"]), numbers), min=numbers, max=numbers), max_size=2
    ).map(tuple),
    coupling=st.sampled_from(list(Coupling)),
    rule=st.builds(
        SizeRule,
        multiple=numbers,
        power_of_two=st.booleans(),
        sizes=st.lists(numbers, max_size=2).map(tuple),
        state_bytes=numbers,
        member_bytes=numbers,
        batch=numbers,
    ),
    within=levels,
    segment=st.one_of(st.none(), st.builds(Segment, levels, numbers)),
    caps=st.lists(st.builds(Cap, levels, numbers), max_size=2).map(tuple),
    arrange=st.sampled_from(list(Arrange)),
)


@given(
    st.builds(
        Gang,
        name=st.sampled_from(["a", ""]),
        roles=st.lists(wild_roles, max_size=3).map(tuple),
        priority=numbers,
        submitted=numbers,
        deadline=numbers,
        within=levels,
        after=st.lists(st.sampled_from(["a", "b", "", "never:b"]), max_size=2).map(tuple),
    )
)
def test_nonsense_is_answered_with_plain_sentences(wild):
    said = faults(wild, cluster())

    assert all(said)
    assert len(set(said)) == len(said)
    assert said == faults(msgspec.structs.replace(wild), cluster())
