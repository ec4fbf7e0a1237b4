"""Queues and priorities as several people declare them, each by a stream of their own."""

from collections.abc import Iterable, Mapping

from tutti.engine.model import Queue
from tutti.jobs.kube.gang import NO_TRAIT, Trait

OURS = "tutti"
DEEPEST = 32
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
        self._traits: dict[str, dict[str, Trait]] = {}
        """What queues say about their gangs, by who declares them; only of those that say something."""

    def put(self, whose: str, queue: Queue, trait: Trait = NO_TRAIT) -> None:
        """A queue was made or changed."""
        self._by.setdefault(whose, {})[queue.name] = queue
        self._traits.setdefault(whose, {})[queue.name] = trait
        self._all = None

    def drop(self, whose: str, name: str) -> None:
        """A queue is gone; another of that name may have been behind it."""
        self._by.get(whose, {}).pop(name, None)
        self._traits.get(whose, {}).pop(name, None)
        self._all = None

    def replace(self, whose: str, queues: Iterable[Queue], traits: Mapping[str, Trait] | None = None) -> None:
        """All queues that somebody declares."""
        self._by[whose] = {queue.name: queue for queue in queues}
        self._traits[whose] = dict(traits or {})
        self._all = None

    def traits(self) -> dict[str, Trait]:
        """What queues say about the gangs in them and below them, by the queue they are in."""
        found: dict[str, Trait] = {}
        for whose in reversed(self._in_order()):
            found |= self._traits.get(whose, {})
        queues = self.all()
        if all(trait == NO_TRAIT for trait in found.values()) and not any(queue.bounds for queue in queues.values()):
            return {}
        return {name: _inherited(name, queues, found) for name in queues}

    def _in_order(self) -> list[str]:
        """Whose word counts, first."""
        return [*FIRST, *sorted(whose for whose in self._by if whose not in FIRST)]

    def all(self) -> dict[str, Queue]:
        """One of each name; queues that others are below of, and the one for whoever names none, are always there."""
        if self._all is None:
            found: dict[str, Queue] = {}
            for whose in self._in_order():
                found = self._by.get(whose, {}) | found
            above = {queue.parent for queue in found.values() if queue.parent}
            self._all = {name: Queue(name) for name in ("default", *sorted(above))} | found
        return self._all


def _inherited(name: str, queues: Mapping[str, Queue], traits: Mapping[str, Trait]) -> Trait:
    """What a queue and those above it say; trees of queues that are circles end after a while."""
    line: list[Trait] = []
    names_users = False
    while name in queues and len(line) < DEEPEST:
        line.append(traits.get(name, NO_TRAIT))
        names_users = names_users or bool(queues[name].bounds)
        name = queues[name].parent
    return Trait(
        any(trait.lasting for trait in line),
        any(trait.polite for trait in line),
        max((trait.preempts_after for trait in line), default=0),
        next((trait.refused for trait in line if trait.refused), ""),
        any(trait.by_user for trait in line),
        names_users,
        any(trait.applications for trait in line),
    )


class Priorities:
    """Priority classes."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.lasting: set[str] = set()
        """Classes whose pods are not preempted."""
        self.polite: set[str] = set()
        """Classes whose pods preempt nobody."""
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
        self.lasting.discard(name)
        self.polite.discard(name)
        self._defaults.pop(name, None)

    @property
    def default(self) -> int:
        """For whoever names none; of several, the API server takes the lowest too."""
        return min(self._defaults.values(), default=0)
