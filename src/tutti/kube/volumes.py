"""Volumes: which claim is bound to which, from where each can be reached, and how many a node can attach."""

from tutti.jobs.kube.wants import Reach

ENDLESS = 1 << 20


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
        self._attachable: dict[str, dict[str, int]] = {}

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

    def put_attachable(self, node: str, most: dict[str, int]) -> None:
        """How many volumes of each driver a node can attach; none named: nobody says."""
        self._attachable[node] = most
        if not most:
            del self._attachable[node]

    def attachable(self, node: str) -> dict[str, int]:
        """Of each driver somebody uses; drivers that say nothing know no end."""
        said = self._attachable.get(node, {})
        return {driver: said.get(driver, ENDLESS) for driver in self.drivers}

    def _settle(self, claim: str) -> bool:
        reach = self._reach.get(self._bound_to[claim] or "")
        if reach is not None and claim in self._alone:
            reach = reach._replace(alone=True)
        if claim in self.claims and self.claims[claim] == reach:
            return False
        self.claims[claim] = reach
        return True
