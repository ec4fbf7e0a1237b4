"""What people are told: conditions on groups and pods, and one event per change. Never more often than it changes.

Nothing here is in a hurry: binds go first, and what is to be told is looked at when they are out or when a second has
passed.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tutti.drive.loop import Driver
from tutti.engine.explain import explain
from tutti.engine.model import Token
from tutti.engine.plan import Reason
from tutti.jobs.kube.declared import Declared
from tutti.jobs.kube.dialects import kueue, yunikorn
from tutti.jobs.kube.objects import Thing
from tutti.views.why import sentence as in_words

from .api import APPLY, STRATEGIC, Api, ApiError, Fenced
from .choice import choices
from .gangs import GangSeen, Seen
from .http import Broken
from .kinds import Served
from .metrics import Metrics
from .mirror import Mirror
from .pen import QUIET, Outcome, Pen
from .status import COUNTED, LASTING, Counts, News, path_of, pod_condition, reference, status_of
from .words import COMPONENT, disagreements, event, is_refused, sentence

if TYPE_CHECKING:
    from .config import Config
    from .hands import Hands

COMING, COMPLETE = 0.03, 0.015
"""Seconds since the latest pod after which no more are awaited: while a gang lacks some, and while none does."""
PATIENCE = 3.0
AGAIN = 5.0
"""Seconds after which what could not be told is told again."""
MOST_EVENTS = 2000
"""Events that are kept for a server that does not answer."""
FILLING = 0.25
NODES_HELP = frozenset(
    {
        Token.NO_CAPACITY,
        Token.NO_DOMAIN,
        Token.NEVER_FITS,
        Token.USED_BY_OTHERS,
        Token.NODES_LOST,
        Token.RESERVED_AHEAD,
        Token.INVALID,
    }
)
"""Reasons that more nodes would end: only these carry the word that autoscalers look for. Where no node at all has a
resource or a label, the pool that would have it may be empty.
"""
QUICK = 0.01
REST = 8.0
"""A look at everything that takes longer than that is not repeated for so many times as long: very many gangs wait at
no great cost.
"""
ELABORATE = 0.05
"""Seconds that one round may spend on working out numbers for its sentences."""
NO_ROOM = News(
    "waiting",
    Token.NO_CAPACITY.value,
    "its gang runs without it; no node has room for it now, or a limit of its queue is reached",
)
NO_PLACE = News("waiting", Token.NEVER_FITS.value, "its gang runs without it; no node could hold it even when empty")
CONTROLLED = frozenset({"coscheduling", "koordinator"})
"""Dialects with a controller that may write the status of groups."""
OLD = ("scheduling.incubator.k8s.io/", "scheduling.sigs.dev/")
MODERN = "is read as Volcano's PodGroup, which came after it; today it is written scheduling.volcano.sh/v1beta1"
REPORTED = {"waiting": "FailedScheduling", "short": "MembersLost"}
"""The reason of the event by which a state is told; of all others it is Scheduled."""


class Author(msgspec.Struct):
    """Somebody who has written fields of an object, and which."""

    manager: str = ""
    fields: dict[str, Any] = msgspec.field(default_factory=dict, name="fieldsV1")


class Authors(msgspec.Struct):
    """Everybody who has."""

    managed_fields: list[Author] = msgspec.field(default_factory=list, name="managedFields")


class Authored(msgspec.Struct):
    """Of an object, only who wrote it."""

    metadata: Authors


class Teller:
    """Compares what was told with what is true, and tells the difference."""

    def __init__(self, api: Api, mirror: Mirror, driver: Driver, metrics: Metrics, config: "Config") -> None:
        self.api = api
        self.mirror = mirror
        self.driver = driver
        self.metrics = metrics
        self.config = config
        self.hands: Hands | None = None
        self._look = asyncio.Event()
        self._events: list[dict[str, Any]] = []
        self.pen = Pen(api, metrics)
        self.pen.is_binding = self._is_binding
        self._until = 0.0
        self._rest_until = 0.0
        self._reasons: Mapping[str, Reason] = {}
        self._warned: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._whole: set[tuple[str, str]] = set()
        """Kinds of groups whose status is written with the object."""

    def heed(self, kind: Served) -> None:
        """How a kind is served here."""
        if not kind.has_status:
            self._whole.add((kind.api_version, kind.kind.name))

    def look(self) -> None:
        """Something may have to be told."""
        self._look.set()

    async def run(self) -> None:
        """Tell for ever."""
        while True:
            await self._look.wait()
            calm = await self._calm()
            await asyncio.sleep(self._rest_until - time.monotonic())
            self.pen.yields_until = time.monotonic() + PATIENCE if calm else 0.0
            self._look.clear()
            try:
                await self._tell_all()
            except Fenced:
                await asyncio.sleep(PATIENCE)

    async def _calm(self) -> bool:
        """Wait until the binds are out and no more pods come, but not for ever; says whether it came to that."""
        end = time.monotonic() + PATIENCE
        await asyncio.sleep(QUIET)
        while self._is_busy() and time.monotonic() < end:  # noqa: ASYNC110 - quiet is a length of time, not an event
            await asyncio.sleep(QUIET)
        return not self._is_busy()

    def _is_busy(self) -> bool:
        return self._are_coming() or self._is_binding()

    def _is_binding(self) -> bool:
        return self.hands is not None and not self.hands.is_idle

    def _are_coming(self) -> bool:
        return time.monotonic() - self.mirror.arrived < (COMING if self.mirror.filling else COMPLETE)

    async def _tell_all(self) -> None:
        began = time.process_time()
        waiting = any(gang.is_entered and not gang.is_seated for gang in self.mirror.gangs.values())
        self._rest_until = 0.0
        answers = self.reasons() if waiting else {}
        tokens: Counter[str] = Counter(reason.token.value for reason in answers.values())
        self.metrics.replace("tutti_kube_waiting", {token.value: tokens.get(token.value, 0) for token in Token})
        self._until = time.monotonic() + ELABORATE
        jobs = [self._tell_one(gang, answers.get(gang.key)) for gang in list(self.mirror.gangs.values())]
        told = [job for job in jobs if job is not None]
        spent = max(time.process_time() - began - QUICK, 0.0)
        self._rest_until = time.monotonic() + min(spent * REST, PATIENCE)
        if told:
            await asyncio.gather(*told)
        misread, self.mirror.misread = self.mirror.misread, {}
        for (_, text), thing in misread.items():
            self._misread(thing, text)
        await self._send_events()

    def _misread(self, thing: Thing, text: str) -> None:
        """An object that makes no sense: once."""
        meta = thing.metadata
        about = {"apiVersion": thing.api_version, "kind": thing.kind, "name": meta.name, "uid": meta.uid}
        if (meta.uid, text) not in self._warned:
            self._warned[meta.uid, text] = None
            about |= {"namespace": meta.namespace or "default"}
            self._events.append(event(about, "Misdeclared", text))

    def reasons(self) -> Mapping[str, Reason]:
        """Why each gang that waits does. Where very many do, that takes a while, and is good for a while."""
        if time.monotonic() < self._rest_until:
            return self._reasons
        try:
            self._reasons = dict(self.driver.answers())
        except Exception:  # noqa: BLE001 - a reason that cannot be found must not end the scheduler
            self.metrics.add("tutti_kube_trouble_total", label="unanswered")
            self._reasons = {}
        return self._reasons

    def _tell_one(self, gang: GangSeen, reason: Reason | None) -> "asyncio.Future[list[None]] | None":
        """The writes that one gang needs; None where everything was told."""
        if self.mirror.is_elsewhere(gang) or self.mirror.is_part(gang.key):
            return None
        self._meet(gang)
        self._warn(gang)
        lacking = reason.token is Token.WAITING_FOR_MEMBERS if reason is not None else not gang.is_entered
        if lacking and self._is_filling(gang):
            return None
        news = self._news(gang, reason)
        writes = [self._condition(pod, said) for pod, said in self._left_over(gang)]
        writes += [self._condition(pod, news) for pod in self._newcomers(gang, news)] if news is not None else []
        told = (news, self._counted(gang, news)) if news is not None else None
        if told is not None and (gang.told.get("news") != told or _is_due(gang)):
            writes.append(self._write(gang, *told))
        return asyncio.gather(*writes) if writes else None

    def _meet(self, gang: GangSeen) -> None:
        """A group that was deleted and made anew is another, of which nothing was told."""
        uid = gang.declared.uid if gang.declared is not None else ""
        if uid and gang.told.get("uid", uid) != uid:
            gang.told = {"newcomers": True}
        if uid:
            gang.told["uid"] = uid

    def _counted(self, gang: GangSeen, news: News) -> Counts | None:
        """How many run and have ended, where its dialect tells and it is past its start."""
        counts = news.state in LASTING and gang.declared is not None and gang.declared.dialect in COUNTED
        return _counts(gang.pods.values()) if counts else None

    def _left_over(self, gang: GangSeen) -> list[tuple[Seen, News]]:
        """Pods that wait although their gang runs, and have not been told why."""
        if not gang.up or gang.pending or gang.leaving or len(gang.pods) <= len(gang.seats):
            return []
        waiting = [pod for pod in gang.pods.values() if pod.can_be_placed and pod.uid not in gang.seats]
        said = [(pod, self._why_left(gang, pod)) for pod in waiting]
        return [(pod, news) for pod, news in said if news is not None and pod.told != told_as(news)]

    def _why_left(self, gang: GangSeen, pod: Seen) -> News | None:
        if not self.mirror.has_place(pod.wants):
            return NO_PLACE
        if gang.role_of(pod) >= 0:
            return NO_ROOM
        text = f"its gang runs without it, and it does not join: {gang.barred} cannot be honoured"
        return News("waiting", Token.UNSUPPORTED.value, text) if gang.barred else None

    def _newcomers(self, gang: GangSeen, news: News) -> list[Seen]:
        """Pods that came when it had been told why their gang waits."""
        if not gang.told.keys() >= {"newcomers", "news"} or not _is_for_pods(news):
            return []
        del gang.told["newcomers"]
        return [pod for pod in gang.pods.values() if pod.can_be_placed and not pod.told]

    def _is_filling(self, gang: GangSeen) -> bool:
        """Its members are just being made; who is missing is told when no more of them come."""
        now = time.monotonic()
        if gang.told.get("missing") != gang.awaiting:
            gang.told |= {"missing": gang.awaiting, "missing_since": now}
        patience = PATIENCE if now - self.mirror.arrived < FILLING else FILLING
        filling = now - float(gang.told["missing_since"]) < patience  # type: ignore[arg-type]
        if filling:
            asyncio.get_running_loop().call_later(FILLING, self.look)
        return filling

    def _news(self, gang: GangSeen, reason: Reason | None) -> News | None:
        if gang.is_seated and not gang.leaving:
            return None if gang.failed_start else self._seated(gang)
        if not gang.is_entered:
            return self._unknown(gang)
        if reason is None or gang.gang is None or gang.away:
            # That it had to leave was told; its pods are another's to make.
            return None
        return News("waiting", reason.token.value, self._sentence(gang, reason))

    def _seated(self, gang: GangSeen) -> News | None:
        if gang.up:
            return News("running", "", "all members run")
        if gang.bound >= gang.least:
            return News("started", "", "all members have a node")
        text = f"{gang.bound} of at least {gang.least} members are left"
        return News("short", "", text) if gang.lost or gang.landed >= gang.least else None

    def _unknown(self, gang: GangSeen) -> News | None:
        """A gang the engine has not heard of: one that is over, a group without pods, or pods without a group."""
        if any(pod.is_over for pod in gang.pods.values()):
            return self._over(gang)
        if self._has_started(gang) or (gang.declared is not None and gang.declared.dialect == kueue.NAME):
            return None
        if gang.declared is not None:
            wanted = gang.declared.min
            there = f"{len(self.mirror.parts_of(gang))} of {wanted} groups" if gang.declared.is_tree else ""
            text = f"{there or f'0 of {wanted} members'} are there"
            return News("waiting", "WaitingForMembers", text) if wanted else None
        if not any(pod.can_be_placed for pod in gang.pods.values()):
            return None
        name, _, dialect = gang.key.partition("@")
        text = f"its group {name} ({dialect or 'native'}) is not there, or only in a version that is not read"
        if dialect == yunikorn.NAME:
            text = f"no pod of application {name} carries the annotation {yunikorn.TASK_GROUPS}"
        return News("waiting", "WaitingForMembers", text)

    def _over(self, gang: GangSeen) -> News | None:
        """All its pods have ended, and nobody has said so yet."""
        if gang.declared is None or gang.declared.over or not all(pod.is_over for pod in gang.pods.values()):
            return None
        failed = sum(pod.phase == "Failed" for pod in gang.pods.values())
        return News("over", "", f"{failed} of {len(gang.pods)} members failed" if failed else "all members succeeded")

    def _has_started(self, gang: GangSeen) -> bool:
        """It ran and is over; nobody is missing."""
        said = _told(gang).state
        return said not in ("", "waiting") or bool(gang.declared and gang.declared.scheduled)

    def _explained(self, key: str) -> str:
        world = self.driver.world
        try:
            return in_words(explain(world.view(), world.at, self.driver.policy, key))
        except Exception:  # noqa: BLE001 - the plain reason will do
            self.metrics.add("tutti_kube_trouble_total", label="unexplained")
            return ""

    def _sentence(self, gang: GangSeen, reason: Reason) -> str:
        """The reason in words, with numbers where there is time for them; the same again while the token stays."""
        kept = gang.told.get("sentence")
        version = gang.told.get("token"), gang.awaiting
        if kept is not None and version == (reason.token, gang.awaiting) and gang.told.get("awaiting") == gang.awaiting:
            return str(kept)
        text = sentence(gang, reason)
        plain = reason.token in (Token.WAITING_FOR_MEMBERS, Token.INVALID)
        if not plain and time.monotonic() < self._until:
            text = self._explained(gang.key) or text
            asked = choices(gang, self.mirror.grounds, self.mirror.volumes) if reason.token in NODES_HELP else []
            text += f" It asks for {'; '.join(asked)}." if asked else ""
        gang.told |= {"sentence": text, "token": reason.token, "awaiting": gang.awaiting}
        return text

    async def _write(self, gang: GangSeen, news: News, counts: Counts | None) -> None:
        before, known = _told(gang), _was_told(gang, news)
        changed = before[:2] != news[:2] and not known
        gang.told["news"] = (news, counts)
        gang.told.pop("untold", None)
        goes_on = news.state == "over" or (news.state == "running" and before.state in ("", "started"))
        if changed and not goes_on and not is_refused(gang):
            self._event(gang, REPORTED.get(news.state, "Scheduled"), news)
        groups = [gang.declared, *self.mirror.parts_of(gang)] if gang.declared is not None else []
        writes = [self._status(gang, group, news) for group in groups if not (known and group.told[1] == news.message)]
        if (changed or known) and _is_for_pods(news):
            pods = [pod for pod in gang.pods.values() if pod.can_be_placed]
            writes += [self._condition(pod, news) for pod in pods]
        await asyncio.gather(*writes)

    async def _status(self, gang: GangSeen, group: Declared, news: News) -> None:
        """What the object of one group says; a gang may be made of several."""
        about = reference(group)
        members = (pod for pod in gang.pods.values() if pod.group == group.key)
        body = status_of(group, news, _counts(members) if group.dialect in COUNTED else Counts())
        if about is None or body is None:
            return
        # With its uid, so that an object that is gone is not made anew.
        meta = {"name": about["name"], "uid": about["uid"]}
        whole = {"apiVersion": about["apiVersion"], "kind": about["kind"], "metadata": meta}
        if group.dialect in CONTROLLED and await self._is_anothers(path_of(group)):
            return
        path = path_of(group)
        if (group.api, group.kind) not in self._whole:
            path += "/status"
        outcome = await self.pen.write("PATCH", path, whole | {"status": body}, APPLY, fieldManager=COMPONENT)
        if outcome is Outcome.LATER:
            gang.told["untold"] = time.monotonic() + AGAIN
            asyncio.get_running_loop().call_later(AGAIN, self.look)
        elif outcome is Outcome.REFUSED:
            text = f"its status cannot be written, so that it stands here only: {news.message}"
            self._once(gang, "StatusRefused", News(news.state, news.token, text))

    async def _is_anothers(self, path: str) -> bool:
        """Whether somebody else writes the status of an object; even the same words would make it ours as well."""
        try:
            found = await self.api.get(path, Authored)
        except (ApiError, Broken):
            return False
        return any(one.manager != COMPONENT and "f:status" in one.fields for one in found.metadata.managed_fields)

    async def _condition(self, pod: Seen, news: News) -> None:
        message = told_as(news)
        if pod.told == message:
            return
        reason = "Unschedulable" if news.token in NODES_HELP else news.token
        body = pod_condition(reason, message, first=not pod.told)
        pod.told = message
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        if await self.pen.write("PATCH", path, body, STRATEGIC, fieldManager=COMPONENT) is Outcome.LATER:
            pod.told = ""
            self.mirror.gangs[pod.gang].told["newcomers"] = True
            asyncio.get_running_loop().call_later(AGAIN, self.look)

    # -- events

    def held(self, gang: GangSeen, why: str) -> None:
        """A gang is bound in part and stays so, because nobody would make its pods again."""
        gang.failed_start = why
        self.metrics.set("tutti_kube_held_partial", sum(bool(g.failed_start) for g in self.mirror.gangs.values()))
        text = f"{why}; its pods have no controller that would make them again, so they are left as they are"
        self._event(gang, "HeldPartial", News("waiting", "Held", text))
        self.look()

    def kept(self, gang: GangSeen) -> None:
        """A gang was told to leave, and disruption budgets do not let it go yet."""
        why = f"makes room for {gang.room_for}" if gang.room_for else gang.failed_start or "has to leave"
        text = f"{why}; disruption budgets keep its pods, which are asked again until they may go"
        self._event(gang, "EvictionBlocked", News("waiting", "", text))
        self.look()

    def spared(self, gang: GangSeen) -> None:
        """A gang was told to leave, and disruption budgets kept it."""
        text = "disruption budgets keep its pods, so it stays where it is and others are looked for"
        self._event(gang, "Spared", News("running", "", text))
        self.look()

    def moves(self, gang: GangSeen, room_for: str) -> None:
        """Members of a gang are started anew elsewhere."""
        self._event(gang, "Moved", News("running", "", f"moves closer together, so that {room_for} finds room"))
        self.look()

    def preempted(self, gang: GangSeen, why: str) -> None:
        """A gang has to leave."""
        self._event(gang, "Preempted", News("waiting", "", f"makes room for {why}" if "/" in why else why))
        self.look()

    def _warn(self, gang: GangSeen) -> None:
        """What is wrong with how the gang is declared: once."""
        said = [
            *dict.fromkeys((*gang.complaints(), *gang.problems)),
            *disagreements(gang, sorted(self.mirror.elsewhere(gang))),
        ]
        twice = sorted({other for pod in gang.pods.values() for other in pod.spoken})
        if twice:
            said.append(f"its pods also declare a group of {', '.join(twice)}; that is not read")
        for text in said:
            self._once(gang, "Misdeclared", News("waiting", "Invalid", text))
        if gang.declared is not None and gang.declared.api.startswith(OLD):
            self._once(gang, "OldForm", News("waiting", "", f"{gang.declared.api} {MODERN}"))
        while len(self._warned) > 10_000:
            self._warned.popitem(last=False)

    def _once(self, gang: GangSeen, reason: str, news: News) -> None:
        whom = str(gang.told.get("uid") or gang.key)
        if (whom, news.message) not in self._warned:
            self._warned[whom, news.message] = None
            self._event(gang, reason, news)

    def _event(self, gang: GangSeen, reason: str, news: News) -> None:
        declared = gang.declared
        about = reference(declared) if declared is not None else None
        if about is None:
            pod = next(iter(gang.pods.values()), None)
            if pod is None:
                return
            about = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        note = f"{news.token}: {news.message}" if news.token else news.message
        self._events.append(event(about, reason, note))

    async def _send_events(self) -> None:
        events, self._events = self._events, []
        outcomes = await asyncio.gather(*(self._send(one) for one in events))
        missed = [one for one, outcome in zip(events, outcomes, strict=True) if outcome is Outcome.LATER]
        if missed:
            self._events = [*missed, *self._events][:MOST_EVENTS]
            asyncio.get_running_loop().call_later(AGAIN, self.look)

    async def _send(self, body: dict[str, Any]) -> Outcome:
        path = f"/apis/events.k8s.io/v1/namespaces/{body['metadata']['namespace']}/events"
        return await self.pen.write("POST", path, body, "application/json")


def _told(gang: GangSeen) -> News:
    """What was last told of a gang."""
    told = gang.told.get("news")
    return told[0] if isinstance(told, tuple) else News("")


def _is_due(gang: GangSeen) -> bool:
    """Whether it could not be told, and it is time to try again."""
    due = gang.told.get("untold")
    return isinstance(due, float) and time.monotonic() >= due


def _was_told(gang: GangSeen, news: News) -> bool:
    """Whether a leader before us has said just that, as the objects themselves show."""
    if "news" in gang.told or news.state != "waiting":
        return False
    told = gang.declared is not None and gang.declared.told[1] == news.message
    return told or any(pod.told == told_as(news) for pod in gang.pods.values())


def _is_for_pods(news: News) -> bool:
    """Whether each pod is told, too; who is just coming or starting needs no word."""
    return news.state == "waiting" and news.token not in (Token.WAITING_FOR_MEMBERS, Token.STARTING)


def _counts(pods: Iterable[Seen]) -> Counts:
    phases = Counter(pod.phase for pod in pods)
    return Counts(phases.total(), phases["Running"], phases["Succeeded"], phases["Failed"])


def told_as(news: News) -> str:
    """What the condition of a pod says."""
    return f"{news.token}: {news.message}"
