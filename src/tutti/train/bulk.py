"""Copying much memory at once: by several threads, without the interpreter's lock, and past the caches where the
C library does that.

The launcher sets the size above which it does (see `hands.with_streaming`): a snapshot is not read again soon, and what
it overwrites need not be fetched first.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

import torch

SMALL_BYTES = 256 << 10
WORTH_BYTES = 8 << 20
SHARE_BYTES = 4 << 20
MOST_THREADS = 8

# Small pieces are moved under the interpreter's lock: giving it up and waiting for it again takes longer.
small = ctypes.PyDLL(None)
small.memmove.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
small.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
memcmp = ctypes.CDLL(None).memcmp
memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

Pair = tuple[torch.Tensor, torch.Tensor]
Run = tuple[int, int, int]


class Copies:
    """Copies that are under way: others begin them as soon as there are enough, and `settle` takes part in the rest."""

    def __init__(self) -> None:
        self._shares: deque[Run] = deque()
        self._alive: list[Pair] = []
        self._helpers: list[Future[None]] = []
        self._waiting = 0

    def add(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy the second into the first, by the time `settle` has returned."""
        if not is_plain(target, source):
            target.copy_(source)
            return
        # A view of memory that only we know must live until its bytes are there.
        self._alive.append((target, source))
        self.add_run((target.data_ptr(), source.data_ptr(), target.nbytes))

    def add_run(self, run: Run) -> None:
        """Copy bytes from the second address to the first, both of which the caller keeps alive until it has settled.

        Shares are small enough that a thread without a processor holds nobody up for long.
        """
        target, source, size = run
        if size < SMALL_BYTES:
            small.memmove(target, source, size)
            return
        for done in range(0, size, SHARE_BYTES):
            self._shares.append((target + done, source + done, min(SHARE_BYTES, size - done)))
        self._waiting += size
        if self._waiting >= WORTH_BYTES:
            self._call_helpers()

    def settle(self) -> None:
        """Do what is left, and wait for the others."""
        work(self._shares)
        for helper in self._helpers:
            helper.result()
        self._alive, self._helpers, self._waiting = [], [], 0

    def _call_helpers(self) -> None:
        self._helpers = [helper for helper in self._helpers if not helper.done()]
        for _ in range(len(self._helpers), threads() - 1):
            self._helpers.append(pool(os.getpid()).submit(work, self._shares))


def work(shares: deque[Run]) -> None:
    """Copy until nothing is left."""
    while True:
        try:
            share = shares.popleft()
        except IndexError:
            return
        ctypes.memmove(*share)


def copy_all(pairs: Iterable[Pair]) -> None:
    """Copy every second tensor into the first of its pair."""
    copies = Copies()
    for target, source in pairs:
        copies.add(target, source)
    copies.settle()


def are_equal(runs: Sequence[Run]) -> list[bool]:
    """For each pair of addresses whether the bytes there are the same; reading takes no longer than copying."""
    large = iter(list(pool(os.getpid()).map(is_equal, [run for run in runs if run[2] >= SMALL_BYTES])))
    return [next(large) if run[2] >= SMALL_BYTES else small.memcmp(*run) == 0 for run in runs]


def is_equal(run: Run) -> bool:
    return bool(memcmp(*run) == 0)


def is_plain(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether the bytes of one are those of the other."""
    return (
        target.is_cpu
        and source.is_cpu
        and target.dtype == source.dtype
        and target.shape == source.shape
        and target.is_contiguous()
        and source.is_contiguous()
        and not (source.is_conj() or source.is_neg())
    )


def threads() -> int:
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))


@cache
def pool(_process: int) -> ThreadPoolExecutor:
    """Threads of this process; a fork has none of its parent's."""
    return ThreadPoolExecutor(threads(), "tutti-copy")


@contextmanager
def uncollected() -> Iterator[None]:
    """Thousands of records that are needed for a moment are no garbage, and looking for some among everything that
    torch has imported takes longer than making them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
