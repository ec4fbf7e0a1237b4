"""A copy of what only one rank has, in the memory of a buddy in another failure domain, before the step counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from tutti.train import plain
from tutti.train.agent.bill import SLACK
from tutti.train.agent.slots import Busy, Label, Slot
from tutti.train.bulk import copy_all
from tutti.train.domains import Places
from tutti.train.errors import NoMemory
from tutti.train.group import Group
from tutti.train.member import Member
from tutti.train.patience import BUSY_S, Patience
from tutti.train.snapshot import NO_STEP, Layout, cut, lay_out, lay_out_shards, table_of, view_of, writable
from tutti.train.state import Leaf

TABLE_ROOM = 1 << 16


class Buddies:
    """Sends this rank's shards to its buddy and keeps those it is the buddy of, in slots of its own domain."""

    def __init__(self, member: Member, slots: int, patience: Patience) -> None:
        self.member = member
        self.patience = patience
        self.count = slots
        self.complete = NO_STEP
        self._for: tuple[Any, ...] = ()
        self._layout: Layout | None = None
        self._theirs: dict[int, tuple[bytes, int]] = {}
        self._slots: dict[int, list[Slot]] = {}
        self._room: dict[int, tuple[int, int]] = {}
        self._made = 0

    def exchange(self, group: Group, places: Places, label: Label, leaves: dict[str, Leaf], rest: Any) -> bool:
        """Everyone's shards to everyone's buddy; True when all of them are sealed there."""
        layout = self._ready(group, places, label.generation, leaves)
        rests = self._rests(group, places, plain.dumps(rest))
        has_room = self._has_room(max(map(len, rests)), label.generation)
        outgoing = torch.empty(layout.data_bytes, dtype=torch.uint8)
        data = memoryview(outgoing.numpy().data)
        if layout.parts:
            views = [view_of(data, part.at, leaves[part.name].tensor.dtype, part.box) for part in layout.parts]
            copy_all(zip(views, [cut(leaves[part.name], part.box) for part in layout.parts], strict=True))
        incoming = self._swap(group, places, outgoing)
        kept = [
            self.patience.insist(partial(self._keep, label, source, part, rests[source]), BUSY_S)
            for source, part in incoming.items()
            if has_room
        ]
        return bool(group.gather(torch.tensor([int(has_room and all(kept))])).min())

    def _rests(self, group: Group, places: Places, mine: bytes) -> list[bytes]:
        """The state beside the tensors, by rank; all have the same unless each has a part of the model."""
        return group.gather_bytes(mine) if places.parts else [mine] * group.world

    def close(self) -> None:
        for slots in self._slots.values():
            for slot in slots:
                slot.close()
        self._slots.clear()
        self._room.clear()

    def _ready(self, group: Group, places: Places, generation: int, leaves: dict[str, Leaf]) -> Layout:
        """What goes where; worked out again when the members or the shape of the state have changed."""
        key = (generation, tuple((name, leaf.box, leaf.is_shared) for name, leaf in leaves.items()))
        if self._layout is None or key != self._for:
            is_lone = places.is_lone(group.rank)
            self._layout = lay_out(leaves, *places.share(group.rank)) if is_lone else lay_out_shards(leaves)
            self._for = key
            texts = group.gather_bytes(self._layout.text)
            sizes = group.gather(torch.tensor([self._layout.data_bytes]))[:, 0].tolist()
            self._theirs = {source: (texts[source], sizes[source]) for source in places.sources(group.rank)}
        return self._layout

    def _has_room(self, rest: int, generation: int) -> bool:
        """Whether there are slots for all of it. Where memory is too small for larger ones the others go on, so this
        rank takes part in the exchange as well.
        """
        try:
            self._reserve(rest)
        except NoMemory as error:
            return self.patience.refuse(error, generation)
        return True

    def _reserve(self, rest: int) -> None:
        """Slots for every source, larger ones when they have grown; what is beside the tensors takes `rest` bytes."""
        for place, (text, size) in enumerate(self._theirs.values()):
            room, table = self._room.get(place, (0, 0)), len(table_of(text, b"")) + rest
            if room[0] >= table and room[1] >= size:
                continue
            wanted = (table + TABLE_ROOM, int(size * SLACK))
            name = f"{self.member.name}-buddy{place}-{self._made}"
            self._made += 1
            entry = self.member.ask_slots(name, *wanted, self.count, role=f"buddy{place}")
            self._room[place] = wanted
            for slot in self._slots.get(place, []):
                slot.close()
            self._slots[place] = list(self.member.shelf.open(entry, is_filled=True))

    def _swap(self, group: Group, places: Places, outgoing: torch.Tensor) -> dict[int, torch.Tensor]:
        sizes = [self._theirs[rank][1] if rank in self._theirs else 0 for rank in range(group.world)]
        incoming = torch.empty(sum(sizes), dtype=torch.uint8)
        to = places.buddy(group.rank)
        sent = [outgoing.numel() if rank == to else 0 for rank in range(group.world)]
        dist.all_to_all_single(incoming, outgoing, output_split_sizes=sizes, input_split_sizes=sent)
        group.check()
        return {source: part for source, part in enumerate(torch.split(incoming, sizes)) if source in self._theirs}

    def _keep(self, label: Label, source: int, data: torch.Tensor, rest: bytes) -> bool:
        table = table_of(self._theirs[source][0], rest)
        slots = self._slots[list(self._theirs).index(source)]
        described = Label(label.generation, label.step, label.layout, data.numel(), len(table))
        for number in writable(slots, self.complete):
            try:
                with slots[number].writing(described, table) as memory:
                    into = torch.frombuffer(memory, dtype=torch.uint8, count=max(1, data.numel()))
                    copy_all([(into[: data.numel()], data)])
            except Busy:
                continue
            return True
        return False
