"""A generation: who computes together, under one number that never comes back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Generation:
    """One membership. The rank of a member is its place in `members`; the group's prefix is the number.

    An urgent one replaces a generation that cannot go on; the others are planned, and wait for a commit.
    """

    number: int
    members: tuple[str, ...]
    store: str
    step: int = -1
    reason: str = ""
    domains: tuple[str, ...] = ()
    is_urgent: bool = False

    def rank(self, member: str) -> int | None:
        """The member's rank, or None when it is not part of this generation."""
        return self.members.index(member) if member in self.members else None

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


NOBODY = Generation(number=0, members=(), store="", reason="nothing announced yet")


def from_record(record: dict[str, Any]) -> Generation:
    """The generation in a journal line or an announcement."""
    return Generation(
        number=int(record["number"]),
        members=tuple(record["members"]),
        store=str(record["store"]),
        step=int(record.get("step", -1)),
        reason=str(record.get("reason", "")),
        domains=tuple(record.get("domains", ())),
        is_urgent=bool(record.get("is_urgent", False)),
    )
