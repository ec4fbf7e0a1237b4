"""The naive way, kept to show what it leads to: every member is a job of its own and holds what it gets."""

from collections.abc import Iterator

import msgspec

from tutti.engine.model import Role
from tutti.engine.policy import Growth, Order, Policy, Reclaim, Reservation, Rotation, Term

from .task import Task, Workload

POD_FIFO = Policy(
    name="pod-fifo",
    order=Order(terms=(Term.AGE,), fair_share=False),
    reserve=Reservation(depth=0, max_wait=0),
    reclaim=Reclaim(surplus=False, priority=False, quota=False),
    grow=Growth(on=False),
    rotate=Rotation(on=False),
)
"""First come, first served, pod by pod: whoever fits starts."""


class PodByPod:
    """A workload with every gang split into single members.

    Controllers create the members of several gangs side by side, so the k-th members of gangs submitted together come
    before any (k+1)-th.
    """

    def __init__(self, workload: Workload) -> None:
        members = [member for task in workload for member in split(task)]
        self._members = sorted(members, key=lambda task: (task.gang.submitted, task.gang.name))

    def __len__(self) -> int:
        """How many members there are."""
        return len(self._members)

    def __iter__(self) -> Iterator[Task]:
        """Each of them."""
        return iter(self._members)


def split(task: Task) -> list[Task]:
    """The members of a gang as tasks that wait for each other once they are up."""
    gang = task.gang
    roles = [role for role in gang.roles for _ in range(role.want or role.min)]
    if len(roles) == 1:
        return [task]
    return [_member(task, role, number, len(roles)) for number, role in enumerate(roles)]


def _member(task: Task, role: Role, number: int, parts: int) -> Task:
    gang = task.gang
    alone = msgspec.structs.replace(role, min=1, want=1, max=1, within="", segment=None, caps=())
    member = msgspec.structs.replace(
        gang, name=f"{gang.name}-{number}", roles=(alone,), submitted=gang.submitted + number, within=""
    )
    return msgspec.structs.replace(task, gang=member, part_of=gang.name, parts=parts)
