"""Every row of the table of keys is played on the translation: it does what the table says."""

import re

import pytest

from tests.kube.verdicts import Scene, played
from tutti.jobs.kube.verdicts.all import TABLE
from tutti.jobs.kube.verdicts.row import Row, Verdict

ROWS = [(dialect, row) for dialect, rows in TABLE.items() for row in rows]
PLAYED = [(dialect, row) for dialect, row in ROWS if row.example is not None]
KOORDINATOR, POLICY = "gang.scheduling.koordinator.sh/", "yunikorn.apache.org/schedulingPolicyParameters"
CLUSTERS = ("grouped", "bare", "none")


def ids(pairs):
    return [f"{dialect} {row.on} {row.key} {str(row.example)[:40]}" for dialect, row in pairs]


@pytest.mark.parametrize(("dialect", "row"), PLAYED, ids=ids(PLAYED))
def test_a_key_is_treated_as_the_table_says(dialect, row):
    outcomes = [played(dialect, row, pods) for pods in CLUSTERS]
    changes = [with_it[0] != without[0] for without, with_it in outcomes]
    said = {text for without, with_it in outcomes for text in with_it[1] if text not in without[1]}
    if row.verdict is Verdict.REFUSED:
        assert any(named(row) in text for text in said), said
    else:
        assert not said
        assert any(changes) is (row.verdict is Verdict.HONOURED), outcomes


def named(row):
    """The word by which a key is called in what people are told."""
    last = re.split(r"[.\]]", row.name.removesuffix("[]"))[-1] if not row.name.count("/") else row.name
    return last.partition("[]")[0] if "[]" not in row.name else re.split(r"\.", row.name)[-1].removesuffix("[]")


def test_what_has_an_effect_is_played():
    assert [row for _, row in ROWS if row.example is None and row.verdict is not Verdict.KNOWN] == []


def test_no_key_has_two_rows_that_say_the_same():
    keys = [(dialect, row.on, row.key, str(row.example)) for dialect, row in ROWS]
    assert len(keys) == len(set(keys))


ABSURD = ("", "nonsense", "-5", "999999999999999999999", "1e9999", "[]", "{}", "[1, null]", "\U0001f984" * 300)
SHAPES: tuple[object, ...] = (None, True, -5, 10**30, 0.5, [], [None], ["x"], {}, {"x": None}, {"x": {"y": []}})


@pytest.mark.parametrize(("dialect", "row"), PLAYED, ids=ids(PLAYED))
def test_whatever_is_written_nobody_else_suffers(dialect, row):
    is_text = (row.key.startswith(("annotation ", "label ")) and "[]." not in row.key) or row.on == "PriorityClass"
    for value in ABSURD if is_text else (*ABSURD, *SHAPES):
        if row.on == "Pod" and not is_text:
            continue
        scene = Scene(dialect, row, "grouped")
        scene.bystanders()
        for key, other in row.beside:
            scene.tell(key, other)
        scene.tell(row.key, value)
        outcome, _ = scene.outcome()
        assert outcome["gangs"]["ml/aside"][1] == 0, (value, outcome["gangs"])


