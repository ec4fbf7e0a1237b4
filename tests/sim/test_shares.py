"""Shares of GPUs: who gets which, and how much is given away."""

import pytest

from tutti.errors import Misused, NotFound
from tutti.sim.protocols.openb import POLICIES, Nodes, Pod, allocated, arrivals, best_fit, mean_allocated, packing

ROWS = [
    {"cpu_milli": "8000", "memory_mib": "1000", "gpu": str(gpus), "model": model}
    for gpus, model in ((1, "A"), (2, "B"))
]
ANY: frozenset[str] = frozenset()


def test_a_share_goes_to_the_fullest_gpu_that_still_has_it():
    nodes = Nodes(ROWS)
    nodes.take(1, Pod(0, 0, 1, 600, ANY))
    nodes.take(1, Pod(0, 0, 1, 500, ANY))
    nodes.take(1, Pod(0, 0, 1, 400, ANY))
    assert nodes.gpu[1].tolist() == [0, 500, *[-1] * 6]
    assert nodes.fitting(Pod(0, 0, 1, 500, ANY)).tolist() == [0, 1]
    assert nodes.fitting(Pod(0, 0, 1, 501, ANY)).tolist() == [0]
    assert nodes.fitting(Pod(0, 0, 2, 1000, ANY)).tolist() == []
    assert nodes.fitting(Pod(0, 0, 1, 100, frozenset({"B"}))).tolist() == [1]
    assert nodes.fitting(Pod(9000, 0, 0, 0, ANY)).tolist() == []


def test_packing_and_best_fit_leave_whole_gpus_whole():
    nodes = Nodes(ROWS)
    nodes.take(1, Pod(0, 0, 1, 300, ANY))
    share, which = Pod(0, 0, 1, 300, ANY), nodes.fitting(Pod(0, 0, 1, 300, ANY))
    assert which[int(packing(nodes, which, share).argmin())] == 1
    assert which[int(best_fit(nodes, which, share).argmin())] == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_no_more_is_given_than_there_is(policy: str):
    pods = [Pod(100, 1, 1, 500, ANY), Pod(100, 1, 1, 1000, ANY), Pod(100, 1, 2, 1000, ANY)]
    asked = list(arrivals(pods, 3000, 1))
    assert sum(pod.gpus * pod.share for pod in asked) >= 3900
    found = allocated(Nodes(ROWS), pods, policy, 1)
    assert 50 <= found <= 100
    assert found == allocated(Nodes(ROWS), pods, policy, 1)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(NotFound):
        mean_allocated(tmp_path, "default", "best-fit", range(1))
    with pytest.raises(Misused):
        mean_allocated(tmp_path, "default", "worst-fit", range(1))
