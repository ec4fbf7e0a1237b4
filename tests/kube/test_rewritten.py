"""What is written into a pod after it was made counts as if it had been there from the beginning."""

import json

import msgspec
import pytest

from tests.kube.test_order import CREATED, differences, hear, told
from tools.control_plane.stage import GPU, gang, node, pod
from tutti.engine.decide import decide
from tutti.engine.plan import Start
from tutti.engine.policy import Policy
from tutti.engine.world import World
from tutti.jobs.kube.objects import Node, Pod, Thing
from tutti.kube.books import read_thing
from tutti.kube.drift import drift
from tutti.kube.mirror import Mirror
from tutti.kube.scheduler import moment

GATE = "kueue.x-k8s.io/admission"


def stamped(thing, **meta):
    """As the API server hands it out."""
    more = {"uid": thing["metadata"]["name"], "creationTimestamp": CREATED, **meta}
    return {**thing, "metadata": thing["metadata"] | more}


def ground():
    """Two nodes that nobody asked for goes to, and two behind a taint and a label."""
    kept = node("n2", labels={"kind": "a100"}), node("n3", labels={"kind": "a100"})
    for one in kept:
        one["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    return [node("n0"), node("n1"), *kept]


def known(*pods):
    """A cluster of which the pods are told one after the other."""
    mirror, world = Mirror(), World()
    for body in ground():
        mirror.put_node(msgspec.convert(stamped(body), Node))
    for body in pods:
        mirror.put_pod(msgspec.convert(body, Pod))
        hear(mirror, world)
    return mirror, world


def at(world, name):
    """A node as the engine knows it."""
    return world.nodes[world.node_index[name]]


def written(body, **spec):
    """The same pod with something else in its spec."""
    return json.loads(json.dumps({**body, "spec": body["spec"] | spec}))


def noted(body, kind, **pairs):
    """The same pod with another label or annotation."""
    meta = body["metadata"]
    return {**body, "metadata": meta | {kind: meta.get(kind, {}) | pairs}}


def starts(world):
    """What would be started now."""
    return [one for one in decide(world.view(), moment(), Policy()).actions if isinstance(one, Start)]


TOLERATES = [{"key": "gpu", "operator": "Exists"}]
MORE = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {GPU: "4"}, "limits": {GPU: "4"}}}]}
GATED = {"schedulingGates": [{"name": GATE}]}
CHANGES = [
    pytest.param(
        GATED,
        lambda p: written(p, schedulingGates=None, nodeSelector={"kind": "a100"}, tolerations=TOLERATES),
        id="a gate goes and the nodes are named, as Kueue does it",
    ),
    pytest.param({}, lambda p: written(p, tolerations=TOLERATES), id="a toleration that somebody adds"),
    pytest.param({}, lambda p: written(p, **MORE), id="other amounts"),
    pytest.param({}, lambda p: noted(p, "annotations", **{"tutti.dev/time": "30m"}), id="how long it runs"),
    pytest.param({}, lambda p: noted(p, "labels", **{"tutti.dev/queue": "team"}), id="its queue"),
]


@pytest.mark.parametrize("generation", [0, 1], ids=["server that counts nothing", "server that counts"])
@pytest.mark.parametrize(("spec", "change"), CHANGES)
def test_a_pod_that_waits(spec, change, generation):
    before = stamped(pod("a", gpus=1, **spec), generation=generation)
    after = change(before)
    if after["spec"] != before["spec"]:
        after["metadata"] = after["metadata"] | {"generation": 2 * generation}
    _, world = known(before, after)
    _, always = known(after)
    assert differences(told(world), told(always)) == []
    assert [start.seats for start in starts(world)] == [start.seats for start in starts(always)]


def test_what_a_pod_of_others_is_given_more_is_taken():
    before = stamped(pod("x", gpus=1, scheduler="other", nodeName="n0"))
    mirror, world = known(before, written(before, **MORE))
    assert at(world, "n0").foreign[GPU] == 4
    assert drift(mirror, world) == 0


def test_what_a_member_that_runs_is_given_more_is_taken_and_it_is_still_a_member():
    things = [stamped(thing) for thing in gang("a", 2)]
    mirror, world = Mirror(), World()
    for body in ground():
        mirror.put_node(msgspec.convert(stamped(body), Node))
    read_thing(mirror, msgspec.convert(things[0], Thing), gone=False)
    bound = [written(thing, nodeName=f"n{i}", **_asks("2")) for i, thing in enumerate(things[1:])]
    for body in bound:
        mirror.put_pod(msgspec.convert({**body, "status": {"phase": "Running"}}, Pod))
    hear(mirror, world)
    assert mirror.gangs["default/a"].is_whole
    more = written(bound[0], **_asks("5"))
    mirror.put_pod(msgspec.convert({**more, "status": {"phase": "Running"}}, Pod))
    hear(mirror, world)
    free = world.classes.free[list(world.resources).index("cpu"), world.classes.of[world.node_index["n0"]]]
    assert free == at(world, "n0").capacity["cpu"] - 5000
    assert drift(mirror, world) == 0
    assert mirror.gangs["default/a"].is_whole
    mirror.drop_pod(bound[0]["metadata"]["uid"])
    hear(mirror, world)
    assert not at(world, "n0").foreign


def _asks(cpu):
    return {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}
