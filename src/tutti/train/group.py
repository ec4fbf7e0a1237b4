"""The process group of a generation: formed on the agent's store under the generation's number, dissolved without
waiting for anyone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist

from tutti.train import hold
from tutti.train.agent.generation import Generation
from tutti.train.errors import GroupLost

FORM_S = 4.0
TIMEOUT = timedelta(minutes=30)


class Group:
    """One default process group after another, all of them holding their failures."""

    def __init__(self) -> None:
        hold.register()
        self._stores: dict[str, Any] = {}
        self._tries = 0
        self.rank = 0
        self.world = 1

    @property
    def pg(self) -> hold.HoldingGroup:
        return cast("hold.HoldingGroup", dist.group.WORLD)

    @property
    def failure(self) -> str:
        return self.pg.failure if dist.is_initialized() else "there is no group"

    def form(self, generation: Generation, member: str) -> None:
        """Meet the other members; GroupLost when they do not come."""
        rank = generation.rank(member)
        assert rank is not None
        self.dissolve()
        # A member that dies while the group forms leaves the others waiting: they give up soon, and are more patient
        # each time.
        patience = timedelta(seconds=FORM_S * 2 ** min(self._tries, 4))
        self._tries += 1
        message = self._init(generation, rank, patience)
        if message:
            raise GroupLost(message)
        self._tries = 0
        self.rank, self.world = rank, len(generation.members)

    def form_alone(self) -> None:
        """A group of one, for a member that builds its model beside a running generation."""
        self.dissolve()
        dist.init_process_group(hold.BACKEND, store=dist.HashStore(), rank=0, world_size=1, timeout=TIMEOUT)
        self.rank, self.world = 0, 1

    def dissolve(self) -> None:
        """Drop the group and its connections."""
        if dist.is_initialized():
            self.pg.fail("dissolved")
            dist.destroy_process_group()

    def check(self) -> None:
        """Raise GroupLost if anything failed since the group was formed."""
        if self.failure:
            raise GroupLost(self.failure)

    def gather(self, row: torch.Tensor) -> torch.Tensor:
        """Everyone's row, by rank."""
        rows = torch.empty(self.world * row.numel(), dtype=row.dtype)
        dist.all_gather_into_tensor(rows, row.contiguous().view(-1))
        self.check()
        return rows.view(self.world, *row.shape)

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Everyone's bytes, by rank."""
        sizes = self.gather(torch.tensor([len(data)]))[:, 0].tolist()
        padded = torch.zeros(max(1, *sizes), dtype=torch.uint8)
        padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else padded[:0]
        rows = self.gather(padded)
        return [bytes(row[:size].tolist()) for row, size in zip(rows, sizes, strict=True)]

    def _init(self, generation: Generation, rank: int, patience: timedelta) -> str:
        try:
            store = dist.PrefixStore(f"generation/{generation.number}", self._store(generation.store, patience))
            dist.init_process_group(
                hold.BACKEND, store=store, rank=rank, world_size=len(generation.members), timeout=patience
            )
        except (RuntimeError, dist.DistError, ValueError) as error:
            message = str(error) or "the group did not form"
        else:
            return self._meet()
        if dist.is_initialized():
            dist.destroy_process_group()
        return message

    def _meet(self) -> str:
        dist.barrier()
        message = self.pg.failure
        if not message:
            self.pg.be_patient(TIMEOUT)
        return str(message)

    def _store(self, address: str, patience: timedelta) -> Any:
        if address not in self._stores:
            host, port = address.split(":")
            self._stores = {address: dist.TCPStore(host, int(port), None, False, timeout=patience)}
        store = self._stores[address]
        store.set_timeout(patience)
        return store
