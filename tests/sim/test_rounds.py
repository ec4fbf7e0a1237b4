"""Rounds of a few minutes: Gavel and its kin, as the studies of Sia and Shockwave play them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tutti.errors import Misused, NotFound
from tutti.sim.profiles import Profile
from tutti.sim.protocols import shockwave, sia
from tutti.sim.protocols.fair_rounds import (
    POLICIES,
    Learner,
    Rounds,
    center,
    finish_time,
    gandiva_fair,
    long_and_short,
    max_min,
    min_makespan,
)
from tutti.sim.protocols.sia_blind import Blind, kept
from tutti.sim.protocols.sia_program import ROUND_S, Program, shapes
from tutti.sim.protocols.simplex import largest

TYPE = "LM (batch size 20)"


def learner(name: str, width: int = 1, steps: int = 1200, arrived: float = 0.0, rate: float = 10.0) -> Learner:
    return Learner(name, "LM", width, "static", 20, 20, steps, arrived, rate)


def trace(path: Path, rows: list[tuple[str, int, int, str, int, int]]) -> Path:
    """Jobs as type, steps, width, mode, expected duration, arrival."""
    fields = [
        [kind, "x", "x", "x", "1", steps, width, mode, "1", "-1", lasts, at]
        for kind, *rest in rows
        for steps, width, mode, lasts, at in [rest]
    ]
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in fields))
    return path


def test_a_linear_program_has_the_value_that_was_worked_out_by_hand():
    x = largest(np.array([3.0, 5.0]), np.array([[1.0, 0], [0, 2], [3, 2]]), np.array([4.0, 12, 18]))
    assert x == pytest.approx([2, 6])
    assert largest(np.array([1.0]), np.array([[1.0]]), np.array([0.0])) == pytest.approx([0])


def test_parts_of_the_time_are_in_the_middle_of_what_fits():
    assert center([0.0], [1], 10) == pytest.approx([0.5], abs=0.06)
    assert center([0.5, 0.5], [2, 2], 2) == [0.5, 0.5]
    found = center([0.25, 0.25, 1.0], [4, 2, 1], 4)
    assert found[2] == pytest.approx(1)
    assert 4 * found[0] + 2 * found[1] + found[2] < 4
    assert found[0] > 0.25 < found[1]


def test_fair_parts_by_hand():
    crowd = [learner(str(at), width) for at, width in enumerate([1, 1, 2, 4])]
    assert max_min(crowd, 2, 0.0) == pytest.approx([0.5, 0.5, 0.25, 0.125])
    assert gandiva_fair(crowd, 2, 0.0) == [0.5] * 4
    ends = [job.left / job.rate / part for job, part in zip(crowd, min_makespan(crowd, 4, 0.0), strict=True)]
    assert max(ends) == pytest.approx(240, rel=0.06)


def test_the_longest_keeps_pace_and_the_shortest_goes_first():
    crowd = [learner("long", steps=10_000), learner("short", steps=100), learner("middle", steps=5_000)]
    long, short, middle = long_and_short(crowd, 2, 0.0)
    assert (long, short) == pytest.approx((1, 1), abs=0.06)
    assert middle == pytest.approx(short / 50), "the rest by how short they are"
    assert long + short + middle == pytest.approx(2)


@pytest.mark.parametrize("policy", POLICIES)
def test_everybody_ends_and_nobody_trains_faster_than_alone(policy: str):
    jobs = [learner(str(at), 1 + at % 3, 1500 * (1 + at % 4), 90.0 * at) for at in range(12)]
    rounds = Rounds(jobs, 4, POLICIES[policy]())
    rounds.play(lambda _: 0, lambda *_: None)
    assert all(job.ended is not None and job.done >= job.steps for job in jobs)
    assert all((job.ended or 0) - job.arrived >= job.steps / job.rate - 1e-6 for job in jobs)
    assert rounds.now == pytest.approx(max(job.ended or 0 for job in jobs))


def test_who_goes_on_after_a_break_pays_for_it():
    jobs = [learner("a", 1, 3600), learner("b", 1, 3600)]
    rounds = Rounds(jobs, 1, POLICIES["max-min"]())
    rounds.play(lambda _: 0, lambda *_: None)
    assert rounds.now > 720 + 20


def test_a_trace_tells_its_rates_and_what_is_missing_comes_in_proportion(tmp_path):
    table = tmp_path / "rates.json"
    known = {f"('LM (batch size {batch})', 1)": {"null": rate} for batch, rate in ((20, 4.0), (40, 3.0), (80, 2.0))}
    table.write_text(json.dumps({"v100": known}))
    path = trace(tmp_path / "t.trace", [(TYPE, 80_000, 1, "accordion", 10_000, 0)])
    jobs, rates = shockwave.read(path, table)
    assert jobs[0].rate == 8.0
    assert rates.of("LM", 80, 1) == pytest.approx(4.0)
    assert rates.of("LM", 160, 1) is None
    found = shockwave.results(path, table, "max-min", gpus=1)
    assert found.makespan_s < 9_000
    assert found.mean_completion_s == found.makespan_s


def test_batches_change_and_epochs_stay(tmp_path):
    rates = shockwave.Rates({("LM", 20, 1): 8.0, ("LM", 80, 1): 4.0, ("LM", 40, 1): 6.0}, {})
    job = learner("a", steps=2984 * 30)
    job.mode, job.done = "accordion", 2984 * 9
    assert shockwave.wanted_batch(job, rates) == 0
    job.done = 2984 * 10
    assert shockwave.wanted_batch(job, rates) == 80
    shockwave.rescale(job, 80, rates)
    assert (job.batch, job.rate) == (80, 4.0)
    assert math.ceil(job.steps / shockwave.epoch_steps("LM", 80)) == 30
    assert job.done == 10 * shockwave.epoch_steps("LM", 80)
    noisy = learner("b", steps=2984 * 60)
    noisy.mode, noisy.done = "gns", 2984 * 10
    assert shockwave.wanted_batch(noisy, rates) == 40


def test_what_is_no_job_of_the_study_is_said(tmp_path):
    (tmp_path / "rates.json").write_text('{"v100": {}}')
    path = trace(tmp_path / "t.trace", [("A3C (batch size 4)", 10, 1, "static", 10, 0)])
    with pytest.raises(Misused, match="A3C"):
        shockwave.results(path, tmp_path / "rates.json", "max-min")
    with pytest.raises(Misused, match="no policy"):
        shockwave.results(path, tmp_path / "rates.json", "shockwave")
    with pytest.raises(NotFound):
        shockwave.results(tmp_path / "none", tmp_path / "rates.json", "max-min")


def profile(folder: Path, step: dict[str, float]) -> Path:
    """An application whose steps take so long on each kind of GPU."""
    app = folder / "cifar10"
    app.mkdir()
    epochs = "\n".join(f"{at + 1},{(at + 1) * 100.0},{(at + 1) * 100},0.5,1.0,1.0" for at in range(100))
    for batch in (128, 256):
        (app / f"validation-{batch}.csv").write_text("epoch,progress,iteration,metric,grad_sqr,grad_var\n" + epochs)
    for kind, seconds in step.items():
        points = "".join(f"{gpus},{local},{seconds},0\n" for gpus in (1, 2, 4) for local in (32, 256))
        (app / f"placements-{kind}.csv").write_text("placement,local_bsz,step_time,sync_time\n" + points)
        (app / f"scalability-{kind}.csv").write_text(
            f"num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,8,32,{seconds},0\n2,8,256,{seconds},0\n"
        )
    return folder


def test_gavel_gives_the_fast_gpus_to_whom_they_help(tmp_path):
    folder = profile(tmp_path, {"fast": 0.1, "slow": 0.4})
    work = tmp_path / "w.csv"
    work.write_text("name,time,application,num_replicas,batch_size\na,0,cifar10,4,128\nb,10.0,cifar10,4,128\n")
    pools = (sia.Pool("fast", 1, 4), sia.Pool("slow", 1, 4))
    jobs = sia.read_workload(work, folder, pools)
    assert jobs[0].rate(pools[0]) == pytest.approx(10)
    assert jobs[0].rate(sia.Pool("fast", 1, 2)) == sia.TOO_WIDE
    sia.play(jobs, sia.Gavel(pools))
    assert all(job.ended is not None for job in jobs)
    found = sia.results([work], folder, pools)
    assert found.completion_h <= found.p99_h <= found.makespan_h
    assert found.restarts >= 0 < found.gpu_hours


def workload(folder: Path, jobs: int) -> Path:
    """Equal jobs, tuned to four GPUs, submitted a minute apart."""
    rows = "".join(f"j{at},{60 * at},cifar10,4,128\n" for at in range(jobs))
    (folder / "w.csv").write_text("name,time,application,num_replicas,batch_size\n" + rows)
    return folder / "w.csv"


def test_gavels_rounds_share_equal_gpus_by_finish_time(tmp_path):
    pools = (sia.Pool("fast", 1, 4),)
    jobs = sia.read_workload(workload(tmp_path, 3), profile(tmp_path, {"fast": 0.4}), pools)
    sia.play(jobs, sia.Fair(pools, finish_time))
    ends = sorted((job.ended or 0) - job.submitted for job in jobs)
    assert ends[-1] < 1.5 * ends[0], "nobody is served long before the others"
    assert all(job.starts > 1 for job in jobs)


def test_the_rounded_program_deals_whole_shapes_that_fit(tmp_path):
    pools = (sia.Pool("fast", 1, 4), sia.Pool("slow", 2, 4))
    assert [sum(placement) for _, placement in shapes(pools[1])] == [1, 2, 4, 8]
    jobs = sia.read_workload(workload(tmp_path, 5), profile(tmp_path, {"fast": 0.1, "slow": 0.4}), pools)
    program, widest = Program(pools), 0
    for now in range(300, 3000, ROUND_S):
        placed = program.placements(jobs, now)
        assert set(placed) == {job.name for job in jobs}
        for pool in pools:
            assert sum(sum(placement) for kind, placement in placed.values() if kind == pool.kind) <= pool.gpus
        for job in jobs:
            before = sum(job.placement)
            job.move(*placed[job.name])
            assert sum(job.placement) <= max(2 * before, 1), "at most twice as wide as before"
            widest = max(widest, sum(job.placement))
    assert widest > 1
    found = sia.results([tmp_path / "w.csv"], tmp_path, pools, Program, ROUND_S)
    assert 0 < found.completion_h < sia.results([tmp_path / "w.csv"], tmp_path, pools).completion_h


def test_a_rule_that_is_blind_to_kinds_keeps_one_kind_for_each_job(tmp_path):
    assert kept([("aws", 0), ("aws", 1), ("aws", 1), ("rtx", 0)]) == ("aws", (1, 2))
    assert kept([("aws", 0), ("rtx", 0)]) == ("rtx", (1,)), "of equally many the faster"
    speeds = {"dgx-ext": 0.1, "rtx": 0.2, "aws": 0.4}
    jobs = sia.read_workload(workload(tmp_path, 3), profile(tmp_path, speeds), sia.MIXED)
    blind = Blind(sia.MIXED)
    placed = blind.placements(jobs, 60)
    for pool in sia.MIXED:
        here = [placement for kind, placement in placed.values() if kind == pool.kind]
        assert sum(map(sum, here)) <= pool.gpus
        assert all(each <= pool.each for placement in here for each in placement)
    found = sia.results([tmp_path / "w.csv"], tmp_path, sia.MIXED, Blind, ROUND_S)
    knows = sia.results([tmp_path / "w.csv"], tmp_path, sia.MIXED, Program, ROUND_S)
    assert found.completion_h > knows.completion_h > 0


def test_the_largest_batch_of_a_gpu_is_the_one_measured_there(tmp_path):
    found = Profile(profile(tmp_path, {"fast": 0.1}) / "cifar10", "fast")
    assert found.most_local_on((4,)) == 256
    assert found.most_local_on((4, 4)) == 256
