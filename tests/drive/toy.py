"""A backend in a few lines of virtual time: it starts, resizes, evicts and ends gangs, each after a while."""

import heapq
from itertools import count

from tutti.drive.loop import Driver
from tutti.engine import events as ev
from tutti.engine.model import NEVER, SECOND, State
from tutti.engine.plan import Evict, Fail, Grow, How, Migrate, Repair, Restart, Resume, Shrink, Start

UP = 2 * SECOND
AWAY = 5 * SECOND


class Toy:
    """Plays a driver's actions. What it does not know is simply not its business, as in life."""

    def __init__(self, driver: Driver, run_time):
        self.driver, self.run_time = driver, run_time
        self.now = 0
        self.running: dict[str, int] = {}
        """Generation of each gang that is up; a new run is a new generation."""
        self.finished: list[str] = []
        self.left: dict[str, int] = {}
        self.since: dict[str, int] = {}
        self._order = count()
        self._heap: list[tuple[int, int, ev.Event, str, int]] = []

    def at(self, moment: int, event: ev.Event, gang: str = "", generation: int = 0) -> None:
        """Let an event happen, unless the gang has been restarted meanwhile."""
        heapq.heappush(self._heap, (moment, next(self._order), event, gang, generation))

    def play(self, until: int) -> None:
        """Go on until nothing happens any more."""
        while True:
            moment = min(self._heap[0][0] if self._heap else NEVER, self.driver.wake_at)
            if moment > until:
                return
            self.now = max(moment, self.now)
            for key, action in self.driver.step(list(self._due()), self.now):
                self._do(action, key)

    def _due(self):
        while self._heap and self._heap[0][0] <= self.now:
            _, _, event, gang, generation = heapq.heappop(self._heap)
            if gang and self.running.get(gang) != generation:
                continue
            if isinstance(event, ev.Ended | ev.Evicted):
                self._stop(event)
            yield event

    def _stop(self, event):
        name = event.gang
        if name in self.running and isinstance(event, ev.Evicted):
            self.left[name] -= event.kept
        self.running.pop(name, None)
        if isinstance(event, ev.Ended) and event.state is State.FINISHED:
            assert name not in self.finished, f"{name} finished twice"
            self.finished.append(name)

    def _do(self, action, key):
        name, now = action.gang, self.now
        match action:
            case Start() | Resume():
                assert name not in self.running, f"{name} is started while it runs"
                assert name not in self.finished, f"{name} is started after it finished"
                generation = self.running[name] = next(self._order)
                self.since[name] = now + UP
                length = self.left.setdefault(name, self.run_time(name))
                self.at(now + UP, ev.Running(now + UP, name), name, generation)
                self.at(now + UP + length, ev.Ended(now + UP + length, name), name, generation)
            case Grow() | Shrink() | Repair() | Migrate():
                generation = self.running[name]
                self.at(now + UP, ev.Resized(now + UP, name, action.seats), name, generation)
                if isinstance(action, Repair):
                    self.at(now + 2 * UP, ev.Running(now + 2 * UP, name), name, generation)
            case Evict(how=How.CANCEL) | Fail():
                self.at(now + UP, ev.Ended(now + UP, name, State.FAILED))
            case Evict() | Restart():
                parked = isinstance(action, Evict) and action.how is How.PARK
                kept = max(now - self.since[name], 0) if parked else 0
                generation = self.running[name]
                self.at(now + AWAY, ev.Evicted(now + AWAY, name, parked, kept), name, generation)
