"""What each dialect promises its users in the status of a group, and the bodies that say it.

OWNERSHIP says for every dialect who owns which part of the object. We write only what is ours, by server-side apply,
and never by force; the table in the documentation is made from it.
"""

from typing import Any, NamedTuple

from tutti.jobs.kube.declared import Declared

from .lease import stamp


class Row(NamedTuple):
    """Who owns what, in one dialect."""

    dialect: str
    spec: str
    admission: str
    status: str
    ours: str


OWNERSHIP = (
    Row("native", "user or Job controller", "nobody", "scheduler", "conditions[PodGroupInitiallyScheduled]"),
    Row(
        "coscheduling", "user or operator", "nobody", "scheduler-plugins controller", "phase, where it is not set by it"
    ),
    Row("koordinator", "user or operator", "nobody", "Koordinator controller", "phase, where it is not set by it"),
    Row("volcano", "user or Volcano controller", "scheduler (Inqueue)", "scheduler", "phase, conditions"),
    Row("kai", "podgrouper", "nobody", "scheduler", "schedulingConditions"),
    Row("yunikorn", "user (annotations)", "nobody", "no object", "pod conditions and events only"),
    Row("kueue", "user (labels)", "Kueue (gates)", "Kueue", "pod conditions and events only"),
    Row("pod", "user or controller", "nobody", "scheduler", "pod condition PodScheduled"),
)


class News(NamedTuple):
    """What is to be told of a gang."""

    state: str
    """waiting, started, running"""
    token: str = ""
    message: str = ""
    members: int = 0
    running: int = 0


GROUPS = {
    "native": ("scheduling.k8s.io/v1beta1", "podgroups", "PodGroup"),
    "coscheduling": ("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup"),
    "koordinator": ("scheduling.sigs.k8s.io/v1alpha1", "podgroups", "PodGroup"),
    "volcano": ("scheduling.volcano.sh/v1beta1", "podgroups", "PodGroup"),
    "kai": ("scheduling.run.ai/v2alpha2", "podgroups", "PodGroup"),
}


def reference(declared: Declared, api_versions: dict[str, str]) -> dict[str, str] | None:
    """The group object itself; None for dialects that have none."""
    found = GROUPS.get(declared.dialect)
    if found is None or not declared.uid:
        return None
    version, _, kind = found
    version = api_versions.get(declared.dialect, version)
    ref = {"apiVersion": version, "kind": kind, "name": declared.name, "namespace": declared.namespace}
    return ref | {"uid": declared.uid}


def path_of(declared: Declared, api_versions: dict[str, str]) -> str:
    """Where the group object is."""
    version, plural, _ = GROUPS[declared.dialect]
    version = api_versions.get(declared.dialect, version)
    return f"/apis/{version}/namespaces/{declared.namespace}/{plural}/{declared.name}"


def status_of(declared: Declared, news: News) -> dict[str, Any] | None:
    """The part of the status that is ours; None where nothing is."""
    match declared.dialect:
        case "native":
            # Once it was scheduled it stays scheduled, whatever happens later; upstream promises that.
            return None if declared.scheduled else _native(news)
        case "volcano":
            return _volcano(news, declared.uid)
        case "coscheduling" | "koordinator":
            return (
                {"phase": {"waiting": "Pending", "started": "Scheduled", "running": "Running"}[news.state]}
                if (declared.dialect == "koordinator")
                else {"phase": {"waiting": "Pending", "started": "Scheduling", "running": "Running"}[news.state]}
            )
        case "kai":
            return _kai(news)
    return None


def _native(news: News) -> dict[str, Any]:
    done = news.state != "waiting"
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "True" if done else "False",
        "reason": "Scheduled" if done else "Unschedulable",
        "message": news.message[:1024],
        "lastTransitionTime": stamp()[:19] + "Z",
    }
    return {"conditions": [condition]}


def _volcano(news: News, uid: str) -> dict[str, Any]:
    scheduled = news.state != "waiting"
    reasons = {"WaitingForMembers": "NotEnoughTasks"}
    condition = {
        "type": "Scheduled" if scheduled else "Unschedulable",
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled"
        if scheduled
        else reasons.get(news.token, "NotEnoughResources"),
        "message": news.message[:1024],
        "lastTransitionTime": stamp()[:19] + "Z",
        "transitionID": uid,
    }
    phase = {"waiting": "Inqueue", "started": "Running", "running": "Running"}[news.state]
    return {"phase": phase, "conditions": [condition], "running": news.running}


def _kai(news: News) -> dict[str, Any] | None:
    if news.state == "running":
        return None
    if news.state == "started":
        return {"schedulingConditions": []}
    reason = {"QueueClosed": "QueueDoesNotExist", "QuotaReached": "OverLimit"}.get(news.token, "Unschedulable")
    condition = {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "status": "True",
        "reason": reason,
        "message": news.message[:1024],
        "transitionID": "1",
        "lastTransitionTime": stamp()[:19] + "Z",
        "reasons": [{"reason": reason, "message": news.message[:1024]}],
    }
    return {"schedulingConditions": [condition]}


def pod_condition(reason: str, message: str) -> dict[str, Any]:
    """What autoscalers look for: the standard reason, with our token in the message."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message[:1024],
        "lastTransitionTime": stamp()[:19] + "Z",
    }
    return {"status": {"conditions": [condition]}}
