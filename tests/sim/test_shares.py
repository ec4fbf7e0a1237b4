"""Shares of GPUs: who gets which, and how much is given away."""

import numpy as np
import pytest

from tutti.errors import Misused, NotFound
from tutti.sim.protocols.fgd import Gradient, Loss, usual
from tutti.sim.protocols.openb import (
    POLICIES,
    allocated,
    arrivals,
    best_fit,
    clustering,
    mean_allocated,
    packing,
)
from tutti.sim.protocols.shares import Nodes, Pod

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
    assert which[int(packing(nodes, which, share).argmax())] == 1
    assert which[int(best_fit(nodes, which, share).argmax())] == 0


def test_packing_takes_gpus_in_use_then_nodes_in_use_then_the_smallest_idle_node():
    nodes = Nodes([*ROWS, {"cpu_milli": "8000", "memory_mib": "1000", "gpu": "4", "model": "B"}])
    nodes.take(1, Pod(0, 0, 1, 300, ANY))
    which = np.arange(3)
    assert packing(nodes, which, Pod(0, 0, 1, 300, ANY)).tolist() == [32, 93, 29]
    assert packing(nodes, which, Pod(0, 0, 1, 1000, ANY)).tolist() == [32, 49, 29]


def test_clustering_goes_where_only_its_like_are():
    nodes = Nodes([*ROWS, {"cpu_milli": "8000", "memory_mib": "1000", "gpu": "2", "model": "B"}])
    nodes.take(1, Pod(0, 0, 1, 300, ANY))
    nodes.take(2, Pod(0, 0, 1, 1000, ANY))
    nodes.take(2, Pod(0, 0, 1, 300, ANY))
    share, whole = Pod(0, 0, 1, 300, ANY), Pod(0, 0, 1, 1000, ANY)
    assert clustering(nodes, np.arange(3), share).tolist() == [46, 94, 72]
    assert clustering(nodes, np.arange(3), whole).tolist() == [46, 19, 72]
    assert clustering(nodes, np.arange(3), Pod(1, 1, 0, 0, ANY)).tolist() == [0, 0, 0]


def test_fragmentation_is_what_the_usual_pod_cannot_use():
    half, whole, cpu = Pod(0, 0, 1, 500, ANY), Pod(0, 0, 1, 1000, ANY), Pod(100, 0, 0, 0, ANY)
    asks = usual([half, whole, whole, cpu])
    assert [(ask.gpus, ask.share, ask.part) for ask in asks] == [(1, 1000, 0.5), (0, 0, 0.25), (1, 500, 0.25)]
    nodes = Nodes(ROWS)
    nodes.take(1, half)
    loss = Loss(asks, nodes.model).of(nodes.cpu, nodes.gpu, np.arange(2))
    # To the pod without a GPU all is lost; to the whole one the half that is left of the first GPU of node 1.
    assert loss.tolist() == [0.25 * 1000, 0.25 * 1500 + 0.5 * 500]


def test_gradient_descent_fills_the_broken_gpu_and_keeps_the_whole_ones():
    half, whole = Pod(0, 0, 1, 500, ANY), Pod(0, 0, 1, 1000, ANY)
    nodes = Nodes(ROWS)
    gradient = Gradient(nodes, [half, whole, whole])
    nodes.take(1, half, 1)
    gradient.placed(1)
    assert nodes.gpu[1].tolist()[:2] == [1000, 500]
    assert gradient.choose(half, np.arange(2)) == (1, 1)
    assert gradient.choose(whole, np.arange(2))[1] == -1


@pytest.mark.parametrize("policy", POLICIES)
def test_no_more_is_given_than_there_is(policy: str):
    pods = [Pod(100, 1, 1, 500, ANY), Pod(100, 1, 1, 1000, ANY), Pod(100, 1, 2, 1000, ANY)]
    asked = arrivals(pods, 30_000, 1)
    assert 36_000 <= sum(pod.gpus * pod.share for pod in asked) <= 40_000
    assert set(asked) == set(pods)
    found = allocated(Nodes(ROWS), pods, policy, 1)
    assert 50 <= found <= 100
    assert found == allocated(Nodes(ROWS), pods, policy, 1)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(NotFound):
        mean_allocated(tmp_path, "default", "best-fit", range(1))
    with pytest.raises(Misused):
        mean_allocated(tmp_path, "default", "worst-fit", range(1))
