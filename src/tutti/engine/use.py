"""Who uses how much: amounts held by each queue and each of its users, and use over time, decayed."""

from collections.abc import Sequence

from .decay import decayed, next_step, remembered, steps_between
from .estimate import sizes
from .model import SECOND, Gang, Seats


def held(resources: dict[str, int], gang: Gang, seats: Sequence[Seats]) -> tuple[list[int], list[int]]:
    """What seats hold of each resource, and the part up to the gang's minimum."""
    total, floor = [0] * len(resources), [0] * len(resources)
    for role, given in zip(gang.roles, seats, strict=True):
        members = sum(given.counts)
        low = min(members, sizes(role, given.shape)[0])
        for name, amount in role.shapes[given.shape].ask.items():
            at = resources.get(name)
            if at is not None:
                total[at] += members * amount
                floor[at] += low * amount
    return total, floor


def held_by_asks(
    resources: int, gang: Gang, seats: Sequence[Seats], asks: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """The same where it is known what a member of each role asks of each resource."""
    total, floor = [0] * resources, [0] * resources
    for role, given, ask in zip(gang.roles, seats, asks, strict=True):
        members, low = sum(given.counts), role.shapes[given.shape].min or role.min
        low = min(low, members)
        for at, amount in enumerate(ask):
            if amount:
                total[at] += members * amount
                floor[at] += low * amount
    return total, floor


class QueueUse:
    """What one queue holds now, and what it has held."""

    __slots__ = ("_steady_until", "at", "floor", "past", "priorities", "total", "users")

    def __init__(self, resources: int, at: int = 0) -> None:
        self.total = [0] * resources
        self.floor = [0] * resources
        """The part that counts in quota: members up to each gang's minimum."""
        self.users: dict[str, list[int]] = {}
        self.priorities: dict[int, int] = {}
        """How many seated gangs the queue has of each priority."""
        self.past = [0] * resources
        """Amount x seconds, decayed."""
        self.at = at
        self._steady_until = 0
        """Until then nothing is forgotten."""

    def copy(self) -> "QueueUse":
        """An independent copy."""
        twin = QueueUse(0, self.at)
        twin.total, twin.floor, twin.past = self.total.copy(), self.floor.copy(), self.past.copy()
        twin.priorities = self.priorities.copy()
        twin.users = {user: held.copy() for user, held in self.users.items()}
        twin._steady_until = self._steady_until
        return twin

    def widen(self) -> None:
        """Make room for one more resource."""
        for column in (self.total, self.floor, self.past, *self.users.values()):
            column.append(0)

    def advance(self, now: int, half_life: int) -> None:
        """Book the use since the last time, and forget some of what lies further back."""
        if now <= self.at:
            return
        past, counts = self.past, now - self.at
        if now >= self._steady_until:
            if steps := steps_between(self.at, now, half_life):
                counts = remembered(self.at, now, half_life)
                past = self.past = [decayed(amount, steps) for amount in past]
            self._steady_until = next_step(now, half_life)
        for r, amount in enumerate(self.total):
            if amount:
                past[r] += amount * counts // SECOND
        self.at = now

    def add(self, user: str, priority: int, total: Sequence[int], floor: Sequence[int], sign: int) -> None:
        """Book seats taken (1) or given back (-1) by one gang."""
        many = self.priorities.get(priority, 0) + sign
        if many:
            self.priorities[priority] = many
        else:
            self.priorities.pop(priority, None)
        mine = self.users.get(user)
        if mine is None:
            mine = self.users[user] = [0] * len(self.total)
        everybodys, least = self.total, self.floor
        for r, amount in enumerate(total):
            if amount:
                change = sign * amount
                everybodys[r] += change
                mine[r] += change
                least[r] += sign * floor[r]
        if not any(mine):
            del self.users[user]
