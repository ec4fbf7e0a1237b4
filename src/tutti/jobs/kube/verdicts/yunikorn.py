"""YuniKorn, and Kubeflow, whose operators write the groups of others."""

from .row import honoured, known, refused

PREFIX, POD, QUEUE = "yunikorn.apache.org/", "Pod", "queue"
PLACEHOLDERS = "of placeholders; none are made"
TASKS, PARAMETERS = f"annotation {PREFIX}task-groups", f"annotation {PREFIX}schedulingPolicyParameters"
TASK = f"annotation {PREFIX}task-group-name"
TWO = '[{"name": "tg", "minMember": 1}, {"name": "other", "minMember": 2}]'
INSIDE = "priorities are compared only inside a queue"
OPERATOR = "the operator writes it into the group, which is read"
ROWS = (
    honoured(POD, f"{TASKS}[].minMember", 3, "so many of the task group start together"),
    honoured(POD, f"{TASKS}[].name", "other", "how pods name it", ((TASK, "other"),)),
    known(POD, f"{TASKS}[].minResource", "the pods say what they ask for", {"cpu": "1"}),
    known(POD, f"{TASKS}[].labels", PLACEHOLDERS, {"a": "b"}),
    known(POD, f"{TASKS}[].annotations", PLACEHOLDERS, {"a": "b"}),
    known(POD, f"{TASKS}[].tolerations", "the pods say what they put up with", [{"operator": "Exists"}]),
    *(
        refused(
            POD, f"{TASKS}[].{field}", example, "where its pods do not have it: an event; theirs counts", by_code=True
        )
        for field, example in (
            ("nodeSelector", {"a": "b"}),
            ("affinity", {"nodeAffinity": {}}),
            ("topologySpreadConstraints", [{"maxSkew": 1}]),
        )
    ),
    honoured(POD, TASK, "other", "the task group it is of", ((TASKS, TWO),)),
    known(
        POD,
        PARAMETERS,
        "an application never starts in part, and nothing is held that would time out",
        "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard",
    ),
    refused(POD, PARAMETERS, "gangSchedulingStyle=Soft", "an event: an application never starts in part", by_code=True),
    honoured(POD, f"label {PREFIX}app-id", "other", "the application it is of; an annotation will do"),
    honoured(POD, "label applicationId", "other", "the same, older"),
    honoured(POD, "label spark-app-selector", "other", "the same, of Spark"),
    honoured(
        POD,
        f"annotation {PREFIX}user.info",
        '{"user": "ann", "groups": ["ml"]}',
        "whose it is, and the groups of that user, for `limits` of queues",
        beside=((f"label {PREFIX}queue", "root.team"),),
    ),
    honoured(POD, f"label {PREFIX}queue", "root.team", "the queue it waits in; an annotation will do"),
    honoured(POD, "label queue", "root.team", "the same, older"),
    honoured("Namespace", f"annotation {PREFIX}parentqueue", "root.team", "the queue that of the namespace is below"),
    honoured(
        "Namespace", f"annotation {PREFIX}namespace.quota", '{"nvidia.com/gpu": "8"}', "the limit of the namespace"
    ),
    honoured(
        "Namespace", f"annotation {PREFIX}namespace.guaranteed", '{"nvidia.com/gpu": "8"}', "what it is guaranteed"
    ),
    honoured(
        "Namespace", f"annotation {PREFIX}namespace.maxApps", "5", "so many of its applications run at once; 0 is any"
    ),
    honoured("PriorityClass", f"annotation {PREFIX}allow-preemption", "false", "nobody takes the place of its pods"),
    honoured("PriorityClass", "preemptionPolicy", "Never", "nobody is asked to make room for groups that name it"),
    honoured(QUEUE, "resources.guaranteed", {"nvidia.com/gpu": 8}, "what it is guaranteed"),
    honoured(QUEUE, "resources.max", {"nvidia.com/gpu": 8}, "its limit"),
    honoured(
        QUEUE, "property preemption.policy", "disabled", "`disabled`: nobody takes the place of gangs in or below it"
    ),
    honoured(
        QUEUE, "property preemption.policy", "fence", "`fence`: nobody is asked to make room for them, inside neither"
    ),
    honoured(QUEUE, "property preemption.delay", "2h", "they wait so long before others are asked to make room"),
    known(QUEUE, "property application.sort.policy", "`fifo` is how it is", "fifo"),
    refused(
        QUEUE,
        "property application.sort.policy",
        "fair",
        "inside a queue the order is that of the policy file",
        only=("fair", "stateaware"),
    ),
    refused(
        QUEUE,
        "property application.sort.priority",
        "disabled",
        "inside a queue the order is that of the policy file",
        only=("disabled",),
    ),
    known(QUEUE, "property priority.policy", INSIDE, "fence"),
    known(QUEUE, "property priority.offset", INSIDE, "100"),
    refused(QUEUE, "property quota.preemption.delay", "1h", "who is above a lowered limit runs on"),
    honoured(QUEUE, "maxapplications", 5, "so many applications run at once, in it and below it; 0 is any"),
    honoured(
        QUEUE,
        "limits",
        [{"users": ["*"], "groups": ["ml"], "maxapplications": 1, "maxresources": {"vcore": 10}}],
        "what each user, and each group together, has at once; who does not say whose it is counts as `nobody`",
    ),
    refused(QUEUE, "childtemplate", {"maxapplications": 1}, "queues are not made for applications; write them down"),
    refused(QUEUE, "submitacl", "ann", "who may make pods is for the API server to say"),
    refused(QUEUE, "adminacl", "ann", "who may do what is for the API server to say"),
    known("placeholders", "tg-*", "none are made"),
    known(
        "events",
        "GangScheduling (TaskGroupMatch, GangSchedulingFailed, TaskGroupsError), ApplicationFailed,"
        " ResourceReservationTimeout, ApplicationRejected",
        "ours have other names; nothing fails because it waited long",
    ),
)
KUBEFLOW_ROWS = (
    honoured("Pod", "label training.kubeflow.org/replica-index", "7", "its rank"),
    *(
        known("PyTorchJob and the like", f"spec.runPolicy.schedulingPolicy.{field}", OPERATOR)
        for field in ("minAvailable", "queue", "minResources", "priorityClass")
    ),
    known(
        "PyTorchJob and the like",
        "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
        "nothing is held while a gang waits, so that nothing has to be given up",
    ),
    known("TrainingRuntime", "spec.podGroupPolicy.volcano.networkTopology", OPERATOR),
    known("TrainingRuntime", "spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds", "as above"),
    known("TrainJob", "annotation scheduling.volcano.sh/queue-name", OPERATOR),
)
