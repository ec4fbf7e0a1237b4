"""Random kills, freezes and resizes: each sample once, and the weights of the calm run, bit for bit."""

import contextlib
import os
import random
import signal
from typing import Any

import pytest
import torch

from tests.train import test_pipeline as pipeline
from tests.train.test_dialogue import Scheduler
from tests.train.test_faults import check_samples, same_on_all
from tutti.train.agent.channel import Done, Refused, Released, Resize
from tutti.train.agent.exits import Exit

pytestmark = pytest.mark.slow

BLOWS = int(os.environ.get("TUTTI_STORM", "30"))
LOOP: dict[str, Any] = {"samples": 1600, "batch": 16, "epochs": 1, "sleep": 0.002, "wrap": "ddp", "numerics": "ordered"}


def strike(run, scheduler, draw, number):
    """One blow: kill someone, freeze someone, or ask for another size and wait for the answer. Who was struck."""
    kind = draw.choice(["kill", "kill", "stop", "resize"])
    if kind == "resize":
        scheduler.ask(Resize(f"r{number}", draw.randint(2, 5), 60.0), (Done, Released, Refused))
        return None
    pids = run.pids()
    if not pids:
        # Three blows in a row may have struck everybody; the next members are on their way.
        return None
    member = draw.choice(sorted(pids))
    # One that was released may end before the blow reaches it, and before the story says so.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pids[member], signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
    return member


def check_story(run, struck):
    """Nobody is lost or crashes who was not struck, and whoever was is known to be gone. One that met the failure of
    another while it built its model may start again, and says so.
    """
    lost = {event["member"] for event in run.events("lost")}
    meant = {*range(-64, 1), Exit.PREEMPTED, Exit.RELEASED, Exit.AGAIN}
    crashed = {event["member"] for event in run.events("ended") if event["code"] not in meant}
    gone = lost | {event["member"] for event in run.events("ended")}
    again = {event["member"] for event in run.events("fallback")}
    assert lost | crashed <= struck | again, f"without a blow: {(lost | crashed) - struck - again}:\n{run.said()}"
    assert struck <= gone, f"struck and not gone: {struck - gone}"
    assert run.events("steps lost") == []


def step_of(scheduler):
    talk = scheduler.server.talks.get("r")
    return talk.progress.step if talk and talk.progress else -1


def rage(launch, tmp_path, loop, blows, **named):
    """Strike a run until it ends: the run, and who was struck."""
    seed = int(os.environ.get("TUTTI_STORM_SEED", "1"))
    draw = random.Random(seed)
    scheduler = Scheduler(tmp_path / "c")
    env = {"TUTTI_CHANNEL": f"unix:{tmp_path / 'c'}"}
    run = launch(
        "--workers", 4, "--max", 5, "--standby", 1, "--max-restarts", 10**6, loop=loop, env=env, folder="storm", **named
    )
    try:
        struck = []
        for number in range(blows):
            step = step_of(scheduler)
            scheduler.until(lambda step=step: step_of(scheduler) > step or not run.is_running())
            if not run.is_running():
                break
            struck.append(strike(run, scheduler, draw, number))
        run.finish_within(60 + 2 * BLOWS)
        assert run.code == 0, f"seed {seed}:\n{run.said()}"
    finally:
        scheduler.server.close()
    assert len(struck) >= blows * 3 // 4, "the loop ended before the storm did"
    return run, set(filter(None, struck))


@pytest.mark.timeout(0)
@pytest.mark.parametrize(("wrap", "numerics", "share"), [("ddp", "ordered", 1), ("fsdp", "fast", 3)])
def test_a_storm_leaves_no_trace_in_what_was_learned(launch, tmp_path, wrap, numerics, share):
    blows = max(1, BLOWS // share)
    samples = max(LOOP["samples"] // share, 16 * 8 * blows)
    loop = {**LOOP, "samples": samples, "wrap": wrap, "numerics": numerics}
    run, struck = rage(launch, tmp_path, loop, blows)
    check_story(run, struck)
    check_samples(run, epochs=1, batch=16, samples=samples)
    calm = launch("--workers", 2, loop={**loop, "sleep": 0.0}, folder="calm")
    calm.finish_within(60 + 2 * BLOWS)
    expected, stormy = same_on_all(calm), same_on_all(run)
    for name, value in expected["weights"].items():
        if numerics == "ordered":
            assert torch.equal(stormy["weights"][name], value), name
        else:
            torch.testing.assert_close(stormy["weights"][name], value, rtol=1e-2, atol=1e-3)
    assert run.leftovers() == []


@pytest.mark.timeout(0)
def test_a_storm_over_a_pipeline_leaves_no_trace_either(launch, tmp_path):
    blows = max(1, BLOWS // 5)
    loop = {"samples": 16 * 8 * blows, "batch": 16, "epochs": 1, "sleep": 0.002, "numerics": "ordered"}
    run, struck = rage(launch, tmp_path, loop, blows, script="pipeline.py")
    check_story(run, struck)
    pipeline.check_samples(run, epochs=1, batch=16, samples=loop["samples"])
    calm = launch("--workers", 2, loop={**loop, "sleep": 0.0}, folder="calm", script="pipeline.py")
    assert calm.finish() == 0, calm.said()
    expected, stormy = pipeline.learned(calm)["weights"], pipeline.learned(run)["weights"]
    assert all(torch.equal(stormy[name], value) for name, value in expected.items())
    assert run.leftovers() == []
