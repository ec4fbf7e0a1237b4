"""Promise 10, the engine's part. What queues are charged is what their gangs held, times how long, to the second."""

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds import scenes
from tutti.engine import events as ev
from tutti.engine.model import NEVER, SECOND
from tutti.engine.world import World


@given(scenes(), st.integers(0, 500))
def test_use_over_time_is_what_was_held(scene, later_s):
    """Nothing is forgotten here, so that the sums can be compared."""
    world = World(half_life=NEVER)
    charged: dict[str, int] = {}
    for event in [*scene.events, ev.QueueGone(scene.now + later_s * SECOND, "nobody")]:
        event_at = max(event.at, world.at)
        for slot in world.seated:
            job = world.job_in(slot)
            held = sum(
                role.shapes[seats.shape].ask.get("gpu", 0) * seats.members
                for role, seats in zip(job.gang.roles, job.life.seats, strict=True)
                if seats.nodes
            )
            charged[job.gang.queue] = charged.get(job.gang.queue, 0) + held * (event_at - world.at) // SECOND
        world.apply(event)

    gpu = world.resources["gpu"]
    for name, use in world.use.items():
        use.advance(world.at, world.half_life)
        assert use.past[gpu] == charged.get(name, 0)
