"""Would kube-scheduler put this pod on this node? Random pairs, the real scheduler's verdict against ours.

TUTTI_PARITY_BATCHES sets how many batches of pairs are tried; there must never be a pair that fits only for us.
"""

import os
import random
from typing import Any

import msgspec
import pytest

from tools.control_plane.stage import GPU, node
from tutti.engine.decide import decide
from tutti.engine.plan import Start
from tutti.engine.world import World
from tutti.jobs.kube.objects import Node, Pod, Thing
from tutti.kube.books import read_thing
from tutti.kube.config import DEFAULT
from tutti.kube.gangs import Fill, named
from tutti.kube.mirror import Mirror
from tutti.kube.scheduler import moment
from tutti.kube.verify import objection

NODES = 30
BATCHES = int(os.environ.get("TUTTI_PARITY_BATCHES", "5"))
KINDS = ("a100", "h100", "cpu")
ZONES = ("z0", "z1", "z2")
CLAIMS = 12
RESTARTS = "RestartAllContainersOnContainerExits"
DRIVER, SHARES, GOOGLE = "disks.example", "shares.example", "pd.csi.storage.gke.io"
"""The second keeps its volumes off nodes that do not have it; the third took over what was a part of Kubernetes."""
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}


def random_node(draw, i):
    labels = {"kubernetes.io/hostname": f"n{i}"}
    labels |= {"topology.kubernetes.io/zone": draw.choice(ZONES)} if draw.random() < 0.9 else {}
    labels |= {"row": draw.choice("ab")} if draw.random() < 0.8 else {}
    labels |= {"kind": draw.choice(KINDS)} if draw.random() < 0.8 else {}
    labels |= {"memory-gb": str(draw.choice([40, 80, 141]))} if draw.random() < 0.6 else {}
    amounts = {
        "cpu": draw.choice(["2", "4500m", "8"]),
        "memory": draw.choice(["2Gi", "6Gi"]),
        "pods": draw.choice(["4", "110"]),
    }
    amounts |= {GPU: draw.choice(["1", "4"])} if draw.random() < 0.6 else {}
    amounts |= {"ephemeral-storage": "10Gi"} if draw.random() < 0.7 else {}
    effect = draw.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])
    taints = [{"key": "gpu", "value": draw.choice(["yes", "no", "3"]), "effect": effect}]
    spec: Any = {"taints": taints} if draw.random() < 0.3 else {}
    spec |= {"unschedulable": True} if draw.random() < 0.1 else {}
    ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    status |= {"declaredFeatures": [RESTARTS]} if draw.random() < 0.5 else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{i}", "labels": labels},
        "spec": spec,
        "status": status,
    }


def requests(draw):
    wanted = {"cpu": draw.choice(["100m", "1", "2"]), "memory": draw.choice(["128Mi", "1Gi", "3Gi"])}
    wanted |= {GPU: draw.choice(["1", "2"])} if draw.random() < 0.3 else {}
    wanted |= {"ephemeral-storage": draw.choice(["1Gi", "11Gi"])} if draw.random() < 0.15 else {}
    return {"requests": wanted, "limits": {GPU: wanted[GPU]}} if GPU in wanted else {"requests": wanted}


