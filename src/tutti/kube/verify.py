"""The last look before a gang is bound: company rules, pod by pod, on the nodes that were chosen.

The engine plans with marks, caps and domains; this repeats the rules of Kubernetes to the letter (who is near whom,
how evenly they lie), so that a rule the engine can only approximate never puts a pod where it may not be.
"""

from collections.abc import Iterable

from tutti.jobs.kube.select import CLOSED, tolerates
from tutti.jobs.kube.wants import Beside, Company, Evenly, Wants

from .gangs import Fill, Seen
from .marks import means, repelling
from .mirror import Mirror


def objection(mirror: Mirror, fills: Iterable[Fill]) -> str:
    """Why these pods may not be bound to these nodes; nothing when they may."""
    fills = list(fills)
    for fill in fills:
        if why := _alone(mirror, fill.pod.wants, fill.node):
            return f"{fill.pod.name} on {fill.node}: {why}"
    if not mirror.marks.known:
        return ""
    look = Look(mirror, fills)
    for fill in fills:
        if why := look.at(fill):
            return f"{fill.pod.name} on {fill.node}: {why}"
    return ""


def _alone(mirror: Mirror, wants: Wants, name: str) -> str:
    """What concerns only the pod and the node."""
    ground = mirror.grounds.get(name)
    if ground is None or not ground.capacity:
        return "the node is gone"
    if wants.nodes is not None and not wants.nodes.allows(name, ground.labels):
        return "the node does not match"
    closed = (t for t in ground.taints if t.effect in CLOSED and not tolerates(wants.tolerations, t))
    return next((f"untolerated taint {taint.key}" for taint in closed), "")


class Look:
    """Who is where, counting the pods that are about to be bound."""

    def __init__(self, mirror: Mirror, fills: list[Fill]) -> None:
        self.mirror = mirror
        self.placed: list[tuple[Seen, str]] = [(fill.pod, fill.node) for fill in fills]
        coming = {fill.pod.uid for fill in fills}
        for pod in mirror.pods.values():
            where = pod.node or self._seat(pod) or pod.sent
            if where and not pod.is_over and pod.uid not in coming:
                self.placed.append((pod, where))

    def _seat(self, pod: Seen) -> str:
        gang = self.mirror.gangs.get(pod.gang)
        seat = gang.seats.get(pod.uid) if gang is not None else None
        return seat.node if seat is not None else ""

    def label(self, node: str, key: str) -> str | None:
        """The domain of a node."""
        ground = self.mirror.grounds.get(node)
        return ground.labels.get(key) if ground is not None else None

    def at(self, fill: Fill) -> str:
        """What is wrong with one of them, given all the others."""
        wants = fill.pod.wants
        for beside in wants.apart:
            if self._near(fill, beside, beside.company):
                return f"anti-affinity on {beside.key}"
        if self._repelled(fill):
            return "another pod keeps away from it"
        if wants.near and (why := self._lonely(fill, wants.near)):
            return why
        return next((f"spread over {rule.key}" for rule in wants.spread if not self._even(fill, rule)), "")

    def _lonely(self, fill: Fill, near: tuple[Beside, ...]) -> str:
        """Whom it wants to be near is not there. Only who is meant by all of its terms counts for each of them."""
        if lacks := next((beside.key for beside in near if self.label(fill.node, beside.key) is None), ""):
            return f"affinity on {lacks}"
        friends = [pair for pair in self.placed if pair[0].uid != fill.pod.uid and _meant(near, pair[0])]
        domains = {(beside.key, self.label(node, beside.key)) for _, node in friends for beside in near}
        missing = (b.key for b in near if (b.key, self.label(fill.node, b.key)) not in domains)
        # Nobody is meant yet but the pod itself: somebody has to be the first.
        is_first = not friends and _meant(near, fill.pod)
        return "" if is_first else next((f"affinity on {key}" for key in missing), "")

    def _near(self, fill: Fill, beside: Beside, company: Company) -> bool:
        domain = self.label(fill.node, beside.key)
        if domain is None:
            return False
        return any(
            pod.uid != fill.pod.uid
            and self.label(node, beside.key) == domain
            and means(company, pod.namespace, pod.labels)
            for pod, node in self.placed
        )

    def _repelled(self, fill: Fill) -> bool:
        marks = self.mirror.marks.of(fill.pod.namespace, fill.pod.labels)
        wary = {pair for mark in marks for pair in self.mirror.marks.repelled.get(mark, ())}
        return bool(wary) and any(
            (repelling(beside), beside.key) in wary
            and self.label(node, beside.key) is not None
            and self.label(node, beside.key) == self.label(fill.node, beside.key)
            for pod, node in self.placed
            if pod.uid != fill.pod.uid
            for beside in pod.wants.apart
        )

    def _even(self, fill: Fill, rule: Evenly) -> bool:
        domain = self.label(fill.node, rule.key)
        if domain is None:
            return False
        nodes = self._counting(fill.pod.wants, rule)
        counts = dict.fromkeys(nodes.values(), 0)
        for pod, node in self.placed:
            same = rule.company.selector is not None and pod.namespace == fill.pod.namespace
            if node in nodes and same and not pod.deleting and means(rule.company, pod.namespace, pod.labels):
                counts[nodes[node]] += 1
        least = 0 if len(counts) < rule.min_domains else min(counts.values(), default=0)
        return counts.get(domain, 0) - least <= rule.max_skew

    def _counting(self, wants: Wants, rule: Evenly) -> dict[str, str]:
        """The domains of the nodes that count: those it asks for, volumes aside, with all keys it spreads by."""
        return {
            ground.name: ground.labels[rule.key]
            for ground in self.mirror.grounds.values()
            if ground.capacity
            and all(other.key in ground.labels for other in wants.spread)
            and (wants.nodes is None or wants.nodes.asks_for(ground.name, ground.labels))
        }


def _meant(near: tuple[Beside, ...], pod: Seen) -> bool:
    """Whether all of the terms mean a pod."""
    return all(means(beside.company, pod.namespace, pod.labels) for beside in near)
