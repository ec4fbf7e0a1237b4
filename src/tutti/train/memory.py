"""Reading snapshots back: which steps are complete over all slots of the run, and the copies that bring one back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from tutti.train import plain
from tutti.train.agent.shelf import Shelf
from tutti.train.agent.slots import Busy, Label, NotSealed, Slot
from tutti.train.boxes import Box, Holding, plan, whole
from tutti.train.bulk import Copies
from tutti.train.errors import LostState
from tutti.train.snapshot import view_of


@dataclass
class Sealed:
    """One pinned slot and what it says it holds."""

    source: str
    slot: Slot
    label: Label
    held: dict[str, list[tuple[Box, int]]]
    every: dict[str, tuple[torch.dtype, tuple[int, ...]]]
    rest: dict[str, Any]


@dataclass
class Memory:
    """Every sealed slot on some shelves of a run, pinned while this is open; `is_checked` compares their bytes with
    their checksums first.
    """

    shelves: Sequence[Shelf]
    is_checked: bool = False
    sealed: list[Sealed] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    _pins: ExitStack = field(default_factory=ExitStack)
    _complete: dict[int, list[Sealed]] = field(default_factory=dict)

    def __enter__(self) -> Memory:  # noqa: PYI034 - Self is newer than Python 3.10
        for shelf in self.shelves:
            for entry in shelf.entries():
                for number, slot in enumerate(shelf.open(entry)):
                    self._pin(f"{entry.member}.{number}", slot)
        return self

    def __exit__(self, *_: object) -> None:
        self._pins.close()
        for sealed in self.sealed:
            sealed.slot.close()
        self.sealed.clear()

    def steps(self, fingerprint: str = "") -> list[int]:
        """Steps of which every tensor is complete, newest first."""
        steps = {sealed.label.step for sealed in self.sealed if fingerprint in ("", sealed.label.layout)}
        return [step for step in sorted(steps, reverse=True) if self._of(step)]

    def fingerprints(self) -> set[str]:
        return {sealed.label.layout for sealed in self.sealed}

    def of(self, step: int, generation: int) -> list[Sealed]:
        """The slots that one generation wrote of a step, whether or not they are all."""
        return [item for item in self.sealed if (item.label.step, item.label.generation) == (step, generation)]

    def choose(self, step: int, generation: int) -> None:
        """Read this step as this generation wrote it: others hold the parts that are not here and not wanted."""
        self._complete[step] = self.of(step, generation)

    def rest(self, step: int) -> dict[str, Any]:
        """The plain state of a step; everyone wrote the same, or its own part of it."""
        whole_rest: dict[str, Any] = merge([sealed.rest for sealed in self._of(step)])
        return whole_rest

    def reader(self, step: int, prefer: Iterable[str] = ()) -> Reader:
        return Reader(self._of(step), tuple(prefer))

    def _of(self, step: int) -> list[Sealed]:
        """The slots of a step. Those of one generation belong together; a step computed again is another one."""
        if step not in self._complete:
            numbers = sorted({item.label.generation for item in self.sealed if item.label.step == step}, reverse=True)
            sets = (self.of(step, number) for number in numbers)
            self._complete[step] = next((sealed for sealed in sets if is_complete(sealed)), [])
        return self._complete[step]

    def _pin(self, source: str, slot: Slot) -> None:
        try:
            label = self._pins.enter_context(slot.reading())
        except (Busy, NotSealed):
            slot.close()
            return
        if self.is_checked and not slot.is_intact(label):
            self.broken.append(source)
            slot.close()
            return
        self.sealed.append(open_table(source, slot, label))


class Reader:
    """Copies boxes of one step out of the slots; they are there when `settle` has returned."""

    def __init__(self, sealed: list[Sealed], prefer: tuple[str, ...]) -> None:
        self.sealed = {item.source: item for item in sealed}
        self._found = list(self.sealed.values())
        self.prefer = prefer
        self.bytes_read = 0
        self._copies = Copies()

    def __call__(self, name: str, target: torch.Tensor, box: Box) -> None:
        """Fill `target`, which is this box of the named tensor, by the next `settle`."""
        for copy in plan(name, box, holdings(name, self._found), self.prefer):
            item, held = self.sealed[copy.source], copy.held
            at = next(at for box, at in item.held[name] if box == held)
            view = view_of(item.slot.data, at, item.every[name][0], held)
            into = target[copy.part.within(box)] if box.sizes else target
            self._copies.add(into, view[copy.part.within(held)] if held.sizes else view)
            self.bytes_read += copy.part.elements * view.element_size()

    def settle(self) -> None:
        """All that was asked for since the last time is there."""
        self._copies.settle()

    def describe(self, name: str) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and type of the whole tensor."""
        dtype, shape = every_tensor(self.sealed.values())[name]
        return shape, dtype


def every_tensor(sealed: Iterable[Sealed]) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """All tensors of a step; a rank that has some layers only knows of those."""
    return {name: kind for item in sealed for name, kind in item.every.items()}


def merge(parts: Sequence[Any]) -> Any:
    """One structure out of several that agree where they meet: dictionaries are joined, of others the first counts."""
    if not all(isinstance(part, dict) for part in parts):
        return parts[0]
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: merge([part[key] for part in parts if key in part]) for key in keys}


def is_complete(sealed: list[Sealed]) -> bool:
    """Whether these slots together hold every element of every tensor."""
    try:
        for name, (_, shape) in every_tensor(sealed).items():
            held = holdings(name, sealed)
            # Nearly always somebody has all of it, or a shard is the whole of its name.
            if not any(holding.box.sizes == shape for holding in held):
                plan(name, whole(shape), held)
    except LostState:
        return False
    return True


def holdings(name: str, sealed: list[Sealed]) -> list[Holding]:
    return [Holding(item.source, name, box) for item in sealed for box, _ in item.held.get(name, [])]


def open_table(source: str, slot: Slot, label: Label) -> Sealed:
    """A slot's table as typed records."""
    table = slot.table()
    layout = table["layout"]
    held = {
        name: [(Box(tuple(offsets), tuple(sizes)), at) for offsets, sizes, at in boxes]
        for name, boxes in layout["held"].items()
    }
    every = {name: (getattr(torch, dtype), tuple(shape)) for name, (dtype, shape) in layout["every"].items()}
    return Sealed(source, slot, label, held, every, plain.unpack(table["rest"]))
