"""Load that looks like real load, from a seed: so that nobody needs an outside trace to try or test a policy.

Arrivals follow the hours of the day and of the week; widths are those of a GPU cluster (nine in ten jobs are small, the
wide ones hold most of the time) or of a batch machine in the manner of Lublin and Feitelson; run times are a mixture of
short and long; people ask for more time than they need, and some give up.
"""

import math
import random
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from sys import intern
from typing import Generic, TypeVar

import msgspec

from tutti.engine.model import DAY, HOUR, NEVER, SECOND, Data, Gang, State
from tutti.errors import Misused

from .intake import Cut, Estimates
from .task import PLAIN, Habits, Task
from .traces.log import Line, Log, Machine, Row

GPU_WIDTHS = {1: 820, 2: 60, 4: 50, 8: 45, 16: 14, 32: 7, 64: 3, 128: 1}
"""Jobs in a thousand by width, after Microsoft's Philly cluster."""
HOURS = (4, 3, 3, 2, 2, 2, 3, 4, 6, 8, 10, 10, 9, 10, 11, 11, 10, 9, 8, 7, 6, 6, 5, 5)
"""How many jobs are submitted in each hour of a working day, beside each other."""
WEEKEND = 0.4
ROUND_REQUESTS_MIN = (15, 30, 60, 120, 240, 480, 720, 1440, 2880, 7200)
"""People ask for round numbers of minutes."""
T = TypeVar("T")


class Load(Data, frozen=True):
    """What to generate."""

    jobs: int = 10_000
    devices: int = 1024
    each: int = 8
    """Devices of a node."""
    load: float = 0.9
    seed: int = 0
    style: str = "gpu"
    """`gpu` (powers of two as in Philly) or `batch` (any width, as Lublin has them)."""
    users: int = 50
    cancelled: float = 0.08
    """Part of the jobs that their owners give up on while they wait or run."""
    failed: float = 0.05
    requested: float = 0.9
    """Part of the jobs whose owner says how long they may run."""
    widths: tuple[tuple[int, int], ...] = ()
    """Widths, and how many jobs have each; nothing means those of the style."""
    runs_s: tuple[float, ...] = ()
    """Run times that equal parts of the jobs stay under, in seconds; nothing means a mixture."""
    wide_runs_s: tuple[float, ...] = ()
    """The same for wide jobs."""
    wide_above: int = 0
    """Which jobs are wide; 0 means those wider than a node."""
    asked: tuple[float, ...] = ()
    """Declared over real run time, likewise."""
    hours: tuple[float, ...] = HOURS
    """How busy each hour of a day is, beside the others."""
    weekend: float = WEEKEND
    """How busy a day of the weekend is, beside an average one."""


class Choice(Generic[T]):
    """One of several, by their weights: the draws of `random.choices`, without adding up the weights every time."""

    def __init__(self, values: Sequence[T], weights: Sequence[int]) -> None:
        self._values = values
        self._sums = list(accumulate(weights))
        self._total = self._sums[-1] + 0.0
        self._last = len(values) - 1

    def draw(self, draws: random.Random) -> T:
        """One of them."""
        return self._values[bisect_right(self._sums, draws.random() * self._total, 0, self._last)]


MIXTURE = ((5.0, 1.2), (8.0, 1.0), (10.2, 0.8))
"""Logarithms of run times in seconds: minutes, hours, days; mean and spread."""
NARROW_RUNS, WIDE_RUNS = Choice(MIXTURE, (5, 4, 1)), Choice(MIXTURE, (3, 4, 3))


