"""Volcano, and kube-batch, which came before it."""

from .row import honoured, known, refused

GROUP, JOB = "PodGroup", "Job"
CONTROLLER = "Volcano's controller turns it into the PodGroup and its pods, which are read"
ACTS = "Volcano's controller does it; nothing of it is about nodes"
WRITTEN = "written on pods by Volcano's controller, for people"
TIER = {"mode": "hard", "highestTierAllowed": 1}
SUB = ("spec.subGroupPolicy", [{"name": "s", "subGroupSize": 2, "minSubGroups": 2, "networkTopology": TIER}])
ALL = ("spec.minMember", 4)
ROWS = (
    honoured(GROUP, "spec.minMember", 3, "so many start together"),
    honoured(GROUP, "spec.minTaskMember", {"t": 3}, "so many of each task, and nobody stands in for them"),
    honoured(GROUP, "spec.minResources", {"nvidia.com/gpu": "8"}, "stands for the pods while there are none"),
    honoured(GROUP, "spec.queue", "team", "the queue it waits in"),
    honoured(GROUP, "spec.priorityClassName", "high", "its priority"),
    honoured(GROUP, "spec.networkTopology", TIER, "`hard`: in one domain of the tier"),
    honoured(GROUP, "spec.networkTopology.mode", "soft", "`soft`: if there is room", (("spec.networkTopology", TIER),)),
    honoured(GROUP, "spec.networkTopology.highestTierAllowed", 2, "a tier by its number"),
    honoured(GROUP, "spec.networkTopology.highestTierName", "leaf", "a tier by its name"),
    honoured(GROUP, "spec.subGroupPolicy[].subGroupSize", 3, "members in order of rank, so many together", (SUB,)),
    honoured(GROUP, "spec.subGroupPolicy[].minSubGroups", 3, "so many of them start together", (SUB,)),
    honoured(
        GROUP, "spec.subGroupPolicy[].networkTopology", TIER | {"highestTierAllowed": 2}, "each in one domain", (SUB,)
    ),
    known(GROUP, "spec.subGroupPolicy[].name", "for people", "t", (SUB,)),
    honoured(
        GROUP,
        "spec.subGroupPolicy[].labelSelector",
        {"matchLabels": {"a": "b"}},
        "only pods with these labels are in sub-groups; such a group has to start whole",
        (SUB, ALL),
    ),
    honoured(
        GROUP,
        "spec.subGroupPolicy[].matchLabelKeys",
        ["volcano.sh/partition-id"],
        "pods of which these labels are the same are a sub-group; such a group has to start whole",
        (SUB, ALL),
    ),
    refused(
        GROUP,
        "spec.subGroupPolicy[].matchLabelKeys",
        ["a"],
        "where more pods wait than have to start (so with labelSelector); those that come later join",
        by_code=True,
        beside=(("spec.subGroupPolicy", [{"name": "s", "networkTopology": TIER}]), ("spec.minMember", 1)),
    ),
    refused(GROUP, "spec.subGroupPolicy", [{"name": "a"}, {"name": "b"}], "several entries: one is read", by_code=True),
    honoured(GROUP, "annotation volcano.sh/preemptable", "false", "nobody takes its place"),
    honoured(GROUP, "annotation volcano.sh/cooldown-time", "2h", "it runs so long before others may take its place"),
    honoured(GROUP, "annotation volcano.sh/jdb-min-available", "1", "nobody takes its place: it leaves whole or not"),
    honoured(GROUP, "annotation volcano.sh/jdb-max-unavailable", "1", "nobody takes its place: it leaves whole or not"),
    honoured(GROUP, "annotation volcano.sh/sla-waiting-time", "1h", "after so long room is kept for it"),
    honoured(GROUP, "annotation sla-waiting-time", "1h", "the same in its older spelling"),
    refused(GROUP, "annotation volcano.sh/revocable-zone", "rz1", "hours in which nodes may be used are not known"),
    honoured(GROUP, "status.phase", "Completed", "it is written; one that has ended stays so"),
    known(
        GROUP,
        "status.conditions[]",
        "Unschedulable and Scheduled are written, with a transitionID and NotEnoughResources, NotEnoughTasks (for"
        " NotEnoughPodsOfTask too), PodFailed or PodDeleted",
        [{"type": "Scheduled"}],
    ),
    known(GROUP, "status.running", "written: running, succeeded and failed members", 2),
    honoured("Pod", "annotation scheduling.k8s.io/group-name", "other", "the group it belongs to"),
    honoured("Pod", "annotation scheduling.volcano.sh/group-name", "other", "the group it belongs to"),
    honoured(
        "Pod",
        "annotation scheduling.volcano.sh/queue-name",
        "team",
        "the queue it waits in, where its group names none",
    ),
    honoured("Pod", "label volcano.sh/queue-name", "team", "the queue it waits in, where its group names none"),
    honoured(
        "Pod",
        "annotation scheduling.volcano.sh/group-min-member",
        "3",
        "so many start together, without an object",
        (("annotation scheduling.k8s.io/group-name", "alone"),),
    ),
    known("Pod", "annotation scheduling.volcano.sh/group-min-resources", "the pods say what they ask for", "{}"),
    known(
        "Pod",
        "annotation scheduling.volcano.sh/queue-allocation-gate",
        "the scheduling gate of this name counts, like any other",
        "true",
    ),
    honoured("Pod", "gate scheduling.volcano.sh/queue-allocation-gate", "gate", "a gated pod is not there yet"),
    honoured("Pod", "annotation volcano.sh/task-spec", "other", "the task it is of"),
    honoured("Pod", "annotation volcano.sh/task-index", "7", "its rank"),
    honoured("Pod", "annotation volcano.sh/preemptable", "false", "nobody takes the place of its gang"),
    honoured(
        "Pod", "annotation volcano.sh/cooldown-time", "2h", "its gang runs so long before others may take its place"
    ),
    honoured("Pod", "annotation volcano.sh/jdb-min-available", "1", "nobody takes the place of its gang"),
    honoured("Pod", "annotation volcano.sh/jdb-max-unavailable", "1", "nobody takes the place of its gang"),
    honoured("Pod", "annotation volcano.sh/sla-waiting-time", "1h", "after so long room is kept for its gang"),
    refused("Pod", "annotation volcano.sh/revocable-zone", "rz1", "hours in which nodes may be used are not known"),
    refused(
        "Pod",
        "annotation volcano.sh/numa-topology-policy",
        "single-numa-node",
        "what is inside a node is not known",
        only=("best-effort", "restricted", "single-numa-node"),
    ),
    known("Pod", "annotation volcano.sh/qos-level", "for Volcano's agent on the node", "BE"),
    known("Pod", "annotation volcano.sh/job-name", WRITTEN, "j"),
    known("Pod", "annotation volcano.sh/partition-id", WRITTEN, "1"),
    honoured(JOB, "spec.runningEstimate", "2h", "how long its gang runs"),
    honoured(JOB, "spec.schedulerName", "volcano", "groups of another scheduler's jobs are left alone"),
    *(
        known(JOB, f"spec.{field}", CONTROLLER, example)
        for field, example in (
            ("minAvailable", 2),
            ("queue", "team"),
            ("priorityClassName", "high"),
            ("networkTopology", TIER),
            ("tasks[].name", "t"),
            ("tasks[].replicas", 2),
            ("tasks[].minAvailable", 1),
            ("tasks[].template", {"spec": {}}),
            ("tasks[].topologyPolicy", "restricted"),
            ("tasks[].partitionPolicy", {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}),
        )
    ),
    *(
        known(JOB, f"spec.{field}", ACTS, example)
        for field, example in (
            ("maxRetry", 3),
            ("minSuccess", 1),
            ("policies", [{"action": "RestartJob", "exitCode": 3}]),
        )
    ),
    known(JOB, "spec.tasks[].dependsOn", ACTS, {"name": ["a"]}, (("spec.tasks", [{"name": "t"}]),)),
    honoured("Queue", "spec.weight", 5, "its weight"),
    honoured("Queue", "spec.capability", {"nvidia.com/gpu": 8}, "its limit"),
    honoured("Queue", "spec.deserved", {"nvidia.com/gpu": 8}, "what it is guaranteed, where `guarantee` is not given"),
    honoured("Queue", "spec.guarantee.resource", {"nvidia.com/gpu": 8}, "what it is guaranteed"),
    honoured("Queue", "spec.reclaimable", False, "`false`: nobody takes the place of its gangs"),
    honoured("Queue", "spec.parent", "above", "the queue it is below"),
    honoured("Queue", "spec.dequeueStrategy", "fifo", "`fifo`: nobody in it passes the first that waits"),
    known("Queue", "spec.dequeueStrategy", "so it is", "traverse"),
    honoured("Queue", "status.state", "Closed", "`Closed`, `Closing`: nothing starts in it"),
    refused(
        "Queue",
        "spec.affinity",
        {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}},
        "its gangs are refused: groups of nodes are not read; one that only prefers some gets an event",
        by_code=True,
    ),
    refused("Queue", "spec.priority", 5, "queues go by guarantee and share"),
    refused("Queue", "spec.type", "elastic", "not understood"),
    refused("Queue", "annotation volcano.sh/hierarchy", "root/a/b", "write `parent`"),
    refused("Queue", "annotation volcano.sh/hierarchy-weights", "1/2/3", "write `parent` and `weight`"),
    known("Queue", "status.allocated", "added up here from the pods", {"cpu": 1}),
    known("Queue", "status.reservation", "of Volcano's own scheduler", {"nodes": []}),
    honoured("HyperNode", "spec.tier", 2, "a level of the topology"),
    honoured("HyperNode", "spec.tierName", "leaf", "its name"),
    honoured("HyperNode", "spec.members[].selector.exactMatch.name", "n1", "what lies below it"),
    honoured(
        "HyperNode",
        "spec.members[].selector",
        {"regexMatch": {"pattern": "n.*"}},
        "regexMatch and labelMatch choose as well",
    ),
    honoured("HyperNode", "spec.members[].type", "HyperNode", "nodes, or other HyperNodes"),
    known("HyperNode", "status.nodeCount", "counted here", 4),
    known("schedulerName", "volcano", "pods of another scheduler count on their nodes and are left alone"),
)
OLD_ROWS = (
    honoured(GROUP, "spec.minMember", 3, "so many start together"),
    honoured(GROUP, "spec.queue", "team", "the queue it waits in"),
    honoured(GROUP, "spec.priorityClassName", "high", "its priority"),
    honoured("Pod", "annotation scheduling.k8s.io/group-name", "other", "the group it belongs to"),
    honoured("Queue", "spec.weight", 5, "its weight"),
    honoured("Queue", "spec.capability", {"nvidia.com/gpu": 8}, "its limit"),
    known(GROUP, "status.phase", "nothing is written: Pending, Running, Unknown are of its own scheduler", "Pending"),
    known(GROUP, "status.conditions[]", "nothing is written", [{"type": "Unschedulable"}]),
)
