"""From positions to batches: reads the samples of a piece, directly or through the workers of a DataLoader."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from tutti.train.deal import step_window
from tutti.train.errors import DataChanged
from tutti.train.order import fits_32, indices_at

np: Any = None
with contextlib.suppress(ImportError):
    import numpy as np

BLOCK = 16_384
STREAM = sys.maxsize

Schedule = Callable[[], Iterator[list[int]]]


@dataclass(frozen=True)
class Block:
    """A part of an epoch's order: the samples from position `begin` to `end`, and the checksums up to each."""

    order: tuple[int, ...]
    begin: int
    end: int
    indices: Any
    sums: Any


class Feed:
    """A dataset with random access, and how its samples become a batch."""

    delivery = "exactly-once"

    def __init__(
        self, dataset: Any, collate: Callable[[list[Any]], Any] | None, options: dict[str, Any] | None
    ) -> None:
        self.dataset, known = unwrap(dataset)
        self.options = {**known, **(options or {})}
        self.collate = collate or self.options.pop("collate_fn", None) or default_collate
        self.options.pop("collate_fn", None)
        self._ahead: Iterator[Any] | None = None
        self._block = Block((), 0, 0, (), ())

    def __len__(self) -> int:
        return len(self.dataset)

    def window(self, start: int, count: int, _epoch: int) -> tuple[int, int]:
        """The positions of the step that begins here; the last of an epoch may be short, and is never padded."""
        return step_window(start, len(self), count)

    def indices(self, start: int, stop: int, seed: int, epoch: int) -> Any:
        """The samples at a run of positions, as an array of integers."""
        block = self._reach(start, stop, seed, epoch)
        return block.indices[start - block.begin : stop - block.begin]

    def checksum(self, start: int, stop: int, seed: int, epoch: int) -> int:
        """A sum over the samples of a run of positions that does not depend on who read them."""
        block = self._reach(start, stop, seed, epoch)
        return int(block.sums[stop - block.begin] - block.sums[start - block.begin]) & 0xFFFFFFFF

    def _reach(self, start: int, stop: int, seed: int, epoch: int) -> Block:
        """A block of the order that has these positions: a thousand cost little more than ten, so it goes on ahead."""
        block = self._block
        if block.order != (seed, epoch) or not block.begin <= start <= stop <= block.end:
            self._block = block = self._work_out(start, stop, seed, epoch)
        return block

    def _work_out(self, start: int, stop: int, seed: int, epoch: int) -> Block:
        length = len(self.dataset)
        positions = integers(start, min(length, max(stop, start + BLOCK)), is_small=fits_32(length))
        found = indices_at(positions, length, seed, epoch)
        return Block((seed, epoch), start, start + len(found), found, running_sums(found))

    def read(self, indices: list[int], schedule: Schedule) -> Any:
        """The batch of these samples; with workers, the next ones are read ahead along the schedule."""
        if not self.options.get("num_workers"):
            return self.collate(fetch(self.dataset, indices))
        if self._ahead is None:
            self._ahead = iter(
                DataLoader(self.dataset, batch_sampler=schedule(), collate_fn=self.collate, **self.options)
            )
        return next(self._ahead)

    def forget(self) -> None:
        """Drop what was read ahead: who reads what has changed. Nothing of it was committed, so it is simply read
        again.
        """
        self._ahead = None


def fetch(dataset: Any, indices: list[int]) -> list[Any]:
    """Samples by index, all at once where the dataset can."""
    if hasattr(dataset, "__getitems__"):
        return list(dataset.__getitems__(indices))
    return [dataset[index] for index in indices]


def unwrap(dataset: Any) -> tuple[Any, dict[str, Any]]:
    """A DataLoader (also a stateful one) is taken apart: its dataset and workers are used, its order is ours."""
    options: dict[str, Any] = {}
    if hasattr(dataset, "dataset") and hasattr(dataset, "collate_fn") and hasattr(dataset, "num_workers"):
        options = {
            "num_workers": dataset.num_workers,
            "collate_fn": dataset.collate_fn,
            "pin_memory": dataset.pin_memory,
        }
        dataset = dataset.dataset
    if not has_index(dataset) and not hasattr(dataset, "__iter__"):
        raise DataChanged(
            f"batches() needs a dataset (with a length and an index) or a stream (that can be iterated), "
            f"and a {type(dataset).__name__} is neither"
        )
    return dataset, options


def has_index(dataset: Any) -> bool:
    return hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")


def feed_of(dataset: Any, collate: Callable[[list[Any]], Any] | None, options: dict[str, Any] | None) -> Feed:
    """A feed that can ask for any sample again, or one that can only go forward."""
    kind = Feed if has_index(unwrap(dataset)[0]) else Stream
    return kind(dataset, collate, options)


class Stream(Feed):
    """A source that can only be read from its beginning. Every rank reads all of it and keeps its own share; what is
    not committed stays here, to be dealt again when the ranks change.

    Whoever comes later reads it from the beginning and passes over what was committed. That is exactly once if the
    source gives the same each time, which only its owner knows; so it is called at-least-once.
    """

    delivery = "at-least-once"

    def __init__(
        self, dataset: Any, collate: Callable[[list[Any]], Any] | None, options: dict[str, Any] | None
    ) -> None:
        super().__init__(dataset, collate, options)
        self._source: Iterator[Any] = iter(())
        self._epoch = -1
        self._at = 0
        self._kept: deque[Any] = deque()

    def __len__(self) -> int:
        return STREAM

    def window(self, start: int, count: int, epoch: int) -> tuple[int, int]:
        """The positions of the next step, as far as the source goes; empty at its end."""
        if epoch != self._epoch:
            self._source, self._epoch, self._at = iter(self.dataset), epoch, 0
            self._kept.clear()
        while self._kept and self._at < start:
            self._kept.popleft()
            self._at += 1
        for _ in itertools.islice(self._source, max(0, start - self._at)):
            self._at += 1
        self._kept.extend(itertools.islice(self._source, max(0, start + count - self._at - len(self._kept))))
        return start, self._at + len(self._kept) if self._at == start else start

    def indices(self, start: int, stop: int, _seed: int, _epoch: int) -> Any:
        return integers(start, stop)

    def checksum(self, start: int, stop: int, seed: int, epoch: int) -> int:
        return int(running_sums(self.indices(start, stop, seed, epoch))[-1]) & 0xFFFFFFFF

    def read(self, indices: list[int], _schedule: Schedule) -> Any:
        return self.collate([self._kept[index - self._at] for index in indices])


def integers(start: int, stop: int, is_small: bool = False) -> Any:
    """Consecutive integers as an array; numpy, where it is there, is faster with them than torch."""
    if np is None:
        return torch.arange(start, stop)
    return np.arange(start, stop, dtype=np.uint32 if is_small else np.int64)


def running_sums(indices: Any) -> Any:
    """Behind each sample the sum over all up to it of a number that is the sample's own; before the first, nothing."""
    mixed = indices & 0x7FFFFFFF
    mixed *= 2654435761
    mixed += 97
    mixed &= 0xFFFFFFFF
    if np is None:
        return torch.cat([torch.zeros(1, dtype=torch.int64), mixed.cumsum(0)])
    return np.concatenate([[0], np.cumsum(mixed, dtype=np.int64)])
