"""Kubernetes' own groups: 1.35, 1.36 and 1.37."""

from .row import honoured, known, refused

GANG = {"gang": {"minCount": 3}}
GROUP, TREE = "PodGroup", "CompositePodGroup"
SCHEDULER = "the scheduler's own settings and figures; this one has others"
BESIDE_TREE = "spec.schedulingPolicy.gang.minGroupCount"
ROWS = (
    honoured("Workload", "spec.podGroups[].policy.gang.minCount", 3, "so many start together (1.35)"),
    honoured("Workload", "spec.podGroups[].policy.basic", {}, "its pods start one by one (1.35)"),
    known("Workload", "spec.podGroups[].name", "how pods name the group (1.35)"),
    known("Workload", "spec.controllerRef", "says who made it", {"kind": "Job", "name": "j"}),
    known("Workload", "spec.podGroupTemplates[]", "from 1.36 on the groups made of it count"),
    known("Workload", "spec.compositePodGroupTemplates[]", "the groups made of it count"),
    honoured("Pod", "spec.workloadRef.podGroupReplicaKey", "r1", "each replica is a gang of its own (1.35)"),
    honoured("Pod", "spec.workloadRef.name", "other", "the Workload it belongs to (1.35)"),
    honoured("Pod", "spec.workloadRef.podGroup", "other", "the group of it (1.35)"),
    honoured("Pod", "spec.schedulingGroup.podGroupName", "other", "the group it belongs to"),
    honoured(GROUP, "spec.schedulingPolicy.gang.minCount", 3, "so many start together; it may be changed at any time"),
    honoured(GROUP, "spec.schedulingPolicy.basic", {}, "its pods start one by one"),
    honoured(GROUP, "spec.parentCompositePodGroupName", "tree", "it starts with the others of the tree"),
    known(GROUP, "spec.podGroupTemplateRef", "says what it was made of (1.36)", {"workload": {"workloadName": "w"}}),
    known(GROUP, "spec.workloadRef", "says what it was made of", {"workloadName": "w", "templateName": "t"}),
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
    refused(
        GROUP,
        "spec.resourceClaims[]",
        [{"name": "c", "resourceClaimName": "c"}],
        "device claims need kube-scheduler",
        by_code=True,
    ),
    known(GROUP, "status.resourceClaimStatuses[]", "no claims are made here", [{"name": "c"}]),
    honoured(
        GROUP,
        "status.conditions[]",
        [{"type": "PodGroupInitiallyScheduled", "status": "True"}],
        "PodGroupInitiallyScheduled (1.36: PodGroupScheduled) is written; once True it stays, for a new leader too",
    ),
    known(
        GROUP,
        "status.conditions[].type: DisruptionTarget",
        "kube-scheduler's word for its victims; ours get the event Preempted",
        [{"type": "DisruptionTarget", "status": "True"}],
    ),
    known(GROUP, "metadata.finalizers[]", "scheduling.k8s.io/podgroup-protection is the API server's"),
    honoured(TREE, BESIDE_TREE, 2, "so many groups start together, the others follow whole"),
    honoured(TREE, "spec.schedulingPolicy.basic", {}, "its groups start one by one"),
    honoured(TREE, "spec.schedulingConstraints.topology[].key", "rack", "the whole tree in one domain of this label"),
    honoured(TREE, "spec.parentCompositePodGroupName", "above", "a tree inside another"),
    known(TREE, "spec.workloadRef", "says what it was made of", {"workloadName": "w", "templateName": "t"}),
    honoured(TREE, "spec.disruptionMode", {"all": {}}, "as of a group"),
    honoured(TREE, "spec.priorityClassName", "high", "as of a group"),
    honoured(TREE, "spec.priority", 7, "as of a group"),
    honoured(TREE, "spec.preemptionPolicy", "Never", "as of a group"),
    known(TREE, "status.conditions[]", "CompositePodGroupInitiallyScheduled is written"),
    known("Job", "spec.scheduling", "the Job controller makes a PodGroup of it, and that is read"),
    known("events", "FailedScheduling, Scheduled, Preempted", "told in the same words, of groups and pods"),
    known("metrics", "scheduler_podgroup_*", SCHEDULER),
    known("gates", "GenericWorkload, GangScheduling, WorkloadWithJob ...", "the API server's; what it serves is read"),
)
