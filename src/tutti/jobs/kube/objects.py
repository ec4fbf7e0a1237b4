"""What is read of Kubernetes objects: only the fields that matter to a scheduler, so that decoding costs little."""

from typing import Any

import msgspec


class Narrow(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base: names as Kubernetes spells them; fields nobody asks for are skipped unread."""


class Owner(Narrow):
    """Who made the object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Meta(Narrow):
    """Of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


class Requirement(Narrow):
    """One condition on a label (or, of a node, on a field)."""

    key: str
    operator: str = "In"
    values: list[str] | None = None


class LabelSelector(Narrow):
    """Which labels an object must have."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class NodeTerm(Narrow):
    """Conditions that must all hold."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Narrow):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeTerm] = []


class PreferredNode(Narrow):
    """A term that would be nice to have."""

    weight: int = 1
    preference: NodeTerm = msgspec.field(default_factory=NodeTerm)


class NodeAffinity(Narrow):
    """Which nodes a pod must and would like to have."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNode] | None = None


class PodTerm(Narrow):
    """Pods to be near, or not to be near."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class PodAffinity(Narrow):
    """Required terms; preferred ones are not read."""

    required_during_scheduling_ignored_during_execution: list[PodTerm] | None = None


class Affinity(Narrow):
    """All three kinds."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Narrow):
    """A taint the pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Spread(Narrow):
    """How evenly pods must lie over domains."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Resources(Narrow):
    """What is asked for."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None
    claims: list[dict[str, str]] | None = None


class Port(Narrow):
    """A port of a container, and of the host where there is one."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(Narrow):
    """What a container asks for."""

    resources: Resources | None = None
    ports: list[Port] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[dict[str, Any]] | None = None


class Gate(Narrow):
    """Somebody wants the pod not to be looked at yet."""

    name: str = ""


class GroupRef(Narrow):
    """The native way to say which group a pod belongs to, from 1.36 on."""

    pod_group_name: str = ""


class WorkloadRef(Narrow):
    """The same in 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class Claim(Narrow):
    """A volume that has to be there first."""

    claim_name: str = ""


class Volume(Narrow):
    """A volume; only those that bind a pod to nodes are read."""

    name: str = ""
    persistent_volume_claim: Claim | None = None
    ephemeral: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = msgspec.field(default=None, name="gcePersistentDisk")
    aws_elastic_block_store: dict[str, Any] | None = msgspec.field(default=None, name="awsElasticBlockStore")
    azure_disk: dict[str, Any] | None = msgspec.field(default=None, name="azureDisk")
    cinder: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = msgspec.field(default=None, name="portworxVolume")
    iscsi: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None
    csi: dict[str, Any] | None = None


class PodSpec(Narrow):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[Spread] | None = None
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int | float] | None = None
    resources: Resources | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    scheduling_gates: list[Gate] | None = None
    scheduling_group: GroupRef | None = None
    workload_ref: WorkloadRef | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    host_users: bool | None = None


class Condition(Narrow):
    """One line of a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Narrow):
    """How a pod is."""

    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    conditions: list[Condition] | None = None


class Pod(Narrow):
    """A pod."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Taint(Narrow):
    """What keeps pods off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Narrow):
    """What somebody says of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(Narrow):
    """What the node says of itself."""

    allocatable: dict[str, str] | None = None
    declared_features: list[str] | None = None
    conditions: list[Condition] | None = None


class Node(Narrow):
    """A node."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Thing(Narrow):
    """Any other object: groups, queues and topologies of the dialects."""

    api_version: str = ""
    kind: str = ""
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""
