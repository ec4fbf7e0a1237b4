"""Jobs of real operators under our scheduler, on a real API server: do they run whole, and fights nobody over a field?

    python bench/operators.py [CASE ...]

The operators are built once, which takes minutes (tools/operators). Each case waits on too few nodes first and gets the
last one then; it loses a member and gets it back; it ends. The last line is JSON: what held, and what did not.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.operators_rig import PODS, Scene, Wrong, kept, quarrels, scene
from tools.control_plane.build import Impossible
from tools.control_plane.stage import GPU, node, path_of
from tools.operators.build import PROGRAMS, source, version
from tutti.kube.api import ApiError

Manifest = dict[str, Any]
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
PLUGINS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
EACH = {"limits": {GPU: 8}}


@dataclass(frozen=True)
class Case:
    """What is run, and what is to be seen of it."""

    operators: dict[str, tuple[str, ...]]
    """Names and arguments, in the order in which they are started."""
    manifests: Callable[[], list[Manifest]]
    """What a user applies; the last one is the job."""
    members: int
    groups: str
    """Where its group is found."""
    runs: str = ""
    """The condition that says that it runs."""
    over: str = "Succeeded"
    nodes: int = 4
    """How many its members need."""
    scheduler: str = "tutti"
    """Our name; the MPI operator writes that of its gang scheduler into every pod, whatever the job says."""


def example(module: str, file: str) -> Manifest:
    """A manifest that the operator's own authors show."""
    found: Manifest = yaml.safe_load((source(module) / file).read_text())
    found["metadata"]["namespace"] = "default"
    return found


def pytorch(scheduler: str = "tutti", **policy: Any) -> list[Manifest]:
    """The simplest PyTorchJob there is, made large enough to need several nodes."""
    job = example(PROGRAMS["training-operator"].module, "examples/pytorch/simple.yaml")
    job["spec"]["runPolicy"] = {"schedulingPolicy": policy} if policy else {}
    kinds = job["spec"]["pytorchReplicaSpecs"]
    kinds["Worker"]["replicas"] = 3
    for replica in kinds.values():
        body = replica["template"]["spec"]
        body["containers"][0]["resources"] = EACH
        if scheduler:
            body["schedulerName"] = scheduler
    return [job]


def mpi(**policy: Any) -> list[Manifest]:
    """The one that computes pi, with devices for its workers; its launcher needs none."""
    job = example(PROGRAMS["mpi-operator"].module, "examples/v2beta1/pi/pi.yaml")
    if policy:
        job["spec"]["runPolicy"]["schedulingPolicy"] = policy
    kinds = job["spec"]["mpiReplicaSpecs"]
    kinds["Worker"]["replicas"] = 3
    kinds["Worker"]["template"]["spec"]["containers"][0]["resources"] = EACH
    return [job]


def train(**policy: Any) -> list[Manifest]:
    """The runtime for torch that comes with the trainer, told how its gangs are declared, and a job on four nodes."""
    runtime = example(PROGRAMS["trainer"].module, "manifests/base/runtimes/torch_distributed.yaml")
    del runtime["metadata"]["namespace"]
    runtime["spec"]["podGroupPolicy"] = policy
    for each in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        each["template"]["spec"]["template"]["spec"]["schedulerName"] = "tutti"
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "torch", "namespace": "default"},
        "spec": {
            "runtimeRef": {"name": runtime["metadata"]["name"]},
            "trainer": {"numNodes": 4, "resourcesPerNode": EACH},
        },
    }
    return [runtime, job]


def operator(name: str) -> dict[str, tuple[str, ...]]:
    """The training operator, with the name of the scheduler that it makes groups for."""
    return {"training-operator": (f"--gang-scheduler-name={name}",)}


def mpi_operator(name: str) -> dict[str, tuple[str, ...]]:
    """That for MPI, likewise."""
    return {"mpi-operator": (f"--gang-scheduling={name}",)}


