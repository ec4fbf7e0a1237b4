"""Who starts, where all nodes are alike and one resource decides? Then sums and single nodes tell, without columns
over time.

Machines of batch systems are like that, and so are most clusters of one kind of box. The plan is the one that
`deliberate` makes without a cache; where anything asks for more than room, nothing is decided here.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from .answers import Deferred
from .cache import Cache
from .floor import Floor, Held, promised, taken
from .head_count import Asked, HeadCount
from .horizon import Horizon, earliest
from .lineup import somebody_may_reclaim
from .model import NEVER, Promise, Seats
from .order import backfilling, has_own_backfill, steady_until
from .place import Seating
from .plan import AnyAction, Plan, Reserve, Start
from .policy import Break, Policy
from .releases import late_end
from .tally import Ints
from .view import View


def counted(view: View, now: int, policy: Policy, cache: Cache, deliberate: Callable[[], Plan]) -> Plan | None:
    """What to do about a view in which room on nodes that are alike decides; None where it does not."""
    if view.watched or view.leaving or view.draining or view.windows or view.followers or view.on_hold:
        return None
    rules = cache.rules(view)
    if rules.limited or rules.sliced or rules.strict or len(view.promised) > 1:
        return None
    count = cache.head_count
    if not count.holds(view, policy, cache) or somebody_may_reclaim(view, policy, rules):
        return None
    line = _in_line(view, now, policy, cache)
    if line is None or not all(slot == line[0] for slot in view.promised):
        return None
    turn = Turn(view, now, policy, count)
    if not turn.take(line, cache):
        return None
    return Plan(view.number, now, tuple(turn.actions), Deferred(view, turn.started, deliberate), turn.wake_at)


def _in_line(view: View, now: int, policy: Policy, cache: Cache) -> list[int] | None:
    """The waiting gangs as they stand in line; None where there are several lines."""
    if len(view.queued) == 1:
        return list(view.queued)
    cache.standing.update(view, now, policy)
    return cache.standing.only_line()


class Turn:
    """One look along the line: who starts, who is promised a start, who fits in before it or beside it."""

    def __init__(self, view: View, now: int, policy: Policy, count: HeadCount) -> None:
        self.view, self.now, self.policy = view, now, policy
        self.actions: list[AnyAction] = []
        self.started: set[str] = set()
        self.wake_at = NEVER
        self._count = count
        self._floor = count.floor
        self._begun: list[Held] = []
        """What gangs that start in this turn take."""
        self._untaken = 0
        """The first of those that the floor does not show yet."""
        self._horizon: Horizon
        """When the first who cannot start does, once that is known."""
        self._aside: Aside | None = None
        """Room for those who stay longer than that, once somebody has asked."""

    def take(self, line: list[int], cache: Cache) -> bool:
        """Decide about everybody in line; False where that takes more than room."""
        asked, floor = self._count.asked, self._floor
        for at, slot in enumerate(line):
            wants = asked[slot]
            if at:
                floor = self._present()
            if wants.members > floor.room(wants.amount):
                return self._wait(line, at, cache)
            self._start(slot, wants, floor.choose(wants.members, wants.amount))
        return True

    # -- who starts

    def _start(self, slot: int, wants: Asked, seating: Seating) -> Held:
        name, length = self.view.held(slot).gang.name, wants.length
        seats = _seats(seating)
        come = taken(NEVER if length >= NEVER else self.now + length, seating, seats.counts, wants.amount)
        self._begun.append(come)
        self._count.planned[slot] = seats, come
        self.started.add(name)
        self.actions.append(Start(name, self.view.number, seats=(seats,)))
        return come

    def _present(self) -> Floor:
        """What is free now that everybody sits who was told to start."""
        begun = self._begun
        if self._untaken < len(begun):
            if not self._untaken:
                self._floor = self._floor.copy()
            for come in begun[self._untaken :]:
                self._floor.take(come)
            self._untaken = len(begun)
        return self._floor

    # -- who waits

    def _wait(self, line: list[int], at: int, cache: Cache) -> bool:
        """Promise a start to the first who cannot start, and look who of the others starts without delaying it."""
        count, now = self._count, self.now
        if len(self.view.queued) > 1:
            due = min(count.due.values(), default=NEVER)
            if due <= now:
                return False
            self.wake_at = min(due, steady_until(self.view, now, self.policy, cache.standing.lines))
        head, late = count.asked[line[at]], bisect_right(count.ends, (now, NEVER))
        horizon = self._found(head, late)
        if horizon is None or not self._promise(line[at], head, horizon):
            return False
        self._horizon = horizon
        self._fill(self._behind(line, at, cache), head)
        ends = [ahead.end for ahead in self._running(late, 1)]
        self.wake_at = min([self.wake_at, horizon.moment, *ends, *(come.end for come in self._begun)])
        return True

    def _found(self, head: Asked, late: int) -> Horizon | None:
        """When the first who cannot start does: as was found before, or found now."""
        count, known = self._count, self._count.horizon
        if late or self._begun:
            ends = sorted([*self._running(late), *self._begun], key=_end)
            return earliest(ends, self._present(), head.members, head.amount)
        if known is None or not known.is_of(head.members, head.amount):
            known = count.horizon = earliest(self._running(0), self._floor, head.members, head.amount)
        return known

    def _running(self, late: int, most: int | None = None) -> Iterator[Held]:
        """What runs, the first to end first; what should be over by now takes longer."""
        count, held = self._count, self._count.held
        which, upto = count.which, None if most is None else late + most
        for _, slot in count.ends[:late]:
            yield held[slot]._replace(end=late_end(self.view, slot, self.now, which))
        for _, slot in count.ends[late:upto]:
            yield held[slot]

    def _promise(self, slot: int, head: Asked, horizon: Horizon) -> bool:
        """Tell the gang of its start, where it is another one than it was told; False where it got later."""
        job, start = self.view.held(slot), horizon.moment
        old = job.life.promise
        if old is not None and old.start <= start:
            return old.start == start
        seats = _seats(promised(horizon.then, self._count.floor.free, head.members, head.amount))
        end = NEVER if head.length >= NEVER else start + head.length
        given, broken = (self.now, 0) if old is None else (old.given, old.broken)
        promise = Promise(start, end, (seats,), given, broken)
        why = "" if old is None else Break.BETTER_START
        self.actions.append(Reserve(job.gang.name, self.view.number, promise=promise, why=why))
        return True

    # -- who fits in

    def _behind(self, line: list[int], at: int, cache: Cache) -> Iterable[int]:
        """Everybody behind the one who was promised a start, in the order in which they are tried."""
        if not self._present().units or len(line) == 1:
            return ()
        others = line[at + 1 :]
        if has_own_backfill(self.policy):
            cache.behind.update(self.view, self.now, backfilling(self.policy))
            first = set(line[: at + 1])
            others = [slot for slot in cache.behind.only_line() or () if slot not in first]
        return others

    def _fill(self, slots: Iterable[int], head: Asked) -> None:
        """Start whoever is gone before the promised start, or finds room beside the seats that are promised."""
        asked, floor = self._count.asked, self._present()
        rooms: dict[int, int] = {}
        in_time = self._horizon.moment - self.now
        for slot in slots:
            wants = asked[slot]
            members, amount, length = wants
            if amount not in rooms:
                rooms[amount] = floor.room(amount)
            if members > rooms[amount]:
                continue
            if length <= in_time:
                self._start(slot, wants, floor.choose(members, amount))
            elif not self._starts_aside(slot, wants, head):
                continue
            floor = self._present()
            rooms.clear()

    def _starts_aside(self, slot: int, wants: Asked, head: Asked) -> bool:
        if self._aside is None:
            if wants.members * wants.amount > self._horizon.units - head.members * head.amount:
                return False
            self._aside = Aside(self._horizon, head, self._count.floor.free)
        seating = self._aside.choose(self._present(), wants.members, wants.amount)
        if seating is not None:
            self._aside.take(self._start(slot, wants, seating))
        return seating is not None


class Aside:
    """What is free when a promised stay begins, beside it."""

    def __init__(self, horizon: Horizon, head: Asked, now: Ints) -> None:
        seating = promised(horizon.then, now, head.members, head.amount)
        self._then = horizon.then.copy()
        self._then[seating.positions] -= seating.counts * head.amount
        self._units = horizon.units - head.members * head.amount
        self._most: dict[int, int] = {}
        """By what is asked, the most members for whom there may still be room."""

    def choose(self, floor: Floor, members: int, amount: int) -> Seating | None:
        """Nodes for who stays from now on until after that moment; None where there is no room."""
        if members * amount > self._units or members > self._most.get(amount, members):
            return None
        room = np.minimum(floor.free, self._then)
        most = self._most[amount] = int((room // amount).sum())
        return floor.beside(room, members, amount) if members <= most else None

    def take(self, come: Held) -> None:
        """Somebody sits there from now on."""
        self._then[come.where] -= come.amounts
        self._units -= come.units


def _seats(seating: Seating) -> Seats:
    return Seats(tuple(seating.positions.tolist()), tuple(seating.counts.tolist()), 0)


def _end(held: Held) -> int:
    return held.end
