"""Who goes first: queues take turns by their share, and inside a queue the policy's terms decide, then the name."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import cast

from msgspec.structs import replace

from .demand import Demand, wanted
from .estimate import run_time, sizes
from .model import HOUR, NEVER, SECOND, Job, Queue, State
from .news import News
from .policy import ALL, Order, Policy, Term
from .quota import Shares, slice_end
from .view import View

Entry = tuple[int | str, ...]
"""A place in a line: a number for each term, then the name, then the slot. The smallest is first."""

MOVING = frozenset({Term.DOWNTIME, Term.WFP3, Term.UNI})
"""Terms whose order may change while nothing happens."""
URGENT = frozenset({Term.PRIORITY, Term.SLACK, Term.DOWNTIME})
"""Terms that say how much a gang matters to somebody, and not which one suits the machine."""
SIZED = frozenset({Term.SMALLEST, Term.LARGEST})
HELD = State.HELD
FRACTION = 48
"""Bits after the point in logarithms."""
FINE = 1 << 80
"""Scores of the literature are kept in parts this fine; what is still equal is left to the next term."""
STRETCH = 2
"""How many times its run time a gang waits before it counts as due."""
LONGEST_STRETCHED = 6 * HOUR
"""Run times above this count as this: nobody is passed by who comes twelve hours later."""
UNKNOWN_STRETCHED = HOUR
"""What a run time that nobody knows counts as: a gang that says nothing is not put off like the longest."""
LOG10_2 = 84_732_411_018_727
"""The decimal logarithm of two, with 48 bits after the point."""
PER_LN2 = 406_082_553_034_799
"""One over the natural logarithm of two, likewise."""


class Gauge:
    """What the terms need to know beside the gang itself."""

    __slots__ = ("attained_step", "measure", "now", "percent", "queues", "room")

    def __init__(self, view: View, now: int, policy: Policy, terms: Sequence[Term]) -> None:
        order = policy.order
        self.now = now - now % max(order.refresh, 1)
        self.queues: dict[str, Queue] = view.queues
        self.percent = policy.reserve.quantile
        self.measure = order.measure
        self.attained_step = max(order.attained_step, 1)
        needs_room = not order.measure and not SIZED.isdisjoint(terms)
        self.room = dict(zip(view.resources, view.total, strict=True)) if needs_room else {}

    def run(self, job: Job) -> int:
        """How long the gang would run from now, by the estimate that promises rest on."""
        return run_time(job, self.queues.get(job.gang.queue), self.percent)

    def waited(self, job: Job) -> int:
        """How long since it was submitted, as of the last refresh."""
        return max(self.now - job.gang.submitted, 0)

    def width(self, job: Job) -> int:
        """Processors, as the literature says: the measured resource, or members where none is named."""
        if self.measure:
            return max(wanted(job).get(self.measure, 0), 1)
        return max(sum(sizes(role)[1] for role in job.gang.roles), 1)

    def size(self, job: Job) -> int:
        """The measured resource, or the largest part of all nodes over the resources, in billionths."""
        asked = wanted(job)
        if self.measure:
            return asked.get(self.measure, 0)
        return max((_part(amount, self.room.get(name, 0)) for name, amount in asked.items()), default=0)


def _part(amount: int, room: int) -> int:
    return 0 if not amount else NEVER if room <= 0 else min(amount * 1_000_000_000 // room, NEVER)


def _latest_start(gauge: Gauge, job: Job) -> int:
    # Now is the same for all, so that deadline - run orders as slack does and need not be computed anew.
    deadline = job.gang.deadline
    if deadline >= NEVER:
        return NEVER
    run = gauge.run(job)
    return deadline - (run if run < NEVER else 0)


def _promised(job: Job) -> int:
    return job.life.promise.start if job.life.promise else NEVER + 1


def _due(gauge: Gauge, job: Job) -> int:
    """When the gang will have waited so many times as long as it runs: a short one is due sooner, an old one too."""
    run = gauge.run(job)
    return job.gang.submitted + STRETCH * (min(run, LONGEST_STRETCHED) if run < NEVER else UNKNOWN_STRETCHED)


def _attained(gauge: Gauge, job: Job) -> int:
    """Level in queues of doubling size: 0 below one step of member-time, 1 below two, 2 below four ..."""
    members = sum(sizes(role)[1] for role in job.gang.roles)
    return (members * job.life.ran // gauge.attained_step).bit_length()


def _wfp3(gauge: Gauge, job: Job) -> int:
    run = gauge.run(job)
    return -(gauge.waited(job) ** 3 * gauge.width(job) * FINE // run**3)


def _uni(gauge: Gauge, job: Job) -> int:
    # The logarithm of one processor is 0: the smallest number above it lets those gangs go first, as published.
    return -(gauge.waited(job) * FINE // (max(log2(gauge.width(job)), 1) * gauge.run(job)))


def _f1(gauge: Gauge, job: Job) -> int:
    return _log10_s(gauge.run(job)) * gauge.width(job) + 870 * _log10_s(job.gang.submitted)


def _log10_s(time: int) -> int:
    """The decimal logarithm of a time in seconds, not below 0."""
    return (log2(max(time, SECOND)) - _LOG2_SECOND) * LOG10_2 >> FRACTION


def log2(number: int) -> int:
    """The logarithm of a positive integer to the base 2, with 48 bits after the point, the same on every machine."""
    whole = number.bit_length() - 1
    part = number << 60 >> whole
    near = part >> 54
    # ln(x) = ln(near) + 2 (z + z^3/3 + z^5/5 + z^7/7), and z is so small that the next term does not show.
    z = (part - (near << 54) << 60) // (part + (near << 54))
    square = z * z >> 60
    series = z + (z * (square // 3 + ((square * square >> 60) // 5) + ((square**3 >> 120) // 7)) >> 60)
    return (whole << FRACTION) + _bits()[near - 64] + (2 * series * PER_LN2 >> 60)


@cache
def _bits() -> tuple[int, ...]:
    """Binary logarithms of 64/64 ... 127/64, bit by bit: squaring doubles a logarithm."""
    logarithms = []
    for near in range(64, 128):
        part, bits = near << 54, 0
        for _ in range(FRACTION):
            part = part * part >> 60
            bits = bits << 1 | part >> 61
            part >>= part >> 61
        logarithms.append(bits)
    return tuple(logarithms)


_LOG2_SECOND = log2(SECOND)

_TERMS: dict[Term, Callable[[Gauge, list[Job]], list[int]]] = {
    Term.PRIORITY: lambda _, jobs: [-job.gang.priority for job in jobs],
    Term.PROMISED: lambda _, jobs: [_promised(job) for job in jobs],
    Term.SLACK: lambda gauge, jobs: [_latest_start(gauge, job) for job in jobs],
    Term.AGE: lambda _, jobs: [job.gang.submitted for job in jobs],
    Term.DOWNTIME: lambda gauge, jobs: [-job.gang.downtime_cost * gauge.waited(job) for job in jobs],
    Term.STRETCH: lambda gauge, jobs: [_due(gauge, job) for job in jobs],
    Term.SHORTEST: lambda gauge, jobs: [gauge.run(job) for job in jobs],
    Term.SMALLEST: lambda gauge, jobs: [gauge.size(job) for job in jobs],
    Term.LARGEST: lambda gauge, jobs: [-gauge.size(job) for job in jobs],
    Term.LEAST_ATTAINED: lambda gauge, jobs: [_attained(gauge, job) for job in jobs],
    Term.WFP3: lambda gauge, jobs: [_wfp3(gauge, job) for job in jobs],
    Term.UNI: lambda gauge, jobs: [_uni(gauge, job) for job in jobs],
    Term.F1: lambda gauge, jobs: [_f1(gauge, job) for job in jobs],
}


def entries(gauge: Gauge, terms: Sequence[Term], slots: Sequence[int], jobs: list[Job]) -> list[Entry]:
    """What gangs are sorted by, one entry each."""
    columns = [_TERMS[term](gauge, jobs) for term in terms]
    return list(zip(*columns, [job.gang.name for job in jobs], slots, strict=True))


_slot = cast("Callable[[Entry], int]", itemgetter(-1))


def in_line(view: View, slots: Iterable[int], now: int, policy: Policy) -> list[int]:
    """These gangs in the order of the policy's terms, queues left aside."""
    chosen = list(slots)
    by = policy.order.terms
    ranked = sorted(entries(Gauge(view, now, policy, by), by, chosen, [view.held(slot) for slot in chosen]))
    return [_slot(entry) for entry in ranked]


