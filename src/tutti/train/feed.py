"""From positions to batches: reads the samples of a piece, directly or through the workers of a DataLoader."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from tutti.train.deal import step_window
from tutti.train.errors import DataChanged
from tutti.train.order import indices_at

BLOCK = 16_384
STREAM = sys.maxsize

Schedule = Callable[[], Iterator[list[int]]]


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
        self._block: tuple[Any, int, torch.Tensor] = (None, 0, torch.empty(0))

    def __len__(self) -> int:
        return len(self.dataset)

    def window(self, start: int, count: int, _epoch: int) -> tuple[int, int]:
        """The positions of the step that begins here; the last of an epoch may be short, and is never padded."""
        return step_window(start, len(self), count)

    def indices(self, start: int, stop: int, seed: int, epoch: int) -> torch.Tensor:
        """The samples at a run of positions; blocks are worked out at once, because a thousand cost as much as ten."""
        key = (seed, epoch, start // BLOCK)
        if self._block[0] != key or stop > self._block[1] + len(self._block[2]):
            begin = start // BLOCK * BLOCK
            end = min(len(self.dataset), max(stop, begin + BLOCK))
            self._block = (key, begin, indices_at(torch.arange(begin, end), len(self.dataset), seed, epoch))
        return self._block[2][start - self._block[1] : stop - self._block[1]]

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

    def indices(self, start: int, stop: int, _seed: int, _epoch: int) -> torch.Tensor:
        return torch.arange(start, stop)

    def read(self, indices: list[int], _schedule: Schedule) -> Any:
        return self.collate([self._kept[index - self._at] for index in indices])


def checksum(indices: torch.Tensor) -> int:
    """A sum over samples that does not depend on who read them."""
    return int((((indices & 0x7FFFFFFF) * 2654435761 + 97) & 0xFFFFFFFF).sum()) & 0xFFFFFFFF
