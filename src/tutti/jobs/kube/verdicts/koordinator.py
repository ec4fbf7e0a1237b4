"""Koordinator."""

from .row import Row, honoured, known, refused

GROUP, GANG, QUOTA = "PodGroup", "gang.scheduling.koordinator.sh/", "quota.scheduling.koordinator.sh/"
NOTHING_HELD = "nothing is held while a gang waits, so that nothing has to be given up"
WRITTEN = "written by Koordinator's scheduler"
MATCH = "a member that comes again joins those that run (`once-satisfied`, `waiting-and-running`)"
MATCH_NO = "a minimum of those that wait alone would keep a gang from getting a lost member back"
MUST = '{"gatherStrategy":[{"layer":"L","strategy":"MustGather"}]}'
PAIRS = '{"gatherStrategy":[{"layer":"L","strategy":"PreferGather","podCountMultiple":2}]}'
ALONE = ((f"annotation {GANG}name", "alone"),)
DECLARED = (*ALONE, (f"annotation {GANG}min-available", "2"))
LAYER = ("spec.networkTopologySpec", [{"topologyLayer": "L", "labelKey": ["rack"]}])
RESERVATION = (
    "read as a stranger on its node while it is `Available`: what it holds and nobody has yet is not given away"
)


def _gang(key: str, example: str, does: str) -> tuple[Row, ...]:
    """An annotation of gangs: of the PodGroup, or of pods without one."""
    name = f"annotation {GANG}{key}"
    return honoured(GROUP, name, example, does), honoured("Pod", name, example, does, DECLARED)


ROWS = (
    honoured(GROUP, "spec.minMember", 3, "so many start together"),
    honoured(GROUP, "spec.minResources", {"nvidia.com/gpu": "8"}, "stands for the pods while there are none"),
    known(GROUP, "spec.scheduleTimeoutSeconds", NOTHING_HELD, 60),
    honoured("Pod", "label pod-group.scheduling.sigs.k8s.io", "other", "the group it belongs to"),
    honoured("Pod", "label pod-group.scheduling.sigs.k8s.io/name", "other", "the group it belongs to; older"),
    honoured("Pod", f"annotation {GANG}name", "alone", "a gang without an object", DECLARED[1:]),
    honoured("Pod", f"annotation {GANG}min-available", "3", "so many start together", ALONE),
    honoured(GROUP, f"annotation {GANG}min-available", "3", "goes before minMember"),
    *_gang("groups", '["ml/other"]', "gangs that start only together"),
    *_gang("network-topology-spec", MUST, "MustGather: in one domain of the layer; PreferGather: if there is room"),
    honoured(GROUP, f"annotation {GANG}network-topology-spec", PAIRS, "podCountMultiple: so many in each domain"),
    known(GROUP, f"annotation {GANG}match-policy", MATCH, "waiting-and-running"),
    known(GROUP, "annotation pod-group.scheduling.sigs.k8s.io/match-policy", MATCH, "once-satisfied"),
    *(
        refused(on, f"annotation {key}", "only-waiting", MATCH_NO, by_code=True, beside=beside)
        for on, beside in ((GROUP, ()), ("Pod", DECLARED))
        for key in (f"{GANG}match-policy", "pod-group.scheduling.sigs.k8s.io/match-policy")
    ),
    known(GROUP, f"annotation {GANG}total-number", "pods above the minimum join whenever they come", "9"),
    known(GROUP, f"annotation {GANG}waiting-time", NOTHING_HELD, "60s"),
    known(
        GROUP,
        f"annotation {GANG}mode",
        "Strict or NonStrict: nothing is held, so that nobody is sent back",
        "NonStrict",
    ),
    known(GROUP, f"annotation {GANG}timeout", WRITTEN, "true"),
    honoured("Pod", f"annotation {GANG}network-topology-index", "7", "its rank"),
    *(
        refused(on, f"annotation {key}", "{}", does)
        for on in (GROUP, "Pod")
        for key, does in (
            ("scheduling.koordinator.sh/network-topology-selector", "write network-topology-spec"),
            (f"{GANG}networkTopologyAware", "the proposal's word; write network-topology-spec"),
        )
    ),
    refused(
        "Pod", "annotation scheduling.koordinator.sh/reservation-affinity", "{}", "its pods cannot use Reservations"
    ),
    honoured(
        "ClusterNetworkTopology", "spec.networkTopologySpec[].topologyLayer", "M", "a level by its name", (LAYER,)
    ),
    known(
        "ClusterNetworkTopology",
        "ClusterTopologyLayer, NodeTopologyLayer",
        "the whole cluster, and a node: both are known without labels",
    ),
    honoured(
        "ClusterNetworkTopology",
        "spec.networkTopologySpec[].labelKey",
        ["zone", "rack"],
        "the labels of nodes that make the level",
        (LAYER,),
    ),
    known(
        "ClusterNetworkTopology",
        "spec.networkTopologySpec[].parentTopologyLayer",
        "which level lies in which is seen from the nodes",
        "ClusterTopologyLayer",
        (LAYER,),
    ),
    known("ClusterNetworkTopology", "status.detailStatus", "counted here", []),
    honoured("Reservation", "status.phase", "Available", RESERVATION),
    honoured("Reservation", "status.allocatable", {"nvidia.com/gpu": "4"}, RESERVATION),
    honoured("Reservation", "status.allocated", {"nvidia.com/gpu": "1"}, RESERVATION),
    *(
        known("Reservation", f"spec.{field}", "who may use it, and how, is Koordinator's business", example)
        for field, example in (
            ("owners", [{"labelSelector": {}}]),
            ("ttl", "1h"),
            ("expires", "2030-01-01T00:00:00Z"),
            ("preAllocation", True),
            ("preAllocationPolicy.mode", "Default"),
            ("preAllocationPolicy.enableMultiple", True),
            ("allocateOnce", True),
            ("allocatePolicy", "Aligned"),
            ("unschedulable", True),
            ("taints", []),
            ("template", {"spec": {}}),
        )
    ),
    honoured("ElasticQuota", "spec.min", {"nvidia.com/gpu": 8}, "what it is guaranteed"),
    honoured("ElasticQuota", "spec.max", {"nvidia.com/gpu": 8}, "its limit"),
    honoured("Pod", f"label {QUOTA}name", "team", "the quota it is in"),
    honoured("ElasticQuota", f"label {QUOTA}parent", "above", "the quota it is below"),
    honoured("ElasticQuota", f"label {QUOTA}is-parent", "true", "no pods are in it by default"),
    known("ElasticQuota", f"label {QUOTA}is-root", "a quota without a parent is at the top", "true"),
    refused("ElasticQuota", f"label {QUOTA}tree-id", "t1", "all quotas are of one tree, over all nodes"),
    honoured("Pod", f"label {QUOTA}preemptible", "false", "nobody takes the place of its gang"),
    honoured("Pod", f"label {QUOTA}can-preempt", "false", "nobody is asked to make room for its gang"),
    honoured(GROUP, "status.phase", "Finished", "it is written; one that has ended stays so"),
    known(GROUP, "status.phase", "of Koordinator's own: PreScheduling and the like", "PreScheduling"),
    known(GROUP, "status.scheduled", "written by Koordinator's controller", 2),
    *(
        known("Pod", f"annotation {prefix}scheduling.koordinator.sh/{key}", WRITTEN, "1")
        for prefix in ("internal.", "")
        for key in ("bind-gang-group-id", "bind-gang-member-count")
    ),
    known(
        "settings", "defaultTimeout, enablePreemption, awareNetworkTopology, defaultMatchPolicy", "of its own scheduler"
    ),
)