def has_own_backfill(policy: Policy) -> bool:
    """Whether gangs behind the promises are tried in another order than their queue's; where all have one, none are."""
    return policy.reserve.backfill is not Term.AGE and policy.reserve.depth != ALL


def backfilling(policy: Policy) -> Policy:
    """The policy by whose order gangs behind the promises are tried: what is urgent comes first there too."""
    terms, backfill = policy.order.terms, policy.reserve.backfill
    urgent = tuple(term for term in terms if term in URGENT)
    others = tuple(term for term in terms if term not in URGENT and term is not backfill)
    return replace(policy, order=replace(policy.order, terms=(*urgent, backfill, *others)))


class Standing:
    """The lines of waiting gangs, kept between decisions: only gangs that changed are keyed and moved.

    It is a cache and nothing else: after `update` the lines are those that a new one would make.
    """

    def __init__(self) -> None:
        self.demand = Demand()
        """Kept here for `Shares`, which wants to know it between decisions too."""
        self.lines: dict[str, list[Entry]] = {}
        self._turns: dict[str, array[int]] = {}
        """The slots of each line, in a row of cells: a long line is read at once that way."""
        self._jobs: dict[int, Job] = {}
        self._places: dict[int, tuple[str, Entry]] = {}
        self._basis: tuple[object, ...] = ()
        self._policy: Policy | None = None
        self._is_moving = False
        self._gauge: Gauge | None = None
        self._seen: tuple[object, ...] = ()
        """What the gauge was last made of."""
        self._news = News()

    def update(self, view: View, now: int, policy: Policy) -> None:
        """Bring the lines up to date with a view."""
        gauge = self._gauge_of(view, now, policy)
        jobs, known, queued = view.jobs, self._jobs, view.queued
        touched = self._news.since(view)
        if touched is None:
            touched = known.keys() | queued.keys()
        changed: list[int] = []
        for slot in touched:
            if slot not in queued:
                self._leave(slot)
            elif known.get(slot) is not jobs[slot]:
                changed.append(slot)
        if changed:
            self._enter(gauge, policy.order, changed, [view.held(slot) for slot in changed])

    def _gauge_of(self, view: View, now: int, policy: Policy) -> Gauge:
        """What keys rest on beside the gangs; the lines are drawn anew where it changed."""
        if policy is not self._policy:
            self._policy, self._is_moving = policy, not MOVING.isdisjoint(policy.order.terms)
        gauge = self._gauge
        seen = policy, view.rules, view.ground, now // max(policy.order.refresh, 1) if self._is_moving else 0
        if gauge is None or seen != self._seen or gauge.queues is not view.queues:
            gauge = self._gauge = Gauge(view, now, policy, policy.order.terms)
            if seen != self._seen:
                self._seen = seen
                self._rest_on(_basis(gauge, policy.order))
        return gauge

    def _rest_on(self, basis: tuple[object, ...]) -> None:
        """Draw the lines anew where anything has changed that all keys rest on."""
        if basis != self._basis:
            self._basis = basis
            self.lines, self._turns, self._jobs, self._places = {}, {}, {}, {}
            self._news = News()

    def only_line(self) -> Sequence[int] | None:
        """The gangs of the one line there is, in turn; None where there are several."""
        return next(iter(self._turns.values())) if len(self._turns) == 1 else None

    def place(self, slot: int) -> tuple[int, int]:
        """Where the gang stands in its line, from 1, and how many stand there; 0 when it is on hold or not waiting."""
        if slot not in self._places:
            return 0, 0
        name, entry = self._places[slot]
        line = self.lines[name]
        return bisect_left(line, entry) + 1, len(line)

    def places(self) -> dict[int, int]:
        """Where each gang that is not on hold stands in its line, from 1, by slot."""
        return {_slot(entry): at for line in self.lines.values() for at, entry in enumerate(line, 1)}

    def _enter(self, gauge: Gauge, order: Order, slots: list[int], jobs: list[Job]) -> None:
        arrived: dict[str, list[Entry]] = {}
        for slot, job, entry in zip(slots, jobs, entries(gauge, order.terms, slots, jobs), strict=True):
            if slot in self._jobs:
                self._leave(slot)
            self._jobs[slot] = job
            if job.life.state is not HELD:
                name = job.gang.queue if order.fair_share else ""
                self._places[slot] = name, entry
                arrived.setdefault(name, []).append(entry)
        for name, some in arrived.items():
            self._merge(name, some)

    def _merge(self, name: str, arrived: list[Entry]) -> None:
        line, turns = self.lines.setdefault(name, []), self._turns.setdefault(name, array("q"))
        if len(arrived) == 1 or len(arrived) * 8 < len(line):
            for entry in arrived:
                at = bisect_left(line, entry)
                line.insert(at, entry)
                turns.insert(at, _slot(entry))
        else:
            line += arrived
            line.sort()
            turns[:] = array("q", map(_slot, line))

    def _leave(self, slot: int) -> None:
        self._jobs.pop(slot, None)
        place = self._places.pop(slot, None)
        if place is not None:
            name, entry = place
            line, turns = self.lines[name], self._turns[name]
            at = bisect_left(line, entry)
            del line[at], turns[at]
            if not line:
                del self.lines[name], self._turns[name]


