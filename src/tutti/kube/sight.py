"""Kinds that are out of sight: their stream broke off, and what has become of them since is not known yet."""

from collections.abc import Callable, Mapping

from tutti.jobs.kube.objects import Node, Pod

from .reload import say
from .watch import Listener

PATIENCE = 5.0
"""Seconds after which it is told; a server that is started anew takes about as long."""


class Sight:
    """What of the cluster is seen at the moment, and whether somebody was told of what is not."""

    def __init__(self, listeners: Mapping[str, Listener[object]], say: Callable[[str], None] = say) -> None:
        self.listeners = listeners
        self.say = say
        self._since = 0.0
        self._told = False

    @property
    def is_lost(self) -> bool:
        """Whether nodes or pods are out of sight, without which nothing can be decided."""
        return any(each.trouble for each in self.listeners.values() if each.item in (Node, Pod))

    def lost(self) -> dict[str, str]:
        """Kinds that are out of sight, and why."""
        found = ((path.rsplit("/", 1)[-1], each.trouble) for path, each in self.listeners.items())
        return {kind: why for kind, why in found if why}

    def tell(self, now: float) -> None:
        """Once a second: what has been out of sight for a while is told once, and that all is seen again."""
        lost = self.lost()
        if not lost:
            if self._told:
                self.say("everything is in sight again")
            self._since, self._told = 0.0, False
            return
        self._since = self._since or now
        if now - self._since > PATIENCE and not self._told:
            self._told = True
            stops = "; nothing is decided until they are seen again" if self.is_lost else ""
            what = "everything" if len(lost) == len(self.listeners) else ", ".join(sorted(lost))
            self.say(f"out of sight: {what} ({next(iter(lost.values()))}){stops}")
