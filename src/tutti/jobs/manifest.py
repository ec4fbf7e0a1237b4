"""Kubernetes manifests: pods, groups of every dialect, and the objects that make pods, as gangs.

Pods and groups are translated by the code the live scheduler uses; owners are first turned into the pods they would
make. Several gangs in one file are several results.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tutti.engine.model import MOST_MEMBERS, NEVER, Coupling, Gang, Resizing, Role

from .finish import of_gang
from .kube import read
from .kube.declared import Declared
from .kube.gang import Facts, Ground, Kin, Translated, expected, translate
from .kube.objects import Meta, Owner, Pod, PodSpec, Thing
from .kube.quantity import BadQuantity, amount
from .kube.wants import wants
from .owners import OWNERS, Batch, Kind, Owned, Source, declaration
from .problems import BadJob, Problem, nearest
from .spots import Spots, of_items
from .understood import Ignored, Understood
from .yaml_file import Document, load

MOST_DOCUMENTS = 2000
KUEUE = "kueue.x-k8s.io"
ROLE = "tutti.dev/role"
"""A label that names the role, for dialects that have no word for it."""
NO_JOB = {
    "ConfigMap", "Secret", "Service", "ServiceAccount", "Namespace", "PersistentVolumeClaim", "PersistentVolume",
    "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "PriorityClass", "Queue", "LocalQueue",
    "ClusterQueue", "ResourceFlavor", "Topology", "CustomResourceDefinition", "ResourceClaimTemplate", "ResourceClaim",
    "TrainingRuntime", "ClusterTrainingRuntime", "HyperNode", "WorkloadPriorityClass",
}  # fmt: skip
SAYS = {"native": "a Kubernetes PodGroup", "pod": "a pod by itself"}
Commands = dict[str, tuple[str, ...]]
KINDS = {kind for _, kind in OWNERS} | {"Pod", "PodGroup", "Workload", "CompositePodGroup"}


def understand_manifest(text: str, source: str, options: Mapping[str, Any] | None = None) -> Understood:
    """The first gang of the manifest, with the others beside it. Raises BadJob with everything that is wrong."""
    first, *others = gangs(text, source)
    if options:
        ignored = tuple(
            Ignored(f"--{key.replace('_', '-')} {value}", "a manifest says it itself") for key, value in options.items()
        )
        first = msgspec.structs.replace(first, ignored=(*ignored, *first.ignored))
    return msgspec.structs.replace(first, others=tuple(others))


def _no_job(source: str) -> Problem:
    return Problem("there is no job in it", hint="a Pod, a group, a Job or one of its kin", file=source)


def gangs(text: str, source: str) -> Iterator[Understood]:
    """Every gang of a manifest."""
    reading = _Manifest(source)
    for document in load(text, source):
        reading.take(document)
    yield from reading.gangs()


class _Group:
    """A gang being put together: what was declared, and the pods that are there."""

    def __init__(self) -> None:
        self.declared: Declared | None = None
        self.present: dict[Kin, int] = {}
        self.owned: Owned | None = None
        self.batches: dict[str, Batch] = {}
        self.commands: dict[str, tuple[str, ...]] = {}
        """What the first container of each part runs; '' stands for every part."""
        self.line = 0
        self.places: dict[str, int] = {}
        """The line of each field that is said."""
        self.what = ""
        self.refused = ""
        """What a pod asks for, beside its spec, that cannot be had."""
        self.asides: list[read.Aside] = []

    def hear(self, pod: Pod) -> None:
        """What a pod says beside its spec."""
        self.refused = self.refused or read.refused(pod)
        self.asides.append(read.aside(pod))

    def facts(self) -> Facts:
        """The same, of all pods."""
        whose = next((said for said in self.asides if said.user), read.NO_ASIDE)
        return Facts(
            refused=self.refused,
            named=whose.user,
            groups=whose.groups,
            application=next((said.application for said in self.asides if said.application), ""),
            lasting=any(said.lasting for said in self.asides),
            polite=any(said.polite for said in self.asides),
            min_run=max((said.min_run for said in self.asides), default=0),
            max_wait=max((said.max_wait for said in self.asides), default=0),
            problems=tuple(dict.fromkeys(problem for said in self.asides for problem in said.problems)),
        )


class _Manifest:
    """One file being read."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.groups: dict[tuple[str, str, str], _Group] = {}
        self.ignored: list[Ignored] = []
        self.notes: list[str] = []
        self.problems: list[Problem] = []
        self.strange: list[Problem] = []
        """Objects of kinds nobody knows: a mistake where there is nothing else."""
        self.priorities: dict[str, int] = {}
        self.local_queues: dict[str, str] = {}
        self.count = 0
        self.spots: Spots | None = None
        """The object that is being read."""

    def take(self, document: Document) -> None:
        """One document, or the items of a list."""
        value = document.value
        if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
            inside = of_items(document)
            for at, item in enumerate(value["items"][: MOST_DOCUMENTS + 1]):
                self.spots = Spots(document, inside.get(at, []))
                self._object(item, document.line("items", at))
        else:
            self.spots = Spots(document)
            self._object(value, document.line())

    def _object(self, value: object, line: int) -> None:
        self.count += 1
        if self.count > MOST_DOCUMENTS:
            raise BadJob([Problem(f"more than {MOST_DOCUMENTS} objects", file=self.source, line=line)], self.source)
        if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
            self._problem("it is no object of Kubernetes: it has no kind", line)
            return
        api, kind = str(value.get("apiVersion") or ""), str(value["kind"])
        group, _, version = api.rpartition("/")
        try:
            self._known(value, group, version or api, kind, line)
        except msgspec.ValidationError as wrong:
            self._problem(f"{kind}: {wrong}", line)

    def _known(self, value: dict[str, Any], group: str, version: str, kind: str, line: int) -> None:
        if (group, kind) in OWNERS:
            self._owner(value, OWNERS[(group, kind)], version, line)
        elif kind == "Pod" and not group:
            pod = _pod(value)
            for problem in _quantities(pod.spec):
                self._problem(f"Pod {pod.metadata.name}: {problem}", line)
            self._pods(pod, 1, "", line, commands=Source(value).commands())
        elif kind == "PriorityClass" and isinstance(value.get("value"), int):
            self.priorities[str((value.get("metadata") or {}).get("name"))] = value["value"]
        elif (group, kind) == (KUEUE, "LocalQueue"):
            source = Source(value)
            self.local_queues[f"{source.namespace}/{source.name}"] = str(source.spec.get("clusterQueue") or source.name)
        elif group in read.BY_GROUP:
            self._declared(value, kind, line)
        elif kind in NO_JOB:
            self.ignored.append(Ignored(f"{kind} (line {line})", "it is no job"))
        else:
            hint = nearest(kind, KINDS, "see the page on what is read")
            self.strange.append(Problem(f"{kind} of {group or 'v1'} is not known here", "", hint, self.source, line))
            self.ignored.append(
                Ignored(f"{group}/{version} {kind} (line {line})", f"this kind is not known here; {hint}")
            )

    def _declared(self, value: dict[str, Any], kind: str, line: int) -> None:
        thing = msgspec.convert(_bare(value), Thing, strict=False)
        thing.metadata.namespace = thing.metadata.namespace or "default"
        found = read.declared(thing)
        if not found:
            self.ignored.append(Ignored(f"{value.get('apiVersion')} {kind} (line {line})", "it declares no gang"))
        for declared in found:
            group = self._group(declared.dialect, declared.namespace, declared.name, line)
            group.declared, group.what = declared, f"a group of {declared.dialect}"

    def _pods(
        self, pod: Pod, count: int, part: str, line: int, batch: Batch | None = None, commands: Commands | None = None
    ) -> bool:
        """So many pods alike; whether they belong to a group that they name themselves."""
        said, others = read.member(pod)
        if said.dialect == read.OURS and batch is not None:
            return False
        for other in others:
            self.notes.append(f"the pod at line {line} speaks {other} as well; {said.dialect} goes first")
        group = self._group(said.dialect, pod.metadata.namespace, said.group, line)
        group.what = group.what or SAYS.get(said.dialect, f"pods of {said.dialect}")
        if group.declared is None:
            group.declared = read.from_pod(pod, said)
        group.hear(pod)
        asked = wants(pod.metadata.namespace, read.placed(pod), {})
        kin = Kin(said.part or (pod.metadata.labels or {}).get(ROLE) or part, asked, ())
        group.present[kin] = min(group.present.get(kin, 0) + count, MOST_MEMBERS)
        found = commands or {}
        group.commands[kin.part or "member"] = found.get(part) or next(iter(found.values()), ())
        return True

    def _owner(self, value: dict[str, Any], kind: Kind, version: str, line: int) -> None:
        if version not in kind.versions:
            known = " and ".join(kind.versions)
            self.notes.append(f"{value['kind']} {version} (line {line}) is not known here; read as {known}")
        source = Source(value)
        owned = kind.read(source)
        for problem in (*owned.problems, *dict.fromkeys(p for b in owned.batches for p in _quantities(b.pod.spec))):
            self._problem(f"{value['kind']} {source.name}: {problem}", line)
        if not owned.batches:
            self._problem(f"{value['kind']} {source.name} makes no pods", line)
            return
        commands = source.commands()
        for batch in owned.batches:
            batch.pod.metadata.owner_references = [Owner(value["kind"], source.name, controller=True)]
        named = [self._pods(batch.pod, batch.want, batch.part, line, batch, commands) for batch in owned.batches]
        if any(named):
            return
        group = self._group(value["kind"], source.namespace, source.name, line)
        group.declared, group.owned, group.what = declaration(source, owned), owned, kind.says
        for batch in owned.batches:
            group.hear(batch.pod)
            kin = Kin(batch.part, wants(source.namespace, read.placed(batch.pod), {}), ())
            group.present[kin] = min(group.present.get(kin, 0) + batch.want, MOST_MEMBERS)
            group.batches[batch.part] = batch
            group.commands[batch.part] = commands.get(batch.part) or next(iter(commands.values()), ())

    def _group(self, dialect: str, namespace: str, name: str, line: int) -> _Group:
        group = self.groups.setdefault((dialect, namespace, name), _Group())
        group.line = group.line or line
        group.places = (self.spots.fields() if self.spots is not None else {}) | group.places
        return group

    def _problem(self, what: str, line: int) -> None:
        exact, text = self.spots.wrong(what) if self.spots is not None else (0, "")
        self.problems.append(Problem(what, text, file=self.source, line=exact or line))

    def gangs(self) -> Iterator[Understood]:
        """What was put together; all problems at once if there are any."""
        self.spots = None
        translated = []
        for (dialect, _, name), group in self.groups.items():
            if group.declared is None:
                what = f"pods name the group {name!r} of {dialect}, which is not in this file"
                self._problem(what, group.line)
                continue
            translated.append((group, self._translate(group, group.declared)))
        if self.problems or not translated:
            raise BadJob(self.problems or self.strange or [_no_job(self.source)], self.source)
        for at, (group, result) in enumerate(translated):
            yield self._understood(group, result, first=at == 0)

    def _translate(self, group: _Group, declared: Declared) -> Translated:
        present = dict(group.present)
        if not present and (kin := expected(declared)):
            present = {kin: declared.min}
        # A queue of Kueue that is not in the file goes by the name that the namespace calls it.
        queue = declared.local_queue
        known = ({queue: queue.rpartition("/")[2]} if queue else {}) | self.local_queues
        ground = Ground(priorities=self.priorities, local_queues=known)
        result = translate(declared, present, ground, group.facts())
        self.notes += [f"{declared.name}: {note}" for note in result.notes]
        if declared.sorting is not None:
            self.notes.append(f"{declared.name}: its sub-groups by labels are formed in the cluster, not here")
        for problem in result.problems:
            if not group.owned or problem not in group.owned.problems:
                self._problem(f"{declared.name}: {problem}", group.line)
        return result

    def _understood(self, group: _Group, result: Translated, first: bool) -> Understood:
        gang = _with_bounds(result.gang, group.batches, group.owned)
        notes = [*(self.notes if first else []), *(group.owned.notes if group.owned else ())]
        if gang.unsupported:
            notes.append(f"it would be refused: {gang.unsupported}")
        if result.awaiting > 0 and not group.present:
            notes.append("its pods are not in this file")
        said = {
            "queue": gang.queue != "default",
            "priority": gang.priority,
            "topology": gang.within
            or gang.near
            or any(role.within or role.near or role.segment for role in gang.roles),
            "time": gang.estimate.limit < NEVER,
        }
        fields = ["name", "roles", "workers", "gpus", *(field for field, is_said in said.items() if is_said)]
        sources = {field: f"{self.source}:{group.places.get(field, group.line)}" for field in fields}
        return of_gang(
            gang,
            group.what,
            framework=group.owned.framework if group.owned else "",
            sources={name: sources[name] for name in sorted(sources)},
            ignored=tuple(self.ignored) if first else (),
            warnings=tuple(dict.fromkeys(notes)),
            commands=_of_roles(gang, group.commands),
            copies=group.owned.copies if group.owned else 1,
        )