def term(draw, label):
    key = draw.choice(["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
    operator = "NotIn" if draw.random() < 0.04 else "In"
    said = {"key": "app", "operator": operator, "values": [f"{label}{draw.randrange(3)}"]}
    found = {"topologyKey": key, "labelSelector": {"matchExpressions": [said]}}
    odd = draw.random()
    if odd < 0.1:
        found["namespaces"] = draw.choice([["default"], ["tutti-system"], ["default", "tutti-system"]])
    elif odd < 0.2:
        found["namespaceSelector"] = {}
    elif odd < 0.3:
        found["matchLabelKeys"] = ["team"]
    return found


def port(draw):
    """A port of the host, on one address or on all."""
    found = {"containerPort": 80, "hostPort": draw.choice([8080, 9090, 7070])}
    found |= {"hostIP": draw.choice(["0.0.0.0", "10.0.0.1", "10.0.0.2"])} if draw.random() < 0.5 else {}
    return found | ({"protocol": draw.choice(["TCP", "UDP"])} if draw.random() < 0.5 else {})


def spread(draw, key):
    """How pods with a label are to be spread."""
    found = {"maxSkew": draw.choice([1, 1, 2]), "topologyKey": key}
    found["whenUnsatisfiable"] = draw.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])
    if found["whenUnsatisfiable"] == "DoNotSchedule" and draw.random() < 0.3:
        found["minDomains"] = draw.choice([2, 3, 4])
    for field in ("nodeTaintsPolicy", "nodeAffinityPolicy"):
        found |= {field: draw.choice(["Honor", "Ignore"])} if draw.random() < 0.3 else {}
    found |= {"matchLabelKeys": ["team"]} if draw.random() < 0.2 else {}
    return found | {"labelSelector": {"matchLabels": {"app": f"r{draw.randrange(3)}"}}}


def storage(draw, i):
    """A claim and the volume it is bound to, which can be used from some nodes or from all."""
    name, odd = f"c{i}", draw.random()
    spec: Any = {"csi": {"driver": draw.choice([DRIVER, DRIVER, SHARES, GOOGLE]), "volumeHandle": name}}
    if i % 4 == 3:
        spec = {"gcePersistentDisk": {"pdName": name}}
    spec |= {"accessModes": ["ReadWriteMany"]}
    spec |= {"capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "default", "name": name}}
    meta: Any = {"name": name}
    if odd < 0.4:
        some = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": draw.sample(ZONES, 2)}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [some]}]}}
    elif odd < 0.6:
        meta["labels"] = {"topology.kubernetes.io/zone": draw.choice(["z0", "z0__z1"])}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}
    asks: Any = {"accessModes": ["ReadWriteMany"], "volumeName": name, "storageClassName": ""}
    asks["resources"] = {"requests": {"storage": "1Gi"}}
    meta = {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": asks}
    return volume, claim


def attachable(draw, i):
    """How many volumes a node can attach."""
    counts = {DRIVER: draw.choice([1, 2, 3, 8]), SHARES: draw.choice([None, None, 2]), GOOGLE: draw.choice([1, 2])}
    drivers = [
        {"name": name, "nodeID": f"n{i}"} | ({"allocatable": {"count": count}} if count else {})
        for name, count in counts.items()
        if name == DRIVER or draw.random() < 0.6
    ]
    meta: Any = {"name": f"n{i}"} | ({"annotations": MIGRATED} if draw.random() < 0.5 else {})
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}


def attached(draw, i):
    """A volume that some node has attached, whether a pod uses it there or not, and whether it is known or not."""
    volume = f"c{draw.randrange(CLAIMS + 1)}"
    spec = {"attacher": draw.choice([DRIVER, DRIVER, DRIVER, SHARES]), "nodeName": f"n{draw.randrange(NODES)}"}
    meta = {"name": f"attached-{i}"}
    spec |= {"source": {"persistentVolumeName": volume}}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": meta, "spec": spec}


