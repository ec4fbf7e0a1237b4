"""The rules of a cluster, as data: in which order, how far ahead, what may be taken back from whom.

A value here is what a policy file may say; docs/reference/policy.md is made from these types and their docstrings.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import Meta

from .model import DAY, HOUR, MINUTE, SECOND, Data

ALL = -1
"""Reserve for every gang that waits: conservative backfill."""
LONGEST = 36_500 * DAY
DURATION = {"kind": "duration"}
DEPTH = {"kind": "depth"}

Duration: TypeAlias = Annotated[int, Meta(ge=0, le=LONGEST, extra=DURATION)]
Interval: TypeAlias = Annotated[int, Meta(ge=SECOND, le=LONGEST, extra=DURATION)]
Depth: TypeAlias = Annotated[int, Meta(ge=ALL, le=1_000_000, extra=DEPTH)]
Percentile: TypeAlias = Annotated[int, Meta(ge=1, le=100)]
Thousandths: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class Term(StrEnum):
    """One thing gangs of a queue are ordered by. The first term that differs decides; the name decides last."""

    PRIORITY = "priority"
    PROMISED = "promised"
    SLACK = "slack"
    AGE = "age"
    DOWNTIME = "downtime"
    STRETCH = "stretch"
    SHORTEST = "shortest"
    SMALLEST = "smallest"
    LARGEST = "largest"
    LEAST_ATTAINED = "least-attained"
    WFP3 = "wfp3"
    UNI = "uni"
    F1 = "f1"


class Break(StrEnum):
    """What may move a promise once it is given."""

    BETTER_START = "better-start"
    NODE_LOST = "node-lost"
    OVERRUN = "overrun"
    HIGHER_PRIORITY = "higher-priority"
    OWNER_CHANGE = "owner-change"


class Order(Data, frozen=True):
    """Who goes first."""

    terms: tuple[Term, ...] = (Term.PRIORITY, Term.SLACK, Term.STRETCH, Term.AGE)
    """What gangs of a queue are ordered by; the first term that differs decides, and the name decides last."""
    fair_share: bool = True
    """Queues take turns by their dominant share of what they deserve; otherwise all gangs stand in one line."""
    half_life: Duration = 7 * DAY
    """How fast past use is forgotten; 0 forgets at once."""
    strict: bool = False
    """Nobody passes the first gang that cannot start, in any queue."""
    measure: str = ""
    """The resource that sizes are counted in; where none is named, see the page on order."""
    attained_step: Interval = 1 * HOUR
    """Member-time below which a gang is in the first of the least-attained queues; each next one is twice as long."""
    refresh: Interval = 1 * MINUTE
    """How often the terms that change with waiting (downtime, wfp3, uni) are computed anew."""


class Reservation(Data, frozen=True):
    """How far ahead room is kept."""

    depth: Depth = 1
    """How many waiting gangs get a promise: 0 is none, 1 is EASY, 'all' (-1 in the engine) is conservative."""
    quantile: Percentile = 90
    """Promises assume that running gangs end by this percentile of their estimates."""
    backfill: Term = Term.SHORTEST
    """What gangs behind the promises are tried by, after how urgent they are; `age` keeps the queue's order."""
    lend: Duration = 30 * MINUTE
    """A gang that can be parked runs in room that is kept for another for so long or more; 0 lends nothing."""
    max_wait: Duration = 14 * DAY
    """A gang that can run and has waited this long gets a promise whatever the depth; 0 means never."""
    breaks: tuple[Break, ...] = (
        Break.BETTER_START,
        Break.NODE_LOST,
        Break.OVERRUN,
        Break.HIGHER_PRIORITY,
        Break.OWNER_CHANGE,
    )
    """What may move a promise once it is given; lost nodes and overruns that leave no room for it do so unlisted."""


class Reclaim(Data, frozen=True):
    """What may be taken back, and from whom."""

    surplus: bool = True
    """Members above the minimum of elastic gangs, before anything else."""
    priority: bool = True
    """Whole gangs of lower priority in the same queue."""
    quota: bool = True
    """Whole gangs of queues that use more than they deserve, for queues that use less than their guarantee."""
    lowest_first: bool = False
    """Gangs of the lowest priority go first, whatever it costs; otherwise those that lose the least work."""
    min_run: Duration = 10 * MINUTE
    """A gang is left alone for so long after it started."""
    interruptions_per_day: Number = 4
    """How often a gang may be interrupted in a day, where it does not say itself."""
    grace: Duration = 2 * MINUTE
    """How long a victim has to save its work and leave."""
    pledge_for: Duration = 30 * MINUTE
    """How long freed room is kept for the gang it was freed for."""


class Growth(Data, frozen=True):
    """When elastic gangs grow."""

    on: bool = True
    """Whether they grow at all."""
    cool_down: Duration = 5 * MINUTE
    """Time between two changes of size."""
    least_gain: Thousandths = 10
    """Speed a new member must add, in thousandths of a member's."""


class Repairing(Data, frozen=True):
    """What happens after a loss."""

    hold_up_to: Duration = 10 * MINUTE
    """How long a broken gang may hold its seats while a member is being replaced, at most."""
    lemon_after: Positive = 3
    """A node with so many faults inside the window gets no new members."""
    lemon_window: Duration = 1 * DAY
    """How long a fault counts against a node."""
    back_off: Duration = 10 * SECOND
    """Wait after the first failed start; doubles each time, up to an hour."""


class Rotation(Data, frozen=True):
    """Whole gangs taking turns, where a queue has a slice and the gang can be parked."""

    on: bool = True
    """Whether gangs take turns at all."""
    switch_factor: Positive = 10
    """A slice is at least so many times what one switch costs."""


class Placing(Data, frozen=True):
    """How seats are chosen."""

    one_wide_gang_per_node: bool = False
    """Two gangs that span several nodes never share a node (and its network cards)."""
    migrate: bool = False
    """Propose moves of running gangs that make room for a waiting one."""


class Effort(Data, frozen=True):
    """How much work one decision may do before it says that it was cut short."""

    placements: Positive = 100_000
    """Placements tried."""
    search_steps: Positive = 20_000
    """Steps of backtracking where several roles are searched together."""
    victims: Positive = 64
    """Gangs looked at as victims for one that waits."""


class Policy(Data, frozen=True):
    """All of it. Every field has a default; a file names only what differs."""

    name: str = "balanced"
    """What the policy is called; taken from the preset where a file does not say."""
    order: Order = Order()
    reserve: Reservation = Reservation()
    reclaim: Reclaim = Reclaim()
    grow: Growth = Growth()
    repair: Repairing = Repairing()
    rotate: Rotation = Rotation()
    place: Placing = Placing()
    effort: Effort = Effort()
