"""What a run survives besides one lost member, and where it stops."""

import json

import pytest

from tests.train.support import claim
from tests.train.test_faults import check_samples, check_weights, same_on_all
from tutti.train.hands import may_join, read_command

pytestmark = pytest.mark.slow


def test_a_loop_that_always_fails_is_not_restarted_for_ever_and_its_state_stays(launch):
    """Neither its own crash nor another model that asks for the same name takes it away."""
    run = launch(
        "--workers", 2, "--max-restarts", 9, loop={"faults": {f"m{number}": {"2": "raise"} for number in range(20)}}
    )
    assert run.finish() == 1
    assert "two members crashed after step 2" in run.said()
    assert run.processes() == []
    other = launch("--workers", 2, loop={"width": 8}, home=run.home)
    assert other.finish() == 1
    assert "has snapshots of another model" in other.said()
    assert "sync.py" not in other.said(), "where in our code an error of theirs was found helps nobody"
    again = launch("--workers", 2, home=run.home)
    assert again.finish() == 0, again.said()
    assert again.events("formed")[0]["source"] == "memory"
    check_samples(again, samples=120)
    assert again.leftovers() == []


def test_below_the_least_the_members_wait_and_go_on_when_one_comes(launch):
    loop = {"wrap": "ddp", "numerics": "ordered", "faults": {"m1": {"3": "kill"}}}
    run = launch("--workers", 2, "--min", 2, "--max-restarts", 3, loop=loop)
    assert run.finish() == 0, run.said()
    assert run.counts()["parked"] == 1
    assert {event["world"] for event in run.events("generation")} == {2}
    assert run.leftovers() == []


def test_a_member_that_is_slow_again_and_again_is_named(launch):
    faults = {"m1": {str(step): "slow" for step in range(2, 12)}}
    run = launch("--workers", 3, loop={"faults": faults, "samples": 240})
    assert run.finish() == 0, run.said()
    # On a busy machine another one may be slow for a while as well.
    assert "m1" in {name for told in run.events("straggler") for name in told["members"]}


def test_a_member_that_hangs_while_all_others_wait_is_replaced(launch):
    loop = {"wrap": "ddp", "numerics": "ordered", "faults": {"m1": {"6": "hang"}}, "samples": 240}
    run = launch("--workers", 3, "--max-restarts", 0, "--hang-after", 0.5, loop=loop)
    assert run.finish() == 0, run.said()
    (fenced,) = run.events("fenced")
    assert fenced["member"] == "m1"
    assert fenced["why"].startswith("is waited for by all others")
    assert run.leftovers() == []


def test_a_model_that_cannot_change_live_starts_again_from_memory_with_another_size(launch):
    loop = {"wrap": "hsdp", "faults": {"m1": {"6": "kill"}}, "samples": 120}
    run = launch("--workers", 4, "--sizes", "2,4", "--max-restarts", 0, loop=loop)
    assert run.finish() == 0, run.said()
    assert "a mesh of 2 dimensions" in run.said() or "another way than by fully_shard" in run.said()
    lost = next(event for event in run.events("lost") if event["code"] < 0)
    (first, *_) = run.events("formed")
    after = next(event for event in run.events("formed") if event["at"] > lost["at"])
    assert (first["world"], after["world"]) == (4, 2)
    assert (after["source"], after["step"]) == ("memory", 6)
    check_samples(run, samples=120)
    same_on_all(run)
    assert run.leftovers() == []
    claim("hsdp", "L1")
    claim("hsdp", "L4")


WRAPS = ["tp", "grid"]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("microbatch", [0, 5])
def test_tensor_parallel_models_change_their_grid_at_a_restart(launch, wrap, microbatch):
    """One model over four and then over two, or two pairs and then one: the shards of one grid are read into another.
    The last step of each epoch has one sample for all.
    """
    loop = {"samples": 97, "batch": 24, "microbatch": microbatch}
    run = launch(
        "--workers", 4, "--sizes", "2,4", "--max-restarts", 0,
        loop={**loop, "wrap": wrap, "faults": {"m1": {"3": "kill"}}},
    )  # fmt: skip
    assert run.finish() == 0, run.said()
    lost = next(event for event in run.events("lost") if event["code"] < 0)
    later = next(event for event in run.events("formed") if event["at"] > lost["at"])
    assert (later["world"], later["source"], later["step"]) == (2, "memory", 3)
    check_samples(run, batch=24, samples=97)
    alone = launch("--workers", 1, loop={**loop, "wrap": "plain"})
    assert alone.finish() == 0, alone.said()
    check_weights(same_on_all(run), same_on_all(alone), "fast")
    assert run.leftovers() == []
    claim(wrap, "L1")
    claim(wrap, "L4")


def test_tensor_parallel_models_side_by_side_whose_gradients_nobody_adds_up_are_refused(launch):
    run = launch("--workers", 2, "--max-restarts", 0, loop={"wrap": "tp", "together": 1})
    assert run.finish() == 1
    assert "needs fully_shard over the groups as well" in run.log.read_text()


@pytest.mark.parametrize("options", [[], ["--no-attach"]])
def test_a_program_that_never_joins_starts_again_from_its_own_checkpoint(launch, options):
    """Which is in memory as well, unless it was to be left alone."""
    loop = {"steps": 8, "victim": 1, "at": 4}
    run = launch("--workers", 2, "--max-restarts", 2, *options, loop=loop, script="unaware.py")
    assert run.finish() == 0, run.said()
    results = run.results()
    assert [(result["attempt"], result["step"], result["total"]) for result in results] == [(1, 8, 16.0)] * 2
    assert all(result["first"] in (3, 4) for result in results)
    assert run.counts()["lost"] + run.counts()["ended"] == 4
    assert run.said().count("saved is read from memory") == (0 if options else 2)
    assert run.leftovers() == []
    claim("unaware", "L0")
    claim("unaware", "L1")


