"""Where nodes stand: domains in a tree per pool, levels by name, and kinds of nodes that are alike when empty."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .model import Node, Pool

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NOWHERE = -1
POOL = "pool"
NODE = "node"


class Kind:
    """What nodes must share to be interchangeable when nobody is on them."""

    __slots__ = ("capacity", "domains", "place", "pool", "tags")

    def __init__(self, node: Node, domains: tuple[int, ...]) -> None:
        self.pool = node.pool
        self.place = node.place
        self.capacity = node.capacity
        self.tags = frozenset(node.tags)
        self.domains = domains


class Topology:
    """The tree of domains and the kinds of nodes in it. It only ever grows, so views may share it."""

    def __init__(self) -> None:
        self.pools: dict[str, Pool] = {}
        self.levels: dict[str, int] = {POOL: 0}
        self.paths: list[tuple[str, ...]] = []
        self.parents: list[int] = []
        self.kinds: list[Kind] = []
        self._domain_of: dict[tuple[str, ...], int] = {}
        self._kind_of: dict[tuple[object, ...], int] = {}
        self._kind_domains: list[list[int]] = [[]]
        self._masks: dict[object, BoolArray] = {}

    def declare(self, pool: Pool) -> None:
        """Learn a pool's levels. Nodes of a pool seen before its declaration are re-read by the world."""
        self.pools[pool.name] = pool
        for level in pool.levels:
            self._level(level)

    def kind(self, node: Node) -> int:
        """The number of the node's kind; equal nodes get equal numbers."""
        key = (
            node.pool,
            node.place,
            tuple(sorted(node.capacity.items())),
            tuple(sorted(node.tags)),
            self._levels_of(node),
        )
        known = self._kind_of.get(key)
        if known is None:
            known = self._kind_of[key] = len(self.kinds)
            self._add_kind(node)
        return known

    def domains(self, level: str) -> IntArray:
        """The domain of each kind at a level; NOWHERE where its pool has no such level."""
        at = self.levels.get(level)
        if at is None:
            return np.full(len(self.kinds), NOWHERE, np.int64)
        return np.array(self._kind_domains[at], np.int64)

    def find(self, pool: str, path: tuple[str, ...]) -> int:
        """The domain at a path below a pool, made when it is new."""
        parent = self._domain((pool,), NOWHERE)
        for depth in range(1, len(path) + 1):
            parent = self._domain((pool, *path[:depth]), parent)
        return parent

    def level_of(self, domain: int) -> str:
        """The name of a domain's level."""
        path = self.paths[domain]
        return POOL if len(path) == 1 else self._names(path[0], len(path) - 1)[-1]

    def name(self, domain: int) -> str:
        """How people call a domain: its path below the pool."""
        path = self.paths[domain]
        return "/".join(path[1:]) or path[0]

    def cost(self, pool: str, depth: int) -> int:
        """What a hop costs that leaves a domain of the level at this depth (0 is the outermost)."""
        costs = self.pools[pool].costs if pool in self.pools else ()
        return costs[depth] if depth < len(costs) else 1

    def eligible(
        self, tags: tuple[tuple[str, ...], ...], avoid: tuple[str, ...], tolerate: tuple[str, ...]
    ) -> BoolArray:
        """Which kinds meet the wishes: one tag of every group, none to avoid, no taint but the tolerated ones."""
        key = (tags, avoid, tolerate)
        mask = self._masks.get(key)
        if mask is None or len(mask) < len(self.kinds):
            mask = np.array([_meets(kind.tags, tags, avoid, tolerate) for kind in self.kinds], np.bool_)
            self._masks[key] = mask
        return mask

    def _level(self, name: str) -> int:
        if name not in self.levels:
            self.levels[name] = len(self.levels)
            self._kind_domains.append([NOWHERE] * len(self.kinds))
        return self.levels[name]

    def _levels_of(self, node: Node) -> tuple[str, ...]:
        return tuple(self._names(node.pool, len(node.place)))

    def _names(self, pool: str, depth: int) -> list[str]:
        declared = self.pools[pool].levels if pool in self.pools else ()
        return [declared[i] if i < len(declared) else f"level{i + 1}" for i in range(depth)]

    def _add_kind(self, node: Node) -> None:
        domains = [self.find(node.pool, node.place[:depth]) for depth in range(len(node.place) + 1)]
        at = {POOL: domains[0], **dict(zip(self._levels_of(node), domains[1:], strict=True))}
        for level in at:
            self._level(level)
        for level, column in zip(self.levels, self._kind_domains, strict=True):
            column.append(at.get(level, NOWHERE))
        self.kinds.append(Kind(node, tuple(domains)))

    def _domain(self, path: tuple[str, ...], parent: int) -> int:
        known = self._domain_of.get(path)
        if known is None:
            known = self._domain_of[path] = len(self.paths)
            self.paths.append(path)
            self.parents.append(parent)
        return known


def _meets(
    have: frozenset[str], tags: tuple[tuple[str, ...], ...], avoid: Iterable[str], tolerate: tuple[str, ...]
) -> bool:
    if any(have.isdisjoint(group) for group in tags) or not have.isdisjoint(avoid):
        return False
    return all(tag in tolerate for tag in have if tag.startswith("!"))
