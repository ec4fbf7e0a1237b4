"""Kubernetes' own groups: 1.35, 1.36 and 1.37."""

from .row import honoured, known, refused

GANG = {"gang": {"minCount": 3}}
GROUP, TREE = "PodGroup", "CompositePodGroup"
SCHEDULER = "the scheduler's own settings and figures; this one has others"
SAYS = "says what it was made of"
BESIDE_TREE = "spec.schedulingPolicy.gang.minGroupCount"
ROWS = (
    honoured("Workload", "spec.podGroups[].policy.gang.minCount", 3, "so many start together (1.35)"),
    honoured("Workload", "spec.podGroups[].policy.basic", {}, "its pods start one by one (1.35)"),
    known("Workload", "spec.podGroups[].name", "how pods name the group (1.35)"),
    known("Workload", "spec.controllerRef", "says who made it: apiGroup, kind, name", {"kind": "Job"}),
    known("Workload", "spec.podGroupTemplates[]", "from 1.36 on the groups made of it count"),
    known("Workload", "spec.compositePodGroupTemplates[]", "the groups made of it count"),
    honoured("Pod", "spec.workloadRef.podGroupReplicaKey", "r1", "each replica is a gang of its own (1.35)"),
    honoured("Pod", "spec.workloadRef.name", "other", "the Workload it belongs to (1.35)"),
    honoured("Pod", "spec.workloadRef.podGroup", "other", "the group of it (1.35)"),
    honoured("Pod", "spec.schedulingGroup.podGroupName", "other", "the group it belongs to"),
    honoured(GROUP, "spec.schedulingPolicy.gang.minCount", 3, "so many start together; it may be changed at any time"),
    honoured(GROUP, "spec.schedulingPolicy.basic", {}, "its pods start one by one"),
    honoured(GROUP, "spec.parentCompositePodGroupName", "tree", "it starts with the others of the tree"),
    *(
        known(GROUP, f"spec.podGroupTemplateRef.workload.{field}", "says what it was made of (1.36)", "w")
        for field in ("workloadName", "podGroupTemplateName")
    ),
    *(
        known(on, f"spec.workloadRef.{field}", SAYS, "w")
        for on in (GROUP, TREE)
        for field in ("workloadName", "templateName")
    ),
    honoured(GROUP, "spec.schedulingConstraints.topology[].key", "rack", "all members in one domain of this label"),
    refused(
        GROUP,
        "spec.schedulingConstraints.topology",
        [{"key": "rack"}, {"key": "zone"}],
        "several entries: the API allows one",
        by_code=True,
    ),
    honoured(GROUP, "spec.disruptionMode", {"all": {}}, "`all` (1.36: `PodGroup`): members above the minimum stay too"),
    honoured(GROUP, "spec.priorityClassName", "high", "its priority, whatever its pods have"),
    honoured(GROUP, "spec.priority", 7, "its priority, whatever its pods have"),
    honoured(GROUP, "spec.preemptionPolicy", "Never", "`Never`: nobody is asked to make room for it"),
    known(GROUP, "spec.preemptionPolicy", "so it is", "PreemptLowerPriority"),
    refused(
        GROUP,
        "spec.resourceClaims[]",
        [{"name": "c", "resourceClaimName": "c"}],
        "device claims need kube-scheduler: resourceClaimName, resourceClaimTemplateName",
        by_code=True,
    ),
    known(GROUP, "status.resourceClaimStatuses[]", "no claims are made here", [{"name": "c"}]),
    honoured(
        GROUP,
        "status.conditions[]",
        [{"type": "PodGroupInitiallyScheduled", "status": "True"}],
        "PodGroupInitiallyScheduled (1.36: PodGroupScheduled) is written, with `Scheduled` or `Unschedulable` (for"
        " `SchedulerError` and `Invalid` too); once True it stays, for a new leader too",
    ),
    known(
        GROUP,
        "status.conditions[].type: DisruptionTarget",
        "kube-scheduler's word for its victims (`PreemptionByScheduler`); ours get the event Preempted",
        [{"type": "DisruptionTarget", "status": "True"}],
    ),
    known(GROUP, "metadata.finalizers[]", "scheduling.k8s.io/podgroup-protection is the API server's"),
    honoured(TREE, BESIDE_TREE, 2, "so many groups start together, the others follow whole"),
    honoured(TREE, "spec.schedulingPolicy.basic", {}, "its groups start one by one"),
    honoured(TREE, "spec.schedulingConstraints.topology[].key", "rack", "the whole tree in one domain of this label"),
    honoured(TREE, "spec.parentCompositePodGroupName", "above", "a tree inside another"),
    honoured(TREE, "spec.disruptionMode", {"all": {}}, "as of a group"),
    honoured(TREE, "spec.priorityClassName", "high", "as of a group"),
    honoured(TREE, "spec.priority", 7, "as of a group"),
    honoured(TREE, "spec.preemptionPolicy", "Never", "as of a group"),
    known(TREE, "status.conditions[]", "CompositePodGroupInitiallyScheduled is written"),
    known("Job", "spec.scheduling", "the Job controller makes a PodGroup of it, and that is read"),
    known("events", "FailedScheduling, Scheduled, Preempted", "told in the same words, of groups and pods"),
    known("metrics", "scheduler_podgroup_*, scheduler_generated_placements_total, scheduler_placement_*", SCHEDULER),
    known(
        "feature gates",
        "GenericWorkload, GangScheduling, WorkloadAwarePreemption, TopologyAwareWorkloadScheduling,"
        " DRAWorkloadResourceClaims, CompositePodGroup, PodGroupPreemptionPolicy, WorkloadWithJob",
        "the API server's, as is `--runtime-config`; what it serves is read",
    ),
)
