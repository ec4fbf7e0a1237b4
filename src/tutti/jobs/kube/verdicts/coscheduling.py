"""scheduler-plugins' coscheduling."""

from .row import honoured, known

GROUP = "PodGroup"
NOTHING_HELD = "nothing is held while a gang waits, so that nothing has to be given up"
ROWS = (
    honoured(GROUP, "spec.minMember", 3, "so many start together"),
    honoured(GROUP, "spec.minResources", {"nvidia.com/gpu": "8"}, "stands for the pods while there are none"),
    known(GROUP, "spec.scheduleTimeoutSeconds", NOTHING_HELD, 60),
    honoured(GROUP, "status.phase", "Finished", "it is written; one that has ended stays so"),
    known(GROUP, "status.occupiedBy", "who may use the group is asked by nobody", "someone"),
    known(GROUP, "status.running", "written: running, succeeded and failed members", 2),
    known(GROUP, "status.scheduleStartTime", "nobody gives up after a time", "2026-01-01T00:00:00Z"),
    honoured("Pod", "label scheduling.x-k8s.io/pod-group", "other", "the group it belongs to"),
    honoured(
        "Pod",
        "label pod-group.scheduling.sigs.k8s.io/min-available",
        "3",
        "with the label `name` beside it: a group without an object",
        (("label pod-group.scheduling.sigs.k8s.io/name", "old"),),
    ),
    honoured(
        "Pod",
        "label pod-group.scheduling.sigs.k8s.io/name",
        "old",
        "the group it belongs to",
        (("label pod-group.scheduling.sigs.k8s.io/min-available", "3"),),
    ),
    honoured("Pod", "spec.priority", 9, "the gang's priority; where members differ, the highest"),
    honoured("ElasticQuota", "spec.min", {"nvidia.com/gpu": 8}, "what its namespace is guaranteed"),
    honoured("ElasticQuota", "spec.max", {"nvidia.com/gpu": 8}, "the limit of its namespace"),
    known("events", "Timeout", NOTHING_HELD),
    known(
        "settings",
        "permitWaitingTimeSeconds, podGroupBackoffSeconds, podGroupRejectPercentage",
        "of a plugin that waits with nodes in its hand; here nothing is held",
    ),
)
