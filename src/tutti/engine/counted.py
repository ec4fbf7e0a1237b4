"""Who starts, where all nodes are alike and one resource decides? Then sums and single nodes tell, without columns
over time.

Machines of batch systems are like that, and so are most clusters of one kind of box. The plan is the one that
`deliberate` makes without a cache; where anything asks for more than room, nothing is decided here.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from .answers import Deliberate, glanced
from .cache import Cache
from .floor import Floor, Held, Part, beside, chosen, lift, promised, room_beside, seats_in
from .head_count import Asked, HeadCount
from .horizon import Horizon, earliest
from .lineup import somebody_may_reclaim
from .model import NEVER, Promise
from .order import backfilling, has_own_backfill, steady_until
from .plan import AnyAction, Plan, Reserve, Start
from .policy import Break, Policy
from .releases import late_end
from .tally import Ints
from .view import View

LONG = 48
"""When so many gangs in a row found no room, it is quicker to look at all the others at once."""


def counted(view: View, now: int, policy: Policy, cache: Cache, deliberate: Deliberate) -> Plan | None:
    """What to do about a view in which room on nodes that are alike decides; None where it does not."""
    if view.watched or view.leaving or view.draining or view.windows or view.followers or view.on_hold:
        return None
    rules = cache.rules(view)
    if rules.limited or rules.sliced or rules.strict or len(view.promised) > 1:
        return None
    count = cache.head_count
    if not count.holds(view, policy, cache) or somebody_may_reclaim(view, policy, rules):
        return None
    if (wake_at := count.stays_until(view, now)) is not None:
        return glanced(view, now, policy, (), wake_at, deliberate)
    turn = Turn(view, now, policy, count)
    line = cache.only_line(view, now, policy)
    if line is None or (view.promised and line[0] not in view.promised) or not turn.take(line, cache):
        return None
    return glanced(view, now, policy, tuple(turn.actions), turn.wake_at, deliberate)


class Turn:
    """One look along the line: who starts, who is promised a start, who fits in before it or beside it."""

    __slots__ = (
        *("actions", "now", "policy", "view", "wake_at"),
        *("_aside", "_begun", "_count", "_floor", "_horizon", "_untaken"),
    )

    def __init__(self, view: View, now: int, policy: Policy, count: HeadCount) -> None:
        self.view, self.now, self.policy = view, now, policy
        self.actions: list[AnyAction] = []
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

    def take(self, line: Sequence[int], cache: Cache) -> bool:
        """Decide about everybody in line; False where that takes more than room."""
        asked, floor = self._count.asked, self._floor
        for at, slot in enumerate(line):
            wants = asked[slot]
            if at:
                floor = self._present()
            if wants.members > floor.room(wants.amount):
                return self._wait(line, at, cache)
            self._start(slot, wants, floor.choose(wants.members, wants.amount))
        # Whoever waits next asks for something else.
        self._count.horizon = None
        return True

    # -- who starts

    def _start(self, slot: int, wants: Asked, parts: list[Part]) -> Held:
        name, (members, amount, length) = self.view.held(slot).gang.name, wants
        seats = seats_in(parts)
        taken = tuple([(each * amount, nodes) for each, nodes in parts])
        come = Held(NEVER if length >= NEVER else self.now + length, taken, members * amount, len(seats.nodes))
        self._begun.append(come)
        self._count.planned[slot] = seats, come
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

    def _wait(self, line: Sequence[int], at: int, cache: Cache) -> bool:
        """Promise a start to the first who cannot start, and look who of the others starts without delaying it."""
        count, now = self._count, self.now
        if len(self.view.queued) > 1:
            due = count.first_due()
            if due <= now:
                return False
            if not count.by_age:
                due = min(due, steady_until(self.view, now, self.policy, cache.standing.lines))
            self.wake_at = due
        head, late = count.asked[line[at]], bisect_right(count.ends, (now, NEVER))
        horizon = self._found(head, late)
        if horizon is None or not self._promise(line[at], head, horizon):
            return False
        self._horizon = horizon
        count.comes_first(line[at])
        self._fill(self._behind(line, at, cache), head)
        self.wake_at = min(self.wake_at, horizon.moment, self._next_end(late))
        return True

    def _next_end(self, late: int) -> int:
        """When the next of those who run or start is expected to end."""
        ends = self._count.ends
        first = ends[late][0] if late < len(ends) else NEVER
        if late:
            first = min(first, *(ahead.end for ahead in self._running(late, 0)))
        for come in self._begun:
            first = min(first, come.end)
        return first

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
        seats = seats_in(promised(horizon.then, self._count.floor.levels, head.members, head.amount))
        end = NEVER if head.length >= NEVER else start + head.length
        given, broken = (self.now, 0) if old is None else (old.given, old.broken)
        promise = Promise(start, end, (seats,), given, broken)
        why = "" if old is None else Break.BETTER_START
        self.actions.append(Reserve(job.gang.name, self.view.number, promise=promise, why=why))
        return True

    # -- who fits in

    def _behind(self, line: Sequence[int], at: int, cache: Cache) -> Sequence[int] | Ints:
        """Everybody behind the one who was promised a start, in the order in which they are tried."""
        if len(line) == 1 or self._present().units < self._count.least:
            return ()
        if not has_own_backfill(self.policy):
            return line[at + 1 :]
        cache.behind.update(self.view, self.now, backfilling(self.policy))
        others: Sequence[int] = cache.behind.only_line() or ()
        if len(others) > LONG:
            slots = np.array(others)
            for slot in line[: at + 1]:
                slots = slots[slots != slot]
            return slots
        first = set(line[: at + 1])
        return [slot for slot in others if slot not in first]

    def _fill(self, slots: Sequence[int] | Ints, head: Asked) -> None:
        """Start whoever is gone before the promised start, or finds room beside the seats that are promised."""
        while len(slots) and self._present().units >= self._count.least:
            begun, near = len(self._begun), slots[:LONG]
            slots = slots[self._fill_once(near.tolist() if isinstance(near, np.ndarray) else near, head) :]
            if len(self._begun) == begun and len(slots) > LONG:
                # Whoever sits down leaves less room for the others: who is hopeless stays so.
                slots = self._hopeful(np.asarray(slots), head)

    def _hopeful(self, slots: Ints, head: Asked) -> Ints:
        """Those for whom there may be room, without asking each of a long line."""
        floor = self._present()
        members, amounts, lengths = self._count.columns.take(slots, axis=1)
        soon = lengths <= self._horizon.moment - self.now
        wanted, fits = self._count.amounts(), np.zeros(len(slots), np.bool_)
        for amount in wanted:
            if room := floor.room(amount):
                aside = self._most_aside(amount, head)
                here = (members <= room) & (soon | (members <= aside) if aside else soon)
                fits |= here & (amounts == amount) if len(wanted) > 1 else here
        return slots[fits]

    def _fill_once(self, slots: Sequence[int], head: Asked) -> int:
        """Start the first who fits in; how many were looked at."""
        asked, floor = self._count.asked, self._present()
        rooms: dict[int, int] = {}
        in_time, beside = self._horizon.moment - self.now, self._horizon.units - head.members * head.amount
        for at, slot in enumerate(slots, 1):
            wants = asked[slot]
            members, amount, length = wants
            if amount not in rooms:
                rooms[amount] = floor.room(amount)
            if members > rooms[amount]:
                continue
            if length <= in_time:
                self._start(slot, wants, floor.choose(members, amount))
                return at
            if members * amount <= beside and self._starts_aside(slot, wants, head):
                return at
        return len(slots)

    def _most_aside(self, amount: int, head: Asked) -> int:
        """The most members who take so much each and stay for whom there may be room."""
        if amount > self._horizon.units - head.members * head.amount:
            return 0
        if self._aside is None:
            self._aside = Aside(self._horizon, head, self._count.floor)
        return self._aside.most(self._present(), amount)

    def _starts_aside(self, slot: int, wants: Asked, head: Asked) -> bool:
        if wants.members > self._most_aside(wants.amount, head):
            return False
        assert self._aside is not None
        parts = self._aside.choose(self._present(), wants.members, wants.amount)
        if parts is not None:
            self._aside.take(self._start(slot, wants, parts))
        return parts is not None


class Aside:
    """What is free when a promised stay begins, beside it."""

    def __init__(self, horizon: Horizon, head: Asked, floor: Floor) -> None:
        self._then = horizon.then.copy()
        for each, nodes in promised(horizon.then, floor.levels, head.members, head.amount):
            lift(self._then, nodes, -each * head.amount)
        self._units = horizon.units - head.members * head.amount
        self._most: dict[int, int] = {}

    def most(self, floor: Floor, amount: int) -> int:
        """The most members who take so much each who may find room; with everybody who sits down it is less."""
        known = self._most.get(amount)
        if known is None:
            known = self._most[amount] = room_beside(floor.levels, self._then, amount)
        return known

    def choose(self, floor: Floor, members: int, amount: int) -> list[Part] | None:
        """Nodes for who stays from now on until after that moment; None where there is no room."""
        if members * amount > self._units:
            self._most[amount] = self._units // amount
            return None
        spots = beside(floor.levels, self._then, amount)
        most = self._most[amount] = sum(room // amount * nodes.bit_count() for room, _, _, nodes in spots)
        return chosen(spots, members, amount) if members <= most else None

    def take(self, come: Held) -> None:
        """Somebody sits there from now on."""
        for amount, nodes in come.parts:
            lift(self._then, nodes, -amount)
        self._units -= come.units


def _end(held: Held) -> int:
    return held.end
