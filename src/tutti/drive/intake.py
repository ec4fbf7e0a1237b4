"""What the loop adds to events before they are entered: settled dependencies, estimates, when to try again."""

from collections import OrderedDict

import msgspec

from tutti.engine import events as ev
from tutti.engine.model import ENDED, HOUR, Gang, State
from tutti.engine.world import World

from .backend import Capabilities
from .estimates import History

REMEMBERED = 10_000
"""How many ended gangs are remembered, so that a later one can still name them in `after`."""


class Outcomes:
    """How gangs ended, the latest few thousand of them."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self.most = most
        # The oldest of a plain dict is found by walking over all that were forgotten before it.
        self.ended: OrderedDict[str, State] = OrderedDict()

    def remember(self, name: str, state: State) -> None:
        """A gang has ended; the name may have been used before."""
        ended = self.ended
        if name in ended:
            del ended[name]
        ended[name] = state if state in ENDED else State.FINISHED
        if len(ended) > self.most:
            ended.popitem(last=False)

    def settled(self, after: tuple[str, ...], world: World) -> tuple[str, ...]:
        """What is left to wait for: met entries are gone, those that can never be met begin with 'never:'."""
        entries = (self._settled(entry, world) for entry in after)
        return tuple(entry for entry in entries if entry)

    def _settled(self, entry: str, world: World) -> str:
        prefix, _, name = entry.rpartition(":") if entry.startswith(("any:", "failed:")) else ("", "", entry)
        state = self.ended.get(name)
        if state is None or name in world.slots:
            return entry
        wanted = {"": state is State.FINISHED, "failed": state is not State.FINISHED}
        return "" if wanted.get(prefix, True) else f"never:{name}"


class Intake:
    """Completes events from outside: what people submit does not say everything the engine wants to know."""

    def __init__(self, can: Capabilities, history: History | None) -> None:
        self.can = can
        self.history = history
        self.outcomes = Outcomes()

    def submitted(self, event: ev.Submitted, world: World) -> ev.Submitted:
        """A gang this backend can run, with its dependencies settled and an estimate where history has one."""
        gang = self.complete(event.gang, world)
        return event if gang is event.gang else msgspec.structs.replace(event, gang=gang)

    def changed(self, event: ev.Changed, world: World) -> ev.Changed:
        """The same for a gang its owner has changed."""
        gang = self.complete(event.gang, world)
        return event if gang is event.gang else ev.Changed(event.at, gang)

    def complete(self, gang: Gang, world: World) -> Gang:
        """The gang with everything that is known about it."""
        gang = self.can.limited(gang)
        if gang.after and (after := self.outcomes.settled(gang.after, world)) != gang.after:
            gang = msgspec.structs.replace(gang, after=after)
        if self.history is not None and (estimate := self.history.estimate(gang)) != gang.estimate:
            gang = msgspec.structs.replace(gang, estimate=estimate)
        return gang

    def refused(self, event: ev.Refused, world: World, back_off: int) -> ev.Refused:
        """A failed start that does not say when to try again waits twice as long each time, up to an hour."""
        slot = world.slots.get(event.gang, -1)
        if event.not_before or slot < 0:
            return event
        tries = min(world.job_in(slot).life.attempt.count, 40)
        return msgspec.structs.replace(event, not_before=event.at + min(back_off << tries, HOUR))

    def ended(self, event: ev.Ended, world: World) -> bool:
        """Remember how a gang ended and how long it ran; whether that taught something about gangs that wait."""
        self.outcomes.remember(event.gang, event.state)
        slot = world.slots.get(event.gang, -1) if self.history is not None else -1
        if self.history is None or slot < 0:
            return False
        job = world.job_in(slot)
        if not job.life.seats or event.state is State.LOST:
            return False
        ran = job.life.ran + max(event.at - job.life.started, 0)
        return self.history.learn(job.gang, ran)

    def better(self, like: Gang, world: World, at: int) -> list[ev.Estimated]:
        """New estimates for gangs that wait and are like one that has ended."""
        if self.history is None:
            return []
        found: list[ev.Estimated] = []
        for slot in world.queued:
            gang = world.job_in(slot).gang
            if self.history.alike(gang, like) and (estimate := self.history.estimate(gang)) != gang.estimate:
                found.append(ev.Estimated(at, gang.name, estimate))
        return found