def _basis(gauge: Gauge, order: Order) -> tuple[object, ...]:
    """Everything but the gang that a key rests on."""
    defaults = [(name, queue.default_estimate) for name, queue in gauge.queues.items() if queue.default_estimate]
    return order, gauge.percent, gauge.room, sorted(defaults), _moment(gauge.now, order)


def _moment(now: int, order: Order) -> int:
    """The moment that keys rest on, where time alone changes them."""
    return 0 if MOVING.isdisjoint(order.terms) else now - now % max(order.refresh, 1)


class Turns:
    """Waiting gangs (slots), first the one whose turn it is; those on hold are left out.

    Between queues the shares decide, as they are when the next gang is asked for. Gangs whose queue does not exist
    come last.
    """

    def __init__(self, view: View, now: int, policy: Policy, shares: Shares, standing: Standing | None = None) -> None:
        self.standing = standing or Standing()
        self.standing.update(view, now, policy)
        self._shares = shares
        self._known = view.queues

    def __iter__(self) -> Iterator[int]:
        """Each waiting gang once."""
        lines = self.standing.lines
        if len(lines) == 1:
            return map(_slot, next(iter(lines.values())))
        known = {name: line for name, line in lines.items() if name in self._known}
        unknown = [line for name, line in sorted(lines.items()) if name not in known]
        return chain(self._by_share(known), map(_slot, chain.from_iterable(unknown)))

    def _by_share(self, lines: dict[str, list[Entry]]) -> Iterator[int]:
        shares = self._shares
        ahead = {name: iter(line) for name, line in lines.items()}
        while ahead:
            name = min(ahead, key=shares.share) if len(ahead) > 1 else next(iter(ahead))
            version = shares.version
            # While nothing is taken no share changes, and so it stays this queue's turn.
            while version == shares.version or len(ahead) == 1:
                entry = next(ahead[name], None)
                if entry is None:
                    del ahead[name]
                    break
                yield _slot(entry)


def position(view: View, now: int, policy: Policy, gang: str) -> tuple[int, int]:
    """Where a waiting gang stands in its queue, from 1, and how many stand there; (0, 0) when it does not wait."""
    slot = next((slot for slot in view.queued if view.held(slot).gang.name == gang), -1)
    standing = Standing()
    standing.update(view, now, policy)
    return standing.place(slot)


def steady_until(view: View, now: int, policy: Policy, lines: Collection[str]) -> int:
    """Until when the order stays as it is if nothing happens."""
    order, until = policy.order, NEVER
    if len(view.queued) > 1 and not MOVING.isdisjoint(order.terms):
        until = now - now % max(order.refresh, 1) + max(order.refresh, 1)
    if order.fair_share and len(lines) > 1:
        until = min(until, slice_end(now, order.half_life))
    return until
