"""What each dialect promises its users in the status of a group, and the bodies that say it.

OWNERSHIP says for every dialect who owns which part of the object. We write only what is ours, by server-side apply,
and never by force; the table in the documentation is made from it.
"""

from typing import Any, NamedTuple

from tutti.engine.model import Token
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
    Row(
        "native",
        "user or Job controller",
        "nobody",
        "scheduler",
        "conditions: PodGroupInitiallyScheduled (in 1.36 PodGroupScheduled), CompositePodGroupInitiallyScheduled",
    ),
    Row(
        "coscheduling",
        "user or operator",
        "nobody",
        "scheduler-plugins controller",
        "phase and counters, where they are not set by it",
    ),
    Row(
        "koordinator",
        "user or operator",
        "nobody",
        "Koordinator controller",
        "phase and counters, where they are not set by it",
    ),
    Row("volcano", "user or Volcano controller", "scheduler (Inqueue)", "scheduler", "phase, conditions, counters"),
    Row("kube-batch", "user", "nobody", "scheduler", "pod conditions and events only"),
    Row("kai", "podgrouper", "nobody", "scheduler", "schedulingConditions"),
    Row("yunikorn", "user (annotations)", "nobody", "no object", "pod conditions and events only"),
    Row("kueue", "user (labels)", "Kueue (gates)", "Kueue", "pod conditions and events only"),
    Row("pod", "user or controller", "nobody", "scheduler", "pod condition PodScheduled"),
)


class News(NamedTuple):
    """What is to be told of a gang."""

    state: str
    """waiting, started, running, short, over"""
    token: str = ""
    message: str = ""


class Counts(NamedTuple):
    """How many pods a group has, and how many of them run, have succeeded, have failed."""

    members: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


PLURALS = {"PodGroup": "podgroups", "CompositePodGroup": "compositepodgroups"}
COUNTED = frozenset({"coscheduling", "koordinator", "volcano"})
"""Dialects whose groups say how many of their pods run."""
LASTING = frozenset({"running", "short", "over"})
"""States in which it is told when one more has succeeded or failed; before, only that the gang starts."""


def reference(declared: Declared) -> dict[str, str] | None:
    """The group object itself; None for groups that only pods declare."""
    if not declared.api:
        return None
    ref = {"apiVersion": declared.api, "kind": declared.kind, "name": object_name(declared)}
    return ref | {"namespace": declared.namespace, "uid": declared.uid}


def object_name(declared: Declared) -> str:
    """The name of the object; a Workload of 1.35 declares several groups."""
    return declared.name.partition("/")[0]


def path_of(declared: Declared) -> str:
    """Where the group object is."""
    place = f"/apis/{declared.api}/namespaces/{declared.namespace}"
    return f"{place}/{PLURALS[declared.kind]}/{object_name(declared)}"


def status_of(declared: Declared, news: News, counts: Counts = Counts()) -> dict[str, Any] | None:  # noqa: B008
    """The part of the status that is ours; None where nothing is."""
    if declared.kind not in PLURALS:
        return None
    match declared.api.partition("/")[0]:
        case "scheduling.k8s.io":
            # Once it was scheduled it stays scheduled, whatever happens later; upstream promises that.
            return None if declared.scheduled or news.state in ("short", "over") else _native(declared, news)
        case "scheduling.volcano.sh":
            return _volcano(declared, news, counts)
        case "scheduling.x-k8s.io" | "scheduling.sigs.k8s.io":
            return {"phase": _phase(declared, news, counts), **_counters(counts)}
        case "scheduling.run.ai":
            return _kai(declared, news)
    return None


def _counters(counts: Counts) -> dict[str, int]:
    return {"running": counts.running, "succeeded": counts.succeeded, "failed": counts.failed}


def _native(declared: Declared, news: News) -> dict[str, Any]:
    done = news.state != "waiting"
    said = "PodGroupScheduled" if declared.api.endswith("v1alpha2") else f"{declared.kind}InitiallyScheduled"
    status = "True" if done else "False"
    condition = {
        "type": said,
        "status": status,
        "reason": "Scheduled" if done else "Unschedulable",
        "message": news.message[:1024],
        "lastTransitionTime": _since(declared, said, status),
    }
    return {"conditions": [condition]}


def _phase(declared: Declared, news: News, counts: Counts) -> str:
    """The phase as the controllers of coscheduling and Koordinator count it."""
    if news.state == "over":
        return "Finished" if counts.succeeded >= max(declared.min, 1) or not counts.failed else "Failed"
    if news.state == "running":
        return "Running"
    if news.state == "started" and declared.dialect == "koordinator":
        return "Scheduled"
    return "Pending" if counts.members < declared.min else "Scheduling"


def _since(declared: Declared, kind: str, status: str) -> str:
    """Since when a condition has had its status: a new message is no transition."""
    before, _, since = declared.told
    return since if since and before == f"{kind}={status}" else stamp()[:19] + "Z"


def _volcano(declared: Declared, news: News, counts: Counts) -> dict[str, Any]:
    phase = {"waiting": "Inqueue", "short": "Unknown", "over": "Completed"}.get(news.state, "Running")
    lacking = {"waiting": "NotEnoughResources", "short": "PodFailed" if counts.failed else "PodDeleted"}
    reason = lacking.get(news.state, "tasks in gang are ready to be scheduled")
    said = "Unschedulable" if news.state in lacking else "Scheduled"
    condition = {
        "type": said,
        "status": "True",
        "reason": "NotEnoughTasks" if news.token == Token.WAITING_FOR_MEMBERS else reason,
        "message": news.message[:1024],
        "lastTransitionTime": _since(declared, said, "True"),
        "transitionID": declared.uid,
    }
    return {"phase": phase, "conditions": [condition], **_counters(counts)}


def _kai(declared: Declared, news: News) -> dict[str, Any] | None:
    if news.state != "waiting":
        return {"schedulingConditions": []} if news.state == "started" else None
    reason = {"QueueClosed": "QueueDoesNotExist", "QuotaReached": "OverLimit"}.get(news.token, "Unschedulable")
    condition = {
        "type": "UnschedulableOnNodePool",
        "nodePool": declared.pool or "default",
        "status": "True",
        "reason": reason,
        "message": news.message[:1024],
        "transitionID": "1",
        "lastTransitionTime": stamp()[:19] + "Z",
        "reasons": [{"reason": reason, "message": news.message[:1024]}],
    }
    return {"schedulingConditions": [condition]}


def pod_condition(reason: str, message: str, first: bool) -> dict[str, Any]:
    """What autoscalers look for: the standard reason, with our token in the message."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message[:1024]}
    # Another message is no transition: the time that is there stays.
    condition |= {"lastTransitionTime": stamp()[:19] + "Z"} if first else {}
    return {"status": {"conditions": [condition]}}
