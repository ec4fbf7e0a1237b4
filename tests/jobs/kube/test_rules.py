"""Quantities, requests, selectors and tolerations, by the rules of Kubernetes."""

import msgspec
import pytest

from tutti.jobs.kube.declared import QUEUE, TIME, Declared, Part, Reading
from tutti.jobs.kube.gang import Facts, Ground, Kin, translate
from tutti.jobs.kube.objects import LabelSelector, NodeTerm, Pod, PodSpec, Taint, Toleration
from tutti.jobs.kube.quantity import BadQuantity, amount, quantity
from tutti.jobs.kube.read import asked_queue
from tutti.jobs.kube.resources import ask
from tutti.jobs.kube.select import labels_match, term_matches, tolerates
from tutti.jobs.kube.wants import TAKEN_OVER, Reach, claim_names, claimed, wants


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [("1", 1), ("1Ki", 1024), ("1.5Gi", 3 << 29), ("2k", 2000), ("1e3", 1000), ("100m", 1), ("1500m", 2), ("0", 0)],
)
def test_quantities_are_rounded_up(written, bytes_):
    assert quantity(written) == bytes_


def test_processors_are_counted_in_thousandths():
    assert [amount("cpu", text) for text in ("1", "250m", "0.1", "1n")] == [1000, 250, 100, 1]


@pytest.mark.parametrize("written", ["", "abc", "1 Gi", "1GiB", "--1", "1e"])
def test_nonsense_is_no_quantity(written):
    with pytest.raises(BadQuantity):
        quantity(written)


def spec(**fields):
    return msgspec.convert(fields, PodSpec)


def container(cpu, **more):
    return {"resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("fields", "cpu"),
    [
        pytest.param({"containers": [container("1"), container("2")]}, 3000, id="containers add up"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("5"), container("2")]},
            5000,
            id="largest init",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]},
            3000,
            id="sidecars run beside the others",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("4")],
            },
            6000,
            id="an init container beside an earlier sidecar",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "500m"}}, 1500, id="overhead"),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4000, id="pod level counts"
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000, id="limits where no requests are"
        ),
    ],
)
def test_what_a_pod_asks(fields, cpu):
    assert ask(spec(**fields))["cpu"] == cpu
    assert ask(spec(**fields))["pods"] == 1


