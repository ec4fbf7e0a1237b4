"""Each kind of object has a stream of its own, and streams come in any order: what the engine is told is the same."""

import contextlib
import json
import random
from typing import Any

import msgspec
import pytest

from tests.kube import dialects
from tools.control_plane.stage import GPU, group, node, pod
from tutti.engine.decide import decide
from tutti.engine.plan import Start
from tutti.engine.policy import Policy
from tutti.engine.world import World
from tutti.jobs.kube.objects import Node, Pod, Thing
from tutti.kube.books import read_thing
from tutti.kube.mirror import Mirror

DRIVER = "disks.example"
NOW = 1_800_000_000_000_000
CREATED = "2026-11-16T10:00:00Z"
ORDERS = 20
BOUND_TO_OBJECTS = {
    "pods",
    "grounds",
    "gangs",
    "groups",
    "extras",
    "strays",
    "others",
    "foreign_jobs",
    "estimates",
    "_said",
    "_members",
    "_below",
}
BOUND_TO_OBJECTS |= {"_into", "_things", "dirty_gangs", "dirty_nodes", "moved_gangs", "filling"}
"""What the mirror keeps of objects, as long as they are there."""


def cluster():
    """A bit of everything that is read: objects by kind, in the order in which each stream tells them."""
    return [*_ground(), *_tenants(), *_volumes(), *_gangs(), *_strangers()]


