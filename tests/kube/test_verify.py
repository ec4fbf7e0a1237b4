"""Company and domains to the letter of Kubernetes: what the last look before a bind objects to, scene by scene."""

import msgspec
import pytest

from tools.control_plane.stage import node, pod
from tutti.jobs.kube.objects import Node, Pod, Thing
from tutti.jobs.kube.wants import RESTARTS
from tutti.kube.books import read_thing
from tutti.kube.gangs import Fill
from tutti.kube.mirror import Mirror
from tutti.kube.verify import objection

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def near(*apps, keys=(ZONE, HOST)):
    """To be near pods of each of these apps."""
    terms = [{"topologyKey": k, "labelSelector": {"matchLabels": {"app": a}}} for a, k in zip(apps, keys, strict=False)]
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def even(*keys):
    """To lie evenly over domains, pods of app x among each other."""
    rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}
    return {"topologySpreadConstraints": [rule | {"topologyKey": key} for key in keys]}


def volume(*zones):
    """A bound volume that these zones reach, as the pod names it."""
    some = {"key": ZONE, "operator": "In", "values": list(zones)}
    required = {"required": {"nodeSelectorTerms": [{"matchExpressions": [some]}]}}
    claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": {"volumeName": "v"}}
    return [
        {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"nodeAffinity": required}},
        {"kind": "PersistentVolumeClaim", **claim, "status": {"phase": "Bound"}},
    ]


def said(where, there, labels, **spec):
    """What is objected to a pod on a node, where others are there already: app and node of each."""
    mirror = Mirror()
    zones = {"n0": {ZONE: "a", "row": "1"}, "n1": {ZONE: "b", "row": "1"}, "n2": {ZONE: "c"}, "n3": {}}
    for name, has in zones.items():
        body = node(name, labels=has)
        body["status"] |= {"declaredFeatures": [RESTARTS]} if name == "n1" else {}
        mirror.put_node(msgspec.convert(body, Node))
    for thing in volume("a", "b"):
        read_thing(mirror, msgspec.convert(thing, Thing), gone=False)
    others = [pod(f"p{at}", labels={"app": app}, gpus=0, nodeName=on) for at, (app, on) in enumerate(there)]
    mine = pod("mine", labels=labels, gpus=0, **spec)
    for body in (*others, mine):
        uid = {"uid": body["metadata"]["name"]}
        mirror.put_pod(msgspec.convert({**body, "metadata": body["metadata"] | uid}, Pod))
    mirror.listing(1, {})
    return objection(mirror, [Fill(mirror.pods["mine"], where)])


X = {"app": "x"}
STORED = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
RULES = {"restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}]}


@pytest.mark.parametrize(
    ("where", "there", "spec", "what"),
    [
        pytest.param("n0", [("y", "n0")], near("y"), "", id="a friend in the zone"),
        pytest.param("n1", [("y", "n0")], near("y"), f"affinity on {ZONE}", id="a friend in another zone"),
        pytest.param("n1", [], near("x"), "", id="nobody yet, and it is its own friend"),
        pytest.param("n1", [], near("y"), f"affinity on {ZONE}", id="nobody yet, and it is nobody's friend"),
        pytest.param("n3", [], near("x"), f"affinity on {ZONE}", id="the first one, but in no zone"),
        pytest.param(
            "n0", [("x", "n0"), ("y", "n0")], near("x", "y"), "affinity", id="a friend each is no friend of both terms"
        ),
        pytest.param("n0", [("x", "n0")], near("x", "x"), "", id="one friend by both terms"),
        pytest.param("n0", [("x", "n0")], even(ZONE), f"spread over {ZONE}", id="two zones are emptier"),
        pytest.param(
            "n0",
            [("x", "n0"), ("x", "n1")],
            even(ZONE) | STORED,
            f"spread over {ZONE}",
            id="a zone its volume is not in counts, too",
        ),
        pytest.param(
            "n0",
            [("x", "n0"), ("x", "n1")],
            even(ZONE, "row"),
            "",
            id="a node that lacks one of the keys counts for none of them",
        ),
    ],
)
def test_company_and_domains(where, there, spec, what):
    found = said(where, there, X, **spec)
    assert what in found
    assert bool(what) == bool(found)


@pytest.mark.parametrize(("where", "fits"), [("n0", False), ("n1", True)])
def test_only_kubelets_that_declare_it_restart_all_containers(where, fits):
    containers = [{"name": "c", "image": "x", "restartPolicy": "Never", **RULES}]
    assert (said(where, [], X, containers=containers) == "") == fits


def refused(mirror, name):
    """The field for which a pod by itself is refused."""
    found = mirror.translated(mirror.gangs[f"default/{name}@pod"])
    assert found is not None
    return found.gang.unsupported


def test_labels_that_the_server_has_not_put_into_the_selector_are_refused_by_name():
    mirror = Mirror()
    keys = {"matchLabelKeys": ["team"], **even(ZONE)["topologySpreadConstraints"][0]}
    body = pod("mine", labels={"team": "a"}, topologySpreadConstraints=[keys])
    mirror.put_pod(msgspec.convert(body, Pod))
    assert refused(mirror, "mine") == "spec.topologySpreadConstraints.matchLabelKeys: team"
    merged = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}
    newer = pod("newer", labels={"team": "a"}, topologySpreadConstraints=[keys | {"labelSelector": merged}])
    mirror.put_pod(msgspec.convert({**newer, "metadata": newer["metadata"] | {"uid": "newer"}}, Pod))
    assert not refused(mirror, "newer")
