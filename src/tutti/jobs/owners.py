"""Kubernetes objects that make pods: how many of each kind, from which template, and what they declare for the gang."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from tutti.engine.model import MOST_MEMBERS, SECOND, Data

from .kube.declared import Declared, Part, Reading, Segmented
from .kube.objects import Meta, Pod, PodSpec
from .problems import is_slip

Spec = Mapping[str, Any]
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_MIN = "kueue.x-k8s.io/job-min-parallelism"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
JOBSET_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
LWS_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"


MOST_KEYS = 64
PARTS = {
    **dict.fromkeys(("pytorchReplicaSpecs", "tfReplicaSpecs", "mpiReplicaSpecs", "jaxReplicaSpecs"), "by kind"),
    "headGroupSpec": "head",
    "leaderTemplate": "leader",
    "workerTemplate": "worker",
    "scheduler": "scheduler",
    "worker": "worker",
}
"""Keys that name the part whose containers stand below them."""


class Batch(Data, frozen=True):
    """Pods that are alike: the part they play, how many must and may be there, and what each is made from."""

    part: str
    least: int
    want: int
    most: int
    pod: Any
    loose: bool = False
    segment: Segmented | None = None


class Owned(Data, frozen=True):
    """What an owner makes."""

    batches: tuple[Batch, ...]
    framework: str = ""
    min: int = 0
    """Members that must start together; 0 means all of every part's least."""
    queue: str = ""
    priority_class: str = ""
    within: str = ""
    near: str = ""
    time: int = 0
    elastic: bool = False
    copies: int = 1
    """Gangs alike that it makes."""
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Source:
    """An object being read."""

    def __init__(self, value: Spec) -> None:
        self.value = value
        self.reading = Reading()
        self.notes: list[str] = []
        self.asked: list[tuple[Spec, str]] = []
        """Tables that were looked into, and for which key."""
        metadata = self.map(value, "metadata")
        self.name = str(metadata.get("name") or metadata.get("generateName") or "job").rstrip("-")
        self.namespace = str(metadata.get("namespace") or "default")
        self.annotations = self.map(metadata, "annotations")
        self.labels = self.map(metadata, "labels")
        self.spec = self.map(value, "spec")

    def map(self, holder: Spec, key: str) -> dict[str, Any]:
        """A table inside another; empty where there is none."""
        found = self.get(holder, key)
        if found is None or isinstance(found, dict):
            return found or {}
        self.reading.problems.append(f"{key} is not a mapping")
        return {}

    def list(self, holder: Spec, key: str) -> "list[dict[str, Any]]":
        """A list of tables inside a table."""
        found = self.get(holder, key)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found) or len(found) > 256:
            self.reading.problems.append(f"{key} is not a list of mappings")
            return []
        return found

    def count(self, holder: Spec, key: str, default: int, least: int = 0) -> int:
        """A number of pods."""
        return self.reading.count(self.get(holder, key), key, least, default)

    def seconds(self, holder: Spec, key: str) -> int:
        """A number of seconds, in microseconds."""
        return self.reading.count(self.get(holder, key), key) * SECOND

    def get(self, holder: Spec, key: str) -> Any:
        """An entry of a table, of any kind."""
        self.asked.append((holder, key))
        return holder.get(key)

    def slips(self) -> Iterator[str]:
        """Keys that nobody asked for and that are nearly one that was looked for in vain."""
        known: dict[int, set[str]] = {}
        for holder, key in self.asked:
            known.setdefault(id(holder), set()).add(key)
        for holder, key in self.asked:
            # An object with more keys than anybody writes is not looked at for slips.
            tried = [] if key in holder or len(holder) > MOST_KEYS else holder
            for name in tried:
                if name not in known[id(holder)] and is_slip(str(name), key):
                    yield f"{name} is no field of it; did you mean {key!r}?"

    def pod(self, template: Spec) -> Pod:
        """A pod template; what cannot be read is a problem."""
        metadata = self.map(template, "metadata")
        try:
            spec = msgspec.convert(self.map(template, "spec"), PodSpec, strict=False)
            meta = msgspec.convert(
                {k: metadata[k] for k in ("labels", "annotations") if k in metadata}, Meta, strict=False
            )
        except msgspec.ValidationError as wrong:
            self.reading.problems.append(f"pod template: {wrong}")
            return Pod()
        meta.namespace, meta.name = self.namespace, self.name
        return Pod(metadata=meta, spec=spec)

    def commands(self) -> dict[str, tuple[str, ...]]:
        """What the first container of every template runs, by the name of the part; found by walking the object."""
        return dict(_commands(self.value, ""))

    def owned(self, *batches: Batch, **rest: Any) -> Owned:
        """The outcome, with what went wrong on the way."""
        queue = rest.pop("queue", "") or str(self.labels.get(KUEUE_QUEUE) or self.annotations.get(VOLCANO_QUEUE) or "")
        notes = (*self.notes, *rest.pop("notes", ()))
        problems = (*self.reading.problems, *dict.fromkeys(self.slips()))
        return Owned(tuple(b for b in batches if b.most), queue=queue, notes=notes, problems=problems, **rest)


