"""Failure domains: who shares one, who keeps a copy of whose state, and what has to move when one is lost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutti.train.boxes import Box, Holding, plan, subtract

Boxes = Mapping[str, Sequence[Box]]


@dataclass(frozen=True)
class Places:
    """The failure domain of every rank, and what it holds of the model: those of one part have the same."""

    of: tuple[str, ...]
    parts: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The domains there are, in the order of their first ranks."""
        return tuple(dict.fromkeys(self.of))

    @property
    def is_split(self) -> bool:
        return len(self.names) > 1

    def ranks(self, name: str) -> list[int]:
        return [rank for rank, domain in enumerate(self.of) if domain == name]

    def speaker(self, name: str) -> int:
        """The rank that sends and receives for its domain."""
        return self.of.index(name)

    def share(self, rank: int) -> tuple[int, int]:
        """A rank's place among those of its domain that have the same, and how many they are."""
        ranks = [other for other in self.ranks(self.of[rank]) if self._part(other) == self._part(rank)]
        return ranks.index(rank), len(ranks)

    def is_lone(self, rank: int) -> bool:
        """Whether nobody in another domain has what this rank has."""
        alike = (other for other in range(len(self.of)) if self._part(other) == self._part(rank))
        return self.is_split and len({self.of[other] for other in alike}) == 1

    def _part(self, rank: int) -> int:
        return self.parts[rank] if self.parts else 0

    def buddy(self, rank: int) -> int:
        """Who keeps a copy of a rank's own state: someone in the next domain; itself when there is no other."""
        names = self.names
        following = self.ranks(names[(names.index(self.of[rank]) + 1) % len(names)])
        return following[self.ranks(self.of[rank]).index(rank) % len(following)] if self.is_split else rank

    def sources(self, rank: int) -> list[int]:
        """Whose state a rank keeps a copy of."""
        return [other for other in range(len(self.of)) if other != rank and self.buddy(other) == rank]


@dataclass(frozen=True)
class Move:
    """A part of a tensor that one domain has and another wants."""

    source: str
    target: str
    name: str
    part: Box


def moves(places: Places, wanted: Sequence[Mapping[str, Box]], held: Mapping[str, Boxes]) -> list[Move]:
    """What must travel so that every rank finds what it wants in its own domain; the same list on every rank."""
    found: list[Move] = []
    for target in places.names:
        here = held.get(target, {})
        for name in sorted({name for rank in places.ranks(target) for name in wanted[rank]}):
            covered = list(here.get(name, ()))
            for rank in places.ranks(target):
                for part in without(wanted[rank].get(name), covered):
                    others = [(domain, box) for domain in sorted(held) for box in held[domain].get(name, ())]
                    copies = plan(name, part, [Holding(domain, name, box) for domain, box in others])
                    found += [Move(copy.source, target, name, copy.part) for copy in copies]
                    covered.append(part)
    return found


def without(box: Box | None, holes: Iterable[Box]) -> list[Box]:
    """The parts of a box that none of the others covers."""
    left = [box] if box is not None and box.elements else []
    for hole in holes:
        following: list[Box] = []
        for part in left:
            common = part.meet(hole) if hole.elements else None
            following += [part] if common is None else subtract(part, common)
        left = following
    return left


def is_whole(shape: Sequence[int], boxes: Iterable[Box]) -> bool:
    """Whether these boxes together are all of a tensor."""
    return not without(Box((0,) * len(shape), tuple(shape)), boxes)
