"""What a pod wants of its node and its neighbours. Pods that want the same are members of one role."""

from collections.abc import Iterable, Mapping
from hashlib import blake2s
from typing import NamedTuple

import msgspec

from .objects import Claim, LabelSelector, NodeTerm, Pod, PodSpec, PodTerm, Port, Spread, Toleration, Volume
from .quantity import BadQuantity
from .resources import Amounts, ask
from .select import required_nodes, term_matches, terms_match

HOSTNAME = "kubernetes.io/hostname"


class NodeRule(NamedTuple):
    """Which nodes will do: labels, terms of which one must hold, and terms of bound volumes."""

    tag: str
    labels: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] | None = None
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()

    def allows(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node will do."""
        return self.asks_for(name, labels) and all(terms_match(terms, name, labels) for terms in self.volumes)

    def asks_for(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is one the pod itself asks for, wherever its volumes are."""
        if any(labels.get(key) != value for key, value in self.labels):
            return False
        return self.terms is None or terms_match(self.terms, name, labels)


class Preference(NamedTuple):
    """Which nodes would be nice: every term that is preferred."""

    tag: str
    terms: tuple[NodeTerm, ...]

    def allows(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is as liked."""
        return all(term_matches(term, name, labels) for term in self.terms)


class Company(NamedTuple):
    """Pods meant by a selector: in which namespaces (none means all), with which labels."""

    mark: str
    namespaces: frozenset[str]
    selector: LabelSelector | None


class Beside(NamedTuple):
    """Pods to be near or not to be near, and how near counts: a label of nodes."""

    company: Company
    key: str


class Evenly(NamedTuple):
    """A spread that must hold."""

    company: Company
    key: str
    max_skew: int
    min_domains: int
    rule: Spread


class Wants(msgspec.Struct, eq=False):
    """Everything about a pod that bears on where it can go. Equal wants have equal keys."""

    key: str
    ask: Amounts
    nodes: NodeRule | None
    liked: Preference | None
    tolerations: tuple[Toleration, ...]
    ports: tuple[str, ...]
    near: tuple[Beside, ...]
    apart: tuple[Beside, ...]
    spread: tuple[Evenly, ...]
    claims: tuple[str, ...]
    unsupported: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wants) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class Relevant(msgspec.Struct, omit_defaults=True):
    """The part of a spec that pods of one role have in common."""

    namespace: str
    spec: PodSpec
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()


DECLARES = "the declared feature "
"""Begins what stands among a node's labels for each thing its kubelet says it can do."""
RESTARTS, MAPPED = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
ENCODER = msgspec.json.Encoder()
_VOLUME_FIELDS = {field.name: field.encode_name for field in msgspec.structs.fields(Volume)}
HARMLESS = frozenset(["name", "persistent_volume_claim", "csi"])
"""Fields of a volume that keep no pod off a node; claims are looked at by themselves."""
TAKEN_OVER = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
}
"""Kinds of disks that were once a part of Kubernetes, and the drivers as whose volumes they count today."""
_DRIVERS = [(name, TAKEN_OVER[kind]) for name, kind in _VOLUME_FIELDS.items() if kind in TAKEN_OVER]
ATTACHED = "volumes of "
"""Begins the name of the resource that a driver's volumes are: a node can attach so many."""


class Reach(NamedTuple):
    """Where a bound volume can be used: from these nodes, as one of the volumes of a driver."""

    terms: tuple[NodeTerm, ...] = ()
    driver: str = ""
    alone: bool = False
    """Only one pod of the whole cluster may use it."""
    old: str = ""
    """The kind of disk it is, where a driver took over what was once a part of Kubernetes."""


Claims = Mapping[str, Reach | None]
"""Volume claims by namespace/name, and how their volume can be reached; None while they are not bound."""


def key_of(namespace: str, spec: PodSpec, claims: Claims) -> bytes:
    """Equal for pods that want the same. Fields that differ from pod to pod without mattering are left out."""
    bare = msgspec.structs.replace(
        spec,
        node_name="",
        scheduler_name="",
        priority=None,
        priority_class_name="",
        preemption_policy="",
        scheduling_gates=None,
        scheduling_group=None,
        workload_ref=None,
        active_deadline_seconds=None,
        volumes=[] if spec.volumes and not _plain(spec.volumes) else None,
    )
    volumes = tuple(claims.get(name) or () for name in claim_names(namespace, spec))
    extra = [_unsupported_volume(namespace, spec, claims), *_inline(spec)]
    return ENCODER.encode((namespace, bare, volumes, extra))


def wants(namespace: str, spec: PodSpec, claims: Claims) -> Wants:
    """Read a spec. A field that cannot be honoured is named in `unsupported`, never ignored."""
    key = digest(key_of(namespace, spec, claims))
    try:
        amounts, unsupported = ask(spec), ""
    except BadQuantity as problem:
        amounts, unsupported = {"pods": 1}, f"spec.containers.resources: {problem}"
    affinity = spec.affinity
    near = affinity.pod_affinity if affinity else None
    apart = affinity.pod_anti_affinity if affinity else None
    return Wants(
        key,
        amounts | _attached(namespace, spec, claims),
        _nodes(namespace, spec, claims),
        _liked(spec),
        tuple(spec.tolerations or ()),
        ports(spec),
        _beside(namespace, near.required_during_scheduling_ignored_during_execution if near else None),
        _beside(namespace, apart.required_during_scheduling_ignored_during_execution if apart else None),
        tuple(_evenly(namespace, rule) for rule in spec.topology_spread_constraints or () if _binds(rule)),
        claim_names(namespace, spec),
        unsupported or _unsupported(namespace, spec, claims),
    )


def digest(data: bytes) -> str:
    """A short name for a long description."""
    return blake2s(data, digest_size=8).hexdigest()


def _nodes(namespace: str, spec: PodSpec, claims: Claims) -> NodeRule | None:
    features = {f"{DECLARES}{feature}": "" for feature in _features(spec)}
    labels = tuple(sorted({**(spec.node_selector or {}), **features}.items()))
    required = required_nodes(spec.affinity)
    reached = [claims.get(name) for name in claim_names(namespace, spec)]
    volumes = tuple(reach.terms for reach in reached if reach is not None and reach.terms)
    if not labels and required is None and not volumes:
        return None
    said = [f"{key}={value}" for key, value in labels] + (["node affinity"] if required is not None else [])
    said += ["bound volumes"] if volumes else []
    name = digest(ENCODER.encode((labels, required, volumes)))
    return NodeRule(
        f"{', '.join(said)[:120]} ({name})", labels, tuple(required) if required is not None else None, volumes
    )


def _features(spec: PodSpec) -> list[str]:
    """What the kubelet must be able to do, as nodes declare it."""
    containers = [*spec.containers, *(spec.init_containers or [])]
    rules = [rule for container in containers for rule in container.restart_policy_rules or []]
    restarts = any(rule.get("action") == "RestartAllContainers" for rule in rules)
    mapped = spec.host_network and spec.host_users is False
    return [RESTARTS] * restarts + [MAPPED] * mapped


def _liked(spec: PodSpec) -> Preference | None:
    nodes = spec.affinity.node_affinity if spec.affinity else None
    entries = (nodes.preferred_during_scheduling_ignored_during_execution or []) if nodes else []
    terms = tuple(entry.preference for entry in entries if entry.weight > 0)
    return Preference(f"preferred nodes ({digest(ENCODER.encode(terms))})", terms) if terms else None


def ports(spec: PodSpec) -> tuple[str, ...]:
    """Ports of the host, as marks; two addresses of one port are taken to collide."""
    containers = [*spec.containers, *(c for c in spec.init_containers or [] if c.restart_policy == "Always")]
    held = (port for container in containers for port in container.ports or [] if port.host_port)
    return tuple(sorted({_port(port) for port in held}))


def _port(port: Port) -> str:
    return f"port {port.protocol or 'TCP'} {port.host_port}"


def company(namespace: str, selector: LabelSelector | None, term: PodTerm | None = None) -> Company:
    """The pods a selector means, seen from a namespace."""
    everywhere = term is not None and term.namespace_selector is not None
    names = frozenset() if everywhere else frozenset((term.namespaces if term else None) or [namespace])
    return Company(f"pods ({digest(ENCODER.encode((sorted(names), selector)))})", names, selector)


def _beside(namespace: str, terms: Iterable[PodTerm] | None) -> tuple[Beside, ...]:
    return tuple(Beside(company(namespace, term.label_selector, term), term.topology_key) for term in terms or ())


def _binds(rule: Spread) -> bool:
    return rule.when_unsatisfiable == "DoNotSchedule"


def _evenly(namespace: str, rule: Spread) -> Evenly:
    return Evenly(
        company(namespace, rule.label_selector), rule.topology_key, rule.max_skew, rule.min_domains or 1, rule
    )


# -- volumes


def claim_names(namespace: str, spec: PodSpec) -> tuple[str, ...]:
    """Volume claims the pod uses, as namespace/name."""
    named = (volume.persistent_volume_claim for volume in spec.volumes or [])
    return tuple(f"{namespace}/{claim.claim_name}" for claim in named if claim is not None)


def _attached(namespace: str, spec: PodSpec, claims: Claims) -> Amounts:
    """Volumes of each driver; one that two pods of a node share counts twice, which errs on the safe side."""
    found: Amounts = {}
    reached = (claims.get(name) for name in dict.fromkeys(claim_names(namespace, spec)))
    for driver in (*(reach.driver for reach in reached if reach is not None and reach.driver), *_inline(spec)):
        found[f"{ATTACHED}{driver}"] = found.get(f"{ATTACHED}{driver}", 0) + 1
    return found


def _inline(spec: PodSpec) -> list[str]:
    """The drivers of disks that are named in the pod itself."""
    if not spec.volumes:
        return []
    return [driver for volume in spec.volumes for name, driver in _DRIVERS if getattr(volume, name) is not None]


def claimed(pod: Pod) -> PodSpec:
    """The spec of a pod in which volumes that come and go with it are the claims that were made for them."""
    volumes = pod.spec.volumes or []
    if all(volume.ephemeral is None for volume in volumes):
        return pod.spec
    change = msgspec.structs.replace
    made = [
        volume
        if volume.ephemeral is None
        else change(volume, ephemeral=None, persistent_volume_claim=Claim(f"{pod.metadata.name}-{volume.name}"))
        for volume in volumes
    ]
    return change(pod.spec, volumes=made)


def _plain(volumes: Iterable[Volume]) -> bool:
    return all(volume.persistent_volume_claim is None for volume in volumes)


def _unsupported_volume(namespace: str, spec: PodSpec, claims: Claims) -> str:
    for volume in spec.volumes or []:
        for field, named in _VOLUME_FIELDS.items():
            if field not in HARMLESS and getattr(volume, field) is not None:
                return f"spec.volumes.{named}"
    for name in claim_names(namespace, spec):
        if name not in claims:
            return f"spec.volumes.persistentVolumeClaim {name}: it does not exist"
        reach = claims[name]
        if reach is None:
            return f"spec.volumes.persistentVolumeClaim {name}: it is not bound"
        if reach.alone:
            return f"spec.volumes.persistentVolumeClaim {name}: ReadWriteOncePod"
        if reach.old:
            return f"spec.volumes.persistentVolumeClaim {name}: its volume is of the kind {reach.old}"
    return ""


# -- what we do not do


def _unsupported(namespace: str, spec: PodSpec, claims: Claims) -> str:
    if spec.resource_claims:
        return "spec.resourceClaims"
    if any(c.resources and c.resources.claims for c in [*spec.containers, *(spec.init_containers or [])]):
        return "spec.containers.resources.claims"
    if any(toleration.operator in ("Gt", "Lt") for toleration in spec.tolerations or []):
        return "spec.tolerations.operator"
    return _unsupported_company(spec) or _unsupported_volume(namespace, spec, claims)


def _unsupported_company(spec: PodSpec) -> str:
    affinity = spec.affinity
    for name, side in (("podAffinity", "pod_affinity"), ("podAntiAffinity", "pod_anti_affinity")):
        terms = getattr(affinity, side, None)
        for term in (terms.required_during_scheduling_ignored_during_execution or []) if terms else []:
            chosen = term.namespace_selector
            if chosen is not None and (chosen.match_labels or chosen.match_expressions):
                return f"spec.affinity.{name}.namespaceSelector"
    for rule in spec.topology_spread_constraints or []:
        if _binds(rule) and (rule.node_affinity_policy == "Ignore" or rule.node_taints_policy == "Honor"):
            return "spec.topologySpreadConstraints.nodeAffinityPolicy/nodeTaintsPolicy"
    return ""


def unmerged(pod: Pod) -> str:
    """A label that the API server should have made a part of a selector and has not, because it is older than 1.34."""
    affinity, spread = pod.spec.affinity, pod.spec.topology_spread_constraints or []
    asked: list[tuple[str, PodTerm | Spread]] = [("topologySpreadConstraints", r) for r in spread if _binds(r)]
    for name, side in (("podAffinity", "pod_affinity"), ("podAntiAffinity", "pod_anti_affinity")):
        terms = getattr(affinity, side, None)
        found = (terms.required_during_scheduling_ignored_during_execution or []) if terms else []
        asked += [(f"affinity.{name}", term) for term in found]
    labels = pod.metadata.labels or {}
    for where, one in asked:
        selector = one.label_selector
        merged = {said.key for said in (selector.match_expressions or [] if selector is not None else [])}
        if key := next((key for key in one.match_label_keys or [] if key in labels and key not in merged), ""):
            return f"spec.{where}.matchLabelKeys: {key}"
    return ""
