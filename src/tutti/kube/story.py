"""What happened to a gang: what its pods tell of themselves, and the events in the API, in one line of time."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from tutti.api import types as t
from tutti.engine.model import Data
from tutti.jobs.kube.objects import Meta, Narrow
from tutti.views.moments import iso

from .api import Api, ApiError
from .gangs import GangSeen
from .http import Broken
from .intake import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_PODS = 200
"""Pods of one gang that are read anew for its story."""

COURSE = ("submitted", "told", "started", "running", "ended", "lost")
"""What happens to a gang, in the order in which it does."""


class Regarding(Narrow):
    """What an event is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Happening(Narrow):
    """An event of the API."""

    metadata: Meta
    regarding: Regarding = msgspec.field(default_factory=Regarding)
    reason: str = ""
    note: str = ""
    event_time: str | None = None
    deprecated_last_timestamp: str | None = None


class Terminated(Narrow):
    """How a container ended."""

    finished_at: str | None = None
    exit_code: int = 0


class Ending(Narrow):
    """The state of a container."""

    terminated: Terminated | None = None


class Container(Narrow):
    """One container of a pod."""

    state: Ending = msgspec.field(default_factory=Ending)


class Condition(Narrow):
    """One line of a status, with its time."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class Course(Narrow):
    """The status of a pod, with its times."""

    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[Container] | None = None


class Actor(Narrow):
    """A pod, as its story needs it."""

    metadata: Meta
    status: Course = msgspec.field(default_factory=Course)


class Told(Data, frozen=True):
    """One thing that happened, before it is put in order."""

    at: int
    kind: str
    text: str


async def story(api: Api, gang: GangSeen) -> list[t.Moment]:
    """Everything that is known, in order of time."""
    names = sorted((pod.namespace, pod.name) for pod in gang.pods.values())[:MOST_PODS]
    pods = await asyncio.gather(*(_pod(api, *name) for name in names))
    told = [*_of_pods([pod for pod in pods if pod is not None]), *await _of_events(api, gang)]
    if gang.declared is not None and gang.declared.created:
        told.insert(0, Told(moment(gang.declared.created), "submitted", "the group was made"))
    # Most times are whole seconds; what must have come first goes first.
    unique = dict.fromkeys(sorted(told, key=lambda one: (one.at, COURSE.index(one.kind))))
    return [t.Moment(at_us=one.at, at=iso(one.at), kind=one.kind, text=one.text) for one in unique]


async def _pod(api: Api, namespace: str, name: str) -> Actor | None:
    try:
        return await api.get(f"/api/v1/namespaces/{namespace}/pods/{name}", Actor)
    except (ApiError, Broken):
        return None


def _of_pods(pods: "list[Actor]") -> list[Told]:
    """When the first and the last of them were made, bound, started and ended."""
    made = [moment(pod.metadata.creation_timestamp) for pod in pods]
    bound = [moment(c.last_transition_time) for pod in pods for c in pod.status.conditions or [] if _is_bound(c)]
    begun = [moment(pod.status.start_time) for pod in pods if pod.status.start_time]
    ended = [_end(pod) for pod in pods if _end(pod)]
    found = [
        *_first_and_last(made, "submitted", "pods were made"),
        *_first_and_last(bound, "started", "pods got nodes"),
    ]
    found += [*_first_and_last(begun, "running", "pods started"), *_first_and_last(ended, "ended", "pods ended")]
    failed = [f"{pod.metadata.name} failed: {pod.status.reason or 'its containers ended with an error'}" for pod in pods
              if pod.status.phase == "Failed"]  # fmt: skip
    return found + [Told(max(ended, default=max(made, default=0)), "lost", text) for text in failed[:10]]


def _is_bound(condition: Condition) -> bool:
    return condition.type == "PodScheduled" and condition.status == "True"


def _end(pod: Actor) -> int:
    ends = [c.state.terminated.finished_at for c in pod.status.container_statuses or [] if c.state.terminated]
    return max((moment(end) for end in ends if end), default=0)


def _first_and_last(times: "Iterable[int]", kind: str, what: str) -> list[Told]:
    known = sorted(at for at in times if at)
    if not known:
        return []
    if len(known) == 1:
        alone = what.removeprefix("pods ").replace("were", "was").replace("nodes", "a node")
        return [Told(known[0], kind, f"its pod {alone}")]
    if known[0] == known[-1]:
        return [Told(known[0], kind, f"{len(known)} {what}")]
    return [
        Told(known[0], kind, f"the first of {len(known)} {what}"),
        Told(known[-1], kind, f"all {len(known)} {what}"),
    ]


async def _of_events(api: Api, gang: GangSeen) -> list[Told]:
    """Events about the group or its pods; the API keeps them for an hour or so."""
    about = {pod.uid for pod in gang.pods.values()}
    if gang.declared is not None and gang.declared.uid:
        about.add(gang.declared.uid)
    namespace = gang.key.partition("/")[0]
    try:
        found, _, _ = await api.list(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", Happening)
    except (ApiError, Broken):
        return []
    mine = [event for event in found if event.regarding.uid in about]
    return [
        Told(_when(event), "told", f"{event.reason}: {event.note}" if event.note else event.reason) for event in mine
    ]


def _when(event: Happening) -> int:
    return moment(event.event_time or event.deprecated_last_timestamp or event.metadata.creation_timestamp)
