"""Loops of several stages: lost members, other sizes, other numbers of stages, and the same four oracles."""

import os
import re

import pytest
import torch

from tests.train.support import claim
from tests.train.test_dialogue import Scheduler
from tests.train.test_faults import check_weights
from tutti.train.agent.channel import Done, Refused, Released, Resize
from tutti.train.domains import Places

pytestmark = pytest.mark.slow

LOOP = {"samples": 100, "batch": 12, "epochs": 2}
_calm: dict[tuple[str, int], dict] = {}


def learned(run):
    """What all stages have learned together; replicas have learned the same."""
    results = run.results()
    assert results, run.said()
    weights: dict[str, torch.Tensor] = {}
    for result in results:
        for name, value in result["weights"].items():
            assert torch.equal(weights.setdefault(name, value), value), name
    return {**results[0], "weights": weights}


def check_samples(run, epochs=2, batch=12, samples=100):
    """Each sample moved its own parameter once per epoch, by its weight in the step it was in."""
    result = learned(run)
    short = samples % batch or batch
    for value in result["weights"]["count"].tolist():
        expected = (k / short + (epochs - k) / batch for k in range(epochs + 1))
        assert any(abs(value - one) < 1e-5 for one in expected), value
    assert abs(result["weights"]["count"].sum().item() - epochs * -(-samples // batch)) < 1e-3
    whole = {str(epoch): [[0, samples]] for epoch in range(epochs)}
    assert all(one["ledger"] == whole for one in run.results())


@pytest.fixture
def calm(launch):
    """The same model with nothing happening to it: one replica, of two stages if nothing else is said."""

    def result(numerics, stages=2):
        if (numerics, stages) not in _calm:
            loop = {**LOOP, "numerics": numerics, "stages": stages}
            run = launch("--workers", stages, loop=loop, script="pipeline.py")
            assert run.finish() == 0, run.said()
            _calm[numerics, stages] = learned(run)
        return _calm[numerics, stages]

    return result


def begun_again(run):
    """The first generation after the first loss that was not asked for."""
    lost = next(event for event in run.events("lost") if event["code"] < 0)
    return next(event for event in run.events("formed") if event["at"] > lost["at"])


@pytest.mark.parametrize(
    ("fault", "schedule", "numerics", "microbatch"),
    [
        pytest.param("kill", "GPipe", "fast", 0, id="killed"),
        pytest.param("kill", "1F1B", "ordered", 0, id="killed, in order"),
        pytest.param("stop", "1F1B", "fast", 4, id="frozen, in pieces"),
        pytest.param("partition", "GPipe", "ordered", 0, id="partitioned"),
    ],
)
def test_a_lost_stage_is_brought_back_from_what_the_others_keep(launch, calm, fault, schedule, numerics, microbatch):
    """Two replicas of two stages; the last step of each epoch has four samples."""
    loop = {**LOOP, "numerics": numerics, "schedule": schedule, "microbatch": microbatch}
    run = launch("--workers", 4, loop={**loop, "faults": {"m1": {"5": fault}}}, script="pipeline.py")
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(learned(run), calm(numerics), numerics)
    lost = [event["member"] for event in run.events("lost") if event["code"] < 0]
    assert lost == (["m1"] if fault != "partition" else []), run.said()
    assert run.events("generation")[-1]["reason"] == "start again"
    assert "a pipeline of 2 stages cannot change its members live" in run.said()
    (first, *_, last) = run.events("formed")
    assert (first["world"], last["world"]) == (4, 4)
    assert (last["source"], last["step"] >= 5) == ("memory", True)
    assert run.counts()["steps lost"] == 0
    assert run.leftovers() == []
    claim("pipeline", "L1")


def test_without_a_replacement_a_whole_replica_goes(launch, calm):
    """Three are left of two pairs: one pair goes on, and it is not said which sizes are legal."""
    run = launch(
        "--workers", 4, "--max-restarts", 0, loop={**LOOP, "faults": {"m2": {"5": "kill"}}}, script="pipeline.py"
    )
    assert run.finish() == 0, run.said()
    later = begun_again(run)
    assert (later["world"], later["source"], later["step"]) == (2, "memory", 5)
    check_samples(run)
    check_weights(learned(run), calm("fast"), "fast")
    assert run.leftovers() == []
    claim("pipeline", "L4")


@pytest.mark.parametrize("shard", [False, True], ids=["plain", "fsdp"])
@pytest.mark.parametrize(
    ("before", "after"),
    [((2, 2), (4, 4)), ((4, 4), (2, 2)), ((4, 2), (4, 4)), ((4, 4), (2, 1))],
    ids=lambda cut: f"{cut[0]} in {cut[1]}",
)
def test_another_number_of_stages_has_the_bytes_that_a_checkpoint_gives(launch, calm, tmp_path, before, after, shard):
    """So many members in so many stages: all are lost, and others begin in another cut. What they then have of weights
    and of the optimizer is what torch's own checkpoint, written by the first and loaded by the second, gives.
    """
    loop = {**LOOP, "shard": shard, "checkpoint": str(tmp_path / "dcp"), "checkpoint_at": 7}
    faults = {f"m{number}": {"7": "kill"} for number in range(before[0])}
    run = launch(
        "--workers", before[0], "--max-restarts", 0, loop={**loop, "stages": before[1], "faults": faults},
        script="pipeline.py",
    )  # fmt: skip
    assert run.finish() != 0
    again = launch("--workers", after[0], loop={**loop, "stages": after[1]}, home=run.home, script="pipeline.py")
    assert again.finish() == 0, again.said()
    begun = again.events("formed")[0]
    assert (begun["source"], begun["step"], begun["world"]) == ("memory", 7, after[0])
    same = [re.findall(r"\d+", path.read_text()) for path in again.out.glob("*.same")]
    assert len(same) == after[0]
    assert all(int(count) > 0 for (count,) in same), "nothing was compared"
    check_samples(again)
    check_weights(learned(again), calm("fast", stages=1), "fast")
    assert again.leftovers() == []
    claim("pipeline", "L4")


def test_stages_that_are_shared_by_ranks_are_read_by_whole_ones_and_back(launch, tmp_path):
    """Two stages on two ranks each (tensor parallel), then two on one each: other shards of the same names."""
    loop = {**LOOP, "checkpoint": str(tmp_path / "dcp"), "checkpoint_at": 7}
    faults = {f"m{number}": {"7": "kill"} for number in range(4)}
    run = launch(
        "--workers", 4, "--max-restarts", 0, loop={**loop, "tensor": 2, "faults": faults}, script="pipeline.py"
    )
    assert run.finish() != 0
    again = launch("--workers", 2, loop=loop, home=run.home, script="pipeline.py")
    assert again.finish() == 0, again.said()
    assert (again.events("formed")[0]["source"], again.events("formed")[0]["step"]) == ("memory", 7)
    assert [int(path.read_text()) > 0 for path in again.out.glob("*.same")] == [True, True]
    check_samples(again)
    shared = launch("--workers", 4, loop={**LOOP, "tensor": 2, "faults": {"m1": {"5": "kill"}}}, script="pipeline.py")
    assert shared.finish() == 0, shared.said()
    check_samples(shared)
    check_weights(learned(again), learned(shared), "fast")
    assert again.leftovers() == []


def test_stages_that_follow_the_members_change_with_them(launch, calm):
    """Four stages on four members; one is lost for good, and two go on with two."""
    loop = {**LOOP, "by_world": {"4": 4, "2": 2}, "faults": {"m3": {"6": "kill"}}}
    run = launch("--workers", 4, "--sizes", "2,4", "--max-restarts", 0, loop=loop, script="pipeline.py")
    assert run.finish() == 0, run.said()
    later = begun_again(run)
    assert (later["world"], later["source"], later["step"]) == (2, "memory", 6)
    assert {result["stages"] for result in run.results()} == {2}
    check_samples(run)
    check_weights(learned(run), calm("fast"), "fast")
    assert run.leftovers() == []


def heard(scheduler, name):
    return getattr(scheduler.server.talks["r"].progress, name)


def test_a_scheduler_asks_for_whole_replicas(launch, tmp_path):
    scheduler = Scheduler(tmp_path / "c")
    loop = {**LOOP, "samples": 300, "sleep": 0.2}
    run = launch(
        "--workers", 4, loop=loop, env={"TUTTI_CHANNEL": f"unix:{tmp_path / 'c'}"}, folder="one", script="pipeline.py"
    )
    try:
        refused = scheduler.ask(Resize("a", 3, 60.0), Refused)
        assert refused[-1] == Refused("a", "3 is not a multiple of 2", (2, 4))
        scheduler.ask(Resize("b", 2, 60.0), Released)
        scheduler.until(lambda: heard(scheduler, "world") == 2)
        assert heard(scheduler, "level") == "L4"
        scheduler.ask(Resize("c", 4, 60.0), Done)
        scheduler.until(lambda: heard(scheduler, "world") == 4 or not run.is_running())
        run.hurry()
    finally:
        scheduler.server.close()
    assert run.finish() == 0, run.said()
    check_samples(run, samples=300)
    assert run.counts()["steps lost"] == 0
    assert run.leftovers() == []


@pytest.mark.parametrize("workers", [2, 4])
def test_a_stage_that_is_in_one_failure_domain_has_a_copy_in_another(launch, calm, workers):
    """The memory of a domain goes with its members, and with it all that was there of a stage."""
    loop = {**LOOP, "faults": {"m0": {"5": "node"}}}
    run = launch("--workers", workers, "--domains", 2, loop=loop, script="pipeline.py")
    assert run.finish() == 0, run.said()
    later = run.events("formed")[-1]
    assert (later["source"], later["step"]) == ("memory", 5)
    assert sum(event["bytes"] for event in run.events("filled")) > 0
    check_samples(run)
    check_weights(learned(run), calm("fast"), "fast")
    assert run.leftovers() == []


def test_another_cut_goes_on_from_a_folder_when_memory_is_gone(launch, tmp_path):
    loop = {**LOOP, "samples": 300, "sleep": 0.03}
    kept = ["--disk", tmp_path / "disk"]
    run = launch("--workers", 2, *kept, loop=loop, script="pipeline.py")
    run.wait_step(8)
    run.signal()
    run.finish()
    assert run.leftovers() == []
    again = launch("--workers", 4, *kept, loop={**loop, "stages": 4, "sleep": 0.0}, script="pipeline.py")
    assert again.finish() == 0, again.said()
    assert again.events("formed")[0]["source"] == "disk"
    check_samples(again, samples=300)
    assert again.leftovers() == []


@pytest.mark.parametrize(
    ("loop", "workers", "words"),
    [
        pytest.param({"names": "counted"}, 2, "stages 0 and 1 both train model/layers.0.0.bias", id="names"),
        pytest.param({"stages": 2}, 3, "3 members are no whole number of replicas of 2", id="size"),
        pytest.param({"ddp": True}, 4, "a stage is wrapped in DistributedDataParallel", id="wrapper"),
        pytest.param({"together": 4}, 4, "pipeline() said that 2 ranks hold one replica", id="together"),
        pytest.param({"stray": True}, 2, "has a parameter of [3] that is in no protected model", id="optimizer"),
        pytest.param({"unlike": True}, 2, "scale is in stage 0 and in stage 1, and is not the same there", id="buffer"),
        pytest.param({"odd": 1}, 4, "the stages must be the same number on every rank", id="stages"),
        pytest.param({"late": True}, 2, "pipeline() was called after the first batch", id="late"),
    ],
)
def test_what_cannot_be_a_pipeline_is_refused_with_words(launch, loop, workers, words):
    run = launch("--workers", workers, "--max-restarts", 0, loop={**LOOP, **loop}, script="pipeline.py")
    assert run.finish() == 1, run.said()
    assert words in run.log.read_text(), run.said()
    assert run.processes() == []


def test_another_model_under_the_same_name_is_refused_and_the_state_stays(launch):
    faults = {f"m{number}": {"5": "kill"} for number in range(2)}
    run = launch("--workers", 2, "--max-restarts", 0, loop={**LOOP, "faults": faults}, script="pipeline.py")
    assert run.finish() != 0
    other = launch("--workers", 2, loop={**LOOP, "width": 8}, home=run.home, script="pipeline.py")
    assert other.finish() == 1
    assert "has snapshots of another model" in other.said()
    again = launch("--workers", 2, loop=LOOP, home=run.home, script="pipeline.py")
    assert again.finish() == 0, again.said()
    assert again.events("formed")[0]["source"] == "memory"
    check_samples(again)


def test_one_process_without_a_launcher_is_a_pipeline_of_one(tmp_path):
    import subprocess
    import sys

    from tests.train.stage import LOOPS, SOURCE

    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "OUT": str(tmp_path),
        "LOOP": '{"stages": 1, "samples": 24}',
    }
    command = [sys.executable, str(LOOPS / "pipeline.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert torch.load(tmp_path / "alone.pt")["step"] == 4


def test_who_holds_the_same_is_known_by_its_place_in_the_replica():
    places = Places(("a", "b", "a", "b"), (0, 1, 0, 1))
    assert [places.share(rank) for rank in range(4)] == [(0, 2), (0, 2), (1, 2), (1, 2)]
    assert all(places.is_lone(rank) for rank in range(4))
    spread = Places(("a", "a", "b", "b"), (0, 1, 0, 1))
    assert not any(spread.is_lone(rank) for rank in range(4))
    assert not Places(("a", "a"), (0, 1)).is_lone(0)
