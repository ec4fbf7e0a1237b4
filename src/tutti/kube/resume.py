"""Starts that were written down and not finished: whether the seats they were given are still to be had."""

from collections import Counter

from tutti.engine.model import NodeState
from tutti.jobs.kube.wants import ATTACHED

from .gangs import Fill
from .mirror import Mirror
from .verify import objection


class Room:
    """What all pods that have a node leave on each of them. Made while nobody has a seat yet."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self._used = {name: ground.used(mirror.volumes.idle(name)) for name, ground in mirror.grounds.items()}

    def takes(self, fills: list[Fill]) -> bool:
        """Whether these pods can still be bound there; if so, what they ask for is theirs from now on."""
        if objection(self.mirror, fills):
            return False
        asked: dict[str, Counter[str]] = {}
        for pod, node in fills:
            asked.setdefault(node, Counter()).update(pod.wants.ask)
        if not all(self._holds(node, asks) for node, asks in asked.items()):
            return False
        for node, asks in asked.items():
            self._used[node].update(asks)
        return True

    def _holds(self, node: str, asks: Counter[str]) -> bool:
        ground, used = self.mirror.grounds[node], self._used[node]
        attachable = self.mirror.volumes.attachable(node)
        has = ground.capacity | {f"{ATTACHED}{driver}": most for driver, most in attachable.items()}
        limited = {name: value for name, value in asks.items() if name in has or not name.startswith(ATTACHED)}
        fits = all(used[name] + value <= has.get(name, 0) for name, value in limited.items())
        return fits and ground.ready is NodeState.READY
