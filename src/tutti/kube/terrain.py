"""Where nodes stand: which labels of nodes are levels of the topology, in which order, and the place of each node.

Levels are the labels that somebody asks for (a group, an affinity, a spread, a topology object, the configuration) and
that nest: a domain of an inner level lies in one domain of each outer one.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from tutti.engine.model import Pool
from tutti.jobs.kube.objects import LabelSelector, Narrow, Thing
from tutti.jobs.kube.select import labels_match
from tutti.jobs.kube.wants import HOSTNAME

USUAL = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
POOL = "default"


class Named(Narrow):
    """One name."""

    name: str = ""


class Pattern(Narrow):
    """Names that match."""

    pattern: str = ""


class Chosen(Narrow):
    """Which nodes or HyperNodes are meant."""

    exact_match: Named | None = None
    regex_match: Pattern | None = None
    label_match: LabelSelector | None = None


class Member(Narrow):
    """Some of what lies below a HyperNode."""

    type: str = "Node"
    selector: Chosen = msgspec.field(default_factory=Chosen)


class Level(Narrow):
    """A level of KAI's or Kueue's topology."""

    node_label: str = ""
    alias: str | None = None


class Layer(Narrow):
    """A level of Koordinator's."""

    topology_layer: str = ""
    label_key: list[str] | None = None


