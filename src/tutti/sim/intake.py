"""From rows of a trace to tasks: how wide jobs are cut into members, and what the scheduler is told of their length."""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum

from tutti.engine.model import NEVER, SECOND, Data, Estimate, Gang, Resizing, Role, Shape, Source, Speed
from tutti.errors import Misused

from .task import PLAIN, Habits, Task
from .traces.log import Log, Row

LINEAR = Speed()


class EstimateSource(StrEnum):
    """What the scheduler is told about run times."""

    DECLARED = "declared"
    EXACT = "exact"
    HISTORY = "history"
    NONE = "none"
    SCALED = "scaled"


class Estimates(Data, frozen=True):
    """Where estimates come from. With `scaled`, the true run time times `percent` hundredths."""

    source: EstimateSource = EstimateSource.DECLARED
    percent: int = 100

    def __str__(self) -> str:
        """As it is written on the command line."""
        return f"scaled:{self.percent / 100:g}" if self.source is EstimateSource.SCALED else self.source.value

    def of(self, row: Row) -> Estimate:
        """What the scheduler is told when the job is submitted."""
        source = self.source
        if source is EstimateSource.EXACT:
            return declared(row.run)
        if source is EstimateSource.SCALED:
            return declared(row.run * self.percent // 100)
        if source is EstimateSource.NONE or not row.limit:
            return Estimate()
        return declared(row.limit)


def declared(limit: int) -> Estimate:
    """A limit somebody declared; nothing ends in less than a second as far as planning goes."""
    return Estimate(limit=max(limit, SECOND), source=Source.DECLARED)


def read_estimates(text: str) -> Estimates:
    """The option's value: declared, exact, history, none, or scaled:F."""
    word, _, factor = text.partition(":")
    try:
        source = EstimateSource(word)
        percent = round(float(factor) * 100) if factor else 100
    except (ValueError, OverflowError):
        raise Misused(
            f"{text!r} is no source of estimates", hint="declared, exact, history, none or scaled:2.5"
        ) from None
    if (source is EstimateSource.SCALED) is not bool(factor) or not 0 < percent <= 10_000_000:
        raise Misused(f"{text!r} is no source of estimates", hint="scaled:2.5 tells 2.5 times the true run time")
    return Estimates(source, percent)


Sizes = Callable[[tuple[str, ...]], Counter[int]]
"""How many nodes have how many devices, of some kinds of them."""
ENOUGH = 1 << 40


class Cut:
    """How a job of some width becomes members, on nodes of `each` devices, or of the sizes there are.

    A job that fits on one node is one member; a wider one takes whole nodes where that comes out even, and otherwise
    one member per device. Roles are shared by all jobs of a width.
    """

    def __init__(self, resource: str, each: int, whole_nodes: bool = True, sizes: Sizes | None = None) -> None:
        self.resource = resource
        self.sizes = sizes or (lambda _kinds: Counter({each: ENOUGH}))
        self.whole_nodes = whole_nodes
        self._roles: dict[tuple[int, int, tuple[str, ...]], tuple[Role, ...]] = {}

    def roles(self, width: int, most: int = 0, kinds: tuple[str, ...] = ()) -> tuple[Role, ...]:
        """The one role of such a job."""
        key = (width, most, kinds)
        known = self._roles.get(key)
        if known is None:
            known = self._roles[key] = (self._role(width, most, kinds),)
        return known

    def _role(self, width: int, most: int, kinds: tuple[str, ...]) -> Role:
        tags = (tuple(f"kind={kind}" for kind in kinds),) if kinds else ()
        if most > width:
            return Role(min=1, want=width, max=most, shapes=(Shape({self.resource: 1}, tags),))
        ask = self._ask(width, self.sizes(kinds)) if self.whole_nodes else 1
        return Role(min=width // ask, shapes=(Shape({self.resource: ask}, tags),))

    def _ask(self, width: int, sizes: Counter[int]) -> int:
        """Devices of each member: all on one node, or whole nodes of the largest size of which there are enough."""
        if width <= max(sizes, default=0):
            return width
        return next((size for size in sorted(sizes, reverse=True) if is_cut(width, size, sizes)), 1)


def is_cut(width: int, size: int, sizes: Counter[int]) -> bool:
    """Whether a job comes out even in members of a size, and all of them have room at once."""
    return not width % size and width <= size * sum(many * (node // size) for node, many in sizes.items())


class Tasks:
    """The rows of a log as tasks for one cluster. Made one by one, so that a long log needs little memory."""

    def __init__(self, log: Log, cut: Cut, estimates: Estimates, habits: Habits = PLAIN, elastic: bool = False) -> None:
        self.log = log
        self.cut = cut
        self.estimates = estimates
        self.habits = habits
        self.elastic = elastic

    def __len__(self) -> int:
        """How many there are."""
        return len(self.log.rows)

    def __iter__(self) -> Iterator[Task]:
        """Each row as a task."""
        return map(self.task, self.log.rows)

    def task(self, row: Row) -> Task:
        """One row as a task."""
        grows = self.elastic and row.most > row.width
        gang = Gang(
            name=row.name,
            roles=self.cut.roles(row.width, row.most if grows else 0, row.kinds),
            queue=row.queue,
            user=row.user,
            submitted=row.at,
            estimate=self.estimates.of(row),
            parkable=self.habits.save_every > 0,
            resizing=Resizing.LIVE if grows else Resizing.NONE,
            speed=(row.speed or LINEAR) if grows else LINEAR,
        )
        return Task(gang, row.run, self.habits, row.outcome, row.patience)


def fits(row: Row, devices: int) -> bool:
    """Whether the cluster has enough devices for the job at all."""
    return row.width <= devices


def with_limit(limit: int) -> bool:
    """Whether a declared limit says anything."""
    return 0 < limit < NEVER
