"""Words for people: the body of an event, a reason in a line, what members of a gang disagree about."""

from uuid import uuid4

from tutti.engine.model import Token
from tutti.engine.plan import Reason
from tutti.jobs.kube.gang import NO_QUEUE

from .gangs import GangSeen
from .lease import stamp

COMPONENT = "tutti"
WARNINGS = frozenset(
    {
        *("FailedScheduling", "HeldPartial", "EvictionBlocked", "MembersLost"),
        *("Misdeclared", "Preempted", "StatusRefused"),
    }
)


def event(about: dict[str, str], reason: str, note: str) -> dict[str, object]:
    """The event's body."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"tutti-{uuid4().hex[:16]}", "namespace": about["namespace"]},
        "eventTime": stamp(),
        "reportingController": COMPONENT,
        "reportingInstance": COMPONENT,
        "action": "Scheduling",
        "reason": reason,
        "regarding": about,
        "note": note[:1024],
        "type": "Warning" if reason in WARNINGS else "Normal",
    }


def is_refused(gang: GangSeen) -> bool:
    """It waits because of how it is declared, and that was said when the declaration was read."""
    refused = gang.declared.unsupported if gang.declared is not None and gang.declared.problems else ""
    return bool(refused) and gang.gang is not None and gang.gang.unsupported == refused


def disagreements(gang: GangSeen, elsewhere: list[str]) -> list[str]:
    """What should be the same for all members and is not."""
    found = []
    priorities = {pod.priority or 0 for pod in gang.live}
    theirs = ("different priorities " if len(priorities) > 1 else "priority ") + ", ".join(map(str, sorted(priorities)))
    said = gang.declared
    if said is not None and gang.gang is not None and (said.priority is not None or said.priority_class):
        if priorities - {gang.gang.priority}:
            found.append(f"its pods have {theirs} and its group {gang.gang.priority}; the group's counts")
    elif len(priorities) > 1:
        found.append(f"its pods have {theirs}; the highest counts")
    found += _whose(gang)
    if elsewhere:
        found.append(f"pods of it ask for another scheduler ({', '.join(elsewhere)}) and do not count")
    return found


def _whose(gang: GangSeen) -> list[str]:
    """Queues and users that its pods name, if they do not agree on them."""
    asked = {pod.queue for pod in gang.live} - {NO_QUEUE}
    queues = sorted({said.ours or said.theirs or said.local for said in asked})
    users = sorted({pod.aside.user for pod in gang.live} - {""})
    found = []
    if len(queues) > 1 and gang.gang is not None:
        found.append(f"its pods name different queues {', '.join(queues)}; it is in {gang.gang.queue}")
    if len(users) > 1 and gang.gang is not None and gang.gang.user in users:
        found.append(f"its pods are of different users {', '.join(users)}; it counts as {gang.gang.user}'s")
    return found


def sentence(gang: GangSeen, reason: Reason) -> str:
    """A reason in a line."""
    parts = []
    if reason.asked and reason.placeable < reason.asked and reason.token is not Token.WAITING_FOR_MEMBERS:
        parts.append(f"{reason.placeable} of {reason.asked} members could be placed now")
    if reason.token is Token.WAITING_FOR_MEMBERS:
        parts.append(f"{gang.awaiting} of {max(gang.wanted, gang.awaiting)} members are missing or gated")
    elif reason.detail:
        parts.append(reason.detail)
    parts += [f"{count} nodes {what}" for what, count in reason.counts[:4]]
    if reason.blockers:
        parts.append(f"behind {', '.join(reason.blockers[:3])}")
    return "; ".join(parts) or "it waits"
