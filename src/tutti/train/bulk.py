"""Copying much memory at once: by several threads, without the interpreter's lock, and past the caches where the
C library does that.

The launcher sets the size above which it does (see `hands.with_streaming`): a snapshot is not read again soon, and what
it overwrites need not be fetched first.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

WORTH_BYTES = 8 << 20
MOST_THREADS = 8

Pair = tuple[torch.Tensor, torch.Tensor]
Run = tuple[int, int, int]


def copy_all(pairs: Iterable[Pair]) -> None:
    """Copy every second tensor into the first of its pair."""
    runs: list[Run] = []
    for target, source in pairs:
        if is_plain(target, source):
            runs.append((target.data_ptr(), source.data_ptr(), target.nbytes))
        else:
            target.copy_(source)
    total = sum(size for _, _, size in runs)
    count = threads() if total >= WORTH_BYTES else 1
    if count == 1:
        move(runs)
    else:
        list(pool(os.getpid()).map(move, deal(runs, -(-total // count))))


def is_plain(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether the bytes of one are those of the other."""
    return (
        target.device.type == source.device.type == "cpu"
        and target.dtype == source.dtype
        and target.shape == source.shape
        and target.is_contiguous()
        and source.is_contiguous()
        and not (source.is_conj() or source.is_neg())
    )


def move(runs: Iterable[Run]) -> None:
    for target, source, size in runs:
        ctypes.memmove(target, source, size)


def deal(runs: Iterable[Run], share: int) -> list[list[Run]]:
    """The same copies in lists of `share` bytes, the last one shorter."""
    dealt: list[list[Run]] = [[]]
    room = share
    for target, source, size in runs:
        done = 0
        while done < size:
            if room == 0:
                dealt.append([])
                room = share
            part = min(room, size - done)
            dealt[-1].append((target + done, source + done, part))
            done, room = done + part, room - part
    return dealt


def threads() -> int:
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))


@cache
def pool(_process: int) -> ThreadPoolExecutor:
    """Threads of this process; a fork has none of its parent's."""
    return ThreadPoolExecutor(threads(), "tutti-copy")
