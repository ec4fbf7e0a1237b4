"""Which fields of a pod bear on where it goes, and what we do about each. The documented list is made from it."""

from typing import NamedTuple


class Field(NamedTuple):
    """A field and what becomes of it."""

    field: str
    does: str


HONOURED = (
    Field(
        "containers, initContainers (sidecars too), overhead, pod-level resources",
        "requests are added up as Kubernetes does, extended resources and ephemeral storage included",
    ),
    Field("nodeSelector, required node affinity (labels and names)", "exact: In, NotIn, Exists, DoesNotExist, Gt, Lt"),
    Field(
        "preferred node affinity",
        "the whole gang on nodes that meet every preferred term where they hold it, else anywhere",
    ),
    Field(
        "tolerations (Equal, Exists)",
        "taints NoSchedule and NoExecute keep a pod off; cordoned nodes count as tainted; PreferNoSchedule is not read",
    ),
    Field("hostPort", "no two pods with one port and protocol on a node, whatever the address"),
    Field(
        "required pod affinity and anti-affinity",
        "both ways, against every pod on every node; checked again pod by pod before a gang is bound",
    ),
    Field(
        "preferred pod affinity and anti-affinity, topologySpreadConstraints (ScheduleAnyway)",
        "wishes that are not read: they keep no pod off a node",
    ),
    Field(
        "topologySpreadConstraints (DoNotSchedule)",
        "an upper bound for each domain while placing; checked exactly before a gang is bound",
    ),
    Field(
        "volumes with a claim that is bound",
        "node affinity and zone labels of the volume, and how many volumes of its driver a node can attach (CSINode), "
        "those counted that are attached though no pod uses them (VolumeAttachment); only nodes that have the driver "
        "where it asks for that (`preventPodSchedulingIfMissing` of CSIDriver)",
    ),
    Field(
        "schedulingGates",
        "a gated pod counts as not there yet; what is written into a pod while it waits counts, as does what a running "
        "one is given more",
    ),
    Field(
        "restartPolicyRules with RestartAllContainers; hostNetwork with hostUsers: false",
        "only nodes that declare the feature (`status.declaredFeatures`)",
    ),
    Field("nodeName", "a pod that has a node counts there, whoever put it there"),
    Field("priority", "the order, and who may be preempted"),
    Field("preemptionPolicy: Never", "nobody is asked to make room for the gang"),
    Field("activeDeadlineSeconds", "how long the pod runs, where nothing better is said"),
)
REFUSED = (
    Field("resourceClaims, containers.resources.claims", "device claims need kube-scheduler"),
    Field("volumes with a claim that is not bound, or ephemeral", "binding volumes needs kube-scheduler"),
    Field("volumes with a claim that is ReadWriteOncePod", "who else uses it is not asked"),
    Field("volumes gcePersistentDisk, awsElasticBlockStore, iscsi, rbd", "conflicts of such disks are not known"),
    Field(
        "volumes azureDisk, cinder, portworxVolume, and claims whose volume is of these kinds or the first two above",
        "kube-scheduler translates them for the driver that took them over; we do not",
    ),
    Field("tolerations with Gt or Lt", "not understood yet"),
    Field("namespaceSelector with conditions in a pod affinity", "labels of namespaces are not read"),
    Field(
        "matchLabelKeys that the API server has not made a part of the selector",
        "those before 1.34 do so only in an affinity, and only from 1.31 on",
    ),
    Field("nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor in a spread", "not understood yet"),
    Field("YuniKorn's task groups without an application", "nobody knows who belongs together"),
    Field("several entries of Volcano's subGroupPolicy", "one is understood"),
    Field(
        "a topology of its own for one of several sub-groups whose pods are not alike",
        "pods that ask for the same are put into a domain together",
    ),
    Field("Volcano's sub-groups by labels where the group may start in part", "such a group starts whole"),
    Field("Koordinator's match-policy: only-waiting", "a lost member could not come back by itself"),
    Field("KAI's minSubGroup below the number of sub-groups", "such a group starts whole"),
    Field("minGroupCount below the number of groups, in a tree of trees", "such a tree starts whole"),
    Field(
        "a topology key of an inner CompositePodGroup with several groups below it",
        "domains of whole branches are not known",
    ),
)
