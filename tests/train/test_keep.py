"""A snapshot whose slots are being read: shards wait for them, and whoever waits or gives up says so."""

import time
from contextlib import ExitStack

import pytest
import torch

from tests.train.stage import LIMIT_S
from tutti.train import keep, patience, recover, status
from tutti.train.agent.shelf import Entry, Shelf
from tutti.train.agree import Claim
from tutti.train.errors import NoMemory
from tutti.train.job import Job
from tutti.train.member import Member
from tutti.train.memory import Memory
from tutti.train.patience import Patience


class Alone(Member):
    """A member whose agent gives it the slots it asks for, and hears what it says."""

    def __init__(self, folder):
        self.name = "m0"
        self.stands_in = Shelf(folder)
        self.asked = {}
        self.said: list[tuple[str, int]] = []

    @property
    def shelf(self):
        return self.stands_in

    def ask_slots(self, shelf, table, data, count, role="own"):
        entry = Entry(shelf, table, data, count)
        self.shelf.reserve(entry)
        return entry

    def say(self, word, **facts):
        if word == "story":
            self.said.append((facts["event"], facts["facts"]["step"]))
            assert facts["text"].startswith("m0: step ")


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job of shards in the hands of one member, with the two slots it has by default."""
    monkeypatch.setattr(keep, "BUSY_S", 0.0)
    member = Alone(tmp_path)
    job = Job(member, 2, 1)
    job.protect(state={"part": torch.zeros(8)})
    assert job.keeper is not None
    job.keeper.is_split = True
    return job


def keeping(job, step):
    """Snapshot after this step; when it is kept, it counts as whole."""
    job.course.step = step
    is_kept = recover.snapshot(job)
    if is_kept:
        job.keeper.is_complete(step, job.generation)
    return is_kept


def test_a_snapshot_that_cannot_be_kept_is_said_to_be_once_until_one_is(job):
    assert keeping(job, 1)
    assert keeping(job, 2)
    with Memory([job.member.shelf]):
        assert not keeping(job, 3)
        assert not keeping(job, 4)
    assert keeping(job, 5)
    assert keeping(job, 6)
    assert job.member.said == [("unkept", 3), ("kept", 5)]
    with Memory([job.member.shelf]) as memory:
        assert memory.steps() == [6, 5]


def test_a_shard_that_had_to_wait_says_so(job, monkeypatch):
    """The reader ends while the shard waits."""
    assert keeping(job, 1)
    assert keeping(job, 2)
    monkeypatch.setattr(keep, "BUSY_S", 60.0)
    monkeypatch.setattr(patience, "WORTH_TELLING_S", 0.0)
    with ExitStack() as reading:
        reading.enter_context(Memory([job.member.shelf]))
        monkeypatch.setattr("time.sleep", lambda _: reading.close())
        assert keeping(job, 3)
    assert job.member.said == [("waited", 3)]


@pytest.mark.parametrize(
    ("fares", "told"),
    [
        pytest.param([(True, 0.0), (True, 0.0)], [], id="nothing to say"),
        pytest.param([(True, 0.4), (True, 0.4), (True, 0.0), (True, 0.4)], ["waited", "waited"], id="once each time"),
        pytest.param([(False, 1.0), (False, 1.0), (True, 0.5)], ["unkept", "kept"], id="kept again, though late"),
        pytest.param([(True, 0.5), (False, 1.0), (True, 0.0)], ["waited", "unkept", "kept"], id="worse, then well"),
    ],
)
def test_what_is_unusual_is_said_when_it_begins_and_when_it_is_over(fares, told):
    account = Patience()
    said: list[patience.News] = []
    for step, (is_kept, waited_s) in enumerate(fares):
        account.is_kept, account.waited_s = is_kept, waited_s
        said += filter(None, [account.news(step, step - 1)])
    assert [event for event, _, _ in said] == told


def test_memory_that_is_too_small_ends_a_run_only_when_it_begins(job, monkeypatch):
    """Later the run goes on with what is kept, and tries again."""

    def refuse(*_, **__):
        raise NoMemory("2 snapshot slots need 9 GiB")

    with monkeypatch.context() as patch:
        patch.setattr(job.member, "ask_slots", refuse)
        job.generation = 1
        with pytest.raises(NoMemory, match="9 GiB"):
            keeping(job, 1)
        job.generation = 2
        assert not keeping(job, 2)
        assert not keeping(job, 3)
    assert keeping(job, 4)
    assert job.member.said == [("unkept", 2), ("kept", 4)]


@pytest.mark.slow
def test_somebody_who_reads_for_long_is_seen_in_the_story_and_in_the_status(launch):
    loop = {"samples": 360, "batch": 12, "epochs": 1, "sleep": 0.02, "wrap": "fsdp"}
    run = launch("--workers", 2, loop=loop)
    run.wait_step(3)
    with Memory([Shelf(run.home / run.name / "slots")]):
        run.wait_for("unkept")
        until = time.monotonic() + LIMIT_S
        while not run.status().get("unkept"):
            assert time.monotonic() < until, run.said()
            time.sleep(0.01)
        said = status.sentence({**run.status(), "is_running": True})
    assert "could not keep step" in said
    run.wait_for("kept")
    assert run.finish() == 0, run.said()
    assert {event["member"] for event in run.events("unkept")} == {event["member"] for event in run.events("kept")}
    assert run.leftovers() == []


def test_what_is_not_known_to_be_complete_counts_for_nothing_in_the_next_generation(job):
    keeping(job, 5)
    job.course.step = 6
    assert recover.snapshot(job)
    assert job.keeper.step == 6
    job.keeper.begin()
    assert (job.keeper.step, job.keeper.complete[0]) == (5, 5)
    job.keeper.is_complete(3, 9)
    assert job.keeper.complete[0] == 5, "what another has for the newest"


@pytest.mark.parametrize(
    ("known", "was_in_doubt"),
    [
        pytest.param((6, 0), False, id="another has counted the votes"),
        pytest.param((5, 0), True, id="all who have are lost, but it is in memory"),
    ],
)
def test_who_has_not_heard_that_a_snapshot_is_complete_does_not_write_over_it(job, known, was_in_doubt):
    """Others may have written over the one before it already."""
    keeping(job, 5)
    job.course.step = 6
    assert recover.snapshot(job)
    claims = [Claim("m0", 6, complete=(5, 0)), Claim("m1", 7, complete=known)]
    recover.learn_complete(job, claims, was_in_doubt)
    job.course.step = 8
    assert recover.snapshot(job)
    with Memory([job.member.shelf]) as memory:
        assert memory.steps() == [8, 6]


def test_what_an_earlier_generation_kept_is_not_said_to_be_kept_by_this_one(job):
    """One that could not keep its part of a step anew has only the other part of it."""
    job.generation = 1
    assert keeping(job, 5)
    assert job.keeper.sealed_in(1) == 5
    job.generation = 2
    job.keeper.begin()
    assert (job.keeper.step, job.keeper.sealed_in(2)) == (5, -1)
    assert recover.snapshot(job)
    assert job.keeper.sealed_in(2) == 5
