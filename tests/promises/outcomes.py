"""What becomes of a plan when every action in it succeeds at once, told as events."""

from hypothesis import strategies as st

from tests.worlds import SMALL, Builder, Reach, Scene, mishaps, scenes
from tutti.drive.outcome import outcome
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import SECOND, State
from tutti.engine.plan import AnyAction, Evict, Fail, Grow, How, Migrate, Plan, Repair, Restart, Resume, Shrink, Start
from tutti.engine.world import World

SOON = 60 * SECOND


def carry_out(world: World, plan: Plan, now: int, settle: bool = False) -> list[ev.Event]:
    """Enter what the plan's actions mean for the world; with `settle`, also that all of them came to their end."""
    entered: list[ev.Event] = []
    for action in plan.actions:
        entered += [event for event in meaning(world, action, now, plan.view) if not world.apply(event).note]
        if settle:
            entered += [event for event in end_of(action, now) if not world.apply(event).note]
    return entered


def first(plan: Plan, count: int) -> Plan:
    """The plan as far as its first so many actions."""
    return Plan(plan.view, plan.at, plan.actions[:count], plan.answers, plan.wake_at, plan.spent)


def meaning(world: World, action: AnyAction, now: int, decided: int) -> list[ev.Event]:
    """What is entered when an action is taken."""
    slot = world.slots.get(action.gang)
    job = world.jobs[slot] if slot is not None else None
    event = outcome(action, job.life, now, decided, now + SOON) if job is not None else None
    return [event] if event is not None else []


def end_of(action: AnyAction, now: int) -> list[ev.Event]:
    """What is heard when an action has done its work."""
    match action:
        case Start() | Resume():
            return [ev.Running(now, action.gang)]
        case Grow() | Shrink() | Repair() | Migrate():
            return [ev.Resized(now, action.gang, action.seats), ev.Running(now, action.gang)]
        case Evict(how=How.CANCEL):
            return [ev.Ended(now, action.gang, State.CANCELLED)]
        case Evict() | Restart():
            return [ev.Evicted(now, action.gang, parked=isinstance(action, Evict) and action.how is How.PARK)]
        case Fail():
            return [ev.Ended(now, action.gang, State.FAILED)]
        case _:
            return []


@st.composite
def lived(draw: st.DrawFn, reach: Reach = SMALL) -> Scene:
    """A scene in which the planner has decided before, its plans were carried out, and then something happened."""
    scene = draw(scenes(reach))
    built = Builder()
    built.add(*scene.events)
    now = scene.now
    for _ in range(draw(st.integers(1, 2))):
        plan = decide(built.world.view(), now, scene.policy)
        built.events += carry_out(built.world, plan, now, settle=draw(st.booleans()))
        now += draw(st.integers(1, 100)) * SECOND
        for _ in range(draw(st.integers(0, 2))):
            draw(mishaps(built, now, reach))
    return Scene(tuple(built.events), now, scene.policy)
