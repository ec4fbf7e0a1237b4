"""The rules of a cluster, as data: in which order, how far ahead, what may be taken back from whom."""

from enum import StrEnum

from .model import DAY, HOUR, MINUTE, SECOND, Data

ALL = -1
"""Reserve for every gang that waits: conservative backfill."""


class Term(StrEnum):
    """One thing gangs of a queue are ordered by. The first term that differs decides; the name decides last."""

    PRIORITY = "priority"
    PROMISED = "promised"
    SLACK = "slack"
    AGE = "age"
    DOWNTIME = "downtime"
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

    terms: tuple[Term, ...] = (Term.PRIORITY, Term.SLACK, Term.AGE)
    fair_share: bool = True
    """Queues take turns by their dominant share of what they deserve; otherwise all gangs stand in one line."""
    half_life: int = 7 * DAY
    """How fast past use is forgotten."""
    strict: bool = False
    """Nobody passes the first gang that cannot start, in any queue."""
    measure: str = ""
    """The resource that sizes are counted in; where none is named, see the page on order."""
    attained_step: int = 1 * HOUR
    """Member-time below which a gang is in the first of the least-attained queues; each next one is twice as long."""
    refresh: int = 1 * MINUTE
    """How often the terms that change with waiting (downtime, wfp3, uni) are computed anew."""


class Reservation(Data, frozen=True):
    """How far ahead room is kept."""

    depth: int = 1
    """How many waiting gangs get a promise: 1 is EASY, -1 is all (conservative), 0 is none."""
    quantile: int = 90
    """Promises assume that running gangs end by this percentile of their estimates."""
    backfill: Term = Term.AGE
    """Order in which gangs behind the promises are tried; AGE keeps the queue's order."""
    max_wait: int = 1 * DAY
    """A gang that can run and has waited this long gets a promise whatever the depth; 0 means never."""
    breaks: tuple[Break, ...] = (
        Break.BETTER_START,
        Break.NODE_LOST,
        Break.OVERRUN,
        Break.HIGHER_PRIORITY,
        Break.OWNER_CHANGE,
    )


class Reclaim(Data, frozen=True):
    """What may be taken back, and from whom."""

    surplus: bool = True
    """Members above the minimum of elastic gangs, before anything else."""
    priority: bool = True
    """Whole gangs of lower priority in the same queue."""
    quota: bool = True
    """Whole gangs of queues that use more than they deserve, for queues that use less than their guarantee."""
    min_run: int = 10 * MINUTE
    """A gang is left alone for so long after it started."""
    interruptions_per_day: int = 4
    grace: int = 2 * MINUTE
    """How long a victim has to save its work and leave."""
    pledge_for: int = 30 * MINUTE
    """How long freed room is kept for the gang it was freed for."""


class Growth(Data, frozen=True):
    """When elastic gangs grow."""

    on: bool = True
    cool_down: int = 5 * MINUTE
    """Time between two changes of size."""
    least_gain: int = 10
    """Speed a new member must add, in thousandths of a member's."""


class Repairing(Data, frozen=True):
    """What happens after a loss."""

    hold_up_to: int = 10 * MINUTE
    lemon_after: int = 3
    """A node with so many faults inside the window gets no new members."""
    lemon_window: int = 1 * DAY
    back_off: int = 10 * SECOND
    """Wait after the first failed start; doubles each time, up to an hour."""


class Rotation(Data, frozen=True):
    """Whole gangs taking turns, where a queue has a slice and the gang can be parked."""

    on: bool = True
    switch_factor: int = 10
    """A slice is at least so many times what one switch costs."""


class Placing(Data, frozen=True):
    """How seats are chosen."""

    one_wide_gang_per_node: bool = False
    """Two gangs that span several nodes never share a node (and its network cards)."""
    migrate: bool = False
    """Propose moves of running gangs that make room for a waiting one."""


class Effort(Data, frozen=True):
    """How much work one decision may do before it says that it was cut short."""

    placements: int = 100_000
    search_steps: int = 20_000
    victims: int = 64


class Policy(Data, frozen=True):
    """All of it. Every field has a default; a file names only what differs."""

    name: str = "balanced"
    order: Order = Order()
    reserve: Reservation = Reservation()
    reclaim: Reclaim = Reclaim()
    grow: Growth = Growth()
    repair: Repairing = Repairing()
    rotate: Rotation = Rotation()
    place: Placing = Placing()
    effort: Effort = Effort()
