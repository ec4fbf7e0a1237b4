"""What the scheduler may do, verb by verb, and why. The role in deploy/ and the documented table are made from it."""

from typing import Any, NamedTuple

from .kinds import ALWAYS, DIALECTS, OF_YUNIKORN, OWN

READ = ("get", "list", "watch")


class Right(NamedTuple):
    """Verbs on a resource, and the reason."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    name: str = ""
    """The only object of its kind that is meant."""


WRITES = (
    Right("", "pods/binding", ("create",), "put a pod on its node"),
    Right("", "pods/eviction", ("create",), "make room, respecting disruption budgets; undo a start that failed"),
    Right("", "pods/status", ("patch",), "say on a pod why it waits, for people and autoscalers"),
    Right("events.k8s.io", "events", ("create", "list"), "one event per change; the story of a gang"),
    Right("scheduling.k8s.io", "podgroups/status", ("patch",), "the condition of a native group"),
    Right("scheduling.k8s.io", "compositepodgroups/status", ("patch",), "the condition of a tree of native groups"),
    Right("scheduling.x-k8s.io", "podgroups/status", ("patch",), "the phase of a coscheduling group"),
    Right("scheduling.sigs.k8s.io", "podgroups/status", ("patch",), "the phase of a Koordinator group"),
    Right("scheduling.volcano.sh", "podgroups/status", ("patch",), "phase and conditions of a Volcano group"),
    Right("scheduling.volcano.sh", "podgroups", ("patch",), "the same where its status is a part of the object"),
    Right("scheduling.run.ai", "podgroups/status", ("patch",), "conditions of a KAI group"),
    Right("authentication.k8s.io", "tokenreviews", ("create",), "whose token is shown on our own pages"),
    Right("authorization.k8s.io", "subjectaccessreviews", ("create",), "whether they may look"),
    Right("tutti.dev", "placements", ("create", "patch", "delete"), "write seats down before the first bind"),
)
ACCOUNT = "tutti"
"""The service account of an installed scheduler."""
INSIDE = (
    Right("coordination.k8s.io", "leases", ("get", "create", "update"), "one leader at a time"),
    Right("", "configmaps", ("get", "create", "patch"), "promises and estimates that outlive a restart"),
)
"""Rights in our own namespace only."""


def rights() -> list[Right]:
    """Everything in the whole cluster."""
    kinds = (*ALWAYS, *OF_YUNIKORN, *DIALECTS, OWN)
    reads = [Right(kind.group, kind.plural, READ, kind.why, kind.only) for kind in kinds]
    return [*reads, *WRITES]


def rules(wanted: list[Right]) -> list[dict[str, Any]]:
    """The same as rules of a role."""
    return [
        {"apiGroups": [r.group], "resources": [r.resource], "verbs": list(r.verbs)}
        | ({"resourceNames": [r.name]} if r.name else {})
        for r in wanted
    ]


def roles(namespace: str) -> list[dict[str, Any]]:
    """Account, roles and bindings."""
    api = "rbac.authorization.k8s.io/v1"
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    inside = {"name": "tutti", "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": inside},
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "tutti"}, "rules": rules(rights())},
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "tutti"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tutti"},
            "subjects": [account],
        },
        {"apiVersion": api, "kind": "Role", "metadata": inside, "rules": rules(list(INSIDE))},
        {
            "apiVersion": api,
            "kind": "RoleBinding",
            "metadata": inside,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tutti"},
            "subjects": [account],
        },
    ]
