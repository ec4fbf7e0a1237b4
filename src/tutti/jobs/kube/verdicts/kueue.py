"""Kueue, which admits; we place."""

from .row import honoured, known, refused

PREFIX, POD, QUEUE = "kueue.x-k8s.io/", "Pod", "ClusterQueue"
RECORD = "Kueue's own record; what counts is whether a pod has its gate"
ADMITS = "Kueue keeps to it before it takes its gate away"
OF_JOBS = "on jobs, and Kueue's business: it changes their pods"
SLICES = (
    (f"annotation {PREFIX}podset-slice-required-topology", "rack"),
    (f"annotation {PREFIX}podset-slice-size", "2"),
)
FLAVOR = ("spec.resourceGroups", [{"flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]}])
IN_FLAVOR = "spec.resourceGroups[].flavors[].resources[]."
ROWS = (
    honoured(POD, f"label {PREFIX}pod-group-name", "other", "the group it belongs to"),
    honoured(POD, f"annotation {PREFIX}pod-group-total-count", "3", "so many start together"),
    honoured(POD, f"label {PREFIX}queue-name", "team", "the LocalQueue, and so the ClusterQueue, it waits in"),
    honoured(POD, f"label {PREFIX}local-queue-name", "team", "the same, as Kueue writes it on pods of a Job it let in"),
    honoured(POD, f"label {PREFIX}max-exec-time-seconds", "3600", "how long it runs"),
    known(POD, f"label {PREFIX}priority-class", ADMITS + "; among pods, theirs counts", "high"),
    known(POD, f"annotation {PREFIX}pod-group-fast-admission", "a group starts when all are there", "true"),
    known(POD, f"annotation {PREFIX}pod-group-serving", "whether it ends is Kueue's business", "true"),
    known(
        POD, f"annotation {PREFIX}retriable-in-group", "whether a member is tried again is Kueue's business", "false"
    ),
    honoured(POD, f"annotation {PREFIX}role-hash", "abc", "the part of the group it is of"),
    honoured(POD, f"label {PREFIX}pod-group-pod-index", "7", "its rank"),
    honoured(
        POD,
        f"annotation {PREFIX}pod-group-pod-index-label",
        "mine",
        "the label that has its rank",
        (("label mine", "7"),),
    ),
    *(
        honoured(POD, f"gate {PREFIX}{gate}", "gate", "a gated pod is not there yet")
        for gate in ("admission", "topology", "elastic-job")
    ),
    honoured(POD, f"annotation {PREFIX}podset-required-topology", "rack", "the group in one domain of this label"),
    honoured(POD, f"annotation {PREFIX}podset-preferred-topology", "rack", "the same, if there is room"),
    known(POD, f"annotation {PREFIX}podset-unconstrained-topology", "anywhere: so it is", "true"),
    honoured(POD, SLICES[0][0], "zone", "slices in one domain each; with the size", SLICES[1:]),
    honoured(POD, SLICES[1][0], "3", "how many are in a slice; with the label", SLICES[:1]),
    refused(POD, SLICES[0][0], "rack", "without a size", by_code=True),
    refused(
        POD,
        f"annotation {PREFIX}podset-slice-required-topology-constraints",
        "[]",
        "slices inside slices are not known",
    ),
    known(POD, f"annotation {PREFIX}podset-group-name", "the whole group is in one domain as it is", "leader"),
    *(
        known(POD, f"annotation {PREFIX}{key}", OF_JOBS, "2")
        for key in (
            "job-min-parallelism",
            "job-completions-equal-parallelism",
            "elastic-job",
        )
    ),
    known(POD, f"annotation {PREFIX}workload-slice-name", "pods of a job that grows are placed one by one", "x"),
    honoured("Workload", f"annotation {PREFIX}workload-slice-replacement-for", "x", "such a Workload makes no gang"),
    honoured(POD, f"annotation {PREFIX}workload", "other", "the Workload as which Kueue let its job in: its gang"),
    honoured(POD, f"label {PREFIX}podset", "other", "which set of the Workload it is of: each starts together"),
    *(known(POD, f"label {PREFIX}{key}", RECORD, "x") for key in ("cluster-queue-name", "managed", "tas")),
    honoured("Workload", "spec.podSets[].count", 3, "so many of the set start together"),
    honoured("Workload", "spec.podSets[].name", "other", "how pods name the set"),
    known("Workload", "spec.podSets[].minCount", "what Kueue lets in counts, and it may be fewer", 1),
    known("Workload", "spec.podSets[].template", "the pods say what they ask for", {}),
    honoured("Workload", "spec.queueName", "team", "the LocalQueue, and so the ClusterQueue, it waits in"),
    honoured("Workload", "spec.maximumExecutionTimeSeconds", 3600, "how long it runs, where nobody says it better"),
    honoured(
        "Workload",
        "status.admission.podSetAssignments[]",
        [{"name": "main", "count": 1}],
        "`count`: so many of the set start together; `topologyAssignment` is on the pods",
    ),
    honoured("Workload", f"annotation {PREFIX}is-group-workload", "true", "the pods say how many they are"),
    *(
        known("Workload", f"spec.{field}", RECORD)
        for field in ("priorityClassRef", "priority", "active", "preemptionGates[]")
    ),
    known(
        "Workload",
        "spec.podSets[].topologyRequest: required, preferred, unconstrained, podIndexLabel, subGroupIndexLabel,"
        " subGroupCount, podSetGroupName, podSetSliceRequiredTopology, podSetSliceSize,"
        " podsetSliceRequiredTopologyConstraints[]",
        "Kueue puts a node selector on every pod it admits, and that counts",
    ),
    known(
        "Workload",
        "status.conditions[]: QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Requeued, Finished (it is over),"
        " DeactivationTarget, WaitingForReplacementPods, BlockedOnPreemptionGates",
        f"{RECORD}; nothing of it is written, their reasons neither",
    ),
    known(
        "Workload",
        "status: requeueState, reclaimablePods, unhealthyNodes, schedulingStats, accumulatedPastExecutionTimeSeconds",
        RECORD,
    ),
    honoured(QUEUE, f"{IN_FLAVOR}nominalQuota", "8", "what it is guaranteed, over all flavours", (FLAVOR,)),
    honoured(
        QUEUE,
        f"{IN_FLAVOR}borrowingLimit",
        "8",
        "the most it may have beyond that",
        (FLAVOR, ("spec.cohortName", "all")),
    ),
    known(QUEUE, f"{IN_FLAVOR}lendingLimit", ADMITS, "2", (FLAVOR,)),
    honoured(QUEUE, "spec.cohortName", "all", "the queue it is below"),
    honoured(QUEUE, "spec.queueingStrategy", "StrictFIFO", "`StrictFIFO`: nobody in it passes the first that waits"),
    known(QUEUE, "spec.queueingStrategy", "so it is", "BestEffortFIFO"),
    honoured(QUEUE, "spec.fairSharing.weight", "3", "its weight, as a whole number"),
    honoured(QUEUE, "spec.stopPolicy", "Hold", "`Hold`, `HoldAndDrain`: nothing starts in it"),
    *(
        known(QUEUE, f"spec.{field}", ADMITS, example)
        for field, example in (
            ("preemption.withinClusterQueue", "LowerPriority"),
            ("preemption.reclaimWithinCohort", "Any"),
            ("preemption.borrowWithinCohort", {"policy": "LowerPriority", "maxPriorityThreshold": 5}),
            ("flavorFungibility", {"whenCanBorrow": "TryNextFlavor"}),
            ("admissionScope", {"admissionMode": "UsageBasedAdmissionFairSharing"}),
            ("concurrentAdmissionPolicy", {}),
        )
    ),
    honoured("LocalQueue", "spec.clusterQueue", "other", "the queue that is meant by it"),
    honoured("Cohort", "spec.parentName", "above", "the cohort it is below"),
    honoured("Cohort", f"{IN_FLAVOR}nominalQuota", "8", "what is guaranteed to all of it", (FLAVOR,)),
    known("ResourceFlavor", "spec", "Kueue puts its labels and tolerations on the pods it admits"),
    honoured("Topology", "spec.levels[].nodeLabel", "rack", "labels of nodes that are levels"),
    known(
        "settings",
        "waitForPodsReady: timeout, blockAdmission, requeuingStrategy, recoveryTimeout",
        "Kueue's; a gang starts whole here in any case",
    ),
)