TRAINER: dict[str, tuple[str, ...]] = {"jobset": (), "trainer": ()}
WITH_POLICY: dict[str, Any] = {"minAvailable": 4, "scheduleTimeoutSeconds": 60, "priorityClass": "high"}
CASES = {
    "pytorchjob-volcano": Case(operator("volcano"), pytorch, 4, VOLCANO, "Running"),
    "pytorchjob-volcano-policy": Case(
        operator("volcano"), lambda: pytorch(queue="default", **WITH_POLICY), 4, VOLCANO, "Running"
    ),
    "pytorchjob-scheduler-plugins": Case(
        operator("scheduler-plugins"), lambda: pytorch(**WITH_POLICY), 4, PLUGINS, "Running"
    ),
    "pytorchjob-named-tutti": Case(operator("tutti"), lambda: pytorch(""), 4, PLUGINS, "Running"),
    "mpijob-volcano": Case(mpi_operator("volcano"), mpi, 4, VOLCANO, "Running", nodes=3, scheduler="volcano"),
    "mpijob-named-tutti": Case(mpi_operator("tutti"), lambda: mpi(**WITH_POLICY), 4, PLUGINS, "Running", nodes=3),
    "trainjob-volcano": Case(TRAINER, lambda: train(volcano={}), 4, VOLCANO, over="Complete"),
    "trainjob-coscheduling": Case(TRAINER, lambda: train(coscheduling={}), 4, PLUGINS, over="Complete"),
}


async def play(case: Case) -> dict[str, Any]:
    """One case from the first manifest to the end of the job."""
    async with scene(case.nodes - 1) as here:
        await here.beside.groups()
        for name, arguments in case.operators.items():
            await here.beside.start(name, *arguments)
        here.start_tutti(case.scheduler)
        watched = [PODS, case.groups]
        async with kept(here.rig.kubeconfig(), *watched) as ledger:
            report = await run(here, case)
        if found := quarrels(ledger):
            raise Wrong(f"two wrote one field in turn: {found}")
        if ended := here.failed():
            raise Wrong(f"ended by itself: {ended}")
        return report | {"writers": dict(ledger.versions)}


async def run(here: Scene, case: Case) -> dict[str, Any]:
    """Wait whole, run whole, lose one, end."""
    made = case.manifests()
    for thing in made:
        await here.stage.make_one(thing)
    job = f"{path_of(made[-1])}/{made[-1]['metadata']['name']}"
    await here.until(lambda: here.all_wait(case.members), "all members are there and wait")
    started = time.monotonic()
    await here.stage.make_one(node("last"))
    await here.until(lambda: here.all_run(case.members), "all members run")
    took = time.monotonic() - started
    if case.runs:
        await here.until(lambda: here.condition(job, case.runs), f"the job says {case.runs}")
    phase = await group_phase(here, case)
    await here.stage.remove(f"{PODS}/{max(await here.live())}")
    await here.until(lambda: here.all_run(case.members), "the lost member is back")
    await here.finish()
    await here.until(lambda: here.condition(job, case.over), f"the job says {case.over}")
    return {"start_s": round(took, 2), "group": phase}


async def group_phase(here: Scene, case: Case) -> str:
    """What the group says when all run."""

    async def phase() -> str:
        groups = await here.stage.items(case.groups)
        said = str(groups[0].get("status", {}).get("phase", "")) if groups else ""
        return said if said == "Running" else ""

    return await here.until(phase, "the group says that it runs")


def main() -> None:
    """Play what was asked for, or everything."""
    wanted = sys.argv[1:] or list(CASES)
    if unknown := [name for name in wanted if name not in CASES]:
        sys.exit(f"error: no case {unknown}; there are {list(CASES)}")
    report: dict[str, Any] = {"cases": {}, "wrong": []}
    try:
        report["versions"] = {each: version(program.module) for each, program in PROGRAMS.items()}
        for name in wanted:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                report["cases"][name] = asyncio.run(play(CASES[name]))
            except (Wrong, ApiError, RuntimeError, TimeoutError) as problem:
                report["wrong"].append(f"{name}: {problem}")
                print(f"  {problem}", file=sys.stderr, flush=True)
    except Impossible as problem:
        sys.exit(f"error: {problem}")
    print(json.dumps(report))
    sys.exit(1 if report["wrong"] else 0)


if __name__ == "__main__":
    main()
