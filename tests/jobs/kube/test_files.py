"""Manifests in files: what pods say beside their spec counts there as it does in a cluster."""

import pytest

from tutti.jobs.manifest import gangs

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  parallelism: 4
  completions: 4
  completionMode: Indexed
  template:
    metadata:
      %s: {%s}
    spec:
      containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]
"""


def gang(what, pair):
    (found,) = gangs(JOB % (what, pair), "job.yaml")
    return found


@pytest.mark.parametrize(
    ("pair", "field", "value"),
    [
        ('volcano.sh/cooldown-time: "2h"', "min_run", 7_200_000_000),
        ('volcano.sh/preemptable: "false"', "preemptible", False),
        ('gpu-fraction: "0.5"', "unsupported", "annotation gpu-fraction"),
        ('volcano.sh/revocable-zone: "rz1"', "unsupported", "annotation volcano.sh/revocable-zone"),
    ],
)
def test_annotations_of_pods_count(pair, field, value):
    assert getattr(gang("annotations", pair).gang, field) == value


def test_pods_of_one_owner_say_how_many_start_together():
    found = gang("annotations", 'kai.scheduler/batch-min-member: "2"').gang
    assert [(role.min, role.want) for role in found.roles] == [(2, 4)]


def test_a_pool_of_nodes_is_asked_for():
    (role,) = gang("labels", "kai.scheduler/node-pool: p1").gang.roles
    assert "kai.scheduler/node-pool=p1" in role.shapes[0].tags[0][0]
