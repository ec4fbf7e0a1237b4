"""When will it start? A range over many drawn futures, and later how true it was.

Chance lives here and is seeded; each future is the engine's own roll-forward. Beyond the horizon there is no number.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, pairwise
from random import Random

from tutti.engine.decide import decide
from tutti.engine.estimate import known
from tutti.engine.forecast import Decision, Starts, roll
from tutti.engine.model import DAY, NEVER, SECOND, Data, Estimate, Job, Source
from tutti.engine.policy import Policy
from tutti.engine.view import View

from .estimates import Errors
from .line import Line, counted_starts

RANGE = (5, 10, 50, 90, 95)
UNSTRETCHED = (1000,) * len(RANGE)
ALIKE = 0.6
"""How often a gang's run time is as long, beside what was expected, as those of its owner's other gangs."""


class Budget(Data, frozen=True):
    """How much work one forecast may be."""

    draws: int = 20
    steps: int = 300
    """Decisions in one future."""
    horizon: int = 2 * DAY


BUDGET = Budget()


class Forecast(Data, frozen=True):
    """When a gang starts: the middle, the inner and the outer range. NEVER means no promise: beyond the horizon."""

    gang: str
    made: int
    p5: int
    p10: int
    p50: int
    p90: int
    p95: int
    odds_ppm: int
    """In how many of a million futures it starts within the horizon."""
    horizon: int
    draws: int
    assuming: str
    drawn: tuple[int, ...] = ()
    """The five moments as they were drawn, before they were corrected by how earlier forecasts came out."""

    @property
    def is_promise(self) -> bool:
        """Whether there is a number at all."""
        return self.p50 < NEVER


class Forecaster:
    """Draws futures and takes quantiles. The same seed, view and moment give the same forecast."""

    def __init__(
        self,
        seed: int,
        budget: Budget = BUDGET,
        errors: Errors | None = None,
        choose: Decision = decide,
        stretch: Sequence[int] = (),
    ) -> None:
        """`stretch` says how much further each moment of the range lies than it is drawn, in thousandths."""
        self.seed, self.budget = seed, budget
        self.stretch = tuple(stretch) or UNSTRETCHED
        self.errors = errors or Errors()
        self._choose = choose
        self._seen: dict[tuple[Estimate, int], list[int]] = {}

    def forecast(
        self, view: View, now: int, policy: Policy, names: Collection[str] | None = None
    ) -> dict[str, Forecast]:
        """A forecast for each gang that waits, or for those named."""
        waiting = sorted(view.held(slot).gang.name for slot in view.queued)
        wanted = waiting if names is None else [name for name in waiting if name in names]
        if not wanted:
            return {}
        self._seen = {}
        line = Line(view, now, policy)
        far = line.far(wanted)
        near = [name for name in wanted if name not in far]
        played = self._played(line.front(), now, policy, near) if near else []
        told = {name: self._summed_up(view, name, now, played) for name in near}
        return told | self._counted(view, now, line, far) if far else told

    def _played(self, view: View, now: int, policy: Policy, names: Sequence[str]) -> list[Starts]:
        """Futures that the engine goes through, decision by decision."""
        until, futures = now + self.budget.horizon, []
        for draw in range(self.budget.draws):
            slots = [slot for slot, job in enumerate(view.jobs) if job is not None]
            lengths = self._lengths(view, now, slots, draw)
            named = {view.held(slot).gang.name: length for slot, length in lengths.items()}
            futures.append(roll(view, now, named, until, policy, self.budget.steps, names, self._choose))
        return futures

    def _counted(self, view: View, now: int, line: Line, names: set[str]) -> dict[str, Forecast]:
        """Forecasts from futures in which only the work ahead is counted."""
        ahead, until, futures = line.until(names), now + self.budget.horizon, []
        slots = [slot for slot, _ in ahead]
        for draw in range(self.budget.draws):
            starts = counted_starts(view, now, ahead, self._lengths(view, now, [*view.seated, *slots], draw))
            futures.append(Starts({name: at for name, at in starts.items() if at <= until}, until, 0))
        unknown = accumulate((_is_unknown(view, view.held(slot)) for slot in slots), initial=0)
        unknown_ahead = zip(line.names, unknown, strict=False)
        return {
            name: self._summed_up(view, name, now, futures, so_far) for name, so_far in unknown_ahead if name in names
        }

    def _lengths(self, view: View, now: int, slots: Iterable[int], draw: int) -> dict[int, int]:
        """One drawn run time for each of these gangs."""
        chance = Random(f"{self.seed}/{view.number}/{now}/{draw}")
        leanings: dict[str, float] = {}
        found = {}
        for slot in slots:
            job = view.held(slot)
            found[slot] = self.length(view, job, slot, now, chance, self._leaning(job.gang.user, leanings, chance))
        return found

    def _leaning(self, user: str, leanings: dict[str, float], chance: Random) -> float:
        """How long a gang runs beside others like it. Runs of one user are wrong together more often than not."""
        own = leanings.setdefault(user, chance.random()) if user else chance.random()
        return own if chance.random() < ALIKE else chance.random()

    def length(self, view: View, job: Job, slot: int, now: int, chance: Random, leaning: float | None = None) -> int:
        """One drawn run time of a gang, longer than what it has run already."""
        estimate = known(job.gang, view.queues.get(job.gang.queue))
        ran = job.life.ran
        if slot in view.seated:
            ran += max(now - job.life.started, 0)
            estimate = _from_ends(view, slot, job, estimate)
        past = self._past(estimate, ran)
        if past:
            return past[int((chance.random() if leaning is None else leaning) * len(past))]
        return _drawn(estimate, ran, chance)

    def _past(self, estimate: Estimate, ran: int) -> list[int]:
        """What gangs like it took in all, of those that ran longer than it has."""
        found = self._seen.get((estimate, ran))
        if found is None:
            found = sorted(length for length in self.errors.lengths(estimate) if length > ran)
            self._seen[estimate, ran] = found
        return found

    def _summed_up(
        self, view: View, name: str, now: int, futures: Sequence[Starts], unknown_ahead: int = 0
    ) -> Forecast:
        starts = sorted(starts.at.get(name, NEVER) for starts in futures)
        sure = sum(1 for start in starts if start < NEVER)
        drawn = tuple(_rank(starts, percent) for percent in RANGE)
        p5, p10, p50, p90, p95 = _stretched(drawn, now, self.stretch)
        return Forecast(
            name,
            now,
            p5,
            p10,
            p50,
            p90,
            p95,
            odds_ppm=sure * 1_000_000 // len(starts),
            horizon=self.budget.horizon,
            draws=len(starts),
            assuming=_assumption(view, any(starts.cut for starts in futures), unknown_ahead),
            drawn=drawn,
        )


def _stretched(drawn: Sequence[int], now: int, stretch: Sequence[int]) -> list[int]:
    """The moments moved away from now, or nearer, and still in order."""
    moved = [at if at >= NEVER else now + (at - now) * part // 1000 for at, part in zip(drawn, stretch, strict=True)]
    return list(accumulate(moved, max))


def _rank(starts: Sequence[int], percent: int) -> int:
    """The nearest rank; the middle of an even number is the later one."""
    return starts[min(len(starts) * percent // 100, len(starts) - 1)]


def _assumption(view: View, cut: bool, unknown_ahead: int) -> str:
    said = "if nobody else submits anything and gangs run as long as gangs like them did"
    running = sum(_is_unknown(view, view.held(slot)) for slot in view.seated)
    for unknown, doing in ((running, "running"), (unknown_ahead, "ahead")):
        verb = "is" if unknown == 1 else "are"
        said += f"; {unknown} {doing} without an estimate {verb} taken to go on" if unknown else ""
    return said + ("; not every future was followed to its end" if cut else "")


def _is_unknown(view: View, job: Job) -> bool:
    return known(job.gang, view.queues.get(job.gang.queue)).source is Source.NONE


# -- drawing run times


def _from_ends(view: View, slot: int, job: Job, estimate: Estimate) -> Estimate:
    """What is expected of a running gang, its own reports included."""
    told = job.life.progress
    if told is None or not told.steps or not told.rate_milli:
        return estimate
    ends = [int(end) for end in view.ends[slot]]
    p50, p90, limit = (end if end >= NEVER else end - job.life.started + job.life.ran for end in ends)
    return Estimate(limit, max(p50, 1), max(p90, 1), Source.PROGRESS)


def _anchors(estimate: Estimate) -> list[tuple[int, int]]:
    """Points of the run time's distribution: (thousandths of runs, length)."""
    limit = estimate.limit
    if not estimate.p50 and not estimate.p90:
        # Declared limits are used evenly: a run takes any part of what was asked for.
        return [(0, min(SECOND, limit)), (1000, limit)]
    p90 = estimate.p90 or limit
    p50 = estimate.p50 or p90
    low = p50 * 9 // 10 if estimate.source is Source.PROGRESS else p50 // 4
    if p90 >= NEVER:
        p90 = 2 * p50
    return [(0, max(low, 1)), (500, p50), (900, p90), (1000, min(limit, 2 * p90))]


def _drawn(estimate: Estimate, ran: int, chance: Random) -> int:
    if estimate.at(50) >= NEVER:
        return NEVER
    anchors = _anchors(estimate)
    if ran >= anchors[-1][1]:
        # Past every expectation: it goes on for up to as long again.
        return ran + max(chance.randrange(max(ran, SECOND)), 1)
    share = chance.randrange(_share(anchors, ran), 1000)
    return max(_length(anchors, share), ran + 1)


def _share(anchors: Sequence[tuple[int, int]], ran: int) -> int:
    """How many thousandths of runs are over by this length."""
    for (low, short), (high, long) in pairwise(anchors):
        if ran < long:
            return low + max(ran - short, 0) * (high - low) // max(long - short, 1)
    return 999


def _length(anchors: Sequence[tuple[int, int]], share: int) -> int:
    """The length that so many thousandths of runs stay under."""
    for (low, short), (high, long) in pairwise(anchors):
        if share <= high:
            return short + (long - short) * (share - low) // max(high - low, 1)
    return anchors[-1][1]
