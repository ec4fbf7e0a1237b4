"""Reading snapshots back: which steps are complete over all slots of the run, and the copies that bring one back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import torch

from tutti.train import plain
from tutti.train.agent.shelf import Shelf
from tutti.train.agent.slots import Busy, Label, NotSealed, Slot
from tutti.train.boxes import Box, Holding, plan, whole
from tutti.train.bulk import Copies, uncollected
from tutti.train.errors import LostState
from tutti.train.snapshot import NO_STEP, Kept, view_of

Kinds = dict[str, tuple[torch.dtype, tuple[int, ...]]]
Boxes = dict[str, list[tuple[Box, int]]]


class Sealed:
    """One pinned slot and what it says it holds, read when it is asked for."""

    def __init__(self, source: str, slot: Slot, label: Label) -> None:
        self.source, self.slot, self.label = source, slot, label
        *texts, self.rest_text = slot.table()
        self.parts: tuple[bytes, bytes] = (texts[0], texts[1])

    @property
    def held(self) -> Boxes:
        return boxes_of(self.parts[0])

    @property
    def every(self) -> Kinds:
        return kinds_of(self.parts[1])

    @cached_property
    def address(self) -> int:
        """Where the bytes begin in this process."""
        return int(torch.frombuffer(self.slot.data, dtype=torch.uint8).data_ptr())


@lru_cache(maxsize=64)
def boxes_of(text: bytes) -> Boxes:
    """Where the parts of a slot are; the other slots of the same member say the same."""
    return {
        name: [(Box(tuple(offsets), tuple(sizes)), at) for offsets, sizes, at in boxes]
        for name, boxes in json.loads(text).items()
    }


@lru_cache(maxsize=64)
def kinds_of(text: bytes) -> Kinds:
    """Type and shape of every tensor of a step; the slots of all ranks (of a stage) say the same."""
    return {name: (getattr(torch, dtype), tuple(shape)) for name, (dtype, shape) in json.loads(text).items()}


@dataclass
class Memory:
    """Every sealed slot on some shelves of a run (or `only` those of one step of a generation), pinned while this is
    open; `is_checked` compares their bytes with their checksums first.
    """

    shelves: Sequence[Shelf]
    is_checked: bool = False
    only: Kept = NO_STEP
    sealed: list[Sealed] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """Slots that are being written, or were when their writer ended."""
    _pins: ExitStack = field(default_factory=ExitStack)
    _complete: dict[int, list[Sealed]] = field(default_factory=dict)
    _known: dict[tuple[tuple[bytes, bytes], ...], bool] = field(default_factory=dict)

    def __enter__(self) -> Memory:  # noqa: PYI034 - Self is newer than Python 3.10
        self._pins.enter_context(uncollected())
        for shelf in self.shelves:
            for entry in shelf.entries():
                for number, slot in enumerate(shelf.open(entry)):
                    self._pin(f"{entry.member}.{number}", slot)
        return self

    def __exit__(self, *_: object) -> None:
        self._pins.close()
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
        texts = dict.fromkeys(sealed.rest_text for sealed in self._of(step))
        whole_rest: dict[str, Any] = merge([plain.loads(text) for text in texts])
        return whole_rest

    def generation(self, step: int) -> int:
        """Whose parts of a complete step are read."""
        return self._of(step)[0].label.generation

    def reader(self, step: int, prefer: Iterable[str] = ()) -> Reader:
        return Reader(self._of(step), tuple(prefer))

    def _of(self, step: int) -> list[Sealed]:
        """The slots of a step. Those of one generation belong together; a step computed again is another one."""
        if step not in self._complete:
            numbers = sorted({item.label.generation for item in self.sealed if item.label.step == step}, reverse=True)
            sets = (self.of(step, number) for number in numbers)
            self._complete[step] = next((sealed for sealed in sets if self._is_complete(sealed)), [])
        return self._complete[step]

    def _is_complete(self, sealed: list[Sealed]) -> bool:
        """Asked once of parts that are all alike, as those of one step and of the one before it are."""
        key = tuple(sorted(item.parts for item in sealed))
        if key not in self._known:
            self._known[key] = is_complete(sealed)
        return self._known[key]

    def _pin(self, source: str, slot: Slot) -> None:
        with ExitStack() as pin:
            pin.callback(slot.close)
            try:
                label = pin.enter_context(slot.reading())
            except (Busy, NotSealed) as why:
                self.passed_over.append(f"{source} ({'in use' if isinstance(why, Busy) else 'not sealed'})")
                return
            if self.only not in (NO_STEP, (label.step, label.generation)):
                return
            if self.is_checked and not slot.is_intact(label):
                self.broken.append(source)
                return
            self.sealed.append(Sealed(source, slot, label))
            self._pins.push(pin.pop_all())


class Reader:
    """Copies boxes of one step out of the slots; they are there when `settle` has returned."""

    def __init__(self, sealed: list[Sealed], prefer: tuple[str, ...]) -> None:
        self.sealed = {item.source: item for item in sealed}
        self.prefer = prefer
        self._held = holdings(sealed)
        self._every = every_tensor(sealed)
        self._copies = Copies()

    def __call__(self, name: str, target: torch.Tensor, box: Box) -> None:
        """Fill `target`, which is this box of the named tensor, by the next `settle`."""
        dtype = self._every[name][0] if name in self._every else None
        for copy in plan(name, box, self._held.get(name, []), self.prefer):
            item, held = self.sealed[copy.source], copy.held
            if held == box == copy.part and target.is_cpu and target.dtype is dtype and target.is_contiguous():
                self._copies.add_run((target.data_ptr(), item.address + copy.at, target.nbytes))
                continue
            view = view_of(item.slot.data, copy.at, item.every[name][0], held)
            into = target[copy.part.within(box)] if box.sizes else target
            self._copies.add(into, view[copy.part.within(held)] if held.sizes else view)

    def settle(self) -> None:
        """All that was asked for since the last time is there."""
        self._copies.settle()

    def describe(self, name: str) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and type of the whole tensor."""
        dtype, shape = self._every[name]
        return shape, dtype


def every_tensor(sealed: Sequence[Sealed]) -> Kinds:
    """All tensors of a step; a rank that has some layers only knows of those."""
    found = [kinds_of(text) for text in dict.fromkeys(item.parts[1] for item in sealed)]
    return found[0] if len(found) == 1 else {name: kind for every in found for name, kind in every.items()}


def merge(parts: Sequence[Any]) -> Any:
    """One structure out of several that agree where they meet: dictionaries are joined, of others the first counts."""
    if len(parts) == 1 or not all(isinstance(part, dict) for part in parts):
        return parts[0]
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: merge([part[key] for part in parts if key in part]) for key in keys}


def is_complete(sealed: list[Sealed]) -> bool:
    """Whether these slots together hold every element of every tensor."""
    every, parts = every_tensor(sealed), holdings(sealed)
    try:
        for name, (_, shape) in every.items():
            held = parts.get(name, [])
            # Nearly always somebody has all of it, or a shard is the whole of its name.
            if not any(holding.box.sizes == shape for holding in held):
                plan(name, whole(shape), held)
    except LostState:
        return False
    return True


def holdings(sealed: Sequence[Sealed]) -> dict[str, list[Holding]]:
    """By tensor, who has which box of it."""
    found: dict[str, list[Holding]] = {}
    for item in sealed:
        for name, boxes in item.held.items():
            found.setdefault(name, []).extend(Holding(item.source, name, box, at) for box, at in boxes)
    return found
