"""What the watches say of nodes, pods, groups and volumes, entered as it comes; what changed is remembered."""

import time
from collections.abc import Iterable
from datetime import datetime
from itertools import chain

from tutti.engine import events as ev
from tutti.engine.model import NodeState, Queue
from tutti.jobs.kube import objects
from tutti.jobs.kube.declared import Declared, gang_name
from tutti.jobs.kube.dialects import koordinator, native
from tutti.jobs.kube.gang import Ground as Known
from tutti.jobs.kube.read import asked_queue, declared, from_pod, is_gated, member, run_time
from tutti.jobs.kube.wants import Reach, Wants, key_of, wants

from .gangs import GangSeen, Seen
from .ground import Ground, Rule, Taints
from .marks import Marks
from .terrain import Terrain
from .volumes import Volumes

KEEP_RULES = 500


class Intake:
    """Nodes, pods and groups as they are known, and which of them have changed."""

    def __init__(self, scheduler: str = "tutti", levels: Iterable[str] = ()) -> None:
        self.scheduler = scheduler
        self.pods: dict[str, Seen] = {}
        self.grounds: dict[str, Ground] = {}
        self.gangs: dict[str, GangSeen] = {}
        self.groups: dict[str, Declared] = {}
        """Declarations by object, by the gang's name."""
        self.terrain = Terrain(levels)
        self.taints = Taints()
        self.marks = Marks()
        self.rules: dict[str, Rule] = {}
        self.priorities: dict[str, int] = {}
        self.default_priority = 0
        self.queues: dict[str, Queue] = {"default": Queue("default")}
        self.local_queues: dict[str, str] = {}
        self.trees: dict[str, set[str]] = {}
        """Queues that were read from one object, by that object."""
        self.estimates: dict[str, int] = {}
        """How long gangs run, by the uid of the job that made their group."""
        self.volumes = Volumes()
        self.dirty_gangs: dict[str, None] = {}
        self.moved_gangs: dict[str, None] = {}
        """Gangs whose members are the same as before, and only moved."""
        self.dirty_nodes: dict[str, None] = {}
        self.news: list[ev.Event] = []
        """What the engine is to hear beside what is read here."""
        self._things: dict[str, list[str]] = {}
        self._wants: dict[bytes, Wants] = {}
        self._into: dict[str, str] = {}
        """Groups that are parts of another: a gang's name, and the name of the gang it is in."""
        self.extras: dict[str, str] = {}
        """Groups that may start once the gang of their tree sits."""
        self._changed_gangs: dict[str, None] = {}
        """Seated gangs that changed since somebody last looked for pods to seat."""
        self._kept: tuple[int, Known] | None = None
        self._arrivals = 0
        self._domains: dict[str, int] = {}
        """How many domains each level has."""
        self._resurvey = True
        self._told_pool: object = None
        self._told_queues: dict[str, Queue] = {}
        self.arrived = 0.0
        """When the latest pod of ours came, by the monotonic clock."""
        self.filling: dict[str, None] = {}
        """Gangs whose members are just coming; they are looked at when all are there, or when no more come."""

    # -- nodes

    def put_node(self, node: objects.Node) -> None:
        """A node was made or changed."""
        ground = self._ground(node.metadata.name)
        before = (ground.labels, ground.taints)
        self.taints.count(ground.taints, -1)
        ground.read(node)
        self.taints.count(ground.taints, 1)
        if before[0] != ground.labels:
            self._resurvey = True
        self.dirty_nodes[ground.name] = None

    def drop_node(self, name: str) -> None:
        """A node is gone; pods may still name it."""
        ground = self.grounds.get(name)
        if ground is None:
            return
        self.taints.count(ground.taints, -1)
        ground.labels, ground.taints, ground.capacity, ground.ready = {}, (), {}, NodeState.LOST
        self._resurvey = True
        self.dirty_nodes[name] = None

    def _ground(self, name: str) -> Ground:
        if name not in self.grounds:
            self.grounds[name] = Ground(name)
        return self.grounds[name]

    # -- pods

    def put_pod(self, pod: objects.Pod) -> None:
        """A pod was made or changed."""
        seen = self.pods.get(pod.metadata.uid)
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

    def drop_pod(self, uid: str) -> None:
        """A pod is gone."""
        seen = self.pods.pop(uid, None)
        if seen is None:
            return
        self._uncharge(seen)
        if seen.gang:
            self.dirty_gangs[seen.gang] = None
            gang = self.gangs.get(seen.gang)
            if gang is not None:
                gang.pods.pop(uid, None)

    def _meet(self, pod: objects.Pod) -> Seen:
        meta = pod.metadata
        ours = pod.spec.scheduler_name == self.scheduler
        seen = Seen(meta.uid, meta.namespace, meta.name, self._wanted(meta.namespace, pod.spec, ours))
        self.pods[meta.uid] = seen
        seen.labels = meta.labels or {}
        seen.ours = ours
        seen.spec = pod.spec if seen.wants.claims else None
        if ours:
            self._join(seen, pod)
        elif not pod.spec.node_name:
            self._note_stray(pod)
        seen.marks = self.marks.of(seen.namespace, seen.labels)
        return seen

    def _note_stray(self, pod: objects.Pod) -> None:
        """A pod that waits for somebody else although its group may be ours."""
        said, _ = member(pod)
        gang = self.gangs.get(gang_name(pod.metadata.namespace, said.group, said.dialect))
        if gang is not None and any(one.ours for one in gang.pods.values()):
            gang.elsewhere.add(pod.spec.scheduler_name)
            self.dirty_gangs[gang.key] = None

    def _join(self, seen: Seen, pod: objects.Pod) -> None:
        said, seen.spoken = member(pod)
        seen.part, seen.rank, seen.priority = said.part, said.rank, pod.spec.priority
        seen.polite = pod.spec.preemption_policy == "Never"
        seen.created = moment(pod.metadata.creation_timestamp)
        seen.controller = next((o.uid for o in pod.metadata.owner_references or [] if o.controller), "")
        seen.time, bad = run_time(pod)
        seen.queue = asked_queue(pod)
        key = gang_name(seen.namespace, said.group, said.dialect)
        if (found := from_pod(pod, said)) is not None and key not in self.groups:
            self._declare(found, key)
        if key in self._into:
            seen.part = said.group
            key = self._into[key]
        seen.gang = key
        gang = self._gang(key)
        gang.pods[seen.uid] = seen
        gang.joined = self.arrived = time.monotonic()
        gang.problems = (*gang.problems, *(p for p in bad if p not in gang.problems))

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
        where = seen.node or seen.nominated
        gang = self.gangs.get(seen.gang)
        seated = gang is not None and seen.uid in gang.seats
        if where and not seen.is_over and not seated:
            ground = self._ground(where)
            ground.charge(seen.wants.ask, self.marks.left(seen.wants, seen.marks), 1)
            seen.charged = where
            self.dirty_nodes[where] = None

    def _uncharge(self, seen: Seen) -> None:
        if seen.charged:
            ground = self.grounds[seen.charged]
            ground.charge(seen.wants.ask, self.marks.left(seen.wants, seen.marks), -1)
            self.dirty_nodes[seen.charged] = None
            seen.charged = ""

    def recharge(self, seen: Seen) -> None:
        """A pod got or lost a seat of ours."""
        self._uncharge(seen)
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
            self._declare(group, group.key, by_object=True)

    def drop_thing(self, thing: objects.Thing) -> None:
        """It is gone."""
        if thing.kind in ("HyperNode", "ClusterNetworkTopology", "Topology"):
            self.terrain.drop(thing)
            self._resurvey = True
            return
        for key in self._things.pop(thing_name(thing), []):
            self._undeclare(key)

    def _declare(self, group: Declared, key: str, by_object: bool = False) -> None:
        for level in (group.within, group.near, *(p.within for p in group.parts.values())):
            self._resurvey |= self.terrain.ask(level)
        if by_object or key not in self.groups:
            self.groups[key] = group
        gang = self._gang(key)
        gang.declared = self.groups[key]
        self.dirty_gangs[key] = None
        self._regroup(group)

    def _undeclare(self, key: str) -> None:
        self.groups.pop(key, None)
        self.extras.pop(key, None)
        gang = self.gangs.get(key)
        if gang is not None:
            gang.declared = None
            self.dirty_gangs[key] = None

    def _gang(self, key: str) -> GangSeen:
        if key not in self.gangs:
            self.gangs[key] = GangSeen(key)
            self.gangs[key].arrival = self._arrivals
            self._arrivals = min(self._arrivals + 1, 999_999)
            self.gangs[key].declared = self.groups.get(key)
        return self.gangs[key]

    def _regroup(self, group: Declared) -> None:
        """Groups that start only together become one gang."""
        if group.parent:
            root = gang_name(group.namespace, self._root(group), group.dialect)
            if group.key not in self.extras and not self._is_late(group, root):
                self._move(group, root)
            self._sort_out(root)
        elif group.is_tree:
            self._sort_out(group.key)
        elif group.partners:
            names = [tuple(name.split("/", 1)) for name in group.partners if "/" in name]
            space, name = names[0]
            self._move(group, gang_name(space, name, group.dialect))

    # Of a tree of which only some groups must start, the oldest are one gang; each of the others is a gang of its own,
    # which waits until the first have their seats.

    def _is_late(self, group: Declared, root: str) -> bool:
        """Whether the gang of its tree sits already, without it."""
        above, gang = self.groups.get(root), self.gangs.get(root)
        if group.key in self._into or above is None or gang is None or not gang.is_seated or group.is_tree:
            return False
        self.extras[group.key] = root
        return True

    def _leaves(self, root: str) -> list[str]:
        """Groups of a tree, the oldest first; empty for a tree of trees."""
        inside = [key for of in (self._into, self.extras) for key, into in of.items() if into == root]
        inside = [key for key in inside if key in self.groups]
        if any(self.groups[key].is_tree for key in inside):
            return []
        return sorted(inside, key=lambda key: (self.groups[key].created, key))

    def _sort_out(self, root: str) -> None:
        """As many of the oldest groups as must start together are one gang, until it sits."""
        tree, target = self.groups.get(root), self.gangs.get(root)
        if tree is None or target is None or target.is_seated or tree.loose or not tree.is_tree:
            return
        for at, key in enumerate(self._leaves(root)):
            if at < tree.min and key in self.extras:
                del self.extras[key]
                self._move(self.groups[key], root)
            elif at >= tree.min and key in self._into:
                self._let_go(key, root)

    def _let_go(self, key: str, root: str) -> None:
        del self._into[key]
        self.extras[key] = root
        target, own, name = self._gang(root), self._gang(key), self.groups[key].name
        for seen in [pod for pod in target.pods.values() if pod.part == name]:
            seen.gang, seen.part = key, ""
            own.pods[seen.uid] = target.pods.pop(seen.uid)
        self.dirty_gangs |= {key: None, root: None}

    def is_early(self, key: str) -> bool:
        """Whether a group has to wait for the others of its tree to sit first."""
        root = self.extras.get(key, "")
        return root in self.groups and not self.gangs[root].is_seated

    def has_sat(self, key: str) -> None:
        """A gang has its seats; groups of its tree that waited for that are looked at."""
        self.dirty_gangs |= {extra: None for extra, root in self.extras.items() if root == key}

    def _root(self, group: Declared) -> str:
        """The name of the outermost composite above a group."""
        name = group.parent
        for _ in range(8):
            above = self.groups.get(gang_name(group.namespace, name, group.dialect))
            if above is None or not above.parent:
                return name
            name = above.parent
        return name

    def _move(self, group: Declared, root: str) -> None:
        if root == group.key and not group.partners:
            return
        self._into[group.key] = root
        target = self._gang(root)
        old = self.gangs.get(group.key)
        if old is not None and old is not target:
            for seen in old.pods.values():
                seen.gang, seen.part = root, group.name
                target.pods[seen.uid] = seen
            old.pods = {}
            self.dirty_gangs[group.key] = None
        elif old is target:
            for seen in target.pods.values():
                seen.part = seen.part or group.name
        self.dirty_gangs[root] = None

    def _declared(self, gang: GangSeen) -> Declared | None:
        """What is declared for a gang, its parts included."""
        own = gang.declared
        inside = [self.groups[key] for key, root in self._into.items() if root == gang.key and key in self.groups]
        if not inside:
            return own
        if own is not None and not own.partners:
            if sum(group.parent == own.name for group in inside) < own.min:
                # Groups of the tree are still to be declared.
                return None
            leaves = [group for group in inside if not any(g.parent == group.name for g in inside)]
            return native.merged(own, sorted(leaves, key=lambda group: group.name))
        wanted = own.partners if own is not None else ()
        if own is None or {f"{group.namespace}/{group.name}" for group in inside} < set(wanted):
            return None
        return koordinator.union(sorted(inside, key=lambda group: group.key))

    # -- volumes

    def put_volume(self, name: str, reach: Reach | None) -> None:
        """A volume was made or changed, or is gone."""
        drivers = len(self.volumes.drivers)
        for claim in self.volumes.put(name, reach):
            self._reclaim(claim)
        if len(self.volumes.drivers) > drivers:
            self.dirty_nodes |= dict.fromkeys(self.grounds)

    def put_attachable(self, node: str, most: dict[str, int]) -> None:
        """How many volumes of each driver a node can attach."""
        self.volumes.put_attachable(node, most)
        if node in self.grounds:
            self.dirty_nodes[node] = None

    def bind_claim(self, claim: str, volume: str | None, alone: bool) -> None:
        """A claim, the volume it is bound to, and whether only one pod may use it."""
        if self.volumes.bind(claim, volume, alone):
            self._reclaim(claim)

    def _reclaim(self, name: str) -> None:
        for seen in self.pods.values():
            if name in seen.wants.claims and seen.spec is not None:
                seen.wants = self._wanted(seen.namespace, seen.spec, seen.ours)
                self.dirty_gangs[seen.gang] = None


def thing_name(thing: objects.Thing) -> str:
    """Unlike that of any other object."""
    group = thing.api_version.partition("/")[0]
    return f"{group}/{thing.kind}/{thing.metadata.namespace}/{thing.metadata.name}"


def moment(written: str | None) -> int:
    """A time of the API in microseconds."""
    if not written:
        return 0
    return int(datetime.fromisoformat(written).timestamp() * 1_000_000)