def _of_roles(gang: Gang, said: Commands) -> Commands:
    """Commands by role; roles of one part that are not alike are numbered, and run the same."""
    found = {role.name: said.get(role.name) or said.get(role.name.rpartition("-")[0]) or () for role in gang.roles}
    return {name: words for name, words in found.items() if words}


def _with_bounds(gang: Gang, batches: dict[str, Batch], owned: Owned | None) -> Gang:
    """What an owner knows beyond its pods: how many there may be at most, and which of them are loose."""
    if owned is None:
        return gang
    roles = tuple(_bounded(role, batches[role.name]) if role.name in batches else role for role in gang.roles)
    resizing = Resizing.RESTART if owned.elastic else gang.resizing
    return msgspec.structs.replace(gang, roles=roles, resizing=resizing)


def _bounded(role: Role, batch: Batch) -> Role:
    changes: dict[str, Any] = {"max": max(batch.most, role.want)}
    if batch.loose:
        changes |= {"coupling": Coupling.LOOSE, "min": batch.least, "segment": None}
    return msgspec.structs.replace(role, **changes)


def _quantities(spec: PodSpec) -> Iterator[str]:
    """Every amount that is none."""
    for container in (*spec.containers, *(spec.init_containers or ())):
        asked = container.resources
        for name, written in (*(asked.requests or {}).items(), *(asked.limits or {}).items()) if asked else ():
            try:
                amount(name, written)
            except BadQuantity:
                yield f"{name} is {written!r}; write a quantity such as 500m, 2 or 16Gi"


def _pod(value: dict[str, Any]) -> Pod:
    metadata = value.get("metadata") or {}
    meta = msgspec.convert(
        {k: v for k, v in metadata.items() if k in {"name", "namespace", "labels", "annotations"}}, Meta, strict=False
    )
    spec = msgspec.convert(value.get("spec") or {}, PodSpec, strict=False)
    meta.namespace, meta.name = meta.namespace or "default", meta.name or "pod"
    return Pod(metadata=meta, spec=spec)


def _bare(value: dict[str, Any]) -> dict[str, Any]:
    """Without what a live object carries and a file need not."""
    metadata = value.get("metadata") or {}
    kept = {"name", "namespace", "labels", "annotations", "uid"}
    slim = {k: v for k, v in metadata.items() if k in kept} if isinstance(metadata, dict) else metadata
    return {
        "apiVersion": value.get("apiVersion"),
        "kind": value.get("kind"),
        "metadata": slim,
        "spec": value.get("spec"),
    }
