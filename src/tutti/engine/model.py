"""What the engine knows: gangs, nodes, queues, and the history that belongs to them.

Everything here is plain immutable data. Amounts are integers (milli-CPU, bytes, whole devices) and time is integer
microseconds, so that the same view gives the same plan on every machine.
"""

from enum import IntEnum, StrEnum

import msgspec

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NEVER = 1 << 62
"""Later than any moment; also the end of a gang nobody can estimate."""

MOST_AMOUNT = 1 << 53
MOST_MEMBERS = 1_000_000


def span(time: int) -> str:
    """A time in whole seconds, as people write it in a job."""
    whole, parts = time // SECOND, []
    for unit, size in (("h", HOUR // SECOND), ("m", MINUTE // SECOND), ("s", 1)):
        if whole >= size:
            parts.append(f"{whole // size}{unit}")
            whole %= size
    return "".join(parts) or "0s"


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every record: immutable, compared by value, unknown keys refused when read from outside."""


class Coupling(StrEnum):
    """Whether the members of a role need each other."""

    GANG = "gang"
    LOOSE = "loose"


class OnLoss(StrEnum):
    """What a gang does when a member is lost."""

    FAIL = "fail"
    SHRINK = "shrink"
    REPAIR = "repair"
    RESTART = "restart"


class Resizing(StrEnum):
    """How a gang can change size: never, by a restart, or while it runs."""

    NONE = "none"
    RESTART = "restart"
    LIVE = "live"


class Arrange(StrEnum):
    """Few nodes and domains, or many."""

    PACK = "pack"
    SPREAD = "spread"


class Source(StrEnum):
    """Where a run-time estimate comes from, best first."""

    PROGRESS = "progress"
    DECLARED = "declared"
    HISTORY = "history"
    DEFAULT = "default"
    NONE = "none"


class State(StrEnum):
    """The one state a gang is in."""

    WAITING = "waiting"
    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    REPAIRING = "repairing"
    PARKED = "parked"
    DRAINING = "draining"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


ENDED = frozenset({State.FINISHED, State.FAILED, State.CANCELLED, State.LOST})
SEATED = frozenset({State.STARTING, State.RUNNING, State.DEGRADED, State.REPAIRING, State.DRAINING})
QUEUED = frozenset({State.WAITING, State.HELD, State.PARKED})


class NodeState(IntEnum):
    """Whether a node takes new members. Only a ready one does."""

    READY = 0
    DRAINING = 1
    QUARANTINED = 2
    LOST = 3


class Token(StrEnum):
    """Why a gang waits. Stable words: scripts and alerts match on these. Listed most serious first."""

    INVALID = "Invalid"
    NEVER_FITS = "NeverFits"
    UNSUPPORTED = "UnsupportedConstraint"
    HELD = "Held"
    QUEUE_CLOSED = "QueueClosed"
    DEPENDENCY_WAIT = "DependencyWait"
    WAITING_FOR_MEMBERS = "WaitingForMembers"
    QUOTA_REACHED = "QuotaReached"
    BACKING_OFF = "BackingOff"
    BEHIND_OTHERS = "BehindOthers"
    RESERVED_AHEAD = "ReservedAhead"
    NO_DOMAIN = "NoDomain"
    USED_BY_OTHERS = "UsedByOthers"
    NODES_LOST = "NodesLost"
    NO_CAPACITY = "NoCapacity"
    WAITING_FOR_EVICTION = "WaitingForEviction"
    PARKED = "Parked"
    BUDGET_SPENT = "BudgetSpent"
    STARTING = "Starting"


class Kind(StrEnum):
    """What a person can do about a reason: wait, change the job, or ask an administrator."""

    WAIT = "wait"
    CHANGE = "change"
    ASK = "ask"


class SizeRule(Data, frozen=True):
    """Which numbers of members are legal. Every part that is set must hold."""

    multiple: int = 1
    power_of_two: bool = False
    sizes: tuple[int, ...] = ()
    state_bytes: int = 0
    member_bytes: int = 0
    """Sharded state: size x member_bytes must be at least state_bytes."""
    batch: int = 0
    """The global batch must divide evenly over the members."""


class Near(Data, frozen=True):
    """A mark, and how close to it counts as near: the node, or a topology level."""

    mark: str
    level: str = "node"


class Cap(Data, frozen=True):
    """At most so many members of the role in one domain of a level."""

    level: str
    members: int


class Segment(Data, frozen=True):
    """Members come in groups of this many, each group inside one domain of the level."""

    level: str
    members: int


class Shape(Data, frozen=True):
    """One way to run a member: what it asks of a node, and which nodes will do."""

    ask: dict[str, int]
    tags: tuple[tuple[str, ...], ...] = ()
    """Every entry must be met by one of its tags on the node."""
    avoid: tuple[str, ...] = ()
    tolerate: tuple[str, ...] = ()
    """Taints (tags that begin with '!') that this member puts up with."""
    speed: int = 1000
    """Speed of a member on this shape, in thousandths of the first shape's."""
    min: int = 0
    want: int = 0
    max: int = 0
    """Sizes on this shape where they differ from the role's (16 x 8 or 2 x 64); 0 takes the role's."""


class Role(Data, frozen=True):
    """Members that are alike."""

    name: str = "worker"
    min: int = 1
    want: int = 0
    """0 means the minimum."""
    max: int = 0
    """0 means what is wanted."""
    shapes: tuple[Shape, ...] = ()
    coupling: Coupling = Coupling.GANG
    rule: SizeRule = SizeRule()
    within: str = ""
    """All members of the role in one domain of this level."""
    near: str = ""
    """Preferred level: the smallest domain that holds the role, if one does."""
    segment: Segment | None = None
    caps: tuple[Cap, ...] = ()
    arrange: Arrange = Arrange.PACK
    marks: tuple[str, ...] = ()
    """What a member leaves on its node for others to see: labels, host ports."""
    repels: tuple[Near, ...] = ()
    """Never near a mark: what anti-affinity and host ports become."""
    needs: tuple[Near, ...] = ()
    """Only near a mark that is already placed: what affinity becomes."""
    spare_for: str = ""
    """The role whose lost members these idle members replace."""


class Estimate(Data, frozen=True):
    """How long a gang runs at its wanted size. Missing quantiles fall back to the next larger one."""

    limit: int = NEVER
    p50: int = 0
    p90: int = 0
    source: Source = Source.NONE

    def at(self, percent: int) -> int:
        """The run time that so many percent of the runs stay under."""
        p90 = self.p90 or self.limit
        return (self.p50 or p90) if percent <= 50 else p90 if percent <= 90 else self.limit


class Speed(Data, frozen=True):
    """Useful work per second by size, in thousandths of one member's; straight lines between the points."""

    points: tuple[tuple[int, int], ...] = ()


class Gang(Data, frozen=True):
    """A job as the scheduler sees it: what was asked for. It changes only when its owner changes it."""

    name: str
    roles: tuple[Role, ...]
    queue: str = "default"
    user: str = ""
    groups: tuple[str, ...] = ()
    """Groups of users that the user is in, where somebody said so."""
    counts_as: str = ""
    """Gangs with the same entry count as one where the number of running gangs is bounded; '' means by itself."""
    priority: int = 0
    submitted: int = 0
    estimate: Estimate = Estimate()
    begin: int = 0
    """It is not started before this moment."""
    deadline: int = NEVER
    max_wait: int = 0
    """After this long a gang that can run gets a promise; 0 takes the queue's or the policy's."""
    downtime_cost: int = 0
    """Cost of waiting, in units per hour; see the page on order."""
    after: tuple[str, ...] = ()
    """Gangs that must finish first: 'name' (succeed), 'any:name' (end), 'failed:name' (fail)."""
    within: str = ""
    """All gang-coupled roles together in one domain of this level."""
    near: str = ""
    domain_ask: dict[str, dict[str, int]] = {}
    """Countable resources of each domain used, by level: {'rack': {'sharp': 1}}."""
    preemptible: bool = True
    preempts: bool = True
    """Whether others may be asked to make room for it."""
    parkable: bool = False
    resizing: Resizing = Resizing.NONE
    keeps_surplus: bool = False
    """Whether its members beyond the minimum are never taken for others; the whole of it may be."""
    sheds: bool = False
    """Whether it gives back members beyond its most while it runs: its owner made it smaller."""
    speed: Speed = Speed()
    on_loss: OnLoss = OnLoss.RESTART
    hold_up_to: int = 10 * MINUTE
    """How long a broken gang may hold its seats while a member is being replaced."""
    min_run: int = 0
    interruptions_per_day: int = 0
    """0 means the policy's."""
    restart_limit: int = 10
    unsupported: str = ""
    """The field that makes this gang undeliverable; the backend names it, the engine refuses the gang."""


class Seats(Data, frozen=True):
    """Where the members of one role sit: nodes in rank order, and how many consecutive ranks each holds."""

    nodes: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    shape: int = 0

    @property
    def members(self) -> int:
        """How many members sit here."""
        return sum(self.counts)


class Promise(Data, frozen=True):
    """A reservation once given: when, where, until. Without a time (NEVER) nodes are kept as they free."""

    start: int
    end: int
    seats: tuple[Seats, ...]
    given: int
    broken: int = 0
    """How often it had to be moved later."""
    clears: int = 0
    """Gangs whose room was lent to them up to this moment, or an earlier one, are counted on to be gone by then."""


class Pledge(Data, frozen=True):
    """Capacity being freed for a gang that someone else still holds."""

    seats: tuple[Seats, ...]
    victims: tuple[str, ...]
    since: int
    expires: int


class Attempt(Data, frozen=True):
    """How often starting was tried in vain, and when it may be tried again."""

    count: int = 0
    not_before: int = 0
    why: str = ""


class Progress(Data, frozen=True):
    """What a job says of itself."""

    step: int = 0
    steps: int = 0
    """0 means the job does not know where it ends."""
    rate_milli: int = 0
    """Steps per thousand seconds at the present size."""
    at: int = 0
    snapshot_at: int = 0
    """When the state was last saved; 0 means never."""
    save_cost: int = 0
    restart_cost: int = 0
    state_bytes: int = 0
    legal_sizes: tuple[int, ...] = ()


class Life(Data, frozen=True):
    """What has happened to a gang so far."""

    state: State = State.WAITING
    version: int = 0
    seats: tuple[Seats, ...] = ()
    since: int = 0
    """When it entered this state."""
    started: int = 0
    """When the present run began."""
    first_started: int = 0
    resized: int = 0
    """When its size last changed."""
    ran: int = 0
    """Useful run time kept from earlier runs, at the wanted size."""
    promise: Promise | None = None
    pledge: Pledge | None = None
    attempt: Attempt = Attempt()
    progress: Progress | None = None
    interruptions: tuple[int, ...] = ()
    restarts: int = 0
    lost: tuple[Seats, ...] = ()
    """Seats of members that are gone, by role, while they wait to be replaced."""
    lost_ranks: tuple[tuple[int, ...], ...] = ()
    """The first rank of each entry of the lost seats, by role."""
    target: tuple[Seats, ...] = ()
    """Seats the gang was asked to change to, until it answers or the time to answer has passed."""
    target_by: int = 0
    leaving_for: str = ""
    """The gang this one was told to make room for."""
    leave_by: int = NEVER
    awaiting: int = 0
    """Members that are declared but not there yet."""
    done: tuple[int, ...] = ()
    """Members of each loose role that have finished and need no seat again."""
    turn: int = 0
    """When the present time slice began, where a queue rotates."""
    lent: int = 0
    """From when on it may be asked for its room, which is kept for another; 0 where the room is its own."""


class Job(Data, frozen=True):
    """A gang and its life."""

    gang: Gang
    life: Life = Life()


class Pool(Data, frozen=True):
    """Nodes that share a topology: the names of its levels, outermost first, and what crossing each costs."""

    name: str
    levels: tuple[str, ...] = ()
    costs: tuple[int, ...] = ()
    """Cost of a hop that leaves a domain of the level; missing entries cost 1."""


class Node(Data, frozen=True):
    """A machine: what it holds, where it stands, what is known of its health."""

    name: str
    capacity: dict[str, int]
    pool: str = "default"
    place: tuple[str, ...] = ()
    """The domain at each level of the pool, outermost first."""
    tags: tuple[str, ...] = ()
    """'key=value' labels; taints begin with '!'."""
    state: NodeState = NodeState.READY
    drain_by: int = NEVER
    foreign: dict[str, int] = {}
    """What others use here: not ours, but not free."""
    foreign_marks: tuple[str, ...] = ()
    faults: tuple[int, ...] = ()


class Domain(Data, frozen=True):
    """Countable resources that belong to a domain rather than to a node."""

    pool: str
    path: tuple[str, ...]
    capacity: dict[str, int]


class Bound(Data, frozen=True):
    """What some users may have in a queue and those below it: each user for itself, each group all of it together.

    `*` is each user, or are all users together, whom no other bound of the queue names.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max_running: int | None = None
    limit: dict[str, int] = {}


class Queue(Data, frozen=True):
    """A tenant. Amounts left out of a guarantee are 0, left out of a limit are unlimited."""

    name: str
    parent: str = ""
    guarantee: dict[str, int] = {}
    limit: dict[str, int] = {}
    user_limit: dict[str, int] = {}
    weight: int = 1
    closed: bool = False
    strict: bool = False
    """Strict order: nobody in the queue passes the first that cannot start."""
    max_wait: int = 0
    min_run: int = 0
    default_estimate: int = 0
    slice: int = 0
    """Length of a turn where gangs of this queue take turns; 0 means no rotation."""
    max_running: int | None = None
    """The most gangs that run at once, in it and below it; None where any number may."""
    bounds: tuple[Bound, ...] = ()
    """What users and groups of users may have that it names."""


class Usage(Data, frozen=True):
    """Decayed use of a queue, in amount x seconds of each resource, as of a moment."""

    at: int = 0
    amounts: dict[str, int] = {}


class Window(Data, frozen=True):
    """A promise without a gang: maintenance, or an advance reservation for some queue, user or gang."""

    name: str
    start: int
    end: int
    nodes: tuple[str, ...]
    allow: tuple[str, ...] = ()
    """Who may run inside: 'queue:x', 'user:y', 'gang:z'; nobody for maintenance."""


class Listing(Data, frozen=True):
    """The full truth, as a backend tells it at the start and when in doubt."""

    at: int = 0
    pools: tuple[Pool, ...] = ()
    nodes: tuple[Node, ...] = ()
    domains: tuple[Domain, ...] = ()
    queues: tuple[Queue, ...] = ()
    windows: tuple[Window, ...] = ()
    jobs: tuple[Job, ...] = ()
    usage: dict[str, Usage] = {}
