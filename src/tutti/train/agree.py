"""What the members of a new generation agree on, from what each of them says. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tutti.train.errors import DataChanged, StateChanged

EMPTY = -1


@dataclass(frozen=True)
class Claim:
    """What a member brings: its committed step, whether it stands just before the next, how its state is spread."""

    member: str
    step: int = EMPTY
    in_doubt: bool = False
    is_sharded: bool = False
    is_whole: bool = True
    complete: tuple[int, int] = (EMPTY, EMPTY)
    """The newest step, and of which generation, that it knows all ranks to have kept."""
    kind: str = ""
    """The fingerprint of what it protects; a stage does not know it before it has met the others."""
    grid: str = ""
    """How many stages it said that there are, on how many ranks each."""

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Accord:
    """The step to go on from, and where it comes from: `live` at rank `source`, `memory` (or a tier behind it), or
    `fresh`.
    """

    step: int
    origin: str
    source: int = -1


def check_alike(claims: Sequence[Claim], rank: int) -> None:
    """Refuse to go on with a state that is of another kind than that of the first who has one. Where nobody has one
    yet nobody is right, and all are refused.
    """
    known = next((claim for claim in claims if claim.step >= 0), None)
    mine, others = claims[rank], [known] if known else claims
    odd = next((claim for claim in claims if claim.grid != mine.grid), None)
    if odd:
        raise StateChanged(
            f"{mine.member} called {mine.grid or 'no pipeline()'} and {odd.member} {odd.grid or 'none'}: "
            f"the stages must be the same number on every rank"
        )
    other = next((claim for claim in others if claim.kind != mine.kind and claim.kind and mine.kind), None)
    if other:
        raise StateChanged(
            f"{mine.member} protects other tensors (fingerprint {mine.kind}) than {other.member} ({other.kind}): "
            f"names, types and shapes must be the same on every rank"
        )


def settle(claims: Sequence[Claim], witnessed: int = EMPTY) -> int:
    """The newest step that anyone saw committed: a member in doubt just before it goes there, because everyone had
    voted for it.
    """
    return max([witnessed, *(claim.step for claim in claims)])


def resolves(claim: Claim, newest: int) -> bool:
    """Whether a member in doubt carries its prepared step out."""
    return claim.in_doubt and claim.step + 1 <= newest


def accord(claims: Sequence[Claim], remembered: Sequence[int]) -> Accord:
    """Where to go on from, after doubts were resolved. `remembered` are the complete steps in memory, newest first."""
    live = [claim for claim in claims if claim.step >= 0]
    newest = max((claim.step for claim in live), default=EMPTY)
    if any(claim.is_sharded for claim in claims):
        return _sharded(claims, newest, remembered)
    if live and newest >= max(remembered, default=EMPTY):
        return Accord(newest, "live", next(rank for rank, claim in enumerate(claims) if claim.step == newest))
    if remembered:
        return Accord(remembered[0], "memory")
    return Accord(0, "fresh", 0)


def _sharded(claims: Sequence[Claim], newest: int, remembered: Sequence[int]) -> Accord:
    """Shards are in one place each: live only while nobody is missing or new."""
    is_live = newest >= 0 and all(claim.step == newest and claim.is_whole for claim in claims)
    if is_live:
        return Accord(newest, "live", 0)
    if remembered:
        return Accord(remembered[0], "memory")
    if newest <= 0:
        return Accord(0, "fresh", 0)
    return Accord(EMPTY, "lost")


@dataclass(frozen=True)
class Vote:
    """One rank's word at a commit."""

    is_ok: int
    generation: int
    wants_snapshot: int
    wants_leave: int
    samples: int
    checksum: int
    step: int
    sealed: int

    def row(self) -> list[int]:
        return list(vars(self).values())


@dataclass(frozen=True)
class Verdict:
    """What all ranks read from the same votes."""

    is_committed: bool
    generation: int
    has_snapshot: bool
    has_leave: bool
    sealed: int


def judge(rows: Sequence[Sequence[int]], samples: int, checksum: int) -> Verdict:
    """Commit if everyone is well and together they computed exactly the samples of the step."""
    votes = [Vote(*row) for row in rows]
    is_ok = all(vote.is_ok for vote in votes)
    if is_ok:
        check_samples(votes, samples, checksum)
    return Verdict(
        is_ok,
        max(vote.generation for vote in votes),
        any(vote.wants_snapshot for vote in votes),
        any(vote.wants_leave for vote in votes),
        min(vote.sealed for vote in votes),
    )


def check_samples(votes: Sequence[Vote], samples: int, checksum: int) -> None:
    """The proof of exactly-once, taken at every step: counts and checksums of what was really read add up."""
    steps = {vote.step for vote in votes}
    if len(steps) > 1:
        raise DataChanged(f"ranks are at different steps ({sorted(steps)}): every rank must call commit equally often")
    got = sum(vote.samples for vote in votes)
    if got != samples or sum(vote.checksum for vote in votes) & 0xFFFFFFFF != checksum & 0xFFFFFFFF:
        raise DataChanged(
            f"the ranks read {got} samples where the step has {samples}, or not the same ones "
            f"(by rank: {[vote.samples for vote in votes]}): dataset, global_batch and seed must be the same on all"
        )
