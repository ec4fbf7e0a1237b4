"""Re-sharding as geometry: every shard is a box of a global tensor, and moving state is intersecting boxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from tutti.train.errors import LostState

Shape = tuple[int, ...]


class Box(NamedTuple):
    """A block of a tensor: where it begins, and how large it is, in each dimension."""

    offsets: Shape
    sizes: Shape

    @property
    def elements(self) -> int:
        return prod(self.sizes)

    def meet(self, other: Box) -> Box | None:
        """The part that both have."""
        low = tuple(map(max, self.offsets, other.offsets))
        high = tuple(
            min(a + b, c + d) for a, b, c, d in zip(self.offsets, self.sizes, other.offsets, other.sizes, strict=True)
        )
        sizes = tuple(end - begin for begin, end in zip(low, high, strict=True))
        return Box(low, sizes) if all(size > 0 for size in sizes) else None

    def within(self, outer: Box) -> tuple[slice, ...]:
        """Where this box is inside another, as slices."""
        return tuple(
            slice(begin - base, begin - base + size)
            for begin, base, size in zip(self.offsets, outer.offsets, self.sizes, strict=True)
        )


def whole(shape: Sequence[int]) -> Box:
    """The box that is the whole tensor."""
    return Box((0,) * len(shape), tuple(shape))


class Holding(NamedTuple):
    """One tensor's box in one place, and where its bytes begin there."""

    source: str
    name: str
    box: Box
    at: int = 0


class Copy(NamedTuple):
    """Take this part of a tensor from there."""

    source: str
    name: str
    part: Box
    held: Box
    at: int = 0


def plan(name: str, want: Box, held: Iterable[Holding], prefer: Sequence[str] = ()) -> list[Copy]:
    """Copies that fill `want`, each element once, from the preferred sources first."""
    if want.elements == 0:
        return []
    held = list(held)
    if len(held) == 1 and held[0].box == want:
        return [Copy(held[0].source, name, want, want, held[0].at)]
    rank = {source: place for place, source in enumerate(prefer)}
    ordered = sorted(
        held, key=lambda holding: (rank.get(holding.source, len(rank)), holding.source, holding.box.offsets)
    )
    copies: list[Copy] = []
    open_parts = [want]
    for holding in ordered:
        left: list[Box] = []
        for part in open_parts:
            common = part.meet(holding.box) if holding.box.elements else None
            if common is None:
                left.append(part)
                continue
            copies.append(Copy(holding.source, name, common, holding.box, holding.at))
            left += subtract(part, common)
        open_parts = left
        if not open_parts:
            return copies
    raise LostState(f"{sum(part.elements for part in open_parts)} elements of {name!r} are in no snapshot that is left")


def subtract(box: Box, hole: Box) -> list[Box]:
    """What is left of a box when a box inside it is taken out; the parts do not overlap."""
    parts: list[Box] = []
    offsets, sizes = list(box.offsets), list(box.sizes)
    for axis, (begin, size) in enumerate(zip(hole.offsets, hole.sizes, strict=True)):
        before, end = begin - offsets[axis], offsets[axis] + sizes[axis]
        if before:
            parts.append(_with(offsets, sizes, axis, offsets[axis], before))
        if end > begin + size:
            parts.append(_with(offsets, sizes, axis, begin + size, end - begin - size))
        offsets[axis], sizes[axis] = begin, size
    return parts


def _with(offsets: list[int], sizes: list[int], axis: int, begin: int, size: int) -> Box:
    return Box(
        tuple(begin if at == axis else value for at, value in enumerate(offsets)),
        tuple(size if at == axis else value for at, value in enumerate(sizes)),
    )


def share_rows(shapes: dict[str, Shape], bytes_each: dict[str, int], rank: int, world: int) -> dict[str, Box]:
    """Split tensors that everyone has into equal parts by rows, so that each rank snapshots one part of them."""
    total = sum(bytes_each.values())
    low, high = total * rank // world, total * (rank + 1) // world
    boxes: dict[str, Box] = {}
    at = 0
    for name, shape in shapes.items():
        size = bytes_each[name]
        begin, end = _rows(shape, size, low - at), _rows(shape, size, high - at)
        if rank == world - 1:
            end = shape[0] if shape else 1
        if end > begin:
            boxes[name] = _row_box(shape, begin, end)
        at += size
    return boxes


def _rows(shape: Shape, size: int, cut: int) -> int:
    """The row at which a cut through the bytes falls."""
    rows = shape[0] if shape else 1
    return 0 if size == 0 else max(0, min(rows, -(-cut * rows // size)))


def _row_box(shape: Shape, begin: int, end: int) -> Box:
    if not shape:
        return Box((), ())
    return Box((begin, *(0 for _ in shape[1:])), (end - begin, *shape[1:]))
