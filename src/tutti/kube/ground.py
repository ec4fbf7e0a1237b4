"""The nodes as the engine sees them: capacity, place, taints, rules they meet, and what pods of others use on them."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from tutti.engine.model import MOST_AMOUNT, Node, NodeState
from tutti.jobs.kube import objects
from tutti.jobs.kube.gang import lacking
from tutti.jobs.kube.quantity import BadQuantity, amount
from tutti.jobs.kube.select import CLOSED, tolerates
from tutti.jobs.kube.wants import ATTACHED, DECLARES, NodeRule, Preference, Wants

from .terrain import Terrain

CORDONED = objects.Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
Rule = NodeRule | Preference


class Ground:
    """One node: what it is, and what is charged to it."""

    __slots__ = ("capacity", "foreign", "labels", "marks", "name", "node", "ready", "taints")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        """As it was last told to the engine."""
        self.labels: dict[str, str] = {}
        self.capacity: dict[str, int] = {}
        self.taints: tuple[objects.Taint, ...] = ()
        self.ready = NodeState.LOST
        self.foreign: dict[str, int] = {}
        self.marks: dict[str, int] = {}
        """Marks left by pods of others, and by how many."""

    @property
    def exists(self) -> bool:
        """Whether there is such a node, or only pods that name it."""
        return self.ready is not NodeState.LOST or bool(self.capacity)

    def could_hold(self, wants: Wants) -> bool:
        """Whether such a pod would fit on the empty node, once what ails the node is over."""
        asked = ((name, amount) for name, amount in wants.ask.items() if not name.startswith(ATTACHED))
        if any(amount > self.capacity.get(name, 0) for name, amount in asked):
            return False
        lasting = (taint for taint in self.taints if not taint.key.startswith("node.kubernetes.io/"))
        closed = any(taint.effect in CLOSED and not tolerates(wants.tolerations, taint) for taint in lasting)
        return not closed and (wants.nodes is None or wants.nodes.allows(self.name, self.labels))

    def read(self, node: objects.Node) -> None:
        """Take in what the API says of it."""
        declared = (f"{DECLARES}{feature}" for feature in node.status.declared_features or [])
        self.labels = (node.metadata.labels or {}) | dict.fromkeys(declared, "")
        self.capacity = capacity(node.status.allocatable or {})
        taints = [taint for taint in node.spec.taints or [] if taint.effect in CLOSED]
        if node.spec.unschedulable and all(taint.key != CORDONED.key for taint in taints):
            taints.append(CORDONED)
        self.taints = tuple(taints)
        conditions = {c.type: c.status for c in node.status.conditions or []}
        alive = conditions.get("Ready", "True") == "True"
        self.ready = NodeState.READY if alive else NodeState.QUARANTINED
        if any(taint.key == OUT_OF_SERVICE for taint in taints):
            self.ready = NodeState.LOST

    def charge(self, ask: dict[str, int], marks: Iterable[str], sign: int) -> None:
        """A pod of somebody else came or went."""
        for name, value in ask.items():
            self.foreign[name] = self.foreign.get(name, 0) + sign * value
        for mark in marks:
            self.marks[mark] = self.marks.get(mark, 0) + sign
            if not self.marks[mark]:
                del self.marks[mark]

    def used(self, idle: Mapping[str, int]) -> Counter[str]:
        """What strangers use, volumes that are attached to nobody's use among it."""
        return Counter(self.foreign) + Counter({f"{ATTACHED}{driver}": count for driver, count in idle.items()})

    def told(
        self, terrain: Terrain, rules: Iterable[Rule], volumes: Mapping[str, int], idle: Mapping[str, int]
    ) -> Node:
        """The node as the engine should know it; `volumes`: how many of each driver it can attach, and of which `idle`
        are attached though no pod uses them.
        """
        place, lacks = terrain.place(self.name, self.labels)
        tags = [taint_tag(taint) for taint in self.taints]
        tags += sorted(rule.tag for rule in rules if rule.allows(self.name, self.labels))
        tags += [lacking(level) for level in lacks]
        # Who names a node himself may ask for anything; the kubelet turns him away, but not at once.
        used = self.used(idle)
        foreign = {name: min(value, MOST_AMOUNT) for name, value in sorted(used.items()) if value}
        state = self.ready
        return Node(
            self.name,
            self.capacity | {f"{ATTACHED}{driver}": most for driver, most in sorted(volumes.items())},
            place=place,
            tags=tuple(dict.fromkeys(tags)),
            state=state,
            foreign=foreign,
            foreign_marks=tuple(sorted(self.marks)),
        )


def capacity(allocatable: dict[str, str]) -> dict[str, int]:
    """What a node has; what cannot be read it has not."""
    found: dict[str, int] = {}
    for name, written in allocatable.items():
        try:
            found[name] = min(max(amount(name, written), 0), MOST_AMOUNT)
        except BadQuantity:
            found[name] = 0
    return found


def taint_tag(taint: objects.Taint) -> str:
    """A taint as the engine's tag."""
    return f"!{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"


class Taints:
    """Every taint on some node, and which of them pods of each kind put up with."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.taints: dict[str, objects.Taint] = {}
        self.changed = False
        self._tolerated: dict[str, tuple[str, ...]] = {}

    def count(self, taints: Iterable[objects.Taint], sign: int) -> None:
        """A node with these taints came or went."""
        for taint in taints:
            tag = taint_tag(taint)
            self.counts[tag] = self.counts.get(tag, 0) + sign
            if tag not in self.taints:
                self.taints[tag] = msgspec.structs.replace(taint)
                self._tolerated = {}
                self.changed = True

    def tolerated(self, wants: Wants) -> tuple[str, ...]:
        """Which of them pods that want this put up with."""
        if not wants.tolerations:
            return ()
        if wants.key not in self._tolerated:
            found = sorted(tag for tag, taint in self.taints.items() if tolerates(wants.tolerations, taint))
            self._tolerated[wants.key] = tuple(found)
        return self._tolerated[wants.key]
