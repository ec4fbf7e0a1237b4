"""Data that is not a plain dataset, and batches that grow with the members."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.train.support import claim
from tests.train.test_faults import check_samples, same_on_all
from tutti.train import job
from tutti.train.course import Course
from tutti.train.feed import Stream, feed_of
from tutti.train.job import Job
from tutti.train.rates import scale_rates


class Numbers(torch.utils.data.IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(torch.arange(float(self.count)))


def nothing():
    return iter([[0]][:0])


def steps_of(stream, count, epoch=0, at=0):
    """The samples of every step from a position on."""
    found: list[Any] = []
    for _ in range(100):
        start, stop = stream.window(at, count, epoch)
        if start == stop:
            return found
        found.append(stream.read(list(range(start, stop)), nothing).tolist())
        at = stop
    raise AssertionError("no end")


def test_a_stream_is_read_forward_and_the_last_step_is_short():
    assert steps_of(feed_of(Numbers(7), None, None), 3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert steps_of(feed_of(Numbers(6), None, None), 3) == [[0, 1, 2], [3, 4, 5]]


def test_what_was_not_committed_is_dealt_again_and_each_epoch_begins_anew():
    stream = Stream(Numbers(9), None, None)
    assert [stream.window(0, 4, 0) for _ in range(3)] == [(0, 4)] * 3
    assert stream.read([2, 3], nothing).tolist() == [2, 3]
    assert stream.window(4, 4, 0) == (4, 8)
    assert steps_of(stream, 4, epoch=1) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]


def test_a_newcomer_passes_over_what_was_committed():
    late = Stream(Numbers(9), None, None)
    assert steps_of(late, 4, at=4) == [[4, 5, 6, 7], [8]]
    assert Stream(Numbers(3), None, None).window(5, 4, 0) == (5, 5)


@pytest.mark.parametrize("rule", ["linear", "sqrt"])
def test_rates_follow_the_world_by_the_rule_that_was_asked_for(monkeypatch, rule):
    one = Job(None, 0, 0)
    model = torch.nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 1.0)
    one.protect(model=model, opt=opt, sched=sched)
    one.course = Course(lr_rule=rule)
    told = []
    monkeypatch.setattr(one, "tell", lambda event, text, **facts: told.append(facts["factor"]))
    seen = []
    for world in (4, 4, 1, 4):
        one._place = (0, world)
        scale_rates(one)
        opt.step()
        sched.step()
        seen.append(opt.param_groups[0]["lr"])
    small = 0.1 if rule == "linear" else 0.2
    assert seen == pytest.approx([0.4, 0.4, small, 0.4])
    assert told == pytest.approx([small / 0.4, 0.4 / small])
    assert sched.get_last_lr() == pytest.approx([0.4])


def test_a_loader_is_taken_apart_and_its_order_is_ours(monkeypatch):
    monkeypatch.setattr(job, "_current", None)
    one = job.join()
    one.protect(state={"w": torch.zeros(1)})
    data: Any = torch.arange(10)
    loader: Any = torch.utils.data.DataLoader(
        data, batch_size=99, shuffle=True, collate_fn=lambda items: sum(items).item()
    )
    feed = feed_of(loader, None, None)
    assert (len(feed), feed.delivery) == (10, "exactly-once")
    assert feed.read([1, 2, 3], lambda: itertools.repeat([])) == 6
    stateful = SimpleNamespace(dataset=Numbers(4), collate_fn=list, num_workers=0, pin_memory=False)
    assert feed_of(stateful, None, None).delivery == "at-least-once"


@pytest.mark.slow
def test_a_stream_survives_a_loss(launch):
    loop = {"samples": 100, "batch": 12, "data": "stream", "faults": {"m1": {"5": "kill"}}}
    run = launch("--workers", 3, "--max-restarts", 2, "--standby", 1, loop={**loop, "sleep": 0.02})
    assert run.finish() == 0, run.said()
    check_samples(run)
    same_on_all(run)
    (told,) = run.events("delivery")
    assert told["delivery"] == "at-least-once"
    assert run.leftovers() == []


@pytest.mark.slow
def test_a_batch_that_grows_with_the_members_is_told_with_its_rate(launch):
    loop = {"samples": 96, "batch": 0, "per_member": 4, "lr_rule": "linear", "faults": {"m1": {"5": "kill"}}}
    run = launch("--workers", 4, "--max-restarts", 0, loop=loop)
    assert run.finish() == 0, run.said()
    result = same_on_all(run)
    assert result["ledger"] == {"0": [[0, 96]], "1": [[0, 96]]}
    assert [event["factor"] for event in run.events("rates")] == [0.75]
    assert result["lr"][0] == pytest.approx(0.75 * 1e-2 * 0.1 ** (result["step"] // 5))
    claim("plain", "L2")
