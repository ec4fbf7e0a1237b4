"""A world of its own that looks like a view: for futures, what-ifs and replays. Columns are copied, records shared."""

from .books import HALF_LIFE
from .classes import Classes
from .late import Late
from .topology import Topology
from .view import View
from .world import World


def world_of(view: View, half_life: int = HALF_LIFE) -> World:
    """A world that looks like the view; what happens to it happens nowhere else."""
    world = World(half_life)
    world.version, world.at = view.number, view.at
    world.ground, world.rules, world.faulty = view.ground, view.rules, view.faulty
    world.resources, world.units = view.resources.copy(), view.units.copy()
    world.most, world.total = view.most.copy(), view.total.copy()
    world.topology, world.late = _topology(view.topology), Late(Classes.like(view))
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
    world.promised, world.on_hold = view.promised.copy(), view.on_hold.copy()
    world.followers = view.followers.copy()
    world.priorities = view.priorities.copy()
    world.leaving, world.watched = view.leaving.copy(), view.watched.copy()


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