def volumes(draw):
    """Some of the claims, as a pod names them."""
    chosen = draw.sample(range(CLAIMS), draw.choice([1, 1, 2]))
    return [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": f"c{at}"}} for at in chosen]


async def stored(play, draw):
    """Volumes, claims and limits; in the end all claims are bound."""
    pairs = [storage(draw, i) for i in range(CLAIMS)]
    demands = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": SHARES}}
    demands |= {"spec": {"preventPodSchedulingIfMissing": True}}
    beside = [*(attachable(draw, i) for i in range(0, NODES, 2)), *(attached(draw, i) for i in range(20)), demands]
    made = await play.stage.make(*(volume for volume, _ in pairs), *beside)
    claims = await play.stage.make(*(claim for _, claim in pairs))
    status = {"status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}}}
    for claim in claims:
        path = f"/api/v1/namespaces/default/persistentvolumeclaims/{claim['metadata']['name']}/status"
        await play.stage.patch(path, status)
    return [*made, *(claim | status for claim in claims)]


def base(name, labels, spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": spec,
    }


def resident(draw, i):
    """A pod that is there already."""
    spec: Any = {
        "containers": [{"name": "c", "image": "x", "resources": requests(draw)}],
        "nodeName": f"n{draw.randrange(NODES)}",
    }
    if draw.random() < 0.3:
        spec["containers"][0]["ports"] = [port(draw)]
    if draw.random() < 0.1:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(draw, "t")]}}
    if draw.random() < 0.2:
        return base(f"r{i}", labels(draw, "r"), spec | {"volumes": [*volumes(draw), *inline(draw, i)]})
    found = base(f"r{i}", labels(draw, "r"), spec)
    found["metadata"]["namespace"] = draw.choice(["default", "default", "default", "tutti-system"])
    return found


def candidate(draw, i, where):
    """A pod that may only go to one node, with random wishes beside."""
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
    if draw.random() < 0.4:
        pin["matchExpressions"] = [node_condition(draw)]
    affinity: Any = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}}
    spec: Any = {"containers": [{"name": "c", "image": "x", "resources": requests(draw)}], "affinity": affinity}
    if draw.random() < 0.2:
        spec["nodeSelector"] = {"kind": draw.choice(KINDS)}
    if draw.random() < 0.4:
        spec["tolerations"] = [toleration(draw)]
    if draw.random() < 0.2:
        spec["containers"][0]["ports"] = [port(draw)]
    if draw.random() < 0.15:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term(draw, "r")]}
    if draw.random() < 0.12:
        terms = [term(draw, "r") for _ in range(draw.choice([1, 1, 2]))]
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if draw.random() < 0.15:
        keys = draw.choice([["topology.kubernetes.io/zone"], ["topology.kubernetes.io/zone", "row"]])
        spec["topologySpreadConstraints"] = [spread(draw, key) for key in keys]
    if draw.random() < 0.1:
        exits = {"operator": "In", "values": [3]}
        rule = {"action": "RestartAllContainers", "exitCodes": exits}
        spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return base(f"t{i}", labels(draw, "t"), spec | beside(draw))


def roomy(draw, i):
    """A node on which there is always room, but for volumes."""
    return node(f"n{i}", labels={"topology.kubernetes.io/zone": draw.choice(ZONES)})


def user(draw, i):
    """A pod that is there already and uses volumes."""
    return base(f"r{i}", {}, slim(f"n{draw.randrange(NODES)}") | {"volumes": [*volumes(draw), *inline(draw, i)]})


def wishes(draw, i, where):
    """A pod that may only go to one node, and asks for nothing but volumes."""
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
    only = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}}
    return base(f"t{i}", {}, slim("") | {"affinity": only, "volumes": volumes(draw)})


def slim(where):
    return {"containers": [{"name": "c", "image": "x"}], **({"nodeName": where} if where else {})}


def inline(draw, i):
    return [{"name": "inline", "gcePersistentDisk": {"pdName": f"d{i}"}}] if draw.random() < 0.2 else []


def beside(draw):
    """What is asked for beside the containers."""
    found: Any = {}
    if draw.random() < 0.2:
        found["initContainers"] = [{"name": "i", "image": "x", "resources": requests(draw)}]
        if draw.random() < 0.5:
            found["initContainers"][0]["restartPolicy"] = "Always"
    if draw.random() < 0.15:
        found["volumes"] = volumes(draw)
    if draw.random() < 0.1:
        found["resources"] = {"requests": {"cpu": draw.choice(["4", "7"]), "memory": "6Gi"}}
    return found


def labels(draw, letter):
    found = {"app": f"{letter}{draw.randrange(3)}"}
    return found | ({"team": draw.choice("xy")} if draw.random() < 0.5 else {})


