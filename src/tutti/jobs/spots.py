"""Where in a manifest something stands: the line of a key, and of what is wrong."""

from typing import Any

from .lazy import pattern
from .yaml_file import Document

WHERE = {
    "workers": frozenset(
        {
            "replicas", "parallelism", "completions", "minMember", "minAvailable", "minCount", "minGroupCount",
            "numNodes", "size", "minReplicas", "count", "minSubGroup", "gang.scheduling.koordinator.sh/min-available",
            "yunikorn.apache.org/task-groups", "kueue.x-k8s.io/pod-group-total-count",
        }
    ),
    "gpus": frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"}),
    "queue": frozenset(
        {
            "queue", "queueName", "kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "yunikorn.apache.org/queue",
            "scheduling.volcano.sh/queue-name", "volcano.sh/queue-name",
        }
    ),
    "priority": frozenset({"priorityClassName", "priorityClass", "priority"}),
    "topology": frozenset(
        {
            "topologyConstraint", "networkTopology", "topologyRequest", "schedulingConstraints", "topology",
            "gang.scheduling.koordinator.sh/network-topology-spec", "kueue.x-k8s.io/podset-required-topology",
            "kueue.x-k8s.io/podset-preferred-topology", "leaderworkerset.sigs.k8s.io/exclusive-topology",
            "alpha.jobset.sigs.k8s.io/exclusive-topology",
        }
    ),
    "time": frozenset({"activeDeadlineSeconds", "maximumExecutionTimeSeconds", "kueue.x-k8s.io/max-exec-time-seconds"}),
}  # fmt: skip
"""Keys that say a field, in any dialect."""
NO_FIELD = "no field of it"
WRONG = pattern(r"([\w./-]+) is (.+?)(?:;|$)")


Paths = list[tuple[tuple[str | int, ...], int]]


def of_items(document: Document) -> dict[int, Paths]:
    """What stands inside each item of a list of objects, by the number of the item."""
    found: dict[int, Paths] = {}
    for path, line in document.lines.items():
        if len(path) > 2 and path[0] == "items" and isinstance(path[1], int):
            found.setdefault(path[1], []).append((path, line))
    return found


class Spots:
    """One object of a file, and where its entries stand."""

    def __init__(self, document: Document, paths: "Paths | None" = None) -> None:
        self._document = document
        self._paths = [entry for entry in document.lines.items() if entry[0]] if paths is None else paths

    def fields(self) -> dict[str, int]:
        """The first line that says each field."""
        found: dict[str, int] = {}
        for path, line in self._paths:
            for field, keys in WHERE.items():
                if path[-1] in keys:
                    found[field] = min(found.get(field, line), line)
        return found

    def wrong(self, what: str) -> tuple[int, str]:
        """The line and the text that a complaint like `replicas is 'many'` is about; 0 where that is not known."""
        said = WRONG.search(what)
        for path, line in self._paths if said else ():
            value = self._value(path)
            if said and path[-1] == said[1] and said[2] in {repr(str(value)), str(value), NO_FIELD}:
                return line, f"{path[-1]}: {value}"
        return 0, ""

    def _value(self, path: tuple[str | int, ...]) -> Any:
        here: Any = self._document.value
        for step in path:
            here = here[step]
        return here
