"""What is asked of nodes, in the words of a manifest."""

import msgspec

from tutti.engine.world import World
from tutti.jobs.kube.objects import Node, Pod, Thing
from tutti.kube.books import read_thing
from tutti.kube.choice import choices, plainly
from tutti.kube.mirror import Mirror


def seen(spec, *things):
    """A lone pod that waits beside three nodes: one with a label, one with a taint, one plain."""
    mirror = Mirror("tutti")
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    for name, more in (("n0", {"disk": "ssd"}), ("n1", {}), ("n2", {})):
        body = {"metadata": {"name": name, "labels": more}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
        body["spec"] = {"taints": [taint]} if name == "n2" else {}
        mirror.put_node(msgspec.convert(body, Node))
    for body in things:
        read_thing(mirror, msgspec.convert(body, Thing), gone=False)
    meta = {"name": "p", "namespace": "ml", "uid": "p"}
    mirror.put_pod(msgspec.convert({"metadata": meta, "spec": {"schedulerName": "tutti", **spec}}, Pod))
    mirror.take(World(), 1)
    return choices(mirror.gangs["ml/p@pod"], mirror.grounds, mirror.volumes)


def test_labels_terms_and_taints_are_named_with_how_many_nodes_are_left():
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    asked = {"nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": required}}
    assert seen(asked) == [
        "nodeSelector disk=ssd (1 of 3 nodes)",
        "node affinity (0 of 3 nodes)",
        "no taint dedicated=x, which 1 of 3 nodes have",
    ]


def thing(kind, name, spec, **more):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ml"}, "spec": spec, **more}


def test_drivers_are_named_with_how_many_nodes_have_them():
    csi = {"csi": {"driver": "disks", "volumeHandle": "v"}}
    stored = [thing("PersistentVolume", "v", csi), thing("CSIDriver", "disks", {"preventPodSchedulingIfMissing": True})]
    stored.append(thing("PersistentVolumeClaim", "c", {"volumeName": "v"}, status={"phase": "Bound"}))
    stored.append(thing("CSINode", "n1", {"drivers": [{"name": "disks", "nodeID": "n1"}]}))
    asked = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    said = "the driver disks with room for 1 of its volumes (1 of 3 nodes)"
    assert said in seen(asked | {"tolerations": [{"operator": "Exists"}]}, *stored)


def test_what_keeps_nobody_away_is_not_named():
    assert seen({"tolerations": [{"operator": "Exists"}]}) == []


def test_an_explanation_has_it_below_the_line_about_nodes():
    lines = ["x is waiting", "  nodes         3 in all", "  to start now  without tags"]
    assert plainly(lines, ["a", "b"]) == [
        *lines[:2],
        "  asks for      a; b",
        "  to start now  without its nodeSelector and node affinity",
    ]
    assert plainly(lines[:2], []) == lines[:2]
