"""Where nodes stand: which labels of nodes are levels of the topology, in which order, and the place of each node.

Levels are the labels that somebody asks for (a group, an affinity, a spread, a topology object, the configuration) and
that nest: a domain of an inner level lies in one domain of each outer one.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tutti.engine.model import Pool
from tutti.jobs.kube.objects import Thing
from tutti.jobs.kube.wants import HOSTNAME

USUAL = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
POOL = "default"


class Terrain:
    """The levels of the cluster and the place of each node."""

    def __init__(self, configured: Iterable[str] = ()) -> None:
        self.configured = tuple(configured)
        self.asked: dict[str, None] = dict.fromkeys((*USUAL, *self.configured))
        self.aliases: dict[str, str] = {}
        self.levels: tuple[str, ...] = ()
        self.crossing: tuple[str, ...] = ()
        """Labels somebody asked for that do not nest with the others, so that they are no levels."""
        self._hyper: dict[str, dict[str, str]] = {}
        """Domains that are declared by object rather than by label: level -> node -> domain."""
        self._things: dict[str, Thing] = {}

    def ask(self, key: str) -> bool:
        """Somebody names a label as a level; whether it is new."""
        if not key or key == HOSTNAME or key in self.asked or ":" in key:
            return False
        self.asked[key] = None
        return True

    def put(self, thing: Thing) -> None:
        """A topology object was made or changed."""
        self._things[f"{thing.kind}/{thing.metadata.name}"] = thing

    def drop(self, thing: Thing) -> None:
        """A topology object is gone."""
        self._things.pop(f"{thing.kind}/{thing.metadata.name}", None)

    def survey(self, nodes: Mapping[str, Mapping[str, str]]) -> bool:
        """Work out the levels anew from the labels of all nodes; whether they have changed."""
        before = (self.levels, self.crossing, self.aliases, self._hyper)
        self.aliases = {}
        self._read_things(nodes)
        places = {key: self._of_all(key, nodes) for key in (*self.asked, *self._hyper)}
        used = {key: place for key, place in places.items() if place}
        order = sorted(used, key=lambda key: (len(set(used[key].values())), list(used).index(key)))
        levels: list[str] = []
        crossing: list[str] = []
        for key in order:
            outside = [used[level] for level in levels]
            (levels if all(_nests(used[key], outer) for outer in outside) else crossing).append(key)
        self.levels, self.crossing = tuple(levels), tuple(crossing)
        return before != (self.levels, self.crossing, self.aliases, self._hyper)

    def _of_all(self, key: str, nodes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        if key in self._hyper:
            return self._hyper[key]
        return {name: labels[key] for name, labels in nodes.items() if key in labels}

    def pool(self) -> Pool:
        """The one pool, with its levels."""
        return Pool(POOL, self.levels)

    def place(self, name: str, labels: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The domain at each level, and the levels where the node is in none (there it stands alone)."""
        path, lacks = [], []
        for level in self.levels:
            domain = self._hyper[level].get(name) if level in self._hyper else labels.get(level)
            if domain is None:
                lacks.append(level)
            path.append(domain if domain is not None else f"~{name}")
        return tuple(path), tuple(lacks)

    def domains(self, nodes: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
        """How many domains each level has."""
        counts = {level: len(set(self._of_all(level, nodes).values())) for level in self.levels}
        return counts | {"node": len(nodes)}

    # -- topologies declared by objects

    def _read_things(self, nodes: Mapping[str, Mapping[str, str]]) -> None:
        self._hyper = {}
        hyper = {thing.metadata.name: thing for thing in self._things.values() if thing.kind == "HyperNode"}
        for name, thing in hyper.items():
            spec = thing.spec or {}
            level = f"tier:{spec.get('tier')}"
            if spec.get("tierName"):
                self.aliases[f"tier:{spec['tierName']}"] = level
            for node in _members(name, hyper, nodes, 0):
                self._hyper.setdefault(level, {})[node] = name
        for thing in self._things.values():
            for entry in (thing.spec or {}).get("levels") or []:
                self.ask(str(entry.get("nodeLabel") or ""))
                if entry.get("alias"):
                    self.aliases[str(entry["alias"])] = str(entry.get("nodeLabel"))
            for entry in (thing.spec or {}).get("networkTopologySpec") or []:
                self._read_layer(entry)

    def _read_layer(self, entry: dict[str, Any]) -> None:
        keys = entry.get("labelKey") or []
        layer = str(entry.get("topologyLayer"))
        if keys:
            self.ask(str(keys[0]))
            self.aliases[f"layer:{layer}"] = str(keys[0])
        elif layer == "NodeTopologyLayer":
            self.aliases[f"layer:{layer}"] = "node"


def _members(name: str, hyper: Mapping[str, Thing], nodes: Mapping[str, Mapping[str, str]], depth: int) -> set[str]:
    """The nodes below a HyperNode."""
    found: set[str] = set()
    if depth > 16 or name not in hyper:
        return found
    for member in (hyper[name].spec or {}).get("members") or []:
        chosen = member.get("selector") or {}
        inner = member.get("type") == "HyperNode"
        for candidate in _chosen(chosen, hyper if inner else nodes, {} if inner else nodes):
            found |= _members(candidate, hyper, nodes, depth + 1) if inner else {candidate}
    return found


def _chosen(selector: dict[str, Any], names: Iterable[str], labels: Mapping[str, Mapping[str, str]]) -> list[str]:
    exact, pattern = selector.get("exactMatch"), selector.get("regexMatch")
    if exact:
        return [name for name in names if name == exact.get("name")]
    if pattern:
        try:
            wanted = re.compile(str(pattern.get("pattern")))
        except re.error:
            return []
        return [name for name in names if wanted.fullmatch(name)]
    wanted_labels = (selector.get("labelMatch") or {}).get("matchLabels") or {}
    return [n for n in names if wanted_labels and all(labels.get(n, {}).get(k) == v for k, v in wanted_labels.items())]


def _nests(inner: Mapping[str, str], outer: Mapping[str, str]) -> bool:
    """Whether each inner domain lies in one outer domain."""
    seen: dict[str, str | None] = {}
    return all(seen.setdefault(domain, outer.get(node)) == outer.get(node) for node, domain in inner.items())
