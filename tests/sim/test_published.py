"""Published figures, where the traces are at hand: the quick ones. `make validate` has them all."""

import os
from pathlib import Path

import pytest

from tutti.sim.bounds import Job, busy_time_flow, makespan, squashed_flow
from tutti.sim.protocols import pollux, rlscheduler
from tutti.sim.traces.read import read_trace

TRACES = Path(os.environ.get("TUTTI_TRACES") or "nowhere")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TRACES.is_dir(), reason="TUTTI_TRACES does not name the folder of traces"),
]


@pytest.mark.parametrize(
    ("policy", "backfill", "slowdown"),
    [("fcfs", False, 7273.77), ("sjf", False, 277.35), ("fcfs", True, 235.82), ("f1", True, 75.07)],
)
def test_rlscheduler_on_lublin(policy, backfill, slowdown):
    study = rlscheduler.prepare(TRACES / "lublin" / "lublin_256.swf")
    assert round(study.result(policy, backfill).avg_bounded_slowdown, 2) == slowdown


def test_tiresias_on_pollux():
    folder = TRACES / "pollux"
    mean = pollux.mean_completion_s(folder / "workloads" / "workload-6.csv", folder / "profiles", "tiresias")
    assert round(mean, 2) == 3469.69


def test_bounds_on_lublin_and_kth():
    rows = read_trace(TRACES / "lublin" / "lublin_256.swf").rows
    jobs = [Job(row.at / 1e6, row.width, row.run / 1e6) for row in rows]
    pieces = [jobs[at : at + rlscheduler.LENGTH] for at in rlscheduler.STARTS]
    assert round(sum(squashed_flow(piece, 256) for piece in pieces) / 10) == 4835
    assert round(sum(busy_time_flow(piece, 256) for piece in pieces) / 10) == 6592
    kth = read_trace(TRACES / "kth-sp2" / "KTH-SP2_filtered.swf").rows
    assert makespan([Job(row.at / 1e6, row.width, min(row.run, row.limit) / 1e6) for row in kth], 100) == 29_363_626


@pytest.mark.parametrize(
    ("path", "kind", "jobs"),
    [
        ("philly/philly_jobs.csv", "philly", 82_247),
        ("nasa-ipsc/NASA-iPSC-1993-3.1-cln.swf.gz", "swf", 18_239),
        ("gavel/msr_seed0/0e4a51.trace", "gavel", 1_181),
        ("tiresias/60_job.csv", "tiresias", 60),
        ("sia/philly/workload-1.csv", "workload", 160),
        ("openb-2023/openb_pod_list_default.csv", "openb", 7_064),
    ],
)
def test_public_traces_are_recognised(path, kind, jobs):
    log = read_trace(TRACES / path)
    assert (log.kind, len(log.rows)) == (kind, jobs)