WRONG = [
    (
        "native",
        "PodGroup",
        "spec.disruptionMode",
        "sometimes",
        "disruptionMode is 'sometimes'; write single or Pod or all",
    ),
    ("native", "PodGroup", "spec.preemptionPolicy", "Always", "write PreemptLowerPriority or Never"),
    ("volcano", "PodGroup", "annotation volcano.sh/cooldown-time", "a while", "'a while' is not a duration"),
    ("volcano", "PodGroup", "annotation volcano.sh/sla-waiting-time", "soon", "annotation volcano.sh/sla-waiting-time"),
    ("volcano", "PodGroup", "annotation volcano.sh/preemptable", "perhaps", "write true or false"),
    ("volcano", "PodGroup", "annotation volcano.sh/premptable", "false", "write volcano.sh/preemptable"),
    ("volcano", "PodGroup", "spec.minMembers", 3, "spec.minMembers is not known and not read"),
    ("volcano", "Pod", "annotation volcano.sh/cooldown-time", "a while", "'a while' is not a duration"),
    ("volcano", "Pod", "annotation volcano.sh/preemptable", "perhaps", "volcano.sh/preemptable is 'perhaps'"),
    ("volcano", "Queue", "spec.weight", "heavy", "spec.weight is 'heavy'; write a whole number"),
    ("volcano", "Queue", "spec.weight", 0.5, "spec.weight is '0.5', which counts as 1"),
    ("volcano", "Queue", "spec.dequeueStrategy", "lifo", "write traverse or fifo"),
    ("koordinator", "PodGroup", f"annotation {KOORDINATOR}match-policy", "always", "write once-satisfied or"),
    ("koordinator", "PodGroup", f"annotation {KOORDINATOR}min-avaliable", "2", f"write {KOORDINATOR}min-available"),
    ("koordinator", "PodGroup", f"annotation {KOORDINATOR}mode", "Loose", "write Strict or NonStrict"),
    ("koordinator", "Pod", "label quota.scheduling.koordinator.sh/preemptible", "no", "write true or false"),
    (
        "koordinator",
        "PodGroup",
        f"annotation {KOORDINATOR}network-topology-spec",
        '{"gatherStrategy":[{"layer":"L","strategy":"Gather"}]}',
        "strategy 'Gather'; write MustGather or PreferGather",
    ),
    (
        "koordinator",
        "PodGroup",
        f"annotation {KOORDINATOR}network-topology-spec",
        '{"gatherStrategy":[{"layer":"L","strategy":"MustGather","podCountMultiple":"two"}]}',
        "is not JSON with a gatherStrategy",
    ),
    ("kueue", "Pod", "annotation kueue.x-k8s.io/podset-slice-size", "many", "podset-slice-size is 'many'"),
    ("kueue", "ClusterQueue", "spec.queueingStrategy", "LIFO", "write BestEffortFIFO or StrictFIFO"),
    ("kueue", "ClusterQueue", "spec.fairSharing.weight", "heavy", "spec.fairSharing.weight is 'heavy'"),
    ("kai", "PodGroup", "spec.preemptibility", "maybe", "spec.preemptibility is 'maybe'"),
    ("kai", "PodGroup", "spec.preemptionDelay", "later", "spec.preemptionDelay: 'later' is not a duration"),
    ("kai", "PodGroup", "spec.stalenessGracePeriod", "later", "spec.stalenessGracePeriod"),
    ("kai", "Queue", "spec.preemptMinRuntime", "long", "spec.preemptMinRuntime: 'long' is not a duration"),
    ("kai", "Pod", "label kai.scheduler/preemptibility", "maybe", "kai.scheduler/preemptibility is 'maybe'"),
    ("kai", "Pod", "label kai.scheduler/batch-min-members", "3", "write kai.scheduler/batch-min-member"),
    ("yunikorn", "PriorityClass", "annotation yunikorn.apache.org/allow-preemption", "no", "write true or false"),
    ("yunikorn", "queue", "property preemption.policy", "never", "write default or fence or disabled"),
    ("yunikorn", "queue", "property preemption.delay", "soon", "queue root.team: preemption.delay"),
    ("yunikorn", "queue", "property preemption.dleay", "1m", "property preemption.dleay is not known"),
    ("yunikorn", "Pod", f"annotation {POLICY}", "gangSchedulingStyle=Tough", "write Hard or Soft"),
    ("yunikorn", "Pod", f"annotation {POLICY}", "placeholderTimeout=5", "'placeholderTimeout' is not known; there are"),
    ("yunikorn", "Pod", f"annotation {POLICY}", "placeholderTimeoutInSeconds=x", "write a whole number"),
]


@pytest.mark.parametrize(("dialect", "on", "key", "value", "text"), WRONG)
def test_a_value_that_makes_no_sense_is_told_in_one_sentence(dialect, on, key, value, text):
    row = Row(on, key, Verdict.HONOURED, "", value)
    (_, before), (_, after) = played(dialect, row, "grouped")
    said = [problem for problem in after if problem not in before]
    assert len([problem for problem in said if text in problem]) == 1, said


def test_pods_that_do_not_say_the_same_of_their_group():
    row = Row("Pod", "annotation kueue.x-k8s.io/pod-group-total-count", Verdict.HONOURED, "", "3")
    scene = Scene("kueue", row, "grouped")
    scene.subject = scene.pods[1:]
    scene.tell(row.key, row.example)
    assert scene.outcome()[1] == ["its pods do not say the same of their group; what the first of them says counts"]


def test_replicas_of_a_native_group_of_the_first_generation_are_gangs_each():
    row = Row("Pod", "spec.workloadRef.podGroupReplicaKey", Verdict.HONOURED, "", "r")
    scene = Scene("native", row, "grouped")
    for at, pod in enumerate(scene.pods):
        pod["spec"]["workloadRef"]["podGroupReplicaKey"] = f"r{at % 2}"
    gangs = scene.outcome()[0]["gangs"]
    sizes = {key: [role.min for role in gang.roles] for key, (gang, *_) in gangs.items()}
    assert sizes == {"ml/g/w/r0": [2], "ml/g/w/r1": [2]}
