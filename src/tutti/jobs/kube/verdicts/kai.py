"""KAI."""

from .row import honoured, known, refused

GROUP, POD, PREFIX = "PodGroup", "Pod", "kai.scheduler/"
WRITTEN = "written by KAI's scheduler"
SUBS = ("spec.subGroups", [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}])
OWNED = (("owner", "j"),)
BATCH = (*OWNED, (f"annotation {PREFIX}batch-min-member", "2"))
SEGMENTS = (
    *BATCH,
    (f"annotation {PREFIX}segment-size", "2"),
    (f"annotation {PREFIX}segment-topology-required-placement", "rack"),
)
HIGH = (("spec.priorityClassName", "high"),)
PODGROUPER = "as KAI's podgrouper would read it: of all pods of one owner"
FRACTION = "devices are not shared"
ROWS = (
    honoured(GROUP, "spec.minMember", 3, "so many start together"),
    honoured(GROUP, "spec.queue", "team", "the queue it waits in"),
    honoured(GROUP, "spec.priorityClassName", "high", "its priority"),
    honoured(GROUP, "spec.preemptibility", "preemptible", "others may take its place, whatever its priority", HIGH),
    honoured(
        GROUP, "spec.preemptibility", "non-preemptible", "nobody takes its place; not said: below priority 100 one may"
    ),
    honoured(GROUP, "spec.topologyConstraint.requiredTopologyLevel", "rack", "all members in one domain"),
    honoured(GROUP, "spec.topologyConstraint.preferredTopologyLevel", "rack", "the same, if there is room"),
    known(GROUP, "spec.topologyConstraint.topology", "a level is a label of nodes, whichever topology has it", "t"),
    honoured(GROUP, "spec.subGroups[].minMember", 2, "so many of the sub-group", (SUBS,)),
    honoured(GROUP, "spec.subGroups[].name", "c", "how pods name it", (SUBS,)),
    honoured(GROUP, "spec.subGroups[].parent", "b", "the sub-group it is below; only leaves have pods", (SUBS,)),
    honoured(
        GROUP,
        "spec.subGroups[].topologyConstraint",
        {"requiredTopologyLevel": "rack"},
        "the sub-group in one domain",
        (SUBS,),
    ),
    refused(
        GROUP, "spec.minSubGroup", 1, "fewer than there are: such a group starts whole", by_code=True, beside=(SUBS,)
    ),
    honoured(GROUP, "spec.preemptionDelay", "2h", "it waits so long before others are asked to make room"),
    honoured(
        GROUP, "spec.stalenessGracePeriod", "5m", "how long seats are kept while members are missing; below 0: for ever"
    ),
    known(GROUP, "spec.markUnschedulable", "pods are always told why they wait", True),
    known(GROUP, "spec.schedulingBackoff", "a gang that waits is looked at when something changes", 1),
    honoured(GROUP, f"label {PREFIX}preemptibility", "non-preemptible", "as the field"),
    honoured(GROUP, f"label {PREFIX}queue", "team", "the queue, where the field names none"),
    refused(GROUP, f"label {PREFIX}node-pool", "p1", "where its pods do not have the same label", by_code=True),
    known(
        GROUP,
        "status.schedulingConditions[]",
        "UnschedulableOnNodePool is written, with its nodePool and reasons[] of OverLimit, QueueDoesNotExist or"
        " Unschedulable; never NonPreemptibleOverQuota or PreemptionDelayNotElapsed, nor details.queueDetails",
        [{"type": "x"}],
    ),
    *(
        known(GROUP, f"status.resourcesStatus.{field}", WRITTEN, {})
        for field in ("allocated", "allocatedNonPreemptible", "requested")
    ),
    *(
        known(GROUP, f"annotation {PREFIX}{key}", WRITTEN, "2026-01-01T00:00:00Z")
        for key in ("stale-podgroup-timestamp", "last-start-timestamp", "last-eviction-timestamp")
    ),
    honoured(POD, "annotation pod-group-name", "other", "the group it belongs to"),
    honoured(POD, f"label {PREFIX}subgroup-name", "b", "the sub-group it is of"),
    honoured(POD, f"label {PREFIX}queue", "team", "the queue it waits in, where its group names none"),
    honoured(POD, "label project", "team", "the same, older"),
    honoured(POD, f"label {PREFIX}node-pool", "p1", "only nodes with the same label"),
    honoured(POD, f"label {PREFIX}preemptibility", "non-preemptible", "nobody takes the place of its gang"),
    honoured(POD, "label priorityClassName", "high", f"the gang's priority, {PODGROUPER}", BATCH),
    honoured(POD, f"annotation {PREFIX}batch-min-member", "3", f"so many start together, {PODGROUPER}", OWNED),
    honoured(POD, f"annotation {PREFIX}topology-required-placement", "rack", f"one domain, {PODGROUPER}", BATCH),
    honoured(POD, f"annotation {PREFIX}topology-preferred-placement", "rack", f"if there is room, {PODGROUPER}", BATCH),
    known(POD, f"annotation {PREFIX}topology", "a level is a label of nodes, whichever topology has it", "t"),
    honoured(POD, f"annotation {PREFIX}segment-size", "3", f"so many in one domain each, {PODGROUPER}", SEGMENTS),
    honoured(
        POD,
        f"annotation {PREFIX}segment-topology-required-placement",
        "zone",
        f"the domains of segments, {PODGROUPER}",
        SEGMENTS,
    ),
    refused(
        POD, f"annotation {PREFIX}segment-topology-preferred-placement", "rack", "segments are exact or not at all"
    ),
    honoured(POD, f"annotation {PREFIX}preemption-delay", "2h", f"as preemptionDelay, {PODGROUPER}", BATCH),
    honoured(POD, f"annotation {PREFIX}staleness-grace-period", "5m", f"as the field, {PODGROUPER}", BATCH),
    honoured(POD, f"annotation {PREFIX}skip-podgrouper", "true", "no group is made of its owner", BATCH),
    known(POD, f"annotation {PREFIX}ignore-workload-api", "nobody reads it yet; a native group goes first", "true"),
    *(
        refused(POD, f"annotation {key}", "1", FRACTION)
        for key in ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
    ),
    honoured("Queue", "spec.parentQueue", "above", "the queue it is below"),
    honoured("Queue", "spec.resources.gpu.quota", 8, "what it is guaranteed; -1: nothing is said"),
    honoured("Queue", "spec.resources.gpu.limit", 8, "its limit; -1: none"),
    honoured("Queue", "spec.resources.gpu.overQuotaWeight", 5, "its weight: the largest of its resources"),
    honoured("Queue", "spec.resources.cpu.quota", 8000, "thousandths of a processor"),
    honoured("Queue", "spec.resources.memory.limit", 1000, "megabytes"),
    honoured("Queue", "spec.preemptMinRuntime", "2h", "its gangs run so long before others may take their place"),
    honoured("Queue", "spec.reclaimMinRuntime", "2h", "the same; the longer of both counts for both"),
    refused("Queue", "spec.priority", 50, "queues go by guarantee and share"),
    honoured("Topology", "spec.levels[].nodeLabel", "rack", "labels of nodes that are levels"),
    honoured(
        "Topology", "spec.levels[].alias", "r", "another name of the level", (("spec.levels", [{"nodeLabel": "rack"}]),)
    ),
    known(
        "SchedulingShard",
        "spec: placementStrategy, queueDepthPerAction, minRuntime, kValue, actions, plugins, scenarioSearchBudgets,"
        " usageDBConfig",
        "the settings of KAI's own scheduler",
    ),
    known("BindRequest", "spec", "how KAI's scheduler and binder talk; pods are bound directly"),
    known(
        "events",
        "Scheduled, Pipelined, Unschedulable, FailedBinding, Bound, NotReady, StaleJob",
        "ours have other names",
    ),
)