def _commands(value: Any, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every list of containers below, with the nearest name above it."""
    if isinstance(value, list):
        for item in value:
            yield from _commands(item, name)
    if not isinstance(value, dict):
        return
    containers = value.get("containers")
    if isinstance(containers, list) and containers and isinstance(containers[0], dict):
        yield name, first_command(containers[0])
    named = str(value.get("groupName") or value.get("name") or name)
    for key, below in value.items():
        if key in PARTS:
            yield from _commands(below, PARTS[key])
        elif key != "metadata":
            yield from _commands(below, key.lower() if name == "by kind" else named)


def first_command(container: Spec) -> tuple[str, ...]:
    """Command and arguments of a container."""
    words = [*_words(container.get("command")), *_words(container.get("args"))]
    return tuple(words)


def _words(said: object) -> list[str]:
    return [str(word) for word in said] if isinstance(said, list) else []


def job(source: Source) -> Owned:
    """batch/v1 Job: a gang where it is indexed and fully parallel, or says so; otherwise loose tasks."""
    spec = source.spec
    parallel = source.count(spec, "parallelism", 1)
    completions = source.count(spec, "completions", 0)
    indexed = source.get(spec, "completionMode") == "Indexed"
    policy = source.map(source.map(spec, "scheduling"), "schedulingPolicy")
    least = source.reading.count(source.annotations.get(KUEUE_MIN), KUEUE_MIN, 1, parallel)
    gang = indexed and (completions or parallel) == parallel
    if "gang" in policy:
        gang, least = True, source.count(source.map(policy, "gang"), "minCount", max(parallel, 1), 1)
    elif "basic" in policy:
        gang = False
    keys = [
        str(item.get("key") or "")
        for item in source.list(source.map(source.map(spec, "scheduling"), "schedulingConstraints"), "topology")
    ]
    pod = source.pod(source.map(spec, "template"))
    total = parallel if gang else max(completions, parallel)
    batch = Batch("worker" if gang else "task", least if gang else 0, total, total, pod, loose=not gang)
    return source.owned(
        batch,
        time=source.seconds(spec, "activeDeadlineSeconds"),
        within=keys[0] if keys else "",
        elastic=least < parallel,
    )


def jobset(source: Source) -> Owned:
    """JobSet: each replicated Job is a part; all of them start together."""
    batches = []
    topology = str(source.annotations.get(JOBSET_TOPOLOGY) or "")
    for entry in source.list(source.spec, "replicatedJobs"):
        template = source.map(source.map(entry, "template"), "spec")
        parallel = source.count(template, "parallelism", 1)
        total = min(source.count(entry, "replicas", 1) * parallel, MOST_MEMBERS)
        segment = Segmented(topology, parallel) if topology and parallel > 1 else None
        pod = source.pod(source.map(template, "template"))
        batches.append(Batch(str(entry.get("name") or "job"), total, total, total, pod, segment=segment))
    return source.owned(*batches)


def leader_worker_set(source: Source) -> Owned:
    """LeaderWorkerSet: every group is a gang of a leader and its workers."""
    group = source.map(source.spec, "leaderWorkerTemplate")
    size = source.count(group, "size", 1, 1)
    replicas = source.count(source.spec, "replicas", 1)
    worker = source.map(group, "workerTemplate")
    leader = source.map(group, "leaderTemplate") or worker
    if replicas != 1:
        source.notes.append(f"{replicas} groups alike, each a gang of its own")
    batches = [Batch("leader", 1, 1, 1, source.pod(leader))]
    batches += [Batch("worker", size - 1, size - 1, size - 1, source.pod(worker))] if size > 1 else []
    return source.owned(*batches, within=str(source.annotations.get(LWS_TOPOLOGY) or ""), copies=replicas)


def _kubeflow(framework: str, key: str, order: tuple[str, ...]) -> Callable[[Source], Owned]:
    """A job of the training operator: replica specs by kind of member."""

    def read(source: Source) -> Owned:
        specs = source.map(source.spec, key)
        elastic = source.map(source.spec, "elasticPolicy")
        policy = source.map(source.spec, "runPolicy") or source.spec
        scheduling = source.map(policy, "schedulingPolicy")
        batches = []
        for kind in sorted(specs, key=lambda name: order.index(name) if name in order else len(order)):
            entry = source.map(specs, kind)
            want = source.count(entry, "replicas", 1)
            least, most = want, want
            if elastic and kind == "Worker":
                least = source.count(elastic, "minReplicas", want)
                most = source.count(elastic, "maxReplicas", want)
            pod = source.pod(source.map(entry, "template"))
            batches.append(Batch(kind.lower(), min(least, most), min(max(want, least), most), most, pod))
        return source.owned(
            *batches,
            framework=framework,
            min=source.count(scheduling, "minAvailable", 0),
            queue=str(source.get(scheduling, "queue") or ""),
            priority_class=str(source.get(scheduling, "priorityClass") or ""),
            time=source.seconds(policy, "activeDeadlineSeconds"),
            elastic=bool(elastic),
        )

    return read


def volcano_job(source: Source) -> Owned:
    """Volcano's Job: tasks, each with its least, and the least of all together."""
    batches = []
    for entry in source.list(source.spec, "tasks"):
        want = source.count(entry, "replicas", 1)
        least = source.count(entry, "minAvailable", want)
        pod = source.pod(source.map(entry, "template"))
        batches.append(Batch(str(entry.get("name") or "task"), min(least, want), want, want, pod))
    total = sum(batch.least for batch in batches)
    topology = source.map(source.spec, "networkTopology")
    tier = topology.get("highestTierName") or topology.get("highestTierAllowed")
    hard = topology.get("mode", "hard") == "hard"
    return source.owned(
        *batches,
        min=source.count(source.spec, "minAvailable", total),
        queue=str(source.get(source.spec, "queue") or ""),
        priority_class=str(source.get(source.spec, "priorityClassName") or ""),
        within=f"tier:{tier}" if tier is not None and hard else "",
        near=f"tier:{tier}" if tier is not None and not hard else "",
        time=source.reading.time(source.get(source.spec, "runningEstimate"), "runningEstimate"),
    )


def ray_cluster(source: Source) -> Owned:
    """RayCluster, and the cluster inside a RayJob or RayService: a head, and workers that come and go."""
    spec = next(
        (s for key in ("rayClusterSpec", "rayClusterConfig") if (s := source.map(source.spec, key))), source.spec
    )
    head = source.map(spec, "headGroupSpec")
    batches = [Batch("head", 1, 1, 1, source.pod(source.map(head, "template")))]
    for entry in source.list(spec, "workerGroupSpecs"):
        hosts = source.count(entry, "numOfHosts", 1, 1)
        want = source.count(entry, "replicas", source.count(entry, "minReplicas", 0))
        least = source.count(entry, "minReplicas", 0)
        most = max(source.count(entry, "maxReplicas", want), want)
        pod = source.pod(source.map(entry, "template"))
        name = str(entry.get("groupName") or "worker")
        batches.append(Batch(name, min(least, want) * hosts, want * hosts, most * hosts, pod, loose=hosts == 1))
    if spec.get("enableInTreeAutoscaling") is True:
        source.notes.append("Ray's own autoscaler changes the number of workers")
    return source.owned(*batches, framework="ray", time=source.seconds(source.spec, "activeDeadlineSeconds"))


def train_job(source: Source) -> Owned:
    """TrainJob of Kubeflow Trainer: so many nodes; the runtime it names may say more."""
    trainer = source.map(source.spec, "trainer")
    runtime = str(source.map(source.spec, "runtimeRef").get("name") or "")
    nodes = source.count(trainer, "numNodes", 1)
    container = {"name": "node", "resources": source.map(trainer, "resourcesPerNode")}
    if not source.get(trainer, "resourcesPerNode"):
        source.notes.append(f"what a node asks for is in the runtime {runtime!r}, which is not in this file")
    words = {"torch": "torch", "deepspeed": "deepspeed", "jax": "jax", "mpi": "mpi", "mlx": "mpi"}
    framework = next((name for word, name in words.items() if word in runtime), "")
    pod = source.pod({"spec": {"containers": [container]}})
    return source.owned(Batch("node", nodes, nodes, nodes, pod), framework=framework)


def dask_cluster(source: Source) -> Owned:
    """DaskCluster: a scheduler, and workers that come and go."""
    scheduler, worker = source.map(source.spec, "scheduler"), source.map(source.spec, "worker")
    want = source.count(worker, "replicas", 1)
    return source.owned(
        Batch("scheduler", 1, 1, 1, source.pod({"spec": source.map(scheduler, "spec")})),
        Batch("worker", min(1, want), want, want, source.pod({"spec": source.map(worker, "spec")}), loose=True),
        framework="dask",
    )


def service(source: Source) -> Owned:
    """Deployments and their like: replicas that start one by one."""
    replicas = source.count(source.spec, "replicas", 1)
    source.notes.append("a service: its replicas start one by one and stay with the default scheduler")
    return source.owned(
        Batch("replica", 0, replicas, replicas, source.pod(source.map(source.spec, "template")), loose=True)
    )


class Kind(Data, frozen=True):
    """How an owner is read, and the versions of it that are known."""

    read: Callable[[Source], Owned]
    versions: tuple[str, ...]
    says: str


OWNERS: dict[tuple[str, str], Kind] = {
    ("batch", "Job"): Kind(job, ("v1",), "a Job"),
    ("jobset.x-k8s.io", "JobSet"): Kind(jobset, ("v1alpha2",), "a JobSet"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Kind(leader_worker_set, ("v1",), "a LeaderWorkerSet"),
    ("kubeflow.org", "PyTorchJob"): Kind(
        _kubeflow("torch", "pytorchReplicaSpecs", ("Master", "Worker")), ("v1",), "a PyTorchJob"
    ),
    ("kubeflow.org", "TFJob"): Kind(
        _kubeflow("tensorflow", "tfReplicaSpecs", ("Chief", "Master", "Worker", "PS", "Evaluator")), ("v1",), "a TFJob"
    ),
    ("kubeflow.org", "MPIJob"): Kind(
        _kubeflow("mpi", "mpiReplicaSpecs", ("Launcher", "Worker")), ("v1", "v2beta1"), "an MPIJob"
    ),
    ("kubeflow.org", "JAXJob"): Kind(_kubeflow("jax", "jaxReplicaSpecs", ("Worker",)), ("v1",), "a JAXJob"),
    ("kubeflow.org", "XGBoostJob"): Kind(
        _kubeflow("xgboost", "xgbReplicaSpecs", ("Master", "Worker")), ("v1",), "an XGBoostJob"
    ),
    ("kubeflow.org", "PaddleJob"): Kind(
        _kubeflow("paddle", "paddleReplicaSpecs", ("Master", "Worker")), ("v1",), "a PaddleJob"
    ),
    ("trainer.kubeflow.org", "TrainJob"): Kind(train_job, ("v1alpha1",), "a TrainJob"),
    ("batch.volcano.sh", "Job"): Kind(volcano_job, ("v1alpha1",), "a Volcano Job"),
    ("ray.io", "RayCluster"): Kind(ray_cluster, ("v1", "v1alpha1"), "a RayCluster"),
    ("ray.io", "RayJob"): Kind(ray_cluster, ("v1", "v1alpha1"), "a RayJob"),
    ("ray.io", "RayService"): Kind(ray_cluster, ("v1", "v1alpha1"), "a RayService"),
    ("kubernetes.dask.org", "DaskCluster"): Kind(dask_cluster, ("v1",), "a DaskCluster"),
    ("apps", "Deployment"): Kind(service, ("v1",), "a Deployment"),
    ("apps", "StatefulSet"): Kind(service, ("v1",), "a StatefulSet"),
    ("apps", "ReplicaSet"): Kind(service, ("v1",), "a ReplicaSet"),
}


def declaration(source: Source, owned: Owned) -> Declared:
    """What the owner declares for all its pods together."""
    parts = {b.part: Part(min=b.least, segment=b.segment) for b in owned.batches}
    least = sum(batch.least for batch in owned.batches)
    if owned.min and owned.min < least:
        # Fewer than all may start: which of them is not said, so the parts do not say it either.
        parts = {b.part: Part(segment=b.segment) for b in owned.batches}
        least = owned.min
    return Declared(
        "native",
        source.namespace,
        source.name,
        min=max(least, owned.min),
        parts=parts,
        within=owned.within,
        near=owned.near,
        queue=owned.queue,
        priority_class=owned.priority_class,
        loose=least == 0,
        time=owned.time,
        problems=owned.problems,
    )
