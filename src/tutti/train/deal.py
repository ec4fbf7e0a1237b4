"""Who reads what in a step. The samples of a step never depend on the number of members; only their dealing does."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tutti.train.errors import DataChanged


@dataclass(frozen=True)
class Piece:
    """A microbatch: positions of the epoch's order, and its place among the step's logical ranks. An echo is read by a
    rank that has nothing left to compute while others have, and counts nothing.
    """

    start: int
    stop: int
    logical: int
    is_echo: bool = False

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def counted(self) -> int:
        """Samples that are this rank's to compute."""
        return 0 if self.is_echo else self.size


@dataclass(frozen=True)
class Deal:
    """One step: which positions it consumes, and the pieces of each rank. So many neighbours compute one model
    together, and have the same pieces.
    """

    start: int
    stop: int
    pieces: tuple[tuple[Piece, ...], ...]
    together: int = 1

    @property
    def total(self) -> int:
        return self.stop - self.start

    @property
    def has_idle(self) -> bool:
        return any(not pieces for pieces in self.pieces)

    @property
    def is_single(self) -> bool:
        """Whether every rank has exactly one piece."""
        return all(len(pieces) == 1 for pieces in self.pieces)

    def share(self, rank: int) -> int:
        """Samples of one rank."""
        return sum(piece.counted for piece in self.pieces[rank])


def step_window(cursor: int, length: int, global_batch: int) -> tuple[int, int]:
    """The positions of the step that begins at the cursor; the last of an epoch may be short, and is never padded."""
    return cursor, min(length, cursor + global_batch)


def deal_fast(start: int, stop: int, world: int, most: int = 0) -> Deal:
    """Even shares, the first ones larger by one where it does not divide; split into microbatches of at most `most`."""
    edges = [start + (stop - start) * rank // world for rank in range(world + 1)]
    pieces = tuple(_cut(begin, end, most or max(1, end - begin)) for begin, end in itertools.pairwise(edges))
    return Deal(start, stop, pieces)


def in_step(deal: Deal) -> Deal:
    """The same for ranks that must make as many passes as all others, because each pass is done together: whoever has
    fewer pieces computes a sample of the step once more, which counts nothing.
    """
    rounds = max(len(pieces) for pieces in deal.pieces)
    filled = (
        (*pieces, *(Piece(deal.start, deal.start + 1, number, is_echo=True) for number in range(len(pieces), rounds)))
        for pieces in deal.pieces
    )
    return Deal(deal.start, deal.stop, tuple(filled))


def to_neighbours(deal: Deal, together: int) -> Deal:
    """What was dealt to groups, for the ranks of each."""
    return Deal(deal.start, deal.stop, tuple(pieces for pieces in deal.pieces for _ in range(together)), together)


def groups_of(world: int, together: int) -> int:
    """How many models are computed side by side."""
    if world % together:
        raise DataChanged(
            f"together={together}: {world} members are no whole number of groups; "
            f"legal sizes are multiples of {together}"
        )
    return world // together


def deal_ordered(start: int, stop: int, world: int, logical: int) -> Deal:
    """Whole microbatches, cut the same way for every world: each rank takes a run of neighbouring logical ranks."""
    edges = [start + (stop - start) * number // logical for number in range(logical + 1)]
    filled = [(begin, end) for begin, end in itertools.pairwise(edges) if end > begin]
    cut = [Piece(begin, end, number) for number, (begin, end) in enumerate(filled)]
    owners = [len(cut) * rank // world for rank in range(world + 1)]
    return Deal(start, stop, tuple(tuple(cut[begin:end]) for begin, end in itertools.pairwise(owners)))


def check_batch(global_batch: int, length: int, world: int) -> None:
    """Refuse a batch that nobody could deal."""
    if global_batch < 1:
        raise DataChanged(f"global_batch is {global_batch}: a step needs at least one sample")
    if length < 1:
        raise DataChanged("the dataset is empty: there is nothing to train on")
    if world > global_batch:
        raise DataChanged(
            f"{world} members cannot share a global batch of {global_batch}: legal sizes are 1 to {global_batch}; "
            f"use fewer members or a larger batch"
        )


def _cut(begin: int, end: int, most: int) -> tuple[Piece, ...]:
    return tuple(Piece(at, min(end, at + most), number) for number, at in enumerate(range(begin, end, most)))