def _ground():
    made = []
    for at in range(12):
        labels = {
            "rack": f"r{at // 4}",
            "topology.kubernetes.io/zone": f"z{at // 8}",
            "disk": "ssd" if at % 2 else "hdd",
        }
        body = node(f"n{at:02}", labels=labels)
        if at == 11:
            body["spec"] = {"taints": [{"key": "kept", "value": "for", "effect": "NoSchedule"}]}
        made.append(body)
    bare = node("bare")
    del bare["metadata"]["labels"]
    made.append(bare)
    members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in ("n00", "n01", "n02", "n03")]
    hyper = {"tier": 1, "tierName": "leaf", "members": members}
    made.append(_thing("topology.volcano.sh/v1alpha1", "HyperNode", "h0", hyper))
    alone = [{"type": "Node", "selector": {"exactMatch": {"name": "bare"}}}]
    made.append(_thing("topology.volcano.sh/v1alpha1", "HyperNode", "h1", {"tier": 1, "members": alone}))
    levels = {"levels": [{"nodeLabel": "rack", "alias": "rack-alias"}]}
    made.append(_thing("kai.scheduler/v1alpha1", "Topology", "default", levels))
    zones = {"levels": [{"nodeLabel": "topology.kubernetes.io/zone", "alias": "zone-alias"}]}
    made.append(_thing("kueue.x-k8s.io/v1beta2", "Topology", "default", zones))
    layers = {"networkTopologySpec": [{"topologyLayer": "Leaf", "labelKey": ["rack"]}]}
    made.append(_thing("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "net", layers))
    return made


def _tenants():
    quota = {"resourceGroups": [{"flavors": [{"resources": [{"name": GPU, "nominalQuota": 16}]}]}]}
    yunikorn = {"partitions": [{"queues": [{"name": "root", "queues": [{"name": "sand"}]}]}]}
    config = {"metadata": {"name": "yunikorn-configs", "namespace": "yunikorn"}}
    return [
        _priority("soon", 700),
        _priority("usual", 33, globalDefault=True),
        _thing("scheduling.volcano.sh/v1beta1", "Queue", "default", {"weight": 2, "capability": {GPU: 640}}),
        _thing("scheduling.run.ai/v2", "Queue", "default", {"resources": {"gpu": {"quota": 8}}}),
        _thing("scheduling.run.ai/v2", "Queue", "team", {"parentQueue": "dept", "resources": {"gpu": {"quota": 8}}}),
        _thing("kueue.x-k8s.io/v1beta2", "ClusterQueue", "cq", quota | {"cohortName": "all"}),
        _thing("kueue.x-k8s.io/v1beta2", "Cohort", "all", quota),
        _thing("kueue.x-k8s.io/v1beta2", "LocalQueue", "mine", {"clusterQueue": "cq"}, "default"),
        _thing("scheduling.x-k8s.io/v1alpha1", "ElasticQuota", "q", {"max": {GPU: 40}}, "other"),
        _thing("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "kq", {"max": {GPU: 40}}, "third"),
        {"apiVersion": "v1", "kind": "ConfigMap", **config, "data": {"queues.yaml": json.dumps(yunikorn)}},
        _thing("batch.volcano.sh/v1alpha1", "Job", "timed", {"runningEstimate": "40m"}, "default", uid="job-uid"),
    ]


def _volumes():
    made = []
    for at in range(4):
        terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r0", "r1"]}]}]
        spec = {"csi": {"driver": DRIVER}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
        made.append(_thing("v1", "PersistentVolume", f"v{at}", spec))
        claim = _thing("v1", "PersistentVolumeClaim", f"c{at}", {"volumeName": f"v{at}"}, "default")
        made.append(claim | {"status": {"phase": "Bound"}})
        drivers = [{"name": DRIVER, "allocatable": {"count": at + 1}}]
        made.append(_thing("storage.k8s.io/v1", "CSINode", f"n{at:02}", {"drivers": drivers}))
        made.append(_attached(f"at-{at}", f"n{at + 1:02}", f"v{at}"))
    return [*made, _thing("storage.k8s.io/v1", "CSIDriver", DRIVER, {"preventPodSchedulingIfMissing": True})]


def _attached(name, where, volume):
    spec = {"attacher": DRIVER, "nodeName": where, "source": {"persistentVolumeName": volume}}
    return _thing("storage.k8s.io/v1", "VolumeAttachment", name, spec)


def _gangs():
    made = [group("plain", 2, priorityClassName="soon"), pod("plain-0", "plain"), pod("plain-1", "plain")]
    made += [group("racked", 2, schedulingConstraints={"topology": [{"key": "rack"}]})]
    made += [pod(f"racked-{at}", "racked", 4) for at in range(2)]
    made += [pod("alone", gpus=1), pod("choosy", gpus=1, nodeSelector={"disk": "ssd"})]
    made += [pod("hardy", gpus=1, tolerations=[{"key": "kept", "operator": "Exists"}])]
    made += _tree() + _sociable() + _with_volumes() + _late() + _heralded("spark", 2)
    for name in ("coscheduling", "koordinator", "volcano", "kai", "yunikorn", "kueue"):
        said = {"queue": {"kueue": "mine", "yunikorn": "sand"}.get(name, "default"), "priority": "soon", "tier": "1"}
        said |= {"layer": "Leaf"} if name == "koordinator" else {"topology": "rack-alias"}
        body = dialects.group(name, f"of-{name}", 2, said)
        made += [body] if body is not None else []
        made += [
            pod(f"of-{name}-{i}", gpus=2, **_copied(dialects.mark(name, f"of-{name}", 2, 2, said))) for i in (0, 1)
        ]
    timed = dialects.group("volcano", "timed", 1, {}) or {}
    timed["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "timed", "uid": "job-uid"}]
    return [*made, timed, pod("timed-0", gpus=1, **_copied(dialects.mark("volcano", "timed", 1, 1, {})))]


def _tree():
    """A composite of composites: each of its three levels may be told first."""
    made = []
    api, policy = "scheduling.k8s.io/v1alpha3", {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    made.append(_thing(api, "CompositePodGroup", "top", policy, "default"))
    for above in ("left", "right"):
        made.append(_thing(api, "CompositePodGroup", above, policy | {"parentCompositePodGroupName": "top"}, "default"))
        for side in "ab":
            made.append(group(f"{above}-{side}", 1, parentCompositePodGroupName=above))
            made.append(pod(f"{above}-{side}-0", f"{above}-{side}", 1))
    made.append(_thing(api, "CompositePodGroup", "shallow", policy, "default"))
    for at in range(3):
        made += [group(f"leaf{at}", 1, parentCompositePodGroupName="shallow"), pod(f"leaf{at}-0", f"leaf{at}", 1)]
    for name in ("pa", "pb"):
        made.append(dialects.group("koordinator", name, 1, {"partners": "pa,pb"}))
        made.append(pod(f"{name}-0", gpus=1, **_copied(dialects.mark("koordinator", name, 1, 1, {}))))
    return made


def _sociable():
    """Pods that look at each other's labels, and pods that lie evenly over zones."""
    apart = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}}
    near = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    evenly: dict[str, Any] = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
    }
    evenly["labelSelector"] = {"matchLabels": {"app": "even"}}
    made = [group("even", 4)]
    made += [pod(f"even-{i}", "even", 1, labels={"app": "even"}, topologySpreadConstraints=[evenly]) for i in range(4)]
    made += [
        pod(f"web-{i}", gpus=1, labels={"app": "web"}, affinity={"podAntiAffinity": {rule: [apart]}}) for i in (0, 1)
    ]
    return [
        *made,
        pod("db", gpus=1, labels={"app": "db"}),
        pod("beside", gpus=1, affinity={"podAffinity": {rule: [near]}}),
    ]


def _with_volumes():
    return [pod(f"disk-{at}", gpus=1, volumes=[_claimed(f"c{at}")]) for at in range(2)]


def _heralded(name, count):
    """A driver that declares the task group of its executors, and these."""
    prefix, app = "yunikorn.apache.org/task-group", {"spark-app-selector": name}
    groups = [{"name": "driver", "minMember": 1}, {"name": "exec", "minMember": count}]
    driver = {f"{prefix}-name": "driver", f"{prefix}s": json.dumps(groups)}
    made = [pod(f"{name}-driver", gpus=1, labels=app | {"spark-role": "driver"}, annotations=driver)]
    marks = {"annotations": {f"{prefix}-name": "exec"}}
    return made + [pod(f"{name}-{at}", gpus=1, labels=dict(app), **_copied(marks)) for at in range(count)]


def _late():
    """A group whose pods are not all there, and pods that ask for somebody else."""
    stray = pod("stray", "mixed", scheduler="other")
    return [group("lacking", 3), pod("lacking-0", "lacking"), group("mixed", 1), stray, pod("mixed-0", "mixed", 1)]


def _strangers():
    """Pods of others that are there already, one with a volume, one on a node nobody knows; and a gang that runs."""
    made = [pod("theirs", gpus=2, scheduler="other", nodeName="n03", labels={"app": "web"})]
    made.append(pod("stored", gpus=1, scheduler="other", nodeName="n01", volumes=[_claimed("c2")]))
    made.append(pod("ghost", gpus=1, scheduler="other", nodeName="nowhere"))
    running = [pod(f"runs-{at}", "runs", nodeName=f"n{at + 8:02}") for at in range(2)]
    for body in running:
        body["status"] = {"phase": "Running"}
    return [*made, group("runs", 2), *running]


def passing():
    """Of every kind something that comes and goes again."""
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "n1.*"}}}]
    api, leaf = "scheduling.k8s.io/v1alpha3", {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    made = [node("brief", labels={"rack": "r9"}), node("n03-brief"), _priority("low", 5, globalDefault=True)]
    made += [_thing("topology.volcano.sh/v1alpha1", "HyperNode", "h9", {"tier": 1, "members": members})]
    levels = {"levels": [{"nodeLabel": "rack", "alias": "zone-alias"}]}
    made += [_thing("kai.scheduler/v1alpha1", "Topology", "brief", levels)]
    made += [_thing(f"{of}/v1", "Queue", "team", {}) for of in ("scheduling.volcano.sh", "scheduling.run.ai.brief")]
    made += [_thing("kueue.x-k8s.io/v1beta2", "LocalQueue", "brief", {"clusterQueue": "team"}, "default")]
    made += [_thing("kueue.x-k8s.io/v1beta2", "ClusterQueue", "root.sand", {"cohortName": "brief"})]
    made += [_thing("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "default", {"max": {GPU: 1}}, "default")]
    made += [
        _thing("storage.k8s.io/v1", "CSINode", "n09", {"drivers": [{"name": DRIVER, "allocatable": {"count": 2}}]})
    ]
    made += [_thing("v1", "PersistentVolume", "v9", {"csi": {"driver": DRIVER}}), _attached("at-9", "n02", "v9")]
    made += [_thing("storage.k8s.io/v1", "CSIDriver", "other.example", {"preventPodSchedulingIfMissing": True})]
    claim = _thing("v1", "PersistentVolumeClaim", "c9", {"volumeName": "v9"}, "default")
    made += [claim | {"status": {"phase": "Bound"}}, pod("held", gpus=1, volumes=[_claimed("c9")])]
    made += [pod("guest", gpus=1, scheduler="other", nodeName="n02", volumes=[_claimed("c9")])]
    made += [_thing(api, "CompositePodGroup", "twig", leaf | {"parentCompositePodGroupName": "bough"}, "default")]
    made += [_thing(api, "CompositePodGroup", "bough", leaf, "default")]
    made += [group("bud", 1, parentCompositePodGroupName="twig"), pod("bud-0", "bud", 1)]
    made += _heralded("brief-spark", 1)
    made += [pod("brief-stray", "plain", scheduler="another"), pod("lonely", gpus=1, labels={"app": "web"})]
    for name in ("coscheduling", "koordinator", "koordinator-annotations", "volcano", "kai", "yunikorn", "kueue"):
        body = dialects.group(name, f"brief-{name}", 1, {})
        made += [body] if body is not None else []
        made += [pod(f"brief-{name}-0", gpus=1, **_copied(dialects.mark(name, f"brief-{name}", 1, 1, {})))]
    return made


def _claimed(name):
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def _copied(extra):
    return json.loads(json.dumps(extra))


def _thing(api, kind, name, spec, namespace="", uid=""):
    meta = {"name": name, "uid": uid or f"{api}/{kind}/{namespace}/{name}"}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": meta | ({"namespace": namespace} if namespace else {}),
        "spec": spec,
    }


def _priority(name, value, **more):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    } | more


def streams(things):
    """The objects as each stream would tell them."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for thing in things:
        meta = thing["metadata"]
        meta |= {"creationTimestamp": CREATED, "uid": meta.get("uid") or f"{thing['kind']}-{meta['name']}"}
        found.setdefault((thing["apiVersion"], thing["kind"]), []).append(thing)
    return list(found.values())


def shuffled(lines, draw):
    """One after the other from streams that are drawn at random."""
    left = [list(line) for line in lines]
    while left:
        line = draw.choice(left)
        # Streams come in bursts.
        for _ in range(draw.choice([1, 1, 3, len(line)])):
            if line:
                yield line.pop(0)
        left = [line for line in left if line]


def put(mirror, thing, gone=False):
    match thing["kind"]:
        case "Node":
            mirror.drop_node(thing["metadata"]["name"]) if gone else mirror.put_node(msgspec.convert(thing, Node))
        case "Pod":
            mirror.drop_pod(thing["metadata"]["uid"]) if gone else mirror.put_pod(msgspec.convert(thing, Pod))
        case _:
            read_thing(mirror, msgspec.convert(thing, Thing), gone)


def hear(mirror, world):
    """Until nothing is left to be told."""
    for _ in range(6):
        mirror.filling = {}
        for gang in mirror.gangs.values():
            gang.joined = 0.0
        for event in mirror.take(world, NOW):
            world.apply(event)


def told(world):
    """What the engine knows, without who came first within a second, and without what nobody asks of a node."""
    listing = world.listing()
    asked = {tag for job in listing.jobs for tag in _tags(job.gang)}
    nodes = tuple(
        msgspec.structs.replace(
            one, tags=tuple(tag for tag in one.tags if tag in asked or tag.startswith(("!", "lacks")))
        )
        for one in listing.nodes
    )
    names = [one.name for one in listing.nodes]
    jobs = {
        job.gang.name: (_undated(job.gang), job.life.state, job.life.awaiting, _seats(job, names))
        for job in listing.jobs
    }
    return {"pools": listing.pools, "nodes": nodes, "queues": listing.queues, "jobs": jobs}


def _tags(gang):
    return {tag for role in gang.roles for shape in role.shapes for some in shape.tags for tag in some}


def _undated(gang):
    return msgspec.structs.replace(gang, submitted=gang.submitted // 1_000_000)


def _seats(job, names):
    return [sorted(zip((names[at] for at in held.nodes), held.counts, strict=True)) for held in job.life.seats]


def started(world):
    """Gangs that are started at once: told in one order, so that only what is known decides."""
    jobs = sorted(world.listing().jobs, key=lambda job: job.gang.name)
    again = msgspec.structs.replace(
        world.listing(), jobs=tuple(msgspec.structs.replace(job, gang=_undated(job.gang)) for job in jobs)
    )
    plan = decide(World.load(again).view(), NOW, Policy())
    return {action.gang: action.seats for action in plan.actions if isinstance(action, Start)}


def differences(found, wanted):
    """Jobs by name, nodes one by one, and whatever else there is."""
    names = sorted({*wanted["jobs"], *found["jobs"]})
    pairs = [(f"job {name}", found["jobs"].get(name), wanted["jobs"].get(name)) for name in names]
    pairs += [(one.name, one, other) for one, other in zip(found["nodes"], wanted["nodes"], strict=True)]
    pairs += [(part, found[part], wanted[part]) for part in wanted if part not in ("jobs", "nodes")]
    return [(what, one, other) for what, one, other in pairs if one != other]


@pytest.fixture(scope="module")
def once():
    """Everything is there before anything is told, as when a leader begins."""
    mirror = Mirror(levels=("rack",))
    for line in streams(cluster()):
        for thing in line:
            put(mirror, thing)
    return told(World.load(mirror.listing(NOW, {})))


def test_all_of_it_is_decided_alike(once):
    """Told in two orders, the same gangs start on the same nodes."""
    worlds = []
    for seed in (1, 2):
        mirror, world = Mirror(levels=("rack",)), World()
        for thing in shuffled(streams(cluster()), random.Random(seed)):
            put(mirror, thing)
        hear(mirror, world)
        worlds.append(started(world))
    assert worlds[0] == worlds[1]
    waiting = {name for name, job in once["jobs"].items() if job[1] == "waiting"}
    assert {"default/lacking", "default/leaf2"} <= waiting - set(worlds[0])
    assert {"default/top", "default/shallow", "default/pa@koordinator", "default/spark@yunikorn"} <= set(worlds[0])


@pytest.mark.parametrize("seed", range(ORDERS))
def test_what_came_and_went_leaves_nothing_behind(once, seed):
    draw = random.Random(seed)
    mirror, world = Mirror(levels=("rack",)), World()
    brief = streams(passing())
    for thing in shuffled([*streams(cluster()), *brief], draw):
        put(mirror, thing)
        if draw.random() < 0.1:
            hear(mirror, world)
    for thing in shuffled(brief, draw):
        put(mirror, thing, gone=True)
        if draw.random() < 0.1:
            hear(mirror, world)
    hear(mirror, world)
    assert differences(told(world), once) == []


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_kept_of_what_is_gone(seed):
    draw = random.Random(seed)
    mirror, world = Mirror(levels=("rack",)), World()
    lines = streams([*cluster(), *passing()])
    for thing in shuffled(lines, draw):
        put(mirror, thing)
    hear(mirror, world)
    for thing in shuffled(lines, draw):
        put(mirror, thing, gone=True)
    hear(mirror, world)
    kept = {name for name, value in vars(mirror).items() if name in BOUND_TO_OBJECTS and value}
    assert not kept
    assert not world.slots
    assert list(mirror.queues.all()) == ["default"]


@pytest.mark.parametrize("seed", range(ORDERS))
def test_whoever_is_heard_first(once, seed):
    draw = random.Random(seed)
    mirror, world = Mirror(levels=("rack",)), World()
    for thing in shuffled(streams(cluster()), draw):
        put(mirror, thing)
        if draw.random() < 0.2:
            hear(mirror, world)
    hear(mirror, world)
    assert differences(told(world), once) == []


JUNK: list[Any] = [None, 0, -1, 1e99, "x", "", [], {}, [1], ["a"], [None], {"a": None}, {"a": []}, True, "9" * 400]
JUNK += [[[]], [{}], {"": ""}, "NaN", {"a": {"b": []}}]


def spots(value, path=()):
    """Every place in an object."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inside:
        yield (*path, key)
        yield from spots(below, (*path, key))


def spoilt(thing, draw):
    """An object with something senseless at one place of what is read."""
    copied = json.loads(json.dumps(thing))
    places = [p for p in spots(copied) if p[0] in ("spec", "data", "value") or p[:2] == ("metadata", "annotations")]
    if places:
        *above, last = draw.choice(places)
        inner = copied
        for key in above:
            inner = inner[key]
        junk = draw.choice(JUNK)
        inner[last] = str(junk) if above[:1] == ["metadata"] else junk
    return copied


def test_what_makes_no_sense_is_told_and_hides_nothing():
    draw = random.Random(5)
    things = [thing for line in streams([*cluster(), *passing()]) for thing in line if thing["kind"] != "Node"]
    mirror, world = Mirror(), World()
    for _ in range(1500):
        with contextlib.suppress(msgspec.ValidationError):
            put(mirror, spoilt(draw.choice(things), draw))
    hear(mirror, world)
    assert mirror.misread
    assert all(text.startswith(f"{thing.kind} ") for (_, text), thing in mirror.misread.items())
    clean = group("clean", 1), pod("clean-0", "clean", 1), node("clean")
    for line in streams(clean):
        put(mirror, line[0])
    hear(mirror, world)
    assert "default/clean" in world.slots
