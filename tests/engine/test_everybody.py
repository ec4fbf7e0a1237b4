"""Where everybody is promised a start on one node, counting gives the plan that looking at everybody gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.clusters import brief, drawn, gang, seat, submit
from tests.engine.test_counted import Machine, kind, run_s, steps
from tests.promises.outcomes import carry_out
from tutti.engine import events as ev
from tutti.engine.cache import Cache
from tutti.engine.decide import decide, deliberate
from tutti.engine.everybody import everybody
from tutti.engine.model import MINUTE, SECOND, Arrange, State
from tutti.engine.plan import Reserve, Start
from tutti.engine.policy import Break
from tutti.engine.presets import PRESETS

CONSERVATIVE = PRESETS["conservative"].policy
SETTLED = replace(CONSERVATIVE, reserve=replace(CONSERVATIVE.reserve, breaks=(Break.NODE_LOST, Break.OVERRUN)))
"""Nobody gets a better start than the one promised first."""
POLICIES = (CONSERVATIVE, SETTLED, replace(CONSERVATIVE, order=PRESETS["wfp3"].policy.order))
ONE = "16"


def differences(policy, waiting, lived):
    """Let a machine live on; plans made at a glance that are not those made at leisure, beside these."""
    machine, found = Machine(ONE, policy), []
    for members, which, length_s in waiting:
        machine.come(members, machine.asks[which], length_s)
    for step in lived:
        machine.live(*step)
        quick, careful = machine.plans()
        if quick != careful:
            found.append((quick, careful))
    return found


@given(st.sampled_from(POLICIES), steps)
def test_it_is_the_plan_that_looking_at_everybody_gives(policy, lived):
    assert differences(policy, (), lived) == []


@given(st.sampled_from(POLICIES), st.lists(st.tuples(st.integers(1, 2), kind, run_s), min_size=40, max_size=60), steps)
def test_also_in_a_long_line(policy, waiting, lived):
    assert differences(policy, waiting, lived) == []


def busy(picture=ONE, **rest):
    """Twelve of sixteen are taken for ten minutes; the first in line wants all of them, others behind it less."""
    world = seat(drawn(picture), gang("runs", 12, run_s=600), "n0*12")
    return submit(
        world,
        gang("wide", 16, run_s=600, submitted=1),
        gang("long", 4, run_s=6000, submitted=2, **rest),
        gang("short", 2, run_s=300, submitted=3),
        at=SECOND,
    )


def at_a_glance(world, policy=CONSERVATIVE, now=MINUTE):
    view = world.view()
    return everybody(view, now, policy, Cache(), deliberate)


def test_everybody_is_told_when_and_who_is_gone_in_time_starts():
    world = busy()
    plan = at_a_glance(world)
    assert brief(plan, world.view()) == brief(decide(world.view(), MINUTE, CONSERVATIVE), world.view())
    assert [(type(action), action.gang) for action in plan.actions] == [
        (Reserve, "wide"),
        (Reserve, "long"),
        (Start, "short"),
    ]
    assert set(plan.answers) == {"wide", "long"}
    assert plan.wake_at == MINUTE + 300 * SECOND


@pytest.mark.parametrize(
    ("world", "policy"),
    [
        pytest.param(busy("16 16"), CONSERVATIVE, id="two nodes"),
        pytest.param(busy("16-1"), CONSERVATIVE, id="a node that others use"),
        pytest.param(busy(), PRESETS["easy"].policy, id="one promise"),
        pytest.param(busy(arrange=Arrange.SPREAD), CONSERVATIVE, id="a gang with wishes"),
        pytest.param(busy(priority=9), CONSERVATIVE, id="somebody who matters more"),
    ],
)
def test_everything_else_is_looked_at(world, policy):
    assert at_a_glance(world, policy) is None


def test_a_better_start_is_told_as_one():
    world, cache = busy(), Cache()
    carry_out(world, decide(world.view(), MINUTE, CONSERVATIVE, cache), MINUTE, settle=True)
    world.apply(ev.Ended(2 * MINUTE, "runs", State.FINISHED))
    plan = at_a_glance(world, now=2 * MINUTE)
    assert [(action.gang, action.why) for action in plan.actions] == [
        ("wide", "better-start"),
        ("long", "better-start"),
    ]
    assert at_a_glance(world, SETTLED, 2 * MINUTE).actions == ()
