"""Fault by numerics by wrapper, with four oracles: the samples, the weights, what is left behind, and the story."""

import pytest
import torch

from tests.train.support import claim

pytestmark = pytest.mark.slow

WRAPS = ["plain", "ddp"]
NUMERICS = ["fast", "ordered"]
LOOP = {"samples": 100, "batch": 12, "epochs": 2}
_calm: dict[tuple[str, str], dict] = {}


def check_samples(run, epochs=2, batch=12, samples=100):
    """Each sample moved its own parameter once per epoch, by its weight in the step it was in."""
    short = samples % batch or batch
    for result in run.results():
        counted = result["weights"]["count"]
        full, last = 1 / batch, 1 / short
        for value in counted.tolist():
            assert any(abs(value - (k * last + (epochs - k) * full)) < 1e-5 for k in range(epochs + 1)), value
        assert abs(counted.sum().item() - epochs * -(-samples // batch)) < 1e-3
        assert result["ledger"] == {str(epoch): [[0, samples]] for epoch in range(epochs)}


def same_on_all(run):
    results = run.results()
    assert results, run.said()
    for result in results[1:]:
        assert all(torch.equal(result["weights"][name], value) for name, value in results[0]["weights"].items())
    return results[0]


@pytest.fixture
def calm(launch):
    """The same loop with nothing happening to it."""

    def weights(wrap, numerics):
        if (wrap, numerics) not in _calm:
            run = launch(
                "--workers", 3, loop={**LOOP, "wrap": wrap, "numerics": numerics}, folder=f"calm-{wrap}-{numerics}"
            )
            assert run.finish() == 0, run.said()
            _calm[wrap, numerics] = same_on_all(run)
        return _calm[wrap, numerics]

    return weights


def check_weights(result, calm, numerics):
    assert result["step"] == calm["step"]
    assert result["lr"] == calm["lr"]
    for name, value in calm["weights"].items():
        if numerics == "ordered":
            assert torch.equal(result["weights"][name], value), name
        else:
            # Another order of adding changes the last bits, and eighteen steps of AdamW make them a little larger.
            torch.testing.assert_close(result["weights"][name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize(
    ("fault", "events"),
    [
        pytest.param("kill", {"lost": 1, "fenced": 0}, id="killed"),
        pytest.param("stop", {"lost": 1, "fenced": 1}, id="frozen"),
        pytest.param("partition", {"lost": 0, "fenced": 0}, id="partitioned"),
        pytest.param("slow", {"lost": 0, "fenced": 0}, id="slow"),
    ],
)
def test_a_fault_changes_nothing_that_is_trained(launch, calm, wrap, numerics, fault, events):
    faults = {"m1": {"5": fault}}
    run = launch(
        "--workers", 4, "--max-restarts", 0, loop={**LOOP, "wrap": wrap, "numerics": numerics, "faults": faults}
    )
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(same_on_all(run), calm(wrap, numerics), numerics)
    counts = run.counts()
    assert {name: counts[name] for name in events} == events, run.said()
    assert run.leftovers() == []
    claim(wrap, "L2")


def test_one_who_did_not_hear_of_a_lost_connection_is_called_by_the_agent(launch, calm):
    loop = {**LOOP, "wrap": "ddp", "numerics": "ordered", "faults": {"m1": {"5": "partition"}, "m2": {"5": "deaf"}}}
    run = launch("--workers", 4, "--max-restarts", 0, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(same_on_all(run), calm("ddp", "ordered"), "ordered")
    assert [event["reason"] for event in run.events("generation")] == ["start", "formed again"]
    assert run.leftovers() == []


@pytest.mark.parametrize("fault", ["kill", "stop", "partition"])
def test_a_sharded_model_goes_on_with_other_shards(launch, calm, fault):
    loop = {**LOOP, "wrap": "fsdp", "faults": {"m1": {"5": fault}}}
    run = launch("--workers", 4, "--max-restarts", 0, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(same_on_all(run), calm("fsdp", "fast"), "fast")
    assert run.counts()["lost"] == (fault != "partition")
    assert run.leftovers() == []
    claim("fsdp", "L3")


@pytest.mark.parametrize("microbatch", [0, 2, 5])
def test_a_sharded_model_in_pieces_learns_what_one_process_learns(launch, microbatch):
    """The last step of each epoch has fewer samples than ranks, and a rank is lost in the middle of a step."""
    loop = {"samples": 98, "batch": 24, "wrap": "fsdp", "microbatch": microbatch, "faults": {"m1": {"3": "kill"}}}
    run = launch("--workers", 4, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run, batch=24, samples=98)
    alone = launch("--workers", 1, loop={"samples": 98, "batch": 24, "wrap": "plain"})
    assert alone.finish() == 0, alone.said()
    check_weights(same_on_all(run), same_on_all(alone), "fast")
    assert run.leftovers() == []


def test_a_sharded_model_shrinks_grows_and_shrinks_again(launch, calm):
    """The same size twice with another rank in it: nothing may remember the place it had the first time."""
    faults = {"m0": {"3": "kill"}, "m2": {"9": "kill"}, "m3": {"14": "kill"}}
    loop = {**LOOP, "wrap": "fsdp", "faults": faults, "sleep": 0.05}
    run = launch("--workers", 4, "--standby", 1, "--max-restarts", 9, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(same_on_all(run), calm("fsdp", "fast"), "fast")
    assert run.counts()["lost"] == 3
    assert run.leftovers() == []


def test_whoever_comes_later_begins_with_the_epoch_that_the_others_are_in(launch, calm):
    faults = {"m1": {"4": "kill"}, "m0": {"11": "kill"}}
    loop = {**LOOP, "wrap": "ddp", "nested": True, "faults": faults, "sleep": 0.02}
    run = launch("--workers", 3, "--standby", 1, "--max-restarts", 9, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(same_on_all(run), calm("ddp", "fast"), "fast")
    assert {event["member"] for event in run.events("lost")} == {"m0", "m1"}, run.said()
    assert run.leftovers() == []


def test_a_later_run_through_the_data_is_as_safe_as_the_first(launch, calm):
    """In pieces, with a buffer that every pass changes: whoever was there and whoever comes do the same with it."""
    faults = {"m1": {"12": "kill"}, "m2": {"14": "kill"}}
    loop = {**LOOP, "wrap": "ddp", "epochs": 1, "phases": 2, "microbatch": 2, "faults": faults, "sleep": 0.02}
    run = launch("--workers", 3, "--standby", 1, "--max-restarts", 9, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(same_on_all(run), calm("ddp", "fast"), "fast")
    assert len({tuple(result["passes"]) for result in run.results()}) == 1, "the first rank's buffers are everyone's"
    assert run.counts()["lost"] == 2
    assert run.leftovers() == []


@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_one_who_waits_for_a_start_in_vain_goes_on_with_one_who_stood_by(launch, calm, wrap):
    """All are lost; of the next two one freezes before they meet. The other has no model yet, a third may have."""
    faults = {"m0": {"3": "kill"}, "m1": {"3": "kill"}, "m2": {str(step): "kill" for step in range(18)}}
    loop = {**LOOP, "wrap": wrap, "shy": ["m3"], "faults": faults, "sleep": 0.02}
    run = launch("--workers", 2, "--standby", 1, "--max-restarts", 9, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(same_on_all(run), calm(wrap, "fast"), "fast")
    assert [event["member"] for event in run.events("fenced")] == ["m3"]
    assert run.leftovers() == []


def test_every_rank_may_be_lost_at_any_step_and_is_replaced(launch, calm):
    faults = {"m0": {"3": "kill"}, "m2": {"7": "kill"}, "m3": {"12": "kill"}}
    loop = {**LOOP, "wrap": "ddp", "numerics": "ordered", "faults": faults, "sleep": 0.02}
    run = launch("--workers", 4, "--standby", 1, "--max-restarts", 9, loop=loop)
    assert run.finish() == 0, run.said()
    check_samples(run)
    check_weights(same_on_all(run), calm("ddp", "ordered"), "ordered")
    assert run.counts()["lost"] == 3
    assert run.leftovers() == []
