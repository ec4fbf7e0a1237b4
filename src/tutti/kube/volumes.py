"""Volumes: which claim is bound to which, from where each can be reached, and how many a node can attach."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tutti.jobs.kube.wants import Reach

ENDLESS = 1 << 20


class Attachment(NamedTuple):
    """A volume that a node has attached, or is about to, whoever uses it."""

    node: str
    driver: str
    volume: str


class Volumes:
    """What is known of volumes. Claims, volumes and nodes are told in any order, each by a stream of its own."""

    def __init__(self) -> None:
        self.claims: dict[str, Reach | None] = {}
        """How the volume of each claim can be reached; None while it has none."""
        self.drivers: set[str] = set()
        """Drivers whose volumes somebody uses."""
        self._reach: dict[str, Reach] = {}
        self._bound_to: dict[str, str | None] = {}
        self._alone: set[str] = set()
        """Claims that only one pod may use."""
        self._registered: dict[str, dict[str, int | None]] = {}
        """The drivers of each node, and how many volumes of each it can attach; None where nobody says."""
        self._demanding: set[str] = set()
        """Drivers without which no volume of theirs may be sent to a node."""
        self._attached: dict[str, Attachment] = {}
        self._on: dict[str, set[str]] = {}
        self._of: dict[str, set[str]] = {}
        """Names of attachments by node, and by volume."""
        self._mounted: dict[str, Counter[str]] = {}
        """Claims that pods of a node use, and how many of them."""

    def put(self, name: str, reach: Reach | None) -> list[str]:
        """A volume and how it can be reached (no nodes named: from all), or that it is gone; answers with the claims
        that this changes.
        """
        self._reach.pop(name, None)
        if reach is not None:
            self._reach[name] = reach
            self.drivers |= {reach.driver} - {""}
        return [claim for claim, volume in self._bound_to.items() if volume == name and self._settle(claim)]

    def bind(self, claim: str, volume: str | None, alone: bool) -> bool:
        """A claim, the volume it is bound to, and whether only one pod may use it; answers whether that is news."""
        self._bound_to[claim] = volume
        (self._alone.add if alone else self._alone.discard)(claim)
        return self._settle(claim)

    def unbind(self, claim: str) -> None:
        """A claim is gone."""
        self._bound_to.pop(claim, None)
        self._alone.discard(claim)
        self.claims.pop(claim, None)

    def put_registered(self, node: str, most: Mapping[str, int | None]) -> None:
        """The drivers that a node has, and how many volumes of each it can attach."""
        self._registered[node] = dict(most)
        if not most:
            del self._registered[node]

    def put_driver(self, driver: str, demands: bool) -> bool:
        """Whether a driver keeps its volumes off nodes that do not have it; answers whether that is news."""
        before = driver in self._demanding
        (self._demanding.add if demands else self._demanding.discard)(driver)
        return before != demands

    def attachable(self, node: str) -> dict[str, int]:
        """Of each driver somebody uses; drivers that say nothing know no end."""
        said = self._registered.get(node, {})
        return {driver: self._most(driver, said) for driver in self.drivers}

    def _most(self, driver: str, said: Mapping[str, int | None]) -> int:
        if driver not in said:
            return 0 if driver in self._demanding else ENDLESS
        most = said[driver]
        return ENDLESS if most is None else most

    # -- what is attached and nobody uses

    def put_attachment(self, name: str, said: Attachment | None) -> set[str]:
        """An attachment, or that it is gone; answers with the nodes that it concerns."""
        before = self._attached.pop(name, None)
        if before is not None:
            self._on[before.node].discard(name)
            self._of[before.volume].discard(name)
        if said is not None:
            self._attached[name] = said
            self._on.setdefault(said.node, set()).add(name)
            self._of.setdefault(said.volume, set()).add(name)
        return {each.node for each in (before, said) if each is not None}

    def holders(self, volume: str) -> set[str]:
        """Nodes that have a volume attached."""
        return {self._attached[name].node for name in self._of.get(volume, ())}

    def mount(self, node: str, claims: Iterable[str], sign: int) -> bool:
        """A pod that uses these claims came to a node or left it; answers whether the node has anything attached."""
        counts = self._mounted.pop(node, Counter[str]())
        counts.update(dict.fromkeys(claims, sign))
        if left := +counts:
            self._mounted[node] = left
        return bool(self._on.get(node))

    def idle(self, node: str) -> dict[str, int]:
        """Volumes of each driver that a node has attached though no pod there uses them; they count as well.

        One whose volume is not known, or belongs to no driver, is passed over, as kube-scheduler does.
        """
        names = self._on.get(node)
        if not names:
            return {}
        used = {self._bound_to.get(claim) for claim in self._mounted.get(node, ())}
        return dict(Counter(at.driver for at in {self._attached[name] for name in names} if self._counts(at, used)))

    def _counts(self, at: Attachment, used: set[str | None]) -> bool:
        reach = self._reach.get(at.volume)
        if reach is None or not at.driver or not reach.driver or reach.old:
            return False
        return reach.driver != at.driver or at.volume not in used

    def _settle(self, claim: str) -> bool:
        reach = self._reach.get(self._bound_to[claim] or "")
        if reach is not None and claim in self._alone:
            reach = reach._replace(alone=True)
        if claim in self.claims and self.claims[claim] == reach:
            return False
        self.claims[claim] = reach
        return True
