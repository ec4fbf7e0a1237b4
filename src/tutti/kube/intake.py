"""What the watches say of nodes, pods, groups and volumes, entered as it comes; what changed is remembered."""

import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import chain

from tutti.engine import events as ev
from tutti.engine.model import NodeState, Queue
from tutti.jobs.kube import objects
from tutti.jobs.kube.declared import gang_name
from tutti.jobs.kube.gang import Ground as Known
from tutti.jobs.kube.gang import Trait
from tutti.jobs.kube.read import (
    OURS,
    aside,
    asked_queue,
    declared,
    for_others,
    from_pod,
    is_gated,
    is_movable,
    member,
    placed,
    refused,
    run_time,
)
from tutti.jobs.kube.verdicts.all import strange
from tutti.jobs.kube.wants import Reach, Wants, claim_names, claimed, key_of, wants

from .gangs import GangSeen, Seen
from .ground import Ground, Rule, Taints
from .groups import Groups
from .marks import Marks
from .queues import Priorities, Queues
from .terrain import Terrain
from .volumes import Attachment, Volumes

KEEP_RULES = 500


class Intake(Groups):
    """Nodes, pods and groups as they are known, and which of them have changed."""

    def __init__(self, scheduler: str = "tutti", levels: Iterable[str] = ()) -> None:
        super().__init__(Terrain(levels))
        self.scheduler = scheduler
        self.now = 0
        """The moment that is being looked at, by the scheduler's clock, in microseconds."""
        self.pods: dict[str, Seen] = {}
        self.grounds: dict[str, Ground] = {}
        self.strays: dict[str, dict[str, str]] = {}
        """By the group they name: pods that wait for another scheduler, and which."""
        self.others: Counter[str] = Counter()
        """By the group they name: how many pods another scheduler has, or is to have."""
        self.foreign_jobs: set[str] = set()
        """Uids of jobs above groups that name another scheduler."""
        self.taints = Taints()
        self.marks = Marks()
        self.rules: dict[str, Rule] = {}
        self.priorities = Priorities()
        self.queues = Queues()
        self.estimates: dict[str, int] = {}
        """How long gangs run, by the uid of the job that made their group."""
        self.volumes = Volumes()
        self.moved_gangs: dict[str, None] = {}
        """Gangs whose members are the same as before, and only moved."""
        self.dirty_nodes: dict[str, None] = {}
        self.news: list[ev.Event] = []
        """What the engine is to hear beside what is read here."""
        self.misread: dict[tuple[str, str], objects.Thing] = {}
        """By uid and what is wrong: objects that make no sense, or of which not all is read, to be told once."""
        self._things: dict[str, list[str]] = {}
        self._wants: dict[bytes, Wants] = {}
        self._changed_gangs: dict[str, None] = {}
        """Seated gangs that changed since somebody last looked for pods to seat."""
        self._kept: Known | None = None
        self._domains: dict[str, int] = {}
        """How many domains each level has."""
        self._told_pool: object = None
        self._told_queues: dict[str, Queue] = {}
        self._told_traits: dict[str, Trait] = {}
        self._offers_change = False
        """Whether nodes have become others, so that whom they could hold is to be found out anew."""
        self._places: dict[str, bool] = {}
        """By what pods want: whether some node could hold one."""
        self.arrived = 0.0
        """When the latest pod of ours came, by the monotonic clock."""
        self.filling: dict[str, None] = {}
        """Gangs whose members are just coming; they are looked at when all are there, or when no more come."""

    # -- nodes

    def put_node(self, node: objects.Node) -> None:
        """A node was made or changed."""
        ground = self._ground(node.metadata.name)
        before = (ground.labels, bool(ground.capacity))
        offered = ground.labels, ground.capacity, ground.taints
        self.taints.count(ground.taints, -1)
        ground.read(node)
        self.taints.count(ground.taints, 1)
        if before != (ground.labels, bool(ground.capacity)):
            self._resurvey = True
        self._offers_change |= offered != (ground.labels, ground.capacity, ground.taints)
        self.dirty_nodes[ground.name] = None

    def drop_node(self, name: str) -> None:
        """A node is gone; pods may still name it."""
        ground = self.grounds.get(name)
        if ground is None:
            return
        self.taints.count(ground.taints, -1)
        ground.labels, ground.taints, ground.capacity, ground.ready = {}, (), {}, NodeState.LOST
        self._resurvey = True
        self._offers_change = True
        self.dirty_nodes[name] = None

    def has_place(self, wanted: Wants) -> bool:
        """Whether some node could hold such a pod if it were empty."""
        known = self._places.get(wanted.key)
        if known is None:
            known = self._places[wanted.key] = any(ground.could_hold(wanted) for ground in self.grounds.values())
        return known

    def _ground(self, name: str) -> Ground:
        if name not in self.grounds:
            self.grounds[name] = Ground(name)
        return self.grounds[name]

    # -- pods

    def put_pod(self, pod: objects.Pod) -> None:
        """A pod was made or changed."""
        seen = self.pods.get(pod.metadata.uid)
        if seen is not None and self._is_another(seen, pod):
            self.drop_pod(seen.uid)
            seen = None
        before = seen.bearing() if seen is not None else None
        if seen is None:
            seen = self._meet(pod)
        status, spec = pod.status, pod.spec
        labels = pod.metadata.labels or {}
        if not seen.told and seen.ours:
            seen.told = next((c.message for c in status.conditions or [] if c.type == "PodScheduled"), "")
        now = (
            spec.node_name,
            status.phase,
            status.reason,
            "" if seen.ours else status.nominated_node_name,
            is_gated(pod),
            pod.metadata.deletion_timestamp is not None,
        )
        if before == now and labels == seen.labels:
            return
        if before is not None and labels != seen.labels:
            before = None
        self._uncharge(seen)
        seen.node, seen.phase, seen.reason, seen.nominated, seen.gated, seen.deleting = now
        if seen.node:
            seen.sent = ""
        if seen.node and not seen.ours:
            self._stray(seen, "")
        if labels != seen.labels:
            seen.labels = labels
            seen.marks = self.marks.of(seen.namespace, seen.labels)
        self._charge(seen)
        if seen.gang:
            self._note(seen, before)

    def _note(self, seen: Seen, before: tuple[object, ...] | None) -> None:
        """Its gang is to be looked at: closely where it has other members now, for its seats where one has moved.

        Of many binds that are on the way nothing is noted; their gang is looked at when the last one has arrived.
        """
        gang = self.gangs.get(seen.gang)
        seat = gang.seats.get(seen.uid) if gang is not None else None
        same = before is not None and before[2:] == seen.bearing()[2:] and not seen.is_over
        if gang is None or seat is None or seat.node != seen.node or not same:
            self.dirty_gangs[seen.gang] = None
            return
        seat.bound = True
        if not gang.pending or (before is not None and before[1] != seen.phase):
            self.moved_gangs[seen.gang] = None

    def _is_another(self, seen: Seen, pod: objects.Pod) -> bool:
        """Whether it asks for something else now, or says something else while it waits, so that it is met anew.

        Gates go and nodes are named meanwhile, tolerations and amounts are added, notes are written. A member that has
        its seat keeps it; what it was given more is taken beside it.
        """
        gang = self.gangs.get(seen.gang)
        wanted = self._wanted_now(seen, pod)
        if seen.sent or (gang is not None and seen.uid in gang.seats):
            self._grow(seen, wanted)
            self._retime(seen, pod)
            return False
        return wanted is not seen.wants or (seen.ours and not seen.place and seen.noted != notes(pod))

    def _retime(self, seen: Seen, pod: objects.Pod) -> None:
        """How long it runs may be said while it does; everything else that is said then holds for its next start."""
        if not seen.ours or seen.noted == (said := notes(pod)):
            return
        seen.noted = said
        length, bad = run_time(pod)
        if length != seen.time or bad:
            seen.time, seen.wrong = length, tuple(dict.fromkeys((*seen.wrong, *bad)))
            self.dirty_gangs[seen.gang] = None

    def _wanted_now(self, seen: Seen, pod: objects.Pod) -> Wants:
        """What it wants; the very same where nothing was changed since it was met. Older servers count no changes."""
        generation = pod.metadata.generation
        if generation and generation == seen.generation:
            return seen.wants
        found = self._wanted(seen.namespace, placed(pod) if seen.ours else claimed(pod), seen.ours)
        if found.key != seen.wants.key:
            return found
        seen.generation = generation
        return seen.wants

    def _grow(self, seen: Seen, wanted: Wants) -> None:
        """Its gang holds what it was started with; more than that is a stranger's on the node."""
        asked = seen.wants.ask
        grown = {name: more for name, value in wanted.ask.items() if (more := value - asked.get(name, 0)) > 0}
        if grown != seen.grown:
            self._uncharge(seen)
            seen.grown = grown
            self._charge(seen)

    def drop_pod(self, uid: str) -> None:
        """A pod is gone."""
        seen = self.pods.pop(uid, None)
        if seen is None:
            return
        self._uncharge(seen)
        if seen.gang:
            self._leave(seen)
        elif seen.group:
            self._stray(seen, "")
            self._count_other(seen.group, -1)

    def _meet(self, pod: objects.Pod) -> Seen:
        meta = pod.metadata
        ours = pod.spec.scheduler_name == self.scheduler
        spec = placed(pod) if ours else claimed(pod)
        seen = Seen(meta.uid, meta.namespace, meta.name, self._wanted(meta.namespace, spec, ours))
        self.pods[meta.uid] = seen
        seen.generation = meta.generation
        seen.labels = meta.labels or {}
        seen.ours = ours
        seen.spec = spec if seen.wants.claims else None
        if ours:
            self._join(seen, pod)
        elif (said := member(pod)[0]).dialect != OURS:
            seen.group = gang_name(seen.namespace, said.group, said.dialect)
            self._count_other(seen.group, 1)
            if not pod.spec.node_name:
                self._stray(seen, pod.spec.scheduler_name)
        seen.marks = self.marks.of(seen.namespace, seen.labels)
        return seen

    def _count_other(self, group: str, more: int) -> None:
        self.others[group] += more
        if not self.others[group]:
            del self.others[group]
        if group in self.gangs:
            self.gangs[group].is_foreign = True
            self.soil((group,))

    def is_elsewhere(self, gang: GangSeen) -> bool:
        """Whether it is the business of another scheduler, of which nothing is said."""
        if gang.pods or gang.declared is None:
            return False
        return gang.is_foreign or gang.key in self.others or gang.declared.owner in self.foreign_jobs

    def _stray(self, seen: Seen, waits_for: str) -> None:
        """A pod that waits for somebody else although its group may be ours; nothing: it does not, or no longer."""
        there = self.strays.get(seen.group, {})
        if waits_for == there.get(seen.uid, ""):
            return
        if waits_for:
            self.strays.setdefault(seen.group, {})[seen.uid] = waits_for
        else:
            del there[seen.uid]
            if not there:
                del self.strays[seen.group]
        if seen.group in self.gangs:
            self.soil((seen.group,))

    def elsewhere(self, gang: GangSeen) -> set[str]:
        """Other schedulers that pods of it ask for."""
        groups = {pod.group for pod in gang.pods.values()} if self.strays else set()
        return {name for group in groups for name in self.strays.get(group, {}).values()}

    def _join(self, seen: Seen, pod: objects.Pod) -> None:
        said, seen.spoken = member(pod)
        seen.part, seen.rank, seen.priority = said.part, said.rank, pod.spec.priority
        seen.polite, seen.priority_class = pod.spec.preemption_policy == "Never", pod.spec.priority_class_name
        seen.aside = aside(pod)
        seen.created, seen.noted = moment(pod.metadata.creation_timestamp), notes(pod)
        seen.controller = next((o.uid for o in pod.metadata.owner_references or [] if o.controller), "")
        seen.time, bad = run_time(pod)
        seen.movable, vague = is_movable(pod)
        seen.queue, seen.refused = asked_queue(pod), refused(pod)
        seen.group = gang_name(seen.namespace, said.group, said.dialect)
        gang = self._enter(seen, said.group, from_pod(pod, said))
        if said.dialect == OURS and (others := for_others(pod)) is not None:
            self._herald(seen, others)
        gang.joined = self.arrived = time.monotonic()
        seen.wrong += (*bad, *vague, *seen.aside.problems, *strange(pod.metadata))

    def _wanted(self, namespace: str, spec: objects.PodSpec, ours: bool) -> Wants:
        key = key_of(namespace, spec, self.volumes.claims)
        known = self._wants.get(key)
        if known is None:
            known = self._wants[key] = wants(namespace, spec, self.volumes.claims)
            if self.marks.learn(known):
                self._remark()
            for level in chain((b.key for b in (*known.near, *known.apart)), (rule.key for rule in known.spread)):
                self._resurvey |= self.terrain.ask(level)
        if ours:
            for rule in (known.nodes, known.liked):
                if rule is not None and rule.tag not in self.rules:
                    self._add_rule(rule)
        return known

    def _add_rule(self, rule: Rule) -> None:
        """A new rule about nodes: those that meet it get a tag."""
        if len(self.rules) >= KEEP_RULES:
            used = {r.tag for g in self.gangs.values() for k in g.kin for r in (k.wants.nodes, k.wants.liked) if r}
            self.rules = {tag: kept for tag, kept in self.rules.items() if tag in used}
        self.rules[rule.tag] = rule
        for name, ground in self.grounds.items():
            if rule.allows(name, ground.labels):
                self.dirty_nodes[name] = None

    def _remark(self) -> None:
        """Somebody asks about new labels: pods that have them get a mark."""
        for seen in self.pods.values():
            marks = self.marks.of(seen.namespace, seen.labels)
            if marks != seen.marks:
                self._uncharge(seen)
                seen.marks = marks
                self._charge(seen)
        for key in self.gangs:
            self.dirty_gangs[key] = None

    # -- what strangers use

    def _charge(self, seen: Seen) -> None:
        """Pods without a seat of ours are strangers on their node, whoever placed them, until they are gone."""
        where = seen.place
        gang = self.gangs.get(seen.gang)
        seat = gang.seats.get(seen.uid) if gang is not None else None
        seated = seat is not None and seat.node == where
        if where and not seen.is_over and seen.wants.claims:
            seen.mounted = where
            self._mount(seen, 1)
        if where and not seen.is_over and (not seated or seen.grown):
            seen.charged, seen.charged_all = where, not seated
            self._settle_up(seen, 1)

    def _uncharge(self, seen: Seen) -> None:
        if seen.mounted:
            self._mount(seen, -1)
            seen.mounted = ""
        if seen.charged:
            self._settle_up(seen, -1)
            seen.charged = ""

    def _mount(self, seen: Seen, sign: int) -> None:
        """Whose volumes a node has attached bears on how many of them count beside those of its pods."""
        if self.volumes.mount(seen.mounted, seen.wants.claims, sign):
            self.dirty_nodes[self._ground(seen.mounted).name] = None

    def _settle_up(self, seen: Seen, sign: int) -> None:
        """All of it, or only what it was given more than its gang holds for it."""
        ground = self._ground(seen.charged)
        if seen.charged_all:
            ground.charge(seen.wants.ask, self.marks.left(seen.wants, seen.marks), sign)
        if seen.grown:
            ground.charge(seen.grown, (), sign)
        self.dirty_nodes[seen.charged] = None

    def recharge(self, seen: Seen) -> None:
        """A pod got or lost a seat of ours, or is not bound after all; it may be gone by now."""
        self._uncharge(seen)
        if self.pods.get(seen.uid) is seen:
            self._charge(seen)

    # -- groups and everything else

    def put_thing(self, thing: objects.Thing) -> None:
        """A group, a queue, a topology or a priority class was made or changed."""
        if thing.kind in ("HyperNode", "ClusterNetworkTopology", "Topology"):
            self.terrain.put(thing)
            self._resurvey = True
            return
        found = declared(thing)
        place = thing_name(thing)
        keys = [group.key for group in found]
        for gone in set(self._things.get(place, [])) - set(keys):
            self._undeclare(gone)
        self._things[place] = keys
        for group in found:
            self._declare(group, group.key)

    def drop_thing(self, thing: objects.Thing) -> None:
        """It is gone."""
        if thing.kind in ("HyperNode", "ClusterNetworkTopology", "Topology"):
            self.terrain.drop(thing)
            self._resurvey = True
            return
        for key in self._things.pop(thing_name(thing), []):
            self._undeclare(key)

    def misreads(self, thing: objects.Thing, texts: Iterable[str]) -> None:
        """An object says something that is not read, or makes no sense."""
        self.misread |= {(thing.metadata.uid, text[:400]): thing for text in texts}

    # -- volumes

    def put_volume(self, name: str, reach: Reach | None) -> None:
        """A volume was made or changed, or is gone."""
        drivers = len(self.volumes.drivers)
        for claim in self.volumes.put(name, reach):
            self._reclaim(claim)
        if len(self.volumes.drivers) > drivers:
            self.dirty_nodes |= dict.fromkeys(self.grounds)
        self._look_at(self.volumes.holders(name))

    def put_registered(self, node: str, most: dict[str, int | None]) -> None:
        """The drivers of a node, and how many volumes of each it can attach."""
        self.volumes.put_registered(node, most)
        self._look_at((node,))

    def put_driver(self, name: str, demands: bool) -> None:
        """Whether a driver keeps its volumes off nodes that do not have it."""
        if self.volumes.put_driver(name, demands):
            self._look_at(tuple(self.grounds))

    def put_attachment(self, name: str, said: Attachment | None) -> None:
        """A volume that a node has attached, whoever uses it, or that it has no longer."""
        self._look_at(self.volumes.put_attachment(name, said))

    def _look_at(self, nodes: Iterable[str]) -> None:
        self.dirty_nodes |= {name: None for name in nodes if name in self.grounds}

    def bind_claim(self, claim: str, volume: str | None, alone: bool) -> None:
        """A claim, the volume it is bound to, and whether only one pod may use it."""
        if self.volumes.bind(claim, volume, alone):
            self._reclaim(claim)

    def unbind_claim(self, claim: str) -> None:
        """A claim is gone."""
        self.volumes.unbind(claim)
        self._reclaim(claim)

    def _reclaim(self, name: str) -> None:
        """Pods that use a claim want something else now; what they are charged with changes too."""
        for seen in self.pods.values():
            if seen.spec is not None and name in claim_names(seen.namespace, seen.spec):
                self._uncharge(seen)
                seen.wants = self._wanted(seen.namespace, seen.spec, seen.ours)
                self._charge(seen)
                if seen.gang:
                    self.dirty_gangs[seen.gang] = None


def thing_name(thing: objects.Thing) -> str:
    """Unlike that of any other object."""
    group = thing.api_version.partition("/")[0]
    return f"{group}/{thing.kind}/{thing.metadata.namespace}/{thing.metadata.name}"


def notes(pod: objects.Pod) -> int:
    """What a pod says beside what it asks for: equal where it says the same."""
    meta = pod.metadata
    said = (sorted((meta.labels or {}).items()), sorted((meta.annotations or {}).items()))
    return hash((*map(tuple, said), pod.spec.active_deadline_seconds))


def moment(written: str | None) -> int:
    """A time of the API in microseconds."""
    if not written:
        return 0
    return int(datetime.fromisoformat(written).timestamp() * 1_000_000)