def test_label_selectors():
    labels = {"app": "a", "n": "5"}
    picks = [
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]}, True),
        ({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["b"]}]}, True),
        ({"matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, True),
    ]
    for written, said in picks:
        assert labels_match(msgspec.convert(written, LabelSelector), labels) is said, written
    assert not labels_match(None, labels)


def test_node_terms():
    def met(**term):
        return term_matches(msgspec.convert(term, NodeTerm), "n1", {"gb": "80"})

    assert met(matchExpressions=[{"key": "gb", "operator": "Gt", "values": ["79"]}])
    assert not met(matchExpressions=[{"key": "gb", "operator": "Lt", "values": ["80"]}])
    assert not met(matchExpressions=[{"key": "none", "operator": "Gt", "values": ["1"]}])
    assert met(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n1"]}])
    assert not met()


@pytest.mark.parametrize(
    ("toleration", "said"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "value": "yes", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration, said):
    taint = Taint("gpu", "yes", "NoSchedule")
    assert tolerates([msgspec.convert(toleration, Toleration)], taint) is said


def kin(part="", cpu="1"):
    return Kin(part, wants("ns", spec(containers=[container(cpu)]), {}), ())


def test_the_minimum_is_given_to_parts_first_then_by_rank():
    said = Declared("volcano", "ns", "g", min=5, parts={"ps": Part(1)})
    found = translate(said, {kin("worker", "2"): 8, kin("ps"): 2}, Ground())
    assert [(role.name, role.min, role.want) for role in found.gang.roles] == [("worker", 4, 8), ("ps", 1, 2)]
    assert found.awaiting == 0


def test_kin_that_no_node_could_hold_make_up_a_minimum_last():
    said, huge, plain = Declared("native", "ns", "g", min=2), kin(cpu="900"), kin()
    for there, least in ({huge: 1, plain: 2}, [0, 2]), ({huge: 2, plain: 1}, [1, 1]), ({huge: 2}, [2]):
        found = translate(said, there, Ground(), Facts(last=frozenset({huge.alike})))
        assert [role.min for role in found.gang.roles] == least


def test_nobody_stands_in_for_a_part_of_which_nobody_is_there():
    said = Declared("volcano", "ns", "g", min=3, parts={"ps": Part(1), "worker": Part(2)})
    found = translate(said, {kin("worker"): 5}, Ground())
    assert ([role.min for role in found.gang.roles], found.awaiting, found.wanted) == ([2], 1, 3)


def test_missing_members_are_expected_of_the_last_kind():
    found = translate(Declared("native", "ns", "g", min=4), {kin(): 1}, Ground())
    assert (found.gang.roles[0].min, found.awaiting) == (4, 3)


def test_time_comes_from_the_group_before_the_pods():
    found = translate(Declared("native", "ns", "g", min=1, time=7), {kin(): 1}, Ground(), Facts(time=9))
    assert found.gang.estimate.limit == 7


def test_of_a_long_value_only_the_beginning_is_repeated():
    reading = Reading()
    reading.run_time({TIME: "1" * 2**20})
    reading.count("9" * 4000, "spec.minMember", 1)
    reading.least("x" * 4000, "spec.minMember")
    assert all(len(text) < 150 for text in (*reading.problems, reading.refused)), reading.problems
    assert reading.problems[0].endswith("... is not a duration; write 30m or 2h30m")


@pytest.mark.parametrize("written", ["", "0", "-5m", "1e99h"])
def test_a_run_time_of_nothing_is_told(written):
    reading = Reading()
    assert (reading.run_time({TIME: written}), len(reading.problems)) == (0, 1)


def test_a_name_of_a_queue_that_is_longer_than_any_name_is_cut():
    pod = msgspec.convert({"metadata": {"annotations": {QUEUE: "q" * 3000}}}, Pod)
    assert asked_queue(pod).ours == f"{'q' * 40}..."


def test_what_cannot_be_honoured_is_named():
    fields = {"containers": [container("1")], "resourceClaims": [{"name": "x"}]}
    assert wants("ns", spec(**fields), {}).unsupported == "spec.resourceClaims"
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    asked = spec(containers=[container("1")], volumes=[volume])
    assert "does not exist" in wants("ns", asked, {}).unsupported
    assert "not bound" in wants("ns", asked, {"ns/c": None}).unsupported
    assert not wants("ns", asked, {"ns/c": Reach()}).unsupported
    assert "ReadWriteOncePod" in wants("ns", asked, {"ns/c": Reach(alone=True)}).unsupported
    assert wants("ns", asked, {"ns/c": Reach(driver="disks")}).ask["volumes of disks"] == 1
    assert "of the kind cinder" in wants("ns", asked, {"ns/c": Reach(old="cinder")}).unsupported


@pytest.mark.parametrize("kind", TAKEN_OVER)
def test_a_disk_that_a_driver_took_over_is_refused_and_counts_as_one_of_its_volumes(kind):
    found = wants("ns", spec(containers=[container("1")], volumes=[{"name": "v", kind: {}}]), {})
    assert found.unsupported == f"spec.volumes.{kind}"
    assert found.ask[f"volumes of {TAKEN_OVER[kind]}"] == 1


def test_a_volume_that_comes_and_goes_with_its_pod_is_a_claim_named_after_both():
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}, {"name": "plain"}]
    pod = msgspec.convert({"metadata": {"name": "web"}, "spec": {"volumes": volumes}}, Pod)
    assert claim_names("ns", claimed(pod)) == ("ns/web-scratch",)
