"""The world at one moment: numbered, read-only, and free to make."""

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from .classes import Load, Trait
from .model import Domain, Job, Node, Queue, Window
from .topology import Topology
from .use import QueueUse

T = TypeVar("T", bound=np.generic)

if TYPE_CHECKING:
    from .world import World


class View:
    """What was known at one version of the world. Nothing in it ever changes."""

    __slots__ = (
        "__weakref__",
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

    def __init__(self, world: "World") -> None:
        classes = world.classes
        self.number = world.version
        self.at = world.at
        self.ground = world.ground
        self.rules = world.rules
        self.faulty = world.faulty
        self.resources: dict[str, int] = world.resources
        self.topology: Topology = world.topology
        self.nodes: list[Node | None] = world.nodes
        self.node_index: dict[str, int] = world.node_index
        self.versions: list[int] = world.versions
        self.ends: NDArray[np.int64] = world.shown_ends()
        self.begun: list[int] = world.begun
        self.line: NDArray[np.int64]
        self.by_line: NDArray[np.int64]
        self.line, self.by_line, self.is_straight = world.line()
        self.units: list[int] = world.units
        self.most: list[int] = world.most
        self.total: list[int] = world.total
        self.class_of: NDArray[np.int32]
        self.class_weight: NDArray[np.int64]
        self.class_free: NDArray[np.int64]
        self.class_kind: NDArray[np.int32]
        self.class_ready: NDArray[np.bool_]
        self.entry_class: NDArray[np.int32]
        self.entry_slot: NDArray[np.int32]
        self.entry_amount: NDArray[np.int64]
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
        self.loads: list[Load] = classes.loads
        self.traits: list[Trait | None] = classes.traits
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
        self.domains: dict[int, Domain] = world.domains
        self.domain_free: dict[int, dict[str, int]] = world.domain_free
        self.draining: dict[int, int] = world.draining

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
