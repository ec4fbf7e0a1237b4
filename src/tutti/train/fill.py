"""After a loss, what a failure domain lacks of a step comes to it from the domains that have it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from tutti.train import plain
from tutti.train.agent.slots import Label, Slot
from tutti.train.boxes import Box
from tutti.train.domains import Move, Places, is_whole, moves
from tutti.train.group import Group
from tutti.train.member import Member
from tutti.train.memory import Memory, Sealed, every_tensor, merge
from tutti.train.snapshot import ALIGN, layout_of, name_of, table_of, view_of

Step = tuple[int, int]


@dataclass(frozen=True)
class Catalogue:
    """Which parts of which steps all domains have together; the same on every rank."""

    held: dict[Step, dict[str, dict[str, list[Box]]]]
    every: dict[Step, dict[str, tuple[str, tuple[int, ...]]]]

    def complete(self) -> list[Step]:
        """Steps of which every tensor is whole over all domains, newest first."""
        return sorted((step for step in self.held if self._is_complete(step)), reverse=True)

    def _is_complete(self, step: Step) -> bool:
        domains = self.held[step].values()
        return all(
            is_whole(shape, [box for boxes in domains for box in boxes.get(name, [])])
            for name, (_, shape) in self.every[step].items()
        )


def survey(group: Group, places: Places, memory: Memory) -> Catalogue:
    """What is where: one rank of each domain tells all."""
    is_speaker = places.speaker(places.of[group.rank]) == group.rank
    told = group.gather_bytes(json.dumps(describe(memory)).encode() if is_speaker else b"[]")
    held: dict[Step, dict[str, dict[str, list[Box]]]] = {}
    every: dict[Step, dict[str, tuple[str, tuple[int, ...]]]] = {}
    for domain in places.names:
        for step, generation, boxes, kinds in json.loads(told[places.speaker(domain)]):
            key = (step, generation)
            held.setdefault(key, {})[domain] = {name: [box_of(box) for box in found] for name, found in boxes.items()}
            every.setdefault(key, {}).update({name: (dtype, tuple(shape)) for name, (dtype, shape) in kinds.items()})
    return Catalogue(held, every)


def describe(memory: Memory) -> list[Any]:
    """The steps on a domain's shelf, with the boxes that are there."""
    keys = sorted({(item.label.step, item.label.generation) for item in memory.sealed})
    return [[*key, boxes_in(memory.of(*key)), kinds_in(memory.of(*key))] for key in keys]


