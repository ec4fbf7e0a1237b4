"""Who starts, where a node has one seat? Then numbers of nodes decide, and nobody looks at columns over time.

Machines of batch systems are like that, and so are nodes that gangs take whole. The plan is the one that `deliberate`
makes without a cache; where anything asks for more than counting, nothing is decided here.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from .answers import Deferred
from .cache import Cache
from .head_count import Asked, End, HeadCount
from .lineup import somebody_may_reclaim
from .model import NEVER, Promise, Seats
from .order import backfilling, has_own_backfill, steady_until
from .plan import AnyAction, Plan, Reserve, Start
from .policy import Break, Policy
from .releases import late_end
from .view import View


def counted(view: View, now: int, policy: Policy, cache: Cache, deliberate: Callable[[], Plan]) -> Plan | None:
    """What to do about a view in which numbers of nodes decide; None where they do not."""
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
        self._free = len(view.by_line) - count.held
        self._nodes: list[int] | None = None
        self._next = 0
        """The first of the open nodes that nobody was given."""
        self._begun: list[tuple[int, list[int]]] = []
        """When gangs that start in this turn are expected to end, and their nodes."""
        self._kept = 0
        """Open nodes before this one belong to who was promised a start, from then on."""
        self._beside = -1
        """The first open node for those who stay longer than that; -1 while nobody has asked."""
        self._is_new = False
        """Whether the promise is given in this turn, and so its nodes are chosen already."""

    def take(self, line: list[int], cache: Cache) -> bool:
        """Decide about everybody in line; False where that takes more than counting."""
        asked = self._count.asked
        for at, slot in enumerate(line):
            if asked[slot].nodes > self._free:
                return self._wait(line, at, cache)
            self._start(slot, self._front(asked[slot].nodes))
        return True

    # -- who starts

    def _start(self, slot: int, nodes: list[int]) -> None:
        name, length = self.view.held(slot).gang.name, self._count.asked[slot].length
        self._begun.append((NEVER if length >= NEVER else self.now + length, nodes))
        self._free -= len(nodes)
        self.started.add(name)
        seats = Seats(tuple(nodes), (1,) * len(nodes), 0)
        self.actions.append(Start(name, self.view.number, seats=(seats,)))

    def _front(self, many: int) -> list[int]:
        """The first so many open nodes, be they promised to somebody later or not."""
        nodes, first = self._opened(), self._next
        if self._beside < 0:
            self._next += many
            return nodes[first : self._next]
        self._next = max(min(self._kept, first + many), first)
        rest = many - (self._next - first)
        return nodes[first : self._next] + self._aside(rest)

    def _aside(self, many: int) -> list[int]:
        """The first so many open nodes that are promised to nobody."""
        first, self._beside = self._beside, self._beside + many
        return self._opened()[first : self._beside]

    def _opened(self) -> list[int]:
        """Nodes that were open when the turn began, along the line."""
        if self._nodes is None:
            view, count = self.view, self._count
            is_open = view.class_free[count.resource] >= count.amount
            self._nodes = is_open[view.class_of[: len(view.by_line)]].nonzero()[0].tolist()
        return self._nodes

    # -- who waits

    def _wait(self, line: list[int], at: int, cache: Cache) -> bool:
        """Promise a start to the first who cannot start, and look who of the others starts without delaying it."""
        count, now = self._count, self.now
        if len(self.view.queued) > 1:
            due = min(count.due.values(), default=NEVER)
            if due <= now:
                return False
            self.wake_at = min(due, steady_until(self.view, now, self.policy, cache.standing.lines))
        ends = self._ends()
        head = count.asked[line[at]]
        start, back = _earliest(ends, self._free, head.nodes)
        if start >= NEVER or not self._promise(line[at], head, start, back, ends):
            return False
        self._fill(self._behind(line, at, cache), head, start, back)
        moments = [start, *(end for end, _ in self._begun)]
        self.wake_at = min(self.wake_at, ends[0][0] if ends else NEVER, *moments)
        return True

    def _ends(self) -> list[End]:
        """Who gives back how many nodes when, the first one first; what should be over by now takes longer."""
        ends = self._count.ends
        late = bisect_right(ends, (self.now, NEVER))
        if not late and not self._begun:
            return ends
        which = self._count.which
        moved = [(late_end(self.view, slot, self.now, which), slot, nodes) for _, slot, nodes in ends[:late]]
        begun = [(end, -1 - at, len(nodes)) for at, (end, nodes) in enumerate(self._begun)]
        return sorted([*moved, *begun, *ends[late:]])

    def _promise(self, slot: int, head: Asked, start: int, back: int, ends: list[End]) -> bool:
        """Tell the gang of its start, where it is another one than it was told; False where it got later."""
        job = self.view.held(slot)
        old = job.life.promise
        if old is not None and old.start <= start:
            return old.start == start
        self._is_new, self._kept = True, self._next + max(head.nodes - back, 0)
        seats = Seats(self._seats_at(start, head.nodes, ends), (1,) * head.nodes, 0)
        end = NEVER if head.length >= NEVER else start + head.length
        given, broken = (self.now, 0) if old is None else (old.given, old.broken)
        promise = Promise(start, end, (seats,), given, broken)
        why = "" if old is None else Break.BETTER_START
        self.actions.append(Reserve(job.gang.name, self.view.number, promise=promise, why=why))
        return True

    def _seats_at(self, start: int, many: int, ends: list[End]) -> tuple[int, ...]:
        """Nodes that are given back by then, whole gangs of them, the first along the line first; then open ones."""
        groups = [self._nodes_of(slot) for end, slot, _ in ends[: bisect_right(ends, (start, NEVER))]]
        chosen: list[int] = []
        for nodes in sorted(groups, key=min):
            left = many - len(chosen)
            chosen += nodes if len(nodes) <= left else sorted(nodes)[:left]
        if many > len(chosen):
            chosen += self._opened()[self._next : self._next + many - len(chosen)]
        return tuple(sorted(chosen))

    def _nodes_of(self, slot: int) -> Sequence[int]:
        return self._begun[-1 - slot][1] if slot < 0 else self.view.held(slot).life.seats[0].nodes

    # -- who fits in

    def _behind(self, line: list[int], at: int, cache: Cache) -> Iterable[int]:
        """Everybody behind the one who was promised a start, in the order in which they are tried."""
        if not self._free or len(line) == 1:
            return ()
        others = line[at + 1 :]
        if has_own_backfill(self.policy):
            cache.behind.update(self.view, self.now, backfilling(self.policy))
            first = set(line[: at + 1])
            others = [slot for slot in cache.behind.only_line() or () if slot not in first]
        return others

    def _fill(self, slots: Iterable[int], head: Asked, start: int, back: int) -> None:
        """Start whoever is gone before the promised start, or finds nodes beside those that are promised."""
        asked, now = self._count.asked, self.now
        for slot in slots:
            nodes, length = asked[slot]
            if nodes > self._free:
                continue
            if length < NEVER and now + length <= start:
                self._start(slot, self._front(nodes))
                back += nodes
            elif nodes <= self._room_beside(head, back):
                self._start(slot, self._aside(nodes))

    def _room_beside(self, head: Asked, back: int) -> int:
        if self._beside < 0:
            if not self._is_new:
                self._kept = self._next + max(head.nodes - back, 0)
            self._beside = max(self._kept, self._next)
        return len(self._opened()) - self._beside


def _earliest(ends: list[End], free: int, many: int) -> tuple[int, int]:
    """The first moment at which so many nodes are free, and how many of them are given back until then."""
    start, back = NEVER, 0
    for end, _, nodes in ends:
        if end > start or end >= NEVER:
            break
        back += nodes
        if free + back >= many:
            start = end
    return start, back