class Drawn:
    """One generated workload: rows drawn one by one, always the same for the same load."""

    def __init__(self, load: Load, cut: Cut | None = None, habits: Habits = PLAIN) -> None:
        self.load = load
        self.cut = cut or Cut("gpu", load.each)
        self.habits = habits
        known = dict(load.widths) or GPU_WIDTHS
        widths = [width for width in known if width <= load.devices]
        self._widths = Choice(widths, [known[width] for width in widths])
        self._busy = [intensity(hour * HOUR, load) for hour in range(7 * 24)]
        """How busy each hour of a week is."""

    def __len__(self) -> int:
        """How many jobs there are."""
        return self.load.jobs

    def __iter__(self) -> Iterator[Task]:
        """Each of them, as a task."""
        estimates = Estimates()
        for row in self.rows():
            gang = Gang(
                row.name,
                self.cut.roles(row.width),
                user=row.user,
                submitted=row.at,
                estimate=estimates.of(row),
                parkable=self.habits.save_every > 0,
            )
            yield Task(gang, row.run, self.habits, row.outcome, row.patience)

    def rows(self) -> Iterator[Row]:
        """Rows in the order of submission."""
        draws = random.Random(self.load.seed)
        gap = self._mean_gap()
        at, digits = 8 * HOUR, len(str(self.load.jobs))
        for number in range(self.load.jobs):
            at = self._next_arrival(draws, at, gap)
            yield self._row(draws, number, at, digits)

    def log(self) -> Log:
        """The whole workload as a log."""
        nodes = -(-self.load.devices // self.load.each)
        return Log("generated", f"seed {self.load.seed}", list(self.rows()), "gpu", Machine(nodes, self.load.each))

    def _mean_gap(self) -> float:
        """Time between arrivals that makes the offered load come out, measured on a sample of its own."""
        draws = random.Random(f"sample {self.load.seed}")
        sample = [width * self._run(draws, width) for width in (self._width(draws) for _ in range(20_000))]
        return sum(sample) / len(sample) / (self.load.devices * self.load.load)

    def _next_arrival(self, draws: random.Random, at: int, gap: float) -> int:
        """Time runs faster when many people are at work, and stands almost still at night."""
        busy = self._busy[at // HOUR % len(self._busy)]
        return at + max(round(draws.expovariate(1.0) * gap / busy), 1)

    def _width(self, draws: random.Random) -> int:
        if self.load.style == "gpu" or self.load.widths:
            return self._widths.draw(draws)
        return self._batch_width(draws)

    def _batch_width(self, draws: random.Random) -> int:
        """A quarter are serial; others are spread over two stages of the logarithm, mostly powers of two."""
        if draws.random() < 0.24:
            return 1
        top = math.log2(self.load.devices)
        size = draws.uniform(0.8, top - 2.5) if draws.random() < 0.86 else draws.uniform(top - 2.5, top)
        if draws.random() < 0.75:
            size = round(size)
        return min(max(round(2**size), 1), self.load.devices)

    def _run(self, draws: random.Random, width: int) -> int:
        """Most runs are minutes, some are hours, a few are days; wide jobs are more often long."""
        known = (self.load.wide_runs_s if width > (self.load.wide_above or self.load.each) else ()) or self.load.runs_s
        if known:
            return round(max(drawn_from(known, draws), 1.0) * SECOND)
        mean, spread = (NARROW_RUNS if width < 8 else WIDE_RUNS).draw(draws)
        return round(min(max(draws.lognormvariate(mean, spread), 1.0), 7 * DAY / SECOND)) * SECOND

    def _row(self, draws: random.Random, number: int, at: int, digits: int) -> Row:
        width = self._width(draws)
        run = self._run(draws, width)
        limit = self._request(draws, run) if draws.random() < self.load.requested else 0
        user = intern(f"u{int(self.load.users * draws.random() ** 2)}")
        outcome = State.FAILED if draws.random() < self.load.failed else State.FINISHED
        patience = round(draws.expovariate(1 / (6 * HOUR))) if draws.random() < self.load.cancelled else NEVER
        return Row(f"{number:0{digits}d}", at, run, width, limit, user, outcome=outcome, patience=patience)

    def _request(self, draws: random.Random, run: int) -> int:
        return round(run * drawn_from(self.load.asked, draws)) if self.load.asked else request(draws, run)


USUAL = Load()


def intensity(at: int, load: Load = USUAL) -> float:
    """How busy the moment is, beside an average one; never quite still."""
    day, rest = divmod(at, DAY)
    busy = load.hours[rest // HOUR] * 24 / sum(load.hours)
    return max(busy * (load.weekend if day % 7 >= 5 else (7 - 2 * load.weekend) / 5), 0.02)


def drawn_from(quantiles: tuple[float, ...], draws: random.Random) -> float:
    """A value whose chance to lie between two neighbours is the same for all of them."""
    place = draws.random() * (len(quantiles) - 1)
    low = min(int(place), len(quantiles) - 2) if len(quantiles) > 1 else 0
    a, b = quantiles[low], quantiles[min(low + 1, len(quantiles) - 1)]
    return float(a ** (1 - (place - low)) * b ** (place - low)) if a > 0 and b > 0 else max(a, b)


def request(draws: random.Random, run: int) -> int:
    """What the owner asks for: up to ten times what is needed, in round numbers."""
    wanted_min = run / SECOND / 60 * draws.uniform(1.0, 1.0 + draws.expovariate(0.5))
    at = bisect_left(ROUND_REQUESTS_MIN, wanted_min)
    fitting = ROUND_REQUESTS_MIN[at] if at < len(ROUND_REQUESTS_MIN) else math.ceil(wanted_min / 1440) * 1440
    return fitting * 60 * SECOND


def looks_like(first: list[str]) -> bool:
    """Whether these are the first lines of a file that says what to generate."""
    return any(line.strip() == "[generate]" for line in first)


def read(lines: list[Line], source: str, skip_bad: bool, path: Path | None = None) -> Log:  # noqa: ARG001
    """The load that a file describes."""
    return Drawn(parsed("\n".join(text for _, text in lines), source)).log()


def load_of(path: Path, seed: int) -> Load | None:
    """The load that a file describes, with its seed raised by so much; None where the file is a trace."""
    if path.suffix != ".toml" or not path.is_file():
        return None
    load = parsed(path.read_text(errors="replace"), path.name)
    return msgspec.structs.replace(load, seed=load.seed + seed)


def parsed(text: str, source: str) -> Load:
    """The load, or what is wrong with it."""
    try:
        load = msgspec.convert(tomllib.loads(text)["generate"], Load)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, KeyError) as problem:
        what = str(problem).replace("`$.", "`").replace(" - at ", " for ")
        hint = f"the fields of [generate] are {', '.join(Load.__struct_fields__)}"
        raise Misused(f"{source} is not a load to generate: {what}", hint=hint) from None
    return checked(load, source)


def checked(load: Load, where: str) -> Load:
    """The load, or an error that names the first field that is impossible."""
    for field, is_right, what in _limits(load):
        if not is_right:
            said, usual = (msgspec.json.encode(getattr(each, field)).decode() for each in (load, USUAL))
            hint = f"leave {field} out" if usual.startswith("[") else f"{field} = {usual}"
            raise Misused(f"{where}: [generate] {field} = {said}: it must be {what}", hint=hint)
    return load


def _limits(load: Load) -> Iterator[tuple[str, bool, str]]:
    """Field by field whether it can be, and what it must be."""
    yield "style", load.style in {"gpu", "batch"}, "gpu or batch"
    yield "jobs", 1 <= load.jobs <= 100_000_000, "from 1 to 100,000,000"
    yield "devices", 1 <= load.devices <= 10_000_000, "from 1 to 10,000,000"
    yield "each", 1 <= load.each <= load.devices, f"at least 1, and no more than the {load.devices} devices there are"
    yield "load", 0 < load.load <= 100, "above 0 and at most 100"
    yield "users", load.users >= 1, "at least 1"
    for part in ("cancelled", "failed", "requested"):
        yield part, 0 <= getattr(load, part) <= 1, "a part, from 0 to 1"
    pairs = all(width >= 1 and many >= 1 for width, many in load.widths)
    yield "widths", pairs, "pairs of a width and a number of jobs, both at least 1"
    narrowest = min((width for width, _ in load.widths), default=1)
    yield "widths", narrowest <= load.devices, f"such that somebody fits on the {load.devices} devices there are"
    for times in ("runs_s", "wide_runs_s", "asked"):
        yield times, all(0 < each < math.inf for each in getattr(load, times)), "numbers above 0"
    yield "wide_above", load.wide_above >= 0, "0 or a width"
    hours = len(load.hours) == 24 and all(0 <= each < math.inf for each in load.hours) and sum(load.hours) > 0
    yield "hours", hours, "24 numbers, none below 0 and not all 0"
    yield "weekend", 0 <= load.weekend <= 3.5, "from 0 to 3.5"
