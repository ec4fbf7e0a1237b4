"""What is written on the object of a group, in words of its own dialect."""

import pytest

from tutti.jobs.kube.declared import Declared
from tutti.jobs.kube.objects import Meta, Thing
from tutti.jobs.kube.read import declared
from tutti.kube.status import Counts, News, path_of, reference, status_of

WAITS, STARTED = News("waiting", "NoCapacity", "no room"), News("started", "", "all have a node")
RUNS, SHORT, OVER = News("running"), News("short", "", "one is gone"), News("over")


def group(api: str, kind: str = "PodGroup", **spec: object) -> Declared:
    thing = Thing(api_version=api, kind=kind, metadata=Meta(name="g", namespace="ml", uid="u"), spec=spec)
    return declared(thing)[0]


@pytest.mark.parametrize(
    ("api", "kind", "condition"),
    [
        ("scheduling.k8s.io/v1alpha2", "PodGroup", "PodGroupScheduled"),
        ("scheduling.k8s.io/v1alpha3", "PodGroup", "PodGroupInitiallyScheduled"),
        ("scheduling.k8s.io/v1beta1", "PodGroup", "PodGroupInitiallyScheduled"),
        ("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "CompositePodGroupInitiallyScheduled"),
    ],
)
def test_each_generation_of_native_groups_has_its_own_condition(api: str, kind: str, condition: str) -> None:
    said = [status_of(group(api, kind), news) for news in (WAITS, STARTED)]
    conditions = [one["conditions"][0] for one in said if one is not None]
    assert [(c["type"], c["status"], c["reason"]) for c in conditions] == [
        (condition, "False", "Unschedulable"),
        (condition, "True", "Scheduled"),
    ]


@pytest.mark.parametrize(
    ("api", "said"),
    [
        ("scheduling.k8s.io/v1beta1", {"type": "PodGroupInitiallyScheduled", "status": "False"}),
        ("scheduling.volcano.sh/v1beta1", {"type": "Unschedulable", "status": "True"}),
    ],
)
def test_another_message_is_no_transition(api: str, said: dict[str, str]) -> None:
    since = "2020-01-01T00:00:00Z"
    thing = Thing(api_version=api, kind="PodGroup", metadata=Meta(name="g", namespace="ml", uid="u"), spec={})
    thing.status = {"conditions": [said | {"message": "before", "lastTransitionTime": since}]}
    (found,) = declared(thing)
    bodies = [status_of(found, news) for news in (WAITS, STARTED)]
    times = [body["conditions"][0]["lastTransitionTime"] for body in bodies if body is not None]
    assert times[0] == since
    assert times[1] > since


def test_a_workload_of_1_35_has_no_status_and_is_named_in_events() -> None:
    thing = Thing(
        api_version="scheduling.k8s.io/v1alpha1",
        kind="Workload",
        metadata=Meta(name="w", namespace="ml", uid="u"),
        spec={"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 2}}}]},
    )
    (found,) = declared(thing)
    assert found.name == "w/workers"
    assert status_of(found, WAITS) is None
    assert reference(found) == {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "name": "w",
        "namespace": "ml",
        "uid": "u",
    }


def test_what_a_native_group_was_told_once_is_not_taken_back() -> None:
    found = group("scheduling.k8s.io/v1beta1")
    assert status_of(found, SHORT) is None
    assert status_of(found, OVER) is None


@pytest.mark.parametrize(
    ("api", "counts", "phases"),
    [
        (
            "scheduling.volcano.sh/v1beta1",
            Counts(2, 0, 2, 0),
            {WAITS: "Inqueue", STARTED: "Running", RUNS: "Running", SHORT: "Unknown", OVER: "Completed"},
        ),
        (
            "scheduling.x-k8s.io/v1alpha1",
            Counts(2, 0, 2, 0),
            {WAITS: "Scheduling", STARTED: "Scheduling", RUNS: "Running", SHORT: "Scheduling", OVER: "Finished"},
        ),
        ("scheduling.x-k8s.io/v1alpha1", Counts(1, 0, 0, 1), {WAITS: "Pending", SHORT: "Pending", OVER: "Failed"}),
        (
            "scheduling.sigs.k8s.io/v1alpha1",
            Counts(2, 0, 2, 0),
            {WAITS: "Scheduling", STARTED: "Scheduled", RUNS: "Running", OVER: "Finished"},
        ),
    ],
)
def test_phases_are_those_of_the_dialect(api: str, counts: Counts, phases: dict[News, str]) -> None:
    said = {news: status_of(group(api, minMember=2), news, counts) for news in phases}
    assert {news: body["phase"] for news, body in said.items() if body is not None} == phases


def test_a_group_of_kube_batch_is_left_as_it_is() -> None:
    found = group("scheduling.incubator.k8s.io/v1alpha1", minMember=2)
    assert status_of(found, WAITS) is None
    assert path_of(found) == "/apis/scheduling.incubator.k8s.io/v1alpha1/namespaces/ml/podgroups/g"