class Lay(Narrow):
    """The specification of a topology, whoever's it is."""

    tier: int | str = ""
    tier_name: str | None = None
    members: list[Member] | None = None
    levels: list[Level] | None = None
    network_topology_spec: list[Layer] | None = None


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
        self._lays: dict[tuple[str, str], Lay] = {}
        """By whose it is and its name."""

    def ask(self, key: str) -> bool:
        """Somebody names a label as a level; whether it is new."""
        if not key or key == HOSTNAME or key in self.asked or ":" in key:
            return False
        self.asked[key] = None
        return True

    def put(self, thing: Thing) -> None:
        """A topology object was made or changed."""
        self._lays[_whose(thing), thing.metadata.name] = msgspec.convert(thing.spec or {}, Lay)

    def drop(self, thing: Thing) -> None:
        """A topology object is gone."""
        self._lays.pop((_whose(thing), thing.metadata.name), None)

    def survey(self, nodes: Mapping[str, Mapping[str, str]]) -> bool:
        """Work out the levels anew from the labels of all nodes; whether they have changed."""
        before = (self.levels, self.crossing, self.aliases, self._hyper)
        self.aliases = {}
        self._read_things(nodes)
        used = {key: place for key in self._by_rank() if (place := self._of_all(key, nodes))}
        levels: list[str] = []
        for key in used:
            at = _depth(used, levels, key)
            if at >= 0:
                levels.insert(at, key)
        self.levels, self.crossing = tuple(levels), tuple(key for key in used if key not in levels)
        return before != (self.levels, self.crossing, self.aliases, self._hyper)

    def _by_rank(self) -> list[str]:
        """Levels in the order in which they count where they cross: usual ones, configured ones, the rest by name."""
        first = dict.fromkeys((*USUAL, *self.configured))
        return [*first, *sorted({*self.asked, *self._hyper} - set(first))]

    def _of_all(self, key: str, nodes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        if key in self._hyper:
            return self._hyper[key]
        return {name: labels[key] for name, labels in nodes.items() if key in labels}

    def pool(self) -> Pool:
        """The one pool, with its levels."""
        return Pool(POOL, self.levels)

    def place(self, name: str, labels: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The domain at each level, and the levels where the node is in none (there it stands alone)."""
        path: list[str] = []
        lacks: list[str] = []
        inner = name
        for level in reversed(self.levels):
            domain = self._hyper[level].get(name) if level in self._hyper else labels.get(level)
            if domain is None:
                lacks.append(level)
            # Nodes of one inner domain stay together although nobody says where that domain lies.
            inner = domain if domain is not None else f"~{inner.removeprefix('~')}"
            path.append(inner)
        return tuple(reversed(path)), tuple(reversed(lacks))

    def domains(self, nodes: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
        """How many domains each level has."""
        counts = {level: len(set(self._of_all(level, nodes).values())) for level in self.levels}
        return counts | {"node": len(nodes)}

    # -- topologies declared by objects

    def _read_things(self, nodes: Mapping[str, Mapping[str, str]]) -> None:
        self._hyper = {}
        hyper = {name: lay for (whose, name), lay in sorted(self._lays.items()) if whose.endswith("/HyperNode")}
        for name, lay in hyper.items():
            level = f"tier:{lay.tier}"
            if lay.tier_name:
                self.aliases[f"tier:{lay.tier_name}"] = level
            for node in _members(name, hyper, nodes, 0):
                self._hyper.setdefault(level, {})[node] = name
        for _, lay in sorted(self._lays.items(), key=lambda entry: entry[0]):
            for entry in lay.levels or []:
                self.ask(entry.node_label)
                if entry.alias:
                    self.aliases[entry.alias] = entry.node_label
            for layer in lay.network_topology_spec or []:
                self._read_layer(layer, nodes)

    def _read_layer(self, layer: Layer, nodes: Mapping[str, Mapping[str, str]]) -> None:
        keys = layer.label_key or []
        if len(keys) > 1:
            # Several labels together name a domain.
            there = {name: labels for name, labels in nodes.items() if all(key in labels for key in keys)}
            domains = {name: "/".join(labels[key] for key in keys) for name, labels in there.items()}
            self._hyper[f"layer:{layer.topology_layer}"] = domains
        elif keys:
            self.ask(keys[0])
            self.aliases[f"layer:{layer.topology_layer}"] = keys[0]
        elif layer.topology_layer == "NodeTopologyLayer":
            self.aliases[f"layer:{layer.topology_layer}"] = "node"


def _members(name: str, hyper: Mapping[str, Lay], nodes: Mapping[str, Mapping[str, str]], depth: int) -> set[str]:
    """The nodes below a HyperNode."""
    found: set[str] = set()
    if depth > 16 or name not in hyper:
        return found
    for member in hyper[name].members or []:
        inner = member.type == "HyperNode"
        for candidate in _chosen(member.selector, hyper if inner else nodes, {} if inner else nodes):
            found |= _members(candidate, hyper, nodes, depth + 1) if inner else {candidate}
    return found


def _chosen(selector: Chosen, names: Iterable[str], labels: Mapping[str, Mapping[str, str]]) -> list[str]:
    if selector.exact_match:
        return [name for name in names if name == selector.exact_match.name]
    if selector.regex_match:
        try:
            wanted = re.compile(selector.regex_match.pattern)
        except re.error:
            return []
        return [name for name in names if wanted.fullmatch(name)]
    match = selector.label_match
    if match is None or not (match.match_labels or match.match_expressions):
        return []
    return [name for name in names if labels_match(match, labels.get(name, {}))]


def _whose(thing: Thing) -> str:
    """API group and kind: two systems may call their topologies the same."""
    return f"{thing.api_version.partition('/')[0]}/{thing.kind}"


def _depth(used: Mapping[str, Mapping[str, str]], levels: list[str], key: str) -> int:
    """Below how many of the levels another one lies, with the rest inside it; -1 where it crosses one of them."""
    size = {level: len(set(used[level].values())) for level in (*levels, key)}
    fits = [
        at
        for at in range(len(levels) + 1)
        if all(_nests(used[key], used[outer]) for outer in levels[:at])
        and all(_nests(used[inner], used[key]) for inner in levels[at:])
    ]
    wanted = sum(size[level] <= size[key] for level in levels)
    return wanted if wanted in fits else max(fits, default=-1)


def _nests(inner: Mapping[str, str], outer: Mapping[str, str]) -> bool:
    """Whether each inner domain lies in one outer domain."""
    seen: dict[str, str | None] = {}
    return all(seen.setdefault(domain, outer.get(node)) == outer.get(node) for node, domain in inner.items())
