"""Jobs of Kubeflow run under us as they are: what its operators make of a manifest, in the order in which they make it.

The training operator makes the group first, counts all replicas (or `minAvailable`) as its minimum and adds up what
they ask for. With Volcano it waits until the group is not `Pending` any more before it makes a pod.
"""

from typing import Any

import pytest
import yaml

from tests.kube.dialects import GROUPS
from tools.control_plane.stage import GPU
from tutti.kube.config import Config

PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: simple, namespace: default}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          schedulerName: tutti
          containers: [{name: pytorch, image: mnist, resources: {limits: {nvidia.com/gpu: 8}}}]
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template:
        spec:
          schedulerName: tutti
          containers: [{name: pytorch, image: mnist, resources: {limits: {nvidia.com/gpu: 8}}}]
"""
MPI = PYTORCH.replace("PyTorchJob", "MPIJob").replace("pytorchReplicaSpecs", "mpiReplicaSpecs")
MPI = MPI.replace("Master", "Launcher").replace("limits: {nvidia.com/gpu: 8}", "requests: {cpu: 1}", 1)
ELASTIC = PYTORCH.replace("spec:\n", "spec:\n  runPolicy: {schedulingPolicy: {minAvailable: 2}}\n", 1)
TRAINER = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: simple, namespace: default}
spec:
  trainer: {numNodes: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}
"""


def replicas(job):
    """Every pod there will be: its kind, its number, and its spec."""
    spec = job["spec"]
    if job["kind"] == "TrainJob":
        resources = spec["trainer"]["resourcesPerNode"]
        body = {"schedulerName": "tutti", "containers": [{"name": "node", "image": "x", "resources": resources}]}
        return [("node", at, body) for at in range(spec["trainer"]["numNodes"])]
    kinds = next(value for key, value in spec.items() if key.endswith("ReplicaSpecs"))
    return [(k.lower(), at, r["template"]["spec"]) for k, r in kinds.items() for at in range(r["replicas"])]


def group(job, dialect):
    """The group that an operator makes."""
    name, members = job["metadata"]["name"], replicas(job)
    policy = job["spec"].get("runPolicy", {}).get("schedulingPolicy", {})
    devices = sum(int(body["containers"][0]["resources"].get("limits", {}).get(GPU, 0)) for _, _, body in members)
    spec = {"minMember": policy.get("minAvailable", len(members)), "minResources": {GPU: str(devices)}}
    spec |= {"scheduleTimeoutSeconds": 60} if dialect == "coscheduling" else {}
    api, version = GROUPS[dialect]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": name, "uid": "uid-job", "controller": True}
    meta = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    return {"apiVersion": f"{api}/{version}", "kind": "PodGroup", "metadata": meta, "spec": spec}


def pods(job, dialect):
    """The pods that an operator makes."""
    name = job["metadata"]["name"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": name, "uid": "uid-job", "controller": True}
    for kind, at, spec in replicas(job):
        meta: dict[str, Any] = {"name": f"{name}-{kind}-{at}", "namespace": "default", "ownerReferences": [owner]}
        if job["kind"] == "TrainJob":
            meta["labels"] = {"batch.kubernetes.io/job-completion-index": str(at)}
        else:
            rank = "training.kubeflow.org/replica-index"
            meta["labels"] = {rank: str(at), "training.kubeflow.org/replica-type": kind}
        if dialect == "volcano":
            meta["annotations"] = {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": kind}
        else:
            meta["labels"]["scheduling.x-k8s.io/pod-group"] = name
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("dialect", ["volcano", "coscheduling"])
@pytest.mark.parametrize("manifest", [PYTORCH, MPI, ELASTIC, TRAINER], ids=["pytorch", "mpi", "elastic", "trainer"])
def test_a_job_of_kubeflow_runs(play, manifest, dialect):
    job = yaml.safe_load(manifest)

    async def scene(play):
        await play.nodes(4)
        async with play.scheduler(Config(dialects=(dialect,))):
            made = group(job, dialect)
            await play.stage.make_one(made)
            path = f"/apis/{made['apiVersion']}/namespaces/default/podgroups/{job['metadata']['name']}"

            async def phase():
                return (await play.stage.get(path)).get("status", {}).get("phase", "")

            async def lets_pods_be_made():
                return await phase() not in ("", "Pending")

            if dialect == "volcano":
                await play.until(lets_pods_be_made, "the group is let in")
            await play.stage.make(*pods(job, dialect))
            assert len(await play.until_bound(job["metadata"]["name"], count=4)) == 4

            async def runs():
                there = await play.stage.items("/api/v1/namespaces/default/pods")
                return all(p["status"]["phase"] == "Running" for p in there) and await phase() == "Running"

            await play.until(runs, "all members run, and the group says so")
            assert await phase() == "Running"

    play(scene)


def test_pods_that_are_made_after_their_group_was_told_are_told_as_well(play):
    """Volcano's way: the group is refused or waits before there are pods, and stays so when they come."""
    job = yaml.safe_load(PYTORCH)

    async def scene(play):
        await play.nodes(3)
        async with play.scheduler(Config(dialects=("volcano",))):
            await play.stage.make_one(group(job, "volcano"))
            path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/simple"

            async def told_of_the_group():
                return (await play.stage.get(path)).get("status", {}).get("conditions")

            await play.until(told_of_the_group, "the group is told")
            await play.stage.make(*pods(job, "volcano"))

            async def told():
                there = await play.stage.items("/api/v1/namespaces/default/pods")
                said = [c["message"] for p in there for c in p["status"].get("conditions", [])]
                return said if len(said) == 4 else None

            said = await play.until(told, "every pod says why it waits")
            assert all(text.startswith("NeverFits: ") for text in said)

    play(scene)