def boxes_in(sealed: Sequence[Sealed]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in sealed:
        for name, parts in item.held.items():
            found.setdefault(name, []).extend([box.offsets, box.sizes] for box, _ in parts)
    return found


def kinds_in(sealed: Sequence[Sealed]) -> dict[str, Any]:
    return {name: [name_of(dtype), shape] for name, (dtype, shape) in every_tensor(sealed).items()}


def box_of(record: Sequence[Sequence[int]]) -> Box:
    return Box(tuple(record[0]), tuple(record[1]))


def fill(
    member: Member, group: Group, places: Places, memory: Memory, catalogue: Catalogue, step: Step,
    wanted: Mapping[str, Box],
) -> int:  # fmt: skip
    """Bring what this domain's ranks want of a step onto its shelf; the bytes that came. Everyone takes part."""
    record = {name: [box.offsets, box.sizes] for name, box in wanted.items()}
    told = group.gather_bytes(json.dumps(record).encode())
    wants = [{name: box_of(box) for name, box in json.loads(row).items()} for row in told]
    held, every = catalogue.held[step], catalogue.every[step]
    rest = share_rest(group, places, memory, held, step)
    needed = moves(places, wants, held)
    if not needed and all(name in held for name in places.names):
        return 0
    incoming = travel(group, places, needed, every, memory.of(*step))
    if places.speaker(places.of[group.rank]) == group.rank:
        mine = [move for move in needed if move.target == places.of[group.rank]]
        # Bytes arrive by the rank of their sender, not in the order of the moves.
        mine.sort(key=lambda move: places.names.index(move.source))
        keep(member, step, memory, mine, every, incoming, rest)
    group.gather(torch.tensor([1]))
    return incoming.numel()


def share_rest(group: Group, places: Places, memory: Memory, held: Mapping[str, Any], step: Step) -> tuple[bytes, str]:
    """The state beside the tensors and its fingerprint, from all domains that have them: each may know other stages."""
    text = b""
    if group.rank == places.speaker(places.of[group.rank]) and places.of[group.rank] in held:
        found = memory.of(*step)
        texts = dict.fromkeys(item.rest_text.decode() for item in found)
        text = json.dumps([list(texts), found[0].label.layout]).encode()
    told = [json.loads(row) for row in group.gather_bytes(text) if row]
    rests = list(dict.fromkeys(rest for texts, _ in told for rest in texts))
    if len(rests) == 1:
        return rests[0].encode(), told[0][1]
    return plain.dumps(merge([plain.loads(rest) for rest in rests])), told[0][1]


def size_of(move: Move, every: Mapping[str, tuple[str, tuple[int, ...]]]) -> int:
    return move.part.elements * int(getattr(torch, every[move.name][0]).itemsize)


def travel(
    group: Group, places: Places, needed: Sequence[Move], every: Mapping[str, Any], sealed: Sequence[Sealed]
) -> torch.Tensor:
    """Send and receive, between the speakers of the domains; the bytes for this rank, in the order of the moves."""
    here = places.of[group.rank]
    is_speaker = places.speaker(here) == group.rank
    sent = [0] * group.world
    got = [0] * group.world
    outgoing: dict[int, list[torch.Tensor]] = {rank: [] for rank in range(group.world)}
    for move in needed:
        to, source = places.speaker(move.target), places.speaker(move.source)
        if is_speaker and source == group.rank:
            sent[to] += size_of(move, every)
            outgoing[to].append(bytes_of(move, sealed))
        if is_speaker and to == group.rank:
            got[source] += size_of(move, every)
    parts = [part for rank in range(group.world) for part in outgoing[rank]]
    flat = torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)
    incoming = torch.empty(sum(got), dtype=torch.uint8)
    dist.all_to_all_single(incoming, flat, output_split_sizes=got, input_split_sizes=sent)
    group.check()
    return incoming


def bytes_of(move: Move, sealed: Sequence[Sealed]) -> torch.Tensor:
    """The bytes of a part, out of the slot that holds it; a part never lies across two boxes."""
    for item in sealed:
        for box, at in item.held.get(move.name, []):
            if box.meet(move.part) == move.part:
                view = view_of(item.slot.data, at, item.every[move.name][0], box)
                part = view[move.part.within(box)] if box.sizes else view
                return part.contiguous().view(-1).view(torch.uint8)
    raise KeyError(move.name)


def keep(
    member: Member, step: Step, memory: Memory, mine: Sequence[Move], every: Mapping[str, Any], incoming: torch.Tensor,
    rest: tuple[bytes, str],
) -> None:  # fmt: skip
    """A slot for the guests on this domain's shelf, sealed like any other."""
    held: dict[str, list[Any]] = {}
    places, at, taken = [], 0, 0
    for move in mine:
        size = size_of(move, every)
        held.setdefault(move.name, []).append([move.part.offsets, move.part.sizes, at])
        places.append((at, taken, size))
        taken += size
        at += -(-size // ALIGN) * ALIGN
    table = table_of(layout_of(held, every), rest[0])
    entry = member.ask_slots(f"{member.name}-guest{step[0]}-{step[1]}-{len(memory.sealed)}", len(table), at, 1, "guest")
    slot: Slot = next(iter(member.shelf.open(entry, is_filled=True)))
    with slot.writing(Label(step[1], step[0], rest[1], at, len(table)), table) as data:
        for begin, source, size in places:
            torch.frombuffer(data, dtype=torch.uint8, offset=begin, count=size).copy_(incoming[source : source + size])
    slot.close()