def test_a_snapshot_that_one_did_not_finish_does_not_take_the_place_of_the_last(launch):
    """One dies before it has kept its part of step 7; the other goes on alone, and dies before the next snapshot. What
    they both kept of step 4 must still be there.
    """
    faults = {"m1": {"6": "unkept"}, "m0": {"8": "kill"}}
    loop = {"wrap": "ddp", "samples": 240}
    run = launch("--workers", 2, "--snapshot-every", 3, "--max-restarts", 0, loop={**loop, "faults": faults})
    assert run.finish() != 0
    again = launch("--workers", 2, loop=loop, home=run.home)
    assert again.finish() == 0, again.said()
    begun = again.events("formed")[0]
    assert begun["source"] == "memory"
    assert begun["step"] >= 4
    check_samples(again, samples=240)
    assert again.counts()["steps lost"] == 0
    assert again.leftovers() == []


def test_one_that_is_frozen_before_it_has_begun_is_not_waited_for(launch):
    """A replacement freezes before it joins: another comes in its place."""
    loop = {"wrap": "ddp", "samples": 600, "sleep": 0.2, "faults": {"m1": {"5": "kill"}}, "stillborn": "m2"}
    run = launch("--workers", 2, loop=loop)
    run.wait_for("formed", 3)
    run.hurry()
    assert run.finish() == 0, run.said()
    assert [event["member"] for event in run.events("fenced")] == ["m2"]
    assert run.events("formed")[-1]["world"] == 2
    check_samples(run, samples=600)
    assert run.leftovers() == []


def test_losing_everyone_at_once_goes_on_from_memory(launch):
    faults = {name: {"6": "kill"} for name in ("m0", "m1", "m2")}
    # More tensors than fit a small table of contents.
    loop = {"wrap": "ddp", "numerics": "ordered", "faults": faults, "layers": 400}
    run = launch("--workers", 3, "--max-restarts", 5, "--snapshot-every", 1, loop=loop)
    assert run.finish() == 0, run.said()
    assert {result["ledger"]["1"][0][1] for result in run.results()} == {120}
    assert run.leftovers() == []
    claim("ddp", "L1")


def test_the_store_may_be_lost(launch):
    run = launch("--workers", 3, loop={"wrap": "ddp", "sleep": 0.2, "samples": 600})
    run.wait_step(3)
    run.kill_store()
    pids = run.pids()
    run.kill(pids["m1"])
    run.wait_for("started", 4)
    run.wait_for("formed", 3)
    run.hurry()
    assert run.finish() == 0, run.said()
    assert {tuple(result["ledger"]["1"][0]) for result in run.results()} == {(0, 600)}
    assert run.leftovers() == []


PLAIN = """
import json, os, pathlib, time
out, rank = pathlib.Path(os.environ["OUT"]), os.environ["RANK"]
while rank != "0" and not (out / "go").exists():
    time.sleep(0.01)
names = ("ROLE_NAME", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "WORLD_SIZE")
(out / rank).write_text(json.dumps([os.environ[name] for name in names]))
"""


def test_a_program_that_never_joins_is_waited_for_to_the_last_rank(launch, tmp_path):
    """As torchrun does it, with its words."""
    (tmp_path / "plain").write_text(PLAIN)
    words = ("--standalone", "--nnodes=1", "--nproc_per_node=3", "--role", "worker", "--max_restarts=2", "-t", "3")
    run = launch(*words, "--run-path", script=tmp_path / "plain")
    run.wait_for("ended")
    (run.out / "go").touch()
    assert run.finish() == 0, run.said()
    told = [json.loads((run.out / str(rank)).read_text()) for rank in range(3)]
    assert told == [["worker", "2", "r", "3"]] * 3
    assert "not done here, and ignored: --tee" in run.said()
    assert run.leftovers() == []


AFTER = """
import os, sys, torch
from tutti import train
job = train.join()
model = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
job.protect(model=model, opt=opt)
for x in job.batches(torch.rand(32, 2), global_batch=8) if os.environ["TRAINS"] else ():
    model(x).mean().backward()
    job.commit(opt)
(__import__("pathlib").Path(os.environ["OUT"]) / f"{job.rank}.done").touch()
sys.exit(3 if job.rank == 1 else 0)
"""


@pytest.mark.parametrize("trains", ["yes", ""])
def test_one_that_fails_after_the_last_step_is_heard_of(launch, tmp_path, trains):
    """Also where nobody has computed anything: the others come to their end, whoever is first."""
    (tmp_path / "after.py").write_text(AFTER)
    run = launch("--workers", 3, "--max-restarts", 0, script=tmp_path / "after.py", env={"TRAINS": trains})
    assert run.finish() == 3, run.said()
    assert "finished, but m1 crashed with code 3 after that" in run.said()
    assert len(list(run.out.glob("*.done"))) == 3
    assert run.processes() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from tutti import train\n", True),
        ("import lightning\n", True),
        ("import torch  # not tutti\n", False),
    ],
)
def test_a_program_that_would_join_is_known_by_its_imports(tmp_path, text, expected):
    (tmp_path / "loop.py").write_text(text)
    assert may_join(read_command(["python", str(tmp_path / "loop.py")])) is expected
