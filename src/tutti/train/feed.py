"""From positions to batches: reads the samples of a piece, directly or through the workers of a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from tutti.train.errors import DataChanged
from tutti.train.order import indices_at

BLOCK = 16_384

Schedule = Callable[[], Iterator[list[int]]]


class Feed:
    """A dataset with random access, and how its samples become a batch."""

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
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise DataChanged(
            f"batches() needs data with random access, and a {type(dataset).__name__} has no length or no index: "
            f"a stream cannot be read exactly once, so write it to a dataset first"
        )
    return dataset, options


def checksum(indices: torch.Tensor) -> int:
    """A sum over samples that does not depend on who read them."""
    return int((((indices & 0x7FFFFFFF) * 2654435761 + 97) & 0xFFFFFFFF).sum()) & 0xFFFFFFFF
