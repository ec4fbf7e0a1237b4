"""Promise 6. Every waiting gang has a reason, and the reason is true: undo what it names and the reason is gone."""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.promises.outcomes import lived
from tests.worlds import NONSENSE, PLAIN, Scene, scenes
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import SEATED, Gang, Node, NodeState, State, Token
from tutti.engine.plan import Plan, Resume, Start
from tutti.engine.world import World


@given(st.one_of(scenes(), lived(), scenes(NONSENSE)))
def test_every_waiting_gang_has_exactly_one_answer(scene):
    view = scene.view()

    plan = decide(view, scene.now, scene.policy)

    started = [action.gang for action in plan.actions if isinstance(action, Start | Resume)]
    waiting = {view.held(slot).gang.name for slot in view.queued}
    assert len(started) == len(set(started))
    assert set(plan.answers) == waiting - set(started)
    assert all(plan.answers[name].token in Token for name in plan.answers)


@given(st.one_of(scenes(), lived()))
def test_what_is_said_to_wake_a_gang_can_happen(scene):
    plan = decide(scene.view(), scene.now, scene.policy)

    for name, reason in plan.answers.items():
        assert reason.wakes, (name, reason)
        if "time" in reason.wakes and reason.retry_at < scene.now:
            raise AssertionError(f"{name} is to be tried again in the past")


REMEDIES: dict[Token | None, Callable[[Gang], list[ev.Event]]] = {
    Token.HELD: lambda gang: [ev.Released(0, gang.name)],
    Token.UNSUPPORTED: lambda gang: [ev.Changed(0, msgspec.structs.replace(gang, unsupported=""))],
    Token.DEPENDENCY_WAIT: lambda gang: [ev.Changed(0, msgspec.structs.replace(gang, after=()))],
    Token.WAITING_FOR_MEMBERS: lambda gang: [ev.MembersSeen(0, gang.name, 0)],
}


CAPACITY_TOKENS = {Token.NO_CAPACITY, Token.NO_DOMAIN, Token.USED_BY_OTHERS, Token.NODES_LOST}
MENDED: dict[Token | None, dict[str, Any]] = {
    Token.USED_BY_OTHERS: {"foreign": {}},
    Token.NODES_LOST: {"state": NodeState.READY, "faults": ()},
}


def remedied(scene: Scene, name: str, token: Token) -> World:
    """The world in which nobody else waits, and what the gang's reason names has been undone."""
    world = scene.world()
    gang = world.job_in(world.slots[name]).gang
    others = [other for slot in world.queued if (other := world.job_in(slot).gang.name) != name]
    undone = list(REMEDIES.get(token, lambda _: [])(gang))
    undone += [ev.Ended(0, other, State.CANCELLED) for other in others]
    if token is Token.RESERVED_AHEAD:
        undone += [ev.WindowGone(0, window) for window in world.windows]
    if token in {Token.USED_BY_OTHERS, Token.NODES_LOST}:
        undone += [ev.Ended(0, world.job_in(slot).gang.name) for slot in world.seated]
        undone += [ev.NodeSeen(0, cured(node, token)) for node in world.nodes if node is not None]
    for event in undone:
        world.apply(event)
    return world


def cured(node: Node, token: Token) -> Node:
    """The node without the others' use, or well again."""
    if token is Token.USED_BY_OTHERS:
        return msgspec.structs.replace(node, foreign={})
    return msgspec.structs.replace(node, state=NodeState.READY, faults=())


def starts(plan: Plan, name: str) -> bool:
    """Whether the plan starts the gang."""
    return any(isinstance(action, Start | Resume) and action.gang == name for action in plan.actions)


def says(plan: Plan, name: str) -> Token | None:
    """The token of a gang's reason, if it has one."""
    return plan.answers[name].token if name in plan.answers else None


@given(scenes(PLAIN), st.integers(0, 5))
def test_when_what_the_reason_names_is_undone_another_reason_or_a_start_follows(scene, which):
    """The named thing undone (and nobody else waiting), the gang starts, or at least waits for something else."""
    view = scene.view()
    plan = decide(view, scene.now, scene.policy)
    names = sorted(name for name in plan.answers if says(plan, name) in {*REMEDIES, *CAPACITY})
    assume(names)
    name = names[which % len(names)]
    token = says(plan, name)

    assert token is not None
    after = decide(remedied(scene, name, token).view(), scene.now, scene.policy)

    assert starts(after, name) or says(after, name) is not token, (token, dict(after.answers))


CAPACITY = (Token.USED_BY_OTHERS, Token.NODES_LOST, Token.RESERVED_AHEAD, Token.BEHIND_OTHERS)


@given(scenes(PLAIN))
def test_somebody_else_is_in_the_way_only_if_there_is_somebody(scene):
    view = scene.view()
    plan = decide(view, scene.now, scene.policy)
    tokens = {says(plan, name) for name in plan.answers}

    others = any(node is not None and node.foreign for node in view.nodes)
    unwell = any(node is not None and (node.state is not NodeState.READY or node.faults) for node in view.nodes)
    seated = any(job is not None and job.life.state in SEATED for job in view.jobs)
    assert others or Token.USED_BY_OTHERS not in tokens
    assert unwell or Token.NODES_LOST not in tokens
    taken = seated or others or unwell or view.windows or plan.actions
    assert taken or not tokens & {Token.NO_CAPACITY, Token.RESERVED_AHEAD}
