"""A world of its own that looks like a view: for futures, what-ifs and replays. Columns are copied, records shared."""

import numpy as np

from .books import HALF_LIFE
from .classes import Classes
from .topology import Topology
from .view import View
from .world import World

ROOM = 64
"""Entries there is room for at least."""


def world_of(view: View, half_life: int = HALF_LIFE) -> World:
    """A world that looks like the view; what happens to it happens nowhere else."""
    world = World(half_life)
    world.version, world.at = view.number, view.at
    world.ground, world.faulty = view.ground, view.faulty
    world.resources, world.units = view.resources.copy(), view.units.copy()
    world.most, world.total = view.most.copy(), view.total.copy()
    world.topology, world.classes = _topology(view.topology), _classes(view)
    world.nodes, world.node_index = view.nodes.copy(), view.node_index.copy()
    world.versions, world.ends, world.begun = view.versions.copy(), view.ends.copy(), view.begun.copy()
    world.queues, world.windows, world.draining = view.queues.copy(), view.windows.copy(), view.draining.copy()
    world.use = {name: use.copy() for name, use in view.use.items()}
    world.domains = view.domains.copy()
    world.domain_free = {domain: free.copy() for domain, free in view.domain_free.items()}
    _copy_jobs(world, view)
    return world


def _copy_jobs(world: World, view: View) -> None:
    world.jobs = view.jobs.copy()
    world.slots = {job.gang.name: slot for slot, job in enumerate(view.jobs) if job is not None}
    world.spare_slots = [slot for slot, job in enumerate(view.jobs) if job is None]
    world.queued, world.seated = view.queued.copy(), view.seated.copy()
    world.leaving, world.watched = view.leaving.copy(), view.watched.copy()


def _classes(view: View) -> Classes:
    classes = Classes()
    classes.of, classes.weight, classes.free = view.class_of.copy(), view.class_weight.copy(), view.class_free.copy()
    classes.kind, classes.ready = view.class_kind.copy(), view.class_ready.copy()
    classes.loads, classes.traits = view.loads.copy(), view.traits.copy()
    classes.count, classes.entries = len(view.class_weight), len(view.entry_class)
    room = max(2 * classes.entries, ROOM)
    classes.entry_class = np.full(room, -1, np.int32)
    classes.entry_class[: classes.entries] = view.entry_class
    classes.entry_slot = np.zeros(room, np.int32)
    classes.entry_slot[: classes.entries] = view.entry_slot
    classes.entry_amount = np.zeros((len(view.entry_amount), room), np.int64)
    classes.entry_amount[:, : classes.entries] = view.entry_amount
    _index(classes)
    return classes


def _index(classes: Classes) -> None:
    """What a view does not show follows from what it does."""
    known = list(enumerate(zip(classes.traits, classes.loads, strict=True)))
    classes._by_key = {(trait.key, load): at for at, (trait, load) in known if trait is not None}
    classes._spare = [at for at, (trait, _) in known if trait is None]
    classes._compact()


def _topology(topology: Topology) -> Topology:
    """A copy that can grow without the other noticing."""
    twin = Topology()
    for name, value in vars(topology).items():
        setattr(twin, name, _copied(value))
    return twin


def _copied(value: object) -> object:
    if isinstance(value, list):
        return [part.copy() if isinstance(part, list) else part for part in value]
    return value.copy() if isinstance(value, dict) else value
