"""A small cluster for every dialect, into which one key is written: what is made of it without and with the key."""

import copy
import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from tutti.engine.world import World
from tutti.jobs.kube.objects import Node, Pod, Thing
from tutti.jobs.kube.verdicts.row import Row
from tutti.kube.books import read_thing
from tutti.kube.mirror import Mirror

Object = dict[str, Any]
NOW = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
GPU, SPACE = "nvidia.com/gpu", "ml"
TASKS = "yunikorn.apache.org/task-groups"
LET_IN = ("kueue.x-k8s.io/workload", "kueue.x-k8s.io/podset")
"""What Kueue writes on the pods of a job that it let in."""
API = {
    "native": "scheduling.k8s.io/v1beta1",
    "coscheduling": "scheduling.x-k8s.io/v1alpha1",
    "koordinator": "scheduling.sigs.k8s.io/v1alpha1",
    "volcano": "scheduling.volcano.sh/v1beta1",
    "kubeflow": "scheduling.volcano.sh/v1beta1",
    "kube-batch": "scheduling.incubator.k8s.io/v1alpha1",
    "kai": "scheduling.run.ai/v2alpha2",
}
KINDS = {
    ("volcano", "HyperNode"): "topology.volcano.sh/v1alpha1",
    ("volcano", "Job"): "batch.volcano.sh/v1alpha1",
    ("koordinator", "ClusterNetworkTopology"): "scheduling.koordinator.sh/v1alpha1",
    ("koordinator", "Reservation"): "scheduling.koordinator.sh/v1alpha1",
    ("kai", "Queue"): "scheduling.run.ai/v2",
    ("kai", "Topology"): "kai.scheduler/v1alpha1",
    ("yunikorn", "Namespace"): "v1",
    ("yunikorn", "PriorityClass"): "scheduling.k8s.io/v1",
    ("native", "CompositePodGroup"): "scheduling.k8s.io/v1alpha3",
    ("native", "Workload"): "scheduling.k8s.io/v1alpha1",
}
MARKS: dict[str, Object] = {
    "native": {},
    "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    "koordinator": {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
    "kai": {"annotations": {"pod-group-name": "g"}, "labels": {"kai.scheduler/subgroup-name": "a"}},
    "kueue": {
        "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    },
    "kueue job": {"annotations": {"kueue.x-k8s.io/workload": "w"}, "labels": {"kueue.x-k8s.io/podset": "main"}},
    "yunikorn": {
        "labels": {"applicationId": "g"},
        "annotations": {"yunikorn.apache.org/task-group-name": "tg", TASKS: '[{"name":"tg","minMember":2}]'},
    },
    **{
        name: {"annotations": {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "t"}}
        for name in ("volcano", "kubeflow", "kube-batch")
    },
}


class Scene:
    """The objects of a small cluster, and the one that a row is about."""

    def __init__(self, dialect: str, row: Row, pods: str) -> None:
        self.dialect, self.row = dialect, row
        self.is_job = dialect == "kueue" and (row.on == "Workload" or row.name in LET_IN)
        first = dialect == "native" and (row.on == "Workload" or "workloadRef" in row.key)
        self.things = [self.thing("PriorityClass", "high", api="scheduling.k8s.io/v1") | {"value": 1000}]
        if dialect == "kueue":
            self.things += [
                self.thing("ClusterQueue", "team"),
                self.thing("LocalQueue", "team", {"clusterQueue": "team"}),
            ]
        else:
            api = "scheduling.volcano.sh/v1beta1"
            self.things += [self.thing("Queue", name, api=api) for name in ("team", "above")]
        self.tree: Object = {"name": "team"}
        if "user.info" in row.key:
            # Whose a pod is counts only where somebody asks for it.
            self.tree["limits"] = [{"users": ["*"], "maxapplications": 9}]
        self.pods = [] if pods == "none" else [self.pod(at, pods == "bare", first) for at in range(4)]
        if self.is_job:
            self.things.append(self.thing("Workload", "w", {"podSets": [{"name": "main", "count": 2}]}))
        if dialect in API and pods != "bare" and not first:
            self.things.append(self.group())
        self.subject = self.find(first)

    def thing(self, kind: str, name: str, spec: Object | None = None, api: str = "") -> Object:
        api = api or KINDS.get((self.dialect, kind)) or API.get(self.dialect, "kueue.x-k8s.io/v1beta2")
        meta = {"name": name, "namespace": SPACE, "uid": f"{kind}/{name}", "creationTimestamp": NOW}
        return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec or {}}

    def group(self, name: str = "g") -> Object:
        gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        spec: Object = gang if self.dialect == "native" else {"minMember": 2}
        if self.row.on in ("Queue", "PriorityClass"):
            spec |= {"queue": "team"}
        return self.thing("PodGroup", name, spec)

    def pod(self, at: int, bare: bool, first: bool) -> Object:
        meta: Object = {"name": f"p{at}", "namespace": SPACE, "uid": f"pod/{at}", "creationTimestamp": NOW}
        mark = copy.deepcopy(MARKS["kueue job" if self.is_job else self.dialect])
        if bare:
            mark = {"annotations": mark["annotations"]} if self.dialect == "yunikorn" else {}
        asks = {"containers": [{"resources": {"requests": {GPU: "1"}}}], "schedulerName": "tutti"}
        spec: Object = asks | {"priority": 5, "priorityClassName": "high" if self.row.on == "PriorityClass" else ""}
        if self.dialect == "native" and not bare:
            spec |= (
                {"workloadRef": {"name": "g", "podGroup": "w"}} if first else {"schedulingGroup": {"podGroupName": "g"}}
            )
        return {"metadata": meta | mark, "spec": spec}

    def find(self, first: bool) -> list[Object]:
        """The objects that the row is about; they are made where nothing else needs them."""
        on = self.row.on
        if on == "Pod":
            if first:
                self.things.append(self.workload("g"))
            return self.pods
        if on == "queue":
            return [self.tree]
        if on == "Workload" and not self.is_job:
            self.things.append(self.workload("g"))
        elif on == "CompositePodGroup":
            self.branch()
        elif on not in {thing["kind"] for thing in self.things if thing["metadata"]["name"] != "above"}:
            self.things.append(self.thing(on, SPACE if on == "Namespace" else "team", self.plain(on)))
        elif on == "Queue":
            self.things = [thing for thing in self.things if thing["kind"] != on] + [self.thing(on, "team")]
        return [thing for thing in self.things if thing["kind"] == on and thing["metadata"]["name"] != "above"][-1:]

    def workload(self, name: str) -> Object:
        spec = {"podGroups": [{"name": "w", "policy": {"gang": {"minCount": 2}}}]}
        return self.thing("Workload", name, spec, "scheduling.k8s.io/v1alpha1")

    def branch(self) -> None:
        """A tree of two groups."""
        child = {"parentCompositePodGroupName": "tree"}
        for name, pods in (("g", self.pods[:2]), ("h", self.pods[2:])):
            self.things = [thing for thing in self.things if thing["metadata"]["name"] != name]
            group = self.group(name)
            group["spec"] |= child
            self.things.append(group)
            for pod in pods:
                pod["spec"]["schedulingGroup"] = {"podGroupName": name}
        least = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
        self.things.append(self.thing("CompositePodGroup", "tree", least))

    def plain(self, kind: str) -> Object:
        """What an object must have to say anything at all."""
        match kind:
            case "HyperNode":
                return {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]}
            case "Topology":
                return {"levels": [{"nodeLabel": "zone"}]}
            case "LocalQueue":
                return {"clusterQueue": "team"}
        return {}

    def tell(self, key: str, value: Any) -> None:
        """Write a key into every object the row is about."""
        for thing in self.subject:
            write(thing, key, value)
            if key == "owner":
                thing["metadata"]["ownerReferences"] = [{"kind": "Job", "name": value, "uid": "u", "controller": True}]

    def status(self) -> None:
        """What a Reservation must have before it counts."""
        for thing in self.subject if self.row.on == "Reservation" else []:
            held = {"nodeName": "n0", "allocatable": {GPU: "2"}, "phase": "Available"}
            thing["status"] = held | ({"phase": "Pending"} if self.row.key == "status.phase" else {})

    def owned(self) -> None:
        """A group that Volcano's job has made."""
        for thing in self.things if self.row.on == "Job" else []:
            if thing["kind"] == "PodGroup":
                thing["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "team", "uid": "Job/team"}]

    def bystanders(self) -> None:
        """A gang of somebody else, of two pods that name no queue."""
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        self.things.append(self.thing("PodGroup", "aside", spec, API["native"]))
        asks = {"containers": [{"resources": {"requests": {GPU: "1"}}}], "schedulerName": "tutti"}
        for at in range(2):
            meta = {"name": f"b{at}", "namespace": SPACE, "uid": f"b/{at}", "creationTimestamp": NOW}
            self.pods = [*self.pods, {"metadata": meta, "spec": asks | {"schedulingGroup": {"podGroupName": "aside"}}}]

    def outcome(self) -> tuple[Object, list[str]]:
        """All that the engine is told, and all that is said to be wrong."""
        mirror = Mirror("tutti")
        for at in range(4):
            labels = {"rack": f"r{at // 2}", "zone": f"z{at // 2}", "kai.scheduler/node-pool": f"p{at % 2}"}
            body = {
                "metadata": {"name": f"n{at}", "labels": labels},
                "status": {"allocatable": {GPU: "8", "pods": "9"}},
            }
            mirror.put_node(msgspec.convert(body, Node))
        for thing in [*self.things, *([tree(self.tree)] if self.dialect == "yunikorn" else [])]:
            read_thing(mirror, msgspec.convert(copy.deepcopy(thing), Thing), gone=False)
        for pod in self.pods:
            mirror.put_pod(msgspec.convert(copy.deepcopy(pod), Pod))
        for gang in mirror.gangs.values():
            gang.joined = 0.0
        events = mirror.take(World(), 1)
        return told(mirror, events), wrong(mirror)


def tree(entry: Object) -> Object:
    """YuniKorn's configuration, with one queue below the root."""
    queues = {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": [entry]}]}]}
    meta = {"name": "yunikorn-configs", "namespace": SPACE, "uid": "configs"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"queues.yaml": json.dumps(queues)}}


def told(mirror: Mirror, events: list[Any]) -> Object:
    """What comes out of the translation, without what is said to be wrong."""
    gangs = {}
    for key, gang in mirror.gangs.items():
        found = mirror.translated(gang)
        if found is not None:
            plain = msgspec.structs.replace(found.gang, unsupported="", submitted=0)
            gangs[key] = (plain, found.awaiting, bool(found.again), mirror.is_early(key))
    groups = {key: (said.scheduled, said.over, said.parent) for key, said in mirror.groups.items()}
    pods = sorted((pod.name, pod.gang, pod.part, pod.rank, pod.gated) for pod in mirror.pods.values())
    terrain = mirror.terrain
    places = [terrain.place(name, ground.labels) for name, ground in mirror.grounds.items()]
    foreign = [ground.foreign for ground in mirror.grounds.values()]
    queues = [msgspec.structs.replace(queue) for queue in mirror.queues.all().values()]
    traits = {name: msgspec.structs.replace(trait, refused="") for name, trait in mirror.queues.traits().items()}
    plain_traits = {name: trait for name, trait in traits.items() if trait != type(trait)()}
    return {
        "gangs": gangs,
        "groups": groups,
        "pods": pods,
        "terrain": (terrain.levels, terrain.aliases, places),
        "foreign": foreign,
        "queues": (queues, dict(mirror.queues.local), plain_traits),
        "else": (mirror.estimates, mirror.foreign_jobs),
    }


def wrong(mirror: Mirror) -> list[str]:
    """Everything that somebody would be told."""
    said = [text for _, text in mirror.misread]
    for gang in mirror.gangs.values():
        found = mirror.translated(gang)
        if found is not None:
            said += [*found.problems, found.gang.unsupported]
    return sorted({text for text in said if text})


def write(thing: Object, key: str, value: Any) -> None:
    """Write one key into an object."""
    word, _, name = (
        key.partition(" ") if key.startswith(("annotation ", "label ", "gate ", "property ")) else ("", "", key)
    )
    meta = thing.get("metadata", {})
    if word in ("annotation", "label") and name.startswith(f"{TASKS}[]."):
        groups = json.loads(meta.get("annotations", {}).get(TASKS, "[{}]"))
        groups[0][name.partition("[].")[2]] = value
        meta.setdefault("annotations", {})[TASKS] = json.dumps(groups)
    elif word in ("annotation", "label"):
        meta.setdefault(f"{word}s", {})[name] = value
    elif word == "gate":
        thing["spec"]["schedulingGates"] = [{"name": name}]
    elif word == "property":
        thing.setdefault("properties", {})[name] = value
    elif name != "owner":
        at_path(thing, name.partition(": ")[0], value)


def at_path(thing: Object, path: str, value: Any) -> None:
    """Write a value at a path; [] means the first of a list, or all of it where the value is a list."""
    *steps, last = path.split(".")
    for step in steps:
        if step.endswith("[]") and isinstance(value, list) and step == steps[-1] and last == "type":
            thing[step[:-2]] = value
            return
        thing = thing.setdefault(step[:-2], [{}])[0] if step.endswith("[]") else thing.setdefault(step, {})
    if last == "basic":
        thing.pop("gang", None)
    thing[last.removesuffix("[]")] = copy.deepcopy(value)


def played(dialect: str, row: Row, pods: str) -> tuple[tuple[Object, list[str]], tuple[Object, list[str]]]:
    """What comes of a cluster without the key and with it."""
    found = []
    for has in (False, True):
        scene = Scene(dialect, row, pods)
        scene.status()
        scene.owned()
        for key, value in row.beside:
            scene.tell(key, value)
        if has:
            scene.tell(row.key, row.example)
        found.append(scene.outcome())
    return found[0], found[1]
