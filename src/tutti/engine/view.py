"""The world at one moment: numbered, read-only, and free to make."""

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from .classes import Load, Trait
from .late import Late
from .model import Domain, Job, Node, Queue, Window
from .topology import Topology
from .use import QueueUse

T = TypeVar("T", bound=np.generic)
AROUND = frozenset(
    (
        *("resources", "topology", "nodes", "node_index", "versions", "begun", "line", "by_line", "is_straight"),
        *("units", "most", "total", "domains", "domain_free"),
    )
)
CLASSES = frozenset(
    (
        *("class_of", "class_weight", "class_free", "class_kind", "class_ready"),
        *("entry_class", "entry_slot", "entry_amount", "loads", "traits"),
    )
)
"""What a view knows once somebody asks: decisions that are clear at a glance need hardly any of it."""

if TYPE_CHECKING:
    from .world import World


class View:
    """What was known at one version of the world. Nothing in it ever changes."""

    __slots__ = (
        "__weakref__",
        "_late",
        "_world",
        "at",
        "begun",
        "by_line",
        "class_free",
        "class_kind",
        "class_of",
        "class_ready",
        "class_weight",
        "domain_free",
        "domains",
        "draining",
        "ends",
        "entry_amount",
        "entry_class",
        "entry_slot",
        "faulty",
        "followers",
        "ground",
        "is_straight",
        "jobs",
        "leaving",
        "line",
        "loads",
        "most",
        "node_index",
        "nodes",
        "number",
        "on_hold",
        "priorities",
        "promised",
        "queued",
        "queues",
        "resources",
        "rules",
        "seated",
        "topology",
        "total",
        "touched",
        "touches",
        "traits",
        "units",
        "use",
        "versions",
        "watched",
        "windows",
    )

    class_of: NDArray[np.int32]
    class_weight: NDArray[np.int64]
    class_free: NDArray[np.int64]
    class_kind: NDArray[np.int32]
    class_ready: NDArray[np.bool_]
    entry_class: NDArray[np.int32]
    entry_slot: NDArray[np.int32]
    entry_amount: NDArray[np.int64]
    loads: list[Load]
    traits: list[Trait | None]
    resources: dict[str, int]
    topology: Topology
    nodes: list[Node | None]
    node_index: dict[str, int]
    versions: list[int]
    begun: list[int]
    line: NDArray[np.int64]
    by_line: NDArray[np.int64]
    is_straight: bool
    units: list[int]
    most: list[int]
    total: list[int]
    domains: dict[int, Domain]
    domain_free: dict[int, dict[str, int]]

    def __init__(self, world: "World") -> None:
        self.number = world.version
        self.at = world.at
        self.ground = world.ground
        self.rules = world.rules
        self.faulty = world.faulty
        self._world: World | None = world
        self._late: Late | None = world.late
        self.ends: NDArray[np.int64] = world.shown_ends()
        self.jobs: list[Job | None] = world.jobs
        self.queued: dict[int, None] = world.queued
        self.seated: dict[int, None] = world.seated
        self.leaving: dict[int, None] = world.leaving
        self.promised: dict[int, None] = world.promised
        self.priorities: dict[int, int] = world.priorities
        self.on_hold: dict[int, None] = world.on_hold
        self.followers: dict[int, None] = world.followers
        self.touches: list[int] = world.touches
        self.touched = len(world.touches)
        """How many of the touches had happened; what comes later in that list says nothing about this view."""
        self.watched: dict[int, None] = world.watched
        self.queues: dict[str, Queue] = world.queues
        self.use: dict[str, QueueUse] = world.use
        self.windows: dict[str, Window] = world.windows
        self.draining: dict[int, int] = world.draining

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """What is worked out for the first who asks."""
            if name in AROUND and self._world is not None:
                self._look_around()
            elif name in CLASSES and self._late is not None:
                self._look_at_classes()
            else:
                raise AttributeError(name)
            return getattr(self, name)

    def look(self) -> None:
        """Keep all that would be worked out for the first who asks as it is now, before the world changes."""
        self._look_around()
        self._look_at_classes()

    def _look_around(self) -> None:
        world, self._world = self._world, None
        if world is None:
            return
        self.resources = world.resources
        self.topology = world.topology
        self.nodes = world.nodes
        self.node_index = world.node_index
        self.versions = world.versions
        self.begun = world.begun
        self.line, self.by_line, self.is_straight = world.line()
        self.units = world.units
        self.most = world.most
        self.total = world.total
        self.domains = world.domains
        self.domain_free = world.domain_free

    def _look_at_classes(self) -> None:
        late, self._late = self._late, None
        if late is None:
            return
        classes = late.settled()
        (
            self.class_of,
            self.class_weight,
            self.class_free,
            self.class_kind,
            self.class_ready,
            self.entry_class,
            self.entry_slot,
            self.entry_amount,
        ) = classes.shown()
        self.loads = classes.loads
        self.traits = classes.traits

    def job(self, name: str) -> Job | None:
        """The gang of that name, or None."""
        return next((job for job in self.jobs if job is not None and job.gang.name == name), None)

    def held(self, slot: int) -> Job:
        """The gang in a slot that is known to be taken."""
        job = self.jobs[slot]
        assert job is not None
        return job

    def queue_of(self, job: Job) -> Queue | None:
        """The queue a gang stands in, if it exists."""
        return self.queues.get(job.gang.queue)


def frozen(array: NDArray[T]) -> NDArray[T]:
    """The same numbers, but nobody can write to them."""
    window = array.view()
    window.flags.writeable = False
    return window
