"""How much is there, and how much is wanted: the capacity of a view and the demand of its queues."""

from collections.abc import Iterable

import numpy as np

from .estimate import sizes
from .model import Coupling, Gang, Job, State
from .view import View


def wanted(job: Job) -> dict[str, int]:
    """What a gang holds of each resource at its wanted size; loose members that are done want nothing more."""
    amounts: dict[str, int] = {}
    for at, role in enumerate(job.gang.roles):
        shape = job.life.seats[at].shape if job.life.seats else 0
        if shape < len(role.shapes):
            members = max(sizes(role, shape)[1] - _done(job, at), 0)
            for name, amount in role.shapes[shape].ask.items():
                amounts[name] = amounts.get(name, 0) + members * amount
    return amounts


def least(gang: Gang) -> dict[str, int]:
    """What a gang holds of each resource at its smallest, in its first shape."""
    amounts: dict[str, int] = {}
    for role in gang.roles:
        for name, amount in role.shapes[0].ask.items() if role.shapes else ():
            amounts[name] = amounts.get(name, 0) + sizes(role)[0] * amount
    return amounts


def _done(job: Job, role: int) -> int:
    done = job.life.done
    if not done or job.gang.roles[role].coupling is not Coupling.LOOSE:
        return 0
    return done[role]


def capacity(view: View) -> list[int]:
    """What the ready nodes hold of each resource, less what others use there."""
    held = [0] * len(view.resources)
    for use in view.use.values():
        for r, amount in enumerate(use.total):
            held[r] += amount
    for name, amount in _held_elsewhere(view):
        held[view.resources[name]] -= amount
    return [max(have + free, 0) for have, free in zip(held, _free(view), strict=True)]


def _free(view: View) -> list[int]:
    # In two halves, because the sum of many large amounts does not fit into 64 bits.
    weight = view.class_weight * view.class_ready
    high = (view.class_free >> 26) @ weight
    low = (view.class_free & ((1 << 26) - 1)) @ weight
    return [(h << 26) + rest for h, rest in zip(high.tolist(), low.tolist(), strict=True)]


def _held_elsewhere(view: View) -> Iterable[tuple[str, int]]:
    """What gangs hold on nodes that are not ready."""
    for at in np.flatnonzero((view.class_weight > 0) & ~view.class_ready).tolist():
        nodes = int(view.class_weight[at])
        for slot, role, members in view.loads[at]:
            job = view.held(slot)
            shape = job.gang.roles[role].shapes[job.life.seats[role].shape]
            for name, amount in shape.ask.items():
                if name in view.resources:
                    yield name, nodes * members * amount


class Demand:
    """What the gangs of each queue want, running and able to run. Kept between decisions it costs only the changes."""

    def __init__(self) -> None:
        self._cluster: dict[str, int] = {}
        self._jobs: dict[int, Job] = {}
        self._wants: dict[int, dict[str, int]] = {}
        self._sums: dict[str, dict[str, int]] = {}

    def of(self, queue: str) -> list[int]:
        """The sum over the queue's own gangs, by resource."""
        total = self._sums.get(queue, {})
        return [total.get(name, 0) for name in self._cluster]

    def update(self, view: View) -> None:
        """Bring the sums up to date with a view; only gangs that changed since the last one are added up anew."""
        cluster = dict(zip(view.resources, view.total, strict=True))
        if cluster != self._cluster:
            # Other gangs may be too large for it now.
            self._cluster = cluster
            self._jobs, self._wants, self._sums = {}, {}, {}
        jobs, known = view.jobs, self._jobs
        for slots in (view.queued, view.seated):
            for slot in slots:
                job = jobs[slot]
                if job is not None and known.get(slot) is not job:
                    self._put(slot, job)
        if len(known) > len(view.queued) + len(view.seated):
            for slot in known.keys() - view.queued.keys() - view.seated.keys():
                self._drop(slot)

    def _put(self, slot: int, job: Job) -> None:
        if slot in self._jobs:
            self._drop(slot)
        self._jobs[slot] = job
        wants = wanted(job)
        if _can_run(job) and (_within(wants, self._cluster) or _fits(job, self._cluster)):
            self._wants[slot] = wants
            total = self._sums.setdefault(job.gang.queue, {})
            for name, amount in wants.items():
                total[name] = total.get(name, 0) + amount

    def _drop(self, slot: int) -> None:
        job = self._jobs.pop(slot)
        wants = self._wants.pop(slot, {})
        total = self._sums.get(job.gang.queue, {})
        for name, amount in wants.items():
            total[name] -= amount


def _can_run(job: Job) -> bool:
    """Whether nothing but room keeps the gang from running, as far as the gang itself can tell."""
    life, gang = job.life, job.gang
    return bool(life.seats) or not (life.awaiting or gang.after or gang.unsupported or life.state is State.HELD)


def _within(amounts: dict[str, int], cluster: dict[str, int]) -> bool:
    for name, amount in amounts.items():  # noqa: SIM110 (half the time of a generator, once for each gang)
        if not 0 <= amount <= cluster.get(name, 0):
            return False
    return True


def _fits(job: Job, cluster: dict[str, int]) -> bool:
    """Whether all nodes together have what the gang asks for at least; with several shapes it is taken for granted."""
    if job.life.seats or any(len(role.shapes) > 1 for role in job.gang.roles):
        return True
    return _within(least(job.gang), cluster)
