"""Queues and priorities as several people declare them, each by a stream of their own."""

from collections.abc import Iterable

from tutti.engine.model import Queue

OURS = "tutti"
FIRST = (OURS, "scheduling.x-k8s.io", "scheduling.sigs.k8s.io", "scheduling.volcano.sh", "scheduling.run.ai")
"""Whose queue counts where two have the same name: our own settings, then these API groups, then the others."""


class Queues:
    """Queues by who declares them, and the names by which namespaces mean them."""

    def __init__(self) -> None:
        self.local: dict[str, str] = {}
        """Queues by which a namespace names those of the cluster: namespace/name, and the queue it stands for."""
        self.quotas: dict[str, dict[str, bool]] = {}
        """Koordinator's quotas by namespace, and whether pods may be in them."""
        self._by: dict[str, dict[str, Queue]] = {}
        self._all: dict[str, Queue] | None = None

    def put(self, whose: str, queue: Queue) -> None:
        """A queue was made or changed."""
        self._by.setdefault(whose, {})[queue.name] = queue
        self._all = None

    def drop(self, whose: str, name: str) -> None:
        """A queue is gone; another of that name may have been behind it."""
        self._by.get(whose, {}).pop(name, None)
        self._all = None

    def replace(self, whose: str, queues: Iterable[Queue]) -> None:
        """All queues that somebody declares."""
        self._by[whose] = {queue.name: queue for queue in queues}
        self._all = None

    def all(self) -> dict[str, Queue]:
        """One of each name; queues that others are below of, and the one for whoever names none, are always there."""
        if self._all is None:
            rest = sorted(whose for whose in self._by if whose not in FIRST)
            found: dict[str, Queue] = {}
            for whose in (*FIRST, *rest):
                found = self._by.get(whose, {}) | found
            above = {queue.parent for queue in found.values() if queue.parent}
            self._all = {name: Queue(name) for name in ("default", *sorted(above))} | found
        return self._all


class Priorities:
    """Priority classes."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self._defaults: dict[str, int] = {}

    def put(self, name: str, value: int, is_default: bool) -> None:
        """A class was made or changed."""
        self.drop(name)
        self.values[name] = value
        if is_default:
            self._defaults[name] = value

    def drop(self, name: str) -> None:
        """A class is gone."""
        self.values.pop(name, None)
        self._defaults.pop(name, None)

    @property
    def default(self) -> int:
        """For whoever names none; of several, the API server takes the lowest too."""
        return min(self._defaults.values(), default=0)