def node_condition(draw):
    return draw.choice(
        [
            {"key": "kind", "operator": "In", "values": ["a100", "h100"]},
            {"key": "kind", "operator": "NotIn", "values": ["cpu"]},
            {"key": "kind", "operator": "Exists"},
            {"key": "kind", "operator": "DoesNotExist"},
            {"key": "memory-gb", "operator": "Gt", "values": ["60"]},
            {"key": "memory-gb", "operator": "Lt", "values": ["100"]},
            {"key": "kind", "operator": "Gt", "values": ["1"]},
            {"key": "metadata.name", "operator": "DoesNotExist"},
        ]
    )


def toleration(draw):
    return draw.choice(
        [
            {"operator": "Exists"},
            {"key": "gpu", "operator": "Exists"},
            {"key": "gpu", "operator": "Equal", "value": "yes"},
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
            {"key": "gpu", "operator": "Equal", "value": "no", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        ]
    )


def ours(nodes, things, residents, candidates):
    """The candidates that we would bind, all decided at once."""
    mirror = Mirror("default-scheduler")
    for body in things:
        read_thing(mirror, msgspec.convert(body, Thing), gone=False)
    for body in nodes:
        mirror.put_node(msgspec.convert(body, Node))
    for body in (*residents, *candidates):
        mirror.put_pod(msgspec.convert(body, Pod))
    listing = mirror.listing(moment(), {})
    world = World.load(listing)
    found = set()
    for action in decide(world.view(), moment(), DEFAULT).actions:
        if isinstance(action, Start):
            gang = mirror.gangs[action.gang]
            where = named(action.seats, listing.nodes)[0][0][0]
            pod = next(iter(gang.pods.values()))
            if not objection(mirror, [Fill(pod, where)]):
                found.add(pod.name)
    return found


async def theirs(play, names):
    """The candidates that kube-scheduler has bound, once it has looked at all of them."""

    async def looked_at():
        pods = await play.stage.pods()
        mine = [pods[name] for name in names]
        done = all(pod["spec"].get("nodeName") or refused(pod) for pod in mine)
        return [{pod["metadata"]["name"] for pod in mine if pod["spec"].get("nodeName")}] if done else None

    return (await play.until(looked_at, "verdicts"))[0]


def refused(pod):
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in pod["status"].get("conditions", []))


@pytest.mark.parametrize("kind", ["anything", "volumes alone"])
def test_no_pair_fits_only_for_us(play, control_plane, kind):
    draw = random.Random(int(os.environ.get("TUTTI_PARITY_SEED", "1")))
    totals = {"both": 0, "neither": 0, "only theirs": 0}
    ground, there, comes = (random_node, resident, candidate) if kind == "anything" else (roomy, user, wishes)

    async def scene(play):
        nodes = await play.stage.make(*(ground(draw, i) for i in range(NODES)))
        things = await stored(play, draw)
        control_plane.start_scheduler()
        try:
            for batch in range(BATCHES):
                residents = await play.stage.make(*(there(draw, f"{batch}-{i}") for i in range(25)))
                made = await play.stage.make(*(comes(draw, f"{batch}-{i}", f"n{i}") for i in range(NODES)))
                fit = ours(nodes, things, residents, made)
                names = {body["metadata"]["name"] for body in made}
                bound = await theirs(play, names)
                assert fit <= bound, [body for body in made if body["metadata"]["name"] in fit - bound]
                totals["both"] += len(fit & bound)
                totals["neither"] += len(names - fit - bound)
                totals["only theirs"] += len(bound - fit)
                await play.stage.clear("/api/v1/pods")
        finally:
            control_plane.end("kube-scheduler")

    play(scene, kubelet=False, within=60 + 5 * BATCHES)
    print(totals)
    assert totals["both"] > 3 * BATCHES
    assert totals["neither"] > 3 * BATCHES
    # Where two pods of a node use one volume we count it twice, and disks of old we refuse.
    most = totals["both"] // 3 if kind == "anything" else totals["both"]
    assert totals["only theirs"] <= most, totals
