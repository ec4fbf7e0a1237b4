"""Where all nodes are alike, looking at room alone gives the plan that looking at everybody gives, step by step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.clusters import brief, drawn, gang, lasting, seat, submit
from tests.promises.outcomes import carry_out
from tutti.engine import events as ev
from tutti.engine.cache import Cache
from tutti.engine.counted import counted
from tutti.engine.decide import decide, deliberate
from tutti.engine.model import MINUTE, SECOND, Arrange, NodeState, Queue, State, Token
from tutti.engine.plan import Reserve
from tutti.engine.presets import PRESETS
from tutti.engine.world import World

EASY = PRESETS["easy"].policy
BALANCED = PRESETS["balanced"].policy
IMPATIENT = replace(EASY, name="impatient", reserve=replace(EASY.reserve, max_wait=20 * MINUTE))
POLICIES = (EASY, BALANCED, PRESETS["easy-sjbf"].policy, PRESETS["wfp3"].policy, IMPATIENT)
BATCH, WHOLE = "1 1 1 1 1 1 1", "8 8 8 8 8"
MACHINES = {
    BATCH: (1,),
    WHOLE: (6,),
    "a: 8 8 | a: 8": (8,),
    "8 8 4 8": (8,),
    "a: 1 1 | b: 1 1 1": (1,),
    "4 4 4 4 4 4": (4, 1, 2, 3),
    "8 8 8": (2, 8, 1, 5),
    "16": (1, 2, 3, 7),
}
"""Machines, and what members take of a node."""

run_s = st.sampled_from([0, 60, 60, 120, 300, 300, 600, 1800])
size = st.integers(1, 5)
kind = st.integers(0, 3)
newcomers = st.lists(st.tuples(size, kind, run_s, st.sampled_from([0, 0, 0, 0, 1])), max_size=3)
oddity = st.sampled_from(["", "", "", "", "", "", "hold", "refuse", "lose", "other kind", "cancel", "evict"])
steps = st.lists(st.tuples(st.integers(1, 400), newcomers, st.integers(0, 3), oddity), min_size=2, max_size=9)


class Machine:
    """A machine that lives on step by step, with one cache all the time."""

    def __init__(self, picture, policy):
        self.world, self.asks, self.policy = drawn(picture), MACHINES[picture], policy
        self.cache, self.now, self.came = Cache(), 0, 0

    def live(self, wait_s, arrivals, ends, odd):
        """Let time pass, somebody come, somebody end, and something odd happen."""
        self.now += wait_s * SECOND
        for members, which, length_s, priority in arrivals:
            self.come(members, self.asks[which % len(self.asks)], length_s, priority)
        running = [self.world.job_in(slot).gang.name for slot in self.world.seated]
        for name in running[:ends]:
            self.world.apply(ev.Ended(self.now, name, State.FINISHED))
        self.suffer(odd)

    def come(self, members, ask, length_s, priority=0):
        """Somebody submits a gang."""
        self.came += 1
        each = gang(f"g{self.came}", members, ask, run_s=length_s, priority=priority, submitted=self.now)
        submit(self.world, each, at=self.now)

    def suffer(self, odd):
        """Something happens that is no matter of counting."""
        waiting = [self.world.job_in(slot).gang.name for slot in self.world.queued]
        running = [self.world.job_in(slot).gang.name for slot in self.world.seated]
        if odd == "lose":
            self.world.apply(ev.NodeTurned(self.now, next(iter(self.world.node_index)), NodeState.LOST))
        elif odd == "other kind":
            self.come(1, 2 * self.asks[0], 60)
        elif odd == "hold" and waiting:
            self.world.apply(ev.Held(self.now, waiting[0]))
        elif odd == "cancel" and waiting:
            self.world.apply(ev.Ended(self.now, waiting[0], State.CANCELLED))
        elif odd == "refuse" and running:
            self.world.apply(ev.Refused(self.now, running[-1], self.now + MINUTE, "no"))
        elif odd == "evict" and running:
            self.world.apply(ev.Evicted(self.now, running[0], kept=30 * SECOND))

    def plans(self):
        """The plan with everything that is remembered, which is carried out, and the one without; each in words too."""
        view = self.world.view()
        names = [view.held(slot).gang.name for slot in view.queued]
        made = [decide(view, self.now, self.policy, cache) for cache in (self.cache, None)]
        outlines = [{name: plan.outline(name) for name in names} for plan in made]
        carry_out(self.world, made[0], self.now, settle=True)
        return [(brief(plan, view), plan, outline) for plan, outline in zip(made, outlines, strict=True)]


@given(st.sampled_from(list(MACHINES)), st.sampled_from(POLICIES), steps)
def test_counting_gives_the_plan_that_looking_at_everybody_gives(picture, policy, lived):
    machine = Machine(picture, policy)
    for step in lived:
        machine.live(*step)
        quick, careful = machine.plans()
        assert quick == careful


@given(
    st.sampled_from([BATCH, "4 4 4 4 4 4"]),
    st.sampled_from(POLICIES),
    st.lists(st.tuples(st.integers(1, 4), kind, run_s), min_size=60, max_size=70),
    steps,
)
def test_also_in_a_long_line(picture, policy, waiting, lived):
    machine = Machine(picture, policy)
    for members, which, length_s in waiting:
        machine.come(members, machine.asks[which % len(machine.asks)], length_s)
    for step in lived:
        machine.live(*step)
        quick, careful = machine.plans()
        assert quick == careful


def busy(picture: str, ask: int) -> World:
    """Three of the nodes are taken for ten minutes; the first in line wants five, others behind it less."""
    world = seat(drawn(picture), gang("runs", 3, ask, run_s=600), "n0 n1 n2")
    return submit(
        world,
        gang("wide", 5, ask, run_s=600, submitted=1),
        gang("long", 2, ask, run_s=6000, submitted=2),
        gang("short", 2, ask, run_s=300, submitted=3),
        at=SECOND,
    )


def by_counting(world, policy=EASY, now=MINUTE):
    view = world.view()
    return counted(view, now, policy, Cache(), deliberate)


@pytest.mark.parametrize("policy", [EASY, BALANCED, IMPATIENT], ids=lambda policy: policy.name)
@pytest.mark.parametrize(("picture", "ask"), [(WHOLE, 6), (WHOLE, 8)], ids=["most of a node", "whole nodes"])
def test_it_is_counted_where_nodes_are_alike(picture, ask, policy):
    world = busy(picture, ask)
    plan = by_counting(world, policy)
    assert plan is not None
    assert brief(plan, world.view()) == brief(decide(world.view(), MINUTE, policy), world.view())
    assert plan.answers["long"].token in {Token.RESERVED_AHEAD, Token.NO_CAPACITY}
    assert set(plan.answers) == {"wide", "long"}


@pytest.mark.parametrize(
    ("world", "policy"),
    [
        pytest.param(busy("8 8 8 8 8-1", 8), EASY, id="a node that others use"),
        pytest.param(busy("8 8 8 8 8q", 8), EASY, id="a node that takes nobody"),
        pytest.param(busy("8 8 8 8 9", 8), EASY, id="a node of another kind"),
        pytest.param(busy(WHOLE, 8), PRESETS["conservative"].policy, id="a promise for all"),
        pytest.param(busy(WHOLE, 8), PRESETS["fcfs"].policy, id="a strict line"),
        pytest.param(submit(busy(WHOLE, 8), gang("picky", 2, arrange=Arrange.SPREAD)), EASY, id="a gang with wishes"),
        pytest.param(submit(busy(WHOLE, 8), gang("vip", 5, 8, priority=9)), BALANCED, id="somebody may take back"),
        pytest.param(submit(drawn(WHOLE, Queue("a"), Queue("b")), gang("x", queue="a"), gang("y", queue="b")), BALANCED,
                     id="two lines"),
    ],
)  # fmt: skip
def test_everything_else_is_looked_at(world, policy):
    assert by_counting(world, policy) is None


def test_a_start_that_gets_later_is_explained_by_who_looks_at_everybody():
    world, cache = busy(WHOLE, 8), Cache()
    carry_out(world, decide(world.view(), MINUTE, EASY, cache), MINUTE, settle=True)
    world.apply(ev.Estimated(MINUTE, "runs", lasting(900)))
    plan = decide(world.view(), 2 * MINUTE, EASY, cache)
    assert plan == decide(world.view(), 2 * MINUTE, EASY)
    (moved,) = plan.actions
    assert isinstance(moved, Reserve)
    assert moved.why == "overrun"


def test_a_start_that_a_lost_node_leaves_no_room_for_is_withdrawn_because_of_the_node():
    world = busy(WHOLE, 8)
    carry_out(world, decide(world.view(), MINUTE, EASY), MINUTE, settle=True)
    world.apply(ev.NodeTurned(2 * MINUTE, "n4", NodeState.LOST))
    told = [each for each in decide(world.view(), 2 * MINUTE, EASY).actions if isinstance(each, Reserve)]
    assert [(each.gang, each.promise, each.why) for each in told if each.gang == "wide"] == [
        ("wide", None, "node-lost")
    ]
