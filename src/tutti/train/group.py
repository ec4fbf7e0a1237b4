"""The process group of a generation: formed on the agent's store under the generation's number, dissolved without
waiting for anyone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist

from tutti.train import hold
from tutti.train.agent.generation import Generation
from tutti.train.errors import GroupLost

FORM_S = 8.0
SHORT_BYTES = 1024
SIZE_BYTES = 8
TIMEOUT = timedelta(minutes=30)


class Talk:
    """Ranks that talk to each other."""

    rank: int = 0
    world: int = 1
    handle: Any = None
    """Their process group as torch knows it; None for the default one."""

    @property
    def pg(self) -> hold.HoldingGroup:
        return cast("hold.HoldingGroup", dist.group.WORLD if self.handle is None else self.handle)

    @property
    def failure(self) -> str:
        return self.pg.failure if dist.is_initialized() else "there is no group"

    def check(self) -> None:
        """Raise GroupLost if anything failed since the group was formed."""
        if self.failure:
            raise GroupLost(self.failure)

    def gather(self, row: torch.Tensor) -> torch.Tensor:
        """Everyone's row, by rank."""
        rows = torch.empty(self.world * row.numel(), dtype=row.dtype)
        # Each to each at once: passed on from rank to rank, a few bytes would be waited for once for every rank.
        dist.all_to_all_single(rows, row.contiguous().view(-1).repeat(self.world), group=self.handle)
        self.check()
        return rows.view(self.world, *row.shape)

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Everyone's bytes, by rank: a few at once, more when everyone knows how many."""
        rows = self.gather(packed(data, SHORT_BYTES))
        sizes = [int.from_bytes(bytes(row[:SIZE_BYTES].tolist()), "little") for row in rows]
        if max(sizes) > SHORT_BYTES - SIZE_BYTES:
            rows = self.gather(packed(data, SIZE_BYTES + max(sizes)))
        return [bytes(row[SIZE_BYTES : SIZE_BYTES + size].tolist()) for row, size in zip(rows, sizes, strict=True)]


class Ring(Talk):
    """Some of the ranks of a generation."""

    def __init__(self, handle: Any, rank: int, world: int) -> None:
        self.handle, self.rank, self.world = handle, rank, world


class Group(Talk):
    """One default process group after another, all of them holding their failures."""

    def __init__(self) -> None:
        hold.register()
        self._stores: dict[str, Any] = {}
        self._tries = 0
        self.number = 0
        self.rank = 0
        self.world = 1
        self.is_alone = False

    def form(self, generation: Generation, member: str, is_stale: Callable[[], bool], is_patient: bool = False) -> None:
        """Meet the other members; GroupLost when they do not come, or when a newer generation makes this one stale."""
        rank = generation.rank(member)
        assert rank is not None
        self.dissolve()
        self.is_alone = False
        self.number = hold.Ear.generation = generation.number
        # A member that dies while the group forms leaves the others waiting: they give up soon, and are more patient
        # each time.
        patience = timedelta(seconds=FORM_S * 2 ** min(self._tries, 4))
        self._tries += 1
        limit_s = TIMEOUT.total_seconds() if is_patient else patience.total_seconds()
        message = self._await_all(generation, rank, patience, limit_s, is_stale)
        message = message or self._init(generation, rank, patience)
        if message:
            raise GroupLost(message)
        self._tries = 0
        self.rank, self.world = rank, len(generation.members)

    def form_alone(self) -> None:
        """A group of one, for a member that builds its model beside a running generation."""
        self.dissolve()
        self.is_alone = True
        with unhooked():
            dist.init_process_group(hold.BACKEND, store=dist.HashStore(), rank=0, world_size=1, timeout=TIMEOUT)
        self.rank, self.world = 0, 1

    def dissolve(self) -> None:
        """Drop the group and its connections."""
        if dist.is_initialized():
            self.pg.fail("dissolved")
            dist.destroy_process_group()

    def _await_all(
        self, generation: Generation, rank: int, patience: timedelta, limit_s: float, is_stale: Callable[[], bool]
    ) -> str:
        """Everyone is here, by a word in the store: connecting cannot be interrupted, so nobody may be missing."""
        until = time.monotonic() + limit_s
        try:
            store = dist.PrefixStore(f"here/{generation.number}", self._store(generation.store, patience))
            store.set(str(rank), "here")
            missing = [str(other) for other in range(len(generation.members))]
            while missing:
                if store.check(missing[:1]):
                    missing.pop(0)
                elif is_stale():
                    return f"generation {generation.number} was replaced before it formed"
                elif time.monotonic() > until:
                    return f"{generation.members[int(missing[0])]} did not come"
                else:
                    time.sleep(0.001)
        except (RuntimeError, dist.DistError) as error:
            self._stores.clear()
            return str(error)
        return ""

    def _init(self, generation: Generation, rank: int, patience: timedelta) -> str:
        try:
            # torch counts groups in the keys it uses, also those that did not form here but did for others.
            dist.distributed_c10d._world.group_count = 0
            store = dist.PrefixStore(f"generation/{generation.number}", self._store(generation.store, patience))
            with unhooked():
                dist.init_process_group(
                    hold.BACKEND, store=store, rank=rank, world_size=len(generation.members), timeout=patience
                )
        except (RuntimeError, dist.DistError, ValueError) as error:
            message = str(error) or "the group did not form"
        else:
            self.pg.be_patient(TIMEOUT)
            return ""
        if dist.is_initialized():
            dist.destroy_process_group()
        return message

    def _store(self, address: str, patience: timedelta) -> Any:
        if address not in self._stores:
            host, _, port = address.rpartition(":")
            self._stores = {address: dist.TCPStore(host, int(port), None, False, timeout=patience)}
        store = self._stores[address]
        store.set_timeout(patience)
        return store


@contextmanager
def unhooked() -> Iterator[None]:
    """torch has every group put its rank before the lines of an exception, also those of groups that are gone."""
    usual = sys.excepthook
    try:
        yield
    finally:
        sys.excepthook = usual


def packed(data: bytes, room: int) -> torch.Tensor:
    """A row of this many bytes that says how long the data is and begins with it."""
    row = torch.zeros(room, dtype=torch.uint8)
    text = len(data).to_bytes(SIZE_BYTES, "little") + data[: room - SIZE_BYTES]
    row[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return row
