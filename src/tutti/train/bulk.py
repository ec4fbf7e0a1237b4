"""Copying much memory at once: by several threads, without the interpreter's lock, and past the caches where the
C library does that.

The launcher sets the size above which it does (see `hands.with_streaming`): a snapshot is not read again soon, and what
it overwrites need not be fetched first.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import torch

WORTH_BYTES = 8 << 20
SHARE_BYTES = 16 << 20
MOST_THREADS = 8

memcmp = ctypes.CDLL(None).memcmp
memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

Pair = tuple[torch.Tensor, torch.Tensor]
Run = tuple[int, int, int]


class Copies:
    """Copies that are under way: each is begun as soon as enough of them are known, while others are thought of."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._alive: list[Pair] = []
        self._waiting = 0
        self._begun: list[Future[None]] = []

    def add(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy the second into the first, by the time `settle` has returned."""
        if not is_plain(target, source):
            target.copy_(source)
            return
        self._runs.append((target.data_ptr(), source.data_ptr(), target.nbytes))
        # A view of memory that only we know must live until its bytes are there.
        self._alive.append((target, source))
        self._waiting += target.nbytes
        if self._waiting >= SHARE_BYTES:
            self._begin()

    def settle(self) -> None:
        """Wait for all of them."""
        if self._begun or self._waiting >= WORTH_BYTES:
            self._begin()
        move(self._runs)
        for future in self._begun:
            future.result()
        self._runs, self._alive, self._begun, self._waiting = [], [], [], 0

    def _begin(self) -> None:
        """Hand over what is known in shares small enough that a thread without a processor holds nobody up for long."""
        if threads() == 1:
            return
        hands = pool(os.getpid())
        self._begun += [hands.submit(move, share) for share in deal(self._runs, SHARE_BYTES)]
        self._runs, self._waiting = [], 0


def copy_all(pairs: Iterable[Pair]) -> None:
    """Copy every second tensor into the first of its pair."""
    copies = Copies()
    for target, source in pairs:
        copies.add(target, source)
    copies.settle()


def are_equal(pairs: Iterable[Pair]) -> list[bool]:
    """For each pair whether the bytes of both are the same; reading both takes no longer than copying one."""
    return list(pool(os.getpid()).map(is_equal, pairs))


def is_equal(pair: Pair) -> bool:
    one, other = pair
    return is_plain(one, other) and memcmp(one.data_ptr(), other.data_ptr(), one.nbytes) == 0


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
