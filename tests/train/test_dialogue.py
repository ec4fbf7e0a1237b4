"""The job and its scheduler: every request is answered, and the work goes on exactly where it was."""

import os
import signal
import time

import pytest

from tests.train.test_faults import check_samples, same_on_all
from tutti.train.agent.channel import Accepted, Done, Leave, Refused, Released, Resize, Snapshot, Told
from tutti.train.agent.exits import Exit
from tutti.train.agent.server import Server

pytestmark = pytest.mark.slow

LOOP = {"samples": 300, "batch": 12, "epochs": 3, "sleep": 0.02, "wrap": "ddp", "numerics": "ordered"}


class Scheduler:
    """The other end of the channel."""

    def __init__(self, path):
        self.server = Server(str(path))
        self.heard = []

    def until(self, ready):
        limit = time.monotonic() + 100
        while not ready():
            assert time.monotonic() < limit, self.heard
            self.heard += [word for _, word in self.server.turn(0.05)]

    def answers(self, name):
        return [word for word in self.heard if getattr(word, "id", None) == name]

    def ask(self, request, last):
        """Ask, and wait for the answer that ends it."""
        self.until(lambda: "r" in self.server.talks and self.server.talks["r"].progress)
        assert self.server.ask("r", request)
        self.until(lambda: any(isinstance(word, last) for word in self.answers(request.id)))
        return self.answers(request.id)


@pytest.fixture
def scheduler(tmp_path):
    scheduler = Scheduler(tmp_path / "c")
    yield scheduler
    scheduler.server.close()


def test_resize_snapshot_leave_and_go_on(launch, scheduler, tmp_path):
    env = {"TUTTI_CHANNEL": f"unix:{tmp_path / 'c'}"}
    run = launch("--workers", 3, "--max", 4, loop=LOOP, env=env, folder="one")
    shrunk = scheduler.ask(Resize("a", 2, 60.0), Released)
    assert [type(word) for word in shrunk] == [Accepted, Released]
    assert len(shrunk[-1].members) == 1
    refused = scheduler.ask(Resize("b", 9, 60.0), Refused)
    assert refused == [Refused("b", "9 is outside 1 to 4", (1, 2, 3, 4))]
    grown = scheduler.ask(Resize("c", 4, 60.0), Done)
    assert [type(word) for word in grown] == [Accepted, Done]
    saved = scheduler.ask(Snapshot("d", 60.0), Done)
    assert saved[-1].step > saved[0].step - 2
    scheduler.until(lambda: scheduler.server.talks["r"].progress.world == 4)
    progress = scheduler.server.talks["r"].progress
    assert (progress.legal, progress.level) == ((1, 2, 3, 4), "L2")
    told = [word.text for word in scheduler.heard if isinstance(word, Told)]
    assert told[:2] == [event["text"] for event in run.events("formed")][:2], "with whom it goes on is told"
    left = scheduler.ask(Leave("e", 60.0), Released)
    assert left[-1].state == "memory"
    assert run.finish() == Exit.PREEMPTED
    assert run.processes() == []
    assert run.results() == []
    worlds = [event["world"] for event in run.events("generation")]
    assert worlds in ([3, 2, 4], [3, 2, 3, 4])
    again = launch("--workers", 2, loop={**LOOP, "sleep": 0.0}, env=env, folder="two", home=run.home)
    assert again.finish() == 0, again.said()
    assert again.counts()["adopted"] == 1
    assert again.events("formed")[0]["step"] == left[-1].step
    assert again.events("formed")[0]["source"] == "memory"
    check_samples(again, epochs=3, samples=300)
    same_on_all(again)
    assert again.leftovers() == []


def test_a_signal_saves_and_a_dead_agent_loses_nothing(launch):
    run = launch("--workers", 2, "--snapshot-every", 5, loop={**LOOP, "sleep": 0.05})
    run.wait_step(12)
    os.kill(run.pid, signal.SIGKILL)
    assert run.finish() == -signal.SIGKILL
    limit = time.monotonic() + 60
    while run.processes():
        assert time.monotonic() < limit, "members of a dead agent save and leave by themselves"
        time.sleep(0.05)
    second = launch("--workers", 3, loop={**LOOP, "sleep": 0.05}, home=run.home)
    second.wait_step(25)
    assert second.events("formed")[0]["step"] >= 10
    os.kill(second.pid, signal.SIGTERM)
    assert second.finish() == Exit.PREEMPTED, second.said()
    third = launch("--workers", 2, loop={**LOOP, "sleep": 0.0}, home=run.home)
    assert third.finish() == 0, third.said()
    check_samples(third, epochs=3, samples=300)
    assert third.leftovers() == []
