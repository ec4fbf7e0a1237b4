"""The engine over virtual time, against schedulers that fit on a page."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.textbook import Entry, promised_starts, starts
from tutti.engine.model import SECOND
from tutti.engine.presets import PRESETS
from tutti.sim.cluster import plain
from tutti.sim.intake import Cut, Estimates, Tasks
from tutti.sim.run import Simulation
from tutti.sim.traces.log import Log, Row

PROCESSORS = 5


@st.composite
def logs(draw):
    found = []
    for _ in range(draw(st.integers(1, 10))):
        run = draw(st.integers(1, 30))
        request = run + draw(st.sampled_from([0, 0, 3, 20]))
        found.append(Entry(draw(st.integers(0, 40)), run, draw(st.integers(1, PROCESSORS)), request))
    return sorted(found, key=lambda job: job.submit)


def played(jobs, policy, nodes=PROCESSORS):
    """Starts on so many nodes that have all processors together."""
    rows = [
        Row(f"{at:02d}", job.submit * SECOND, job.run * SECOND, job.width, job.request * SECOND)
        for at, job in enumerate(jobs)
    ]
    cut = Cut("slot", PROCESSORS // nodes, whole_nodes=nodes == 1)
    tasks = Tasks(Log("made", "made", rows, "slot"), cut, Estimates())
    cluster = plain(nodes, PROCESSORS // nodes, "slot")
    notices: list[object] = []
    simulation = Simulation(tasks, cluster, PRESETS[policy].policy, "slot", one_by_one=True, tell=notices.append)
    found = [at // SECOND for at in simulation.run().started]
    assert notices == []
    return found


@pytest.mark.parametrize(("policy", "backfill"), [("fcfs", ""), ("easy", "age"), ("easy-sjbf", "shortest")])
@given(jobs=logs())
def test_the_engine_starts_every_job_when_the_textbook_does(policy, backfill, jobs):
    assert played(jobs, policy) == starts(jobs, PROCESSORS, backfill)


@given(jobs=logs())
def test_where_all_are_promised_a_start_it_is_the_textbooks_on_one_node(jobs):
    assert played(jobs, "conservative", nodes=1) == promised_starts(jobs, PROCESSORS)


@pytest.mark.parametrize("policy", ["easy", "easy-sjbf", "conservative"])
def test_so_it_is_when_work_piles_up(policy):
    """Sixty wait at once, and each of them was promised a start that moves whenever somebody ends early."""
    draw = Random(7)
    runs = [draw.randint(1, 400) for _ in range(100)]
    jobs = [
        Entry(at // 2, run, draw.randint(1, PROCESSORS), run * draw.choice([1, 2, 5]) + 3)
        for at, run in enumerate(runs)
    ]
    if policy == "conservative":
        assert played(jobs, policy, nodes=1) == promised_starts(jobs, PROCESSORS)
    else:
        assert played(jobs, policy) == starts(jobs, PROCESSORS, {"easy": "age"}.get(policy, "shortest"))
