"""Whoever has to go keeps what it has first, and nobody waits for those who have nothing to keep."""

import os
import signal
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.train.stage import LIMIT_S, descendants
from tests.train.test_dialogue import Scheduler
from tests.train.test_faults import check_samples
from tutti.train.agent.channel import Accepted, Answer, Done, Refused, Released, Resize, Snapshot
from tutti.train.agent.exits import Exit
from tutti.train.agent.folder import Folder
from tutti.train.agent.roster import Roster
from tutti.train.agent.sizes import SizeRule
from tutti.train.agent.story import Story
from tutti.train.dialogue import Dialogue, Open
from tutti.train.tiers import Tier

LOOP = {"samples": 240, "batch": 12, "epochs": 2, "wrap": "ddp"}
RARELY = ("--snapshot-every", 10**6)
slow = pytest.mark.slow


@pytest.fixture
def scheduler(tmp_path):
    scheduler = Scheduler(tmp_path / "c")
    yield scheduler
    scheduler.server.close()


def goes_on(launch, run, step):
    """The next one under its name goes on from this step, which is in memory."""
    again = launch("--workers", 2, loop=LOOP, home=run.home)
    assert again.finish() == 0, again.said()
    first = again.events("formed")[0]
    assert (first["source"], first["step"]) == ("memory", step)
    check_samples(again, epochs=2, samples=240)
    assert again.leftovers() == []


@slow
def test_who_waits_for_others_below_the_least_keeps_its_state_when_it_is_asked_to_leave(launch, tmp_path, scheduler):
    loop = {**LOOP, "faults": {"m1": {"9": "kill"}}}
    env = {"TUTTI_CHANNEL": f"unix:{tmp_path / 'c'}"}
    run = launch("--workers", 2, "--min", 2, "--max-restarts", 0, *RARELY, loop=loop, env=env)
    run.wait_for("parked")
    run.signal()
    assert run.finish() == Exit.PREEMPTED, run.said()
    assert run.events("late") == [], "it does not use up its time"
    goes_on(launch, run, 9)


@slow
def test_who_cannot_go_on_with_too_few_keeps_its_state_before_the_run_ends(launch):
    loop = {**LOOP, "faults": {"m1": {"9": "kill"}}}
    run = launch("--workers", 2, "--min", 2, "--max-restarts", 0, *RARELY, loop=loop)
    assert run.finish() == 128 + signal.SIGKILL, run.said()
    assert "no restart is left" in run.events("finished")[0]["text"]
    goes_on(launch, run, 9)


@slow
def test_who_is_ended_by_a_callback_that_never_returns_keeps_its_state(launch):
    loop = {**LOOP, "rapt": "m0", "faults": {"m1": {"9": "kill"}}}
    run = launch("--workers", 2, "--max-restarts", 3, *RARELY, loop=loop)
    assert run.finish() == 0, run.said()
    (hung,) = run.events("hung")
    assert hung["callback"] == "listen_for_ever"
    assert min(event["step"] for event in run.events("formed")[1:]) == 9, "nothing that was committed is computed again"
    check_samples(run, epochs=2, samples=240)
    assert run.leftovers() == []


@slow
def test_those_that_stand_by_do_not_hold_up_who_leaves(launch):
    run = launch("--workers", 2, "--standby", 1, loop={**LOOP, "sleep": 0.05})
    run.wait_for("started", 3)
    run.wait_step(3)
    run.signal()
    assert run.finish() == Exit.PREEMPTED, run.said()
    assert run.events("late") == []
    assert run.processes() == []
    status = run.status()
    assert status["snapshot_step"] == status["step"] >= 3, "the last step is kept, and the last words say so"


@slow
def test_one_that_is_frozen_when_its_agent_is_lost_wakes_up_and_goes(launch):
    run = launch("--workers", 2, loop={**LOOP, "epochs": 99, "sleep": 0.05})
    run.wait_step(3)
    for pid in (run.pid, run.pids()["m1"]):
        os.kill(pid, signal.SIGSTOP)
    run.signal(signal.SIGKILL)
    run.finish()
    until = time.monotonic() + LIMIT_S
    while run.processes():
        assert time.monotonic() < until, "somebody is left"
        time.sleep(0.05)


@slow
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_members_are_still_replaced_when_what_they_are_forked_from_is(launch, blow):
    run = launch("--workers", 2, loop={**LOOP, "epochs": 4, "sleep": 0.5})
    run.wait_step(2)
    known = {event["pid"] for kind in ("started", "store") for event in run.events(kind)}
    (zygote,) = [pid for pid in descendants(run.pid) if pid not in known]
    os.kill(zygote, blow)
    run.kill(run.pids()["m1"])
    run.wait_for("renewed")
    run.wait_for("formed", 3)
    run.hurry()
    assert run.finish() == 0, run.said()
    assert [event["world"] for event in run.events("generation")] == [2, 1, 2]
    check_samples(run, epochs=4, samples=240)
    assert run.leftovers() == []


@slow
def test_a_size_that_is_not_reached_in_time_is_refused_and_not_grown_to_later(launch, tmp_path, scheduler):
    env = {"TUTTI_CHANNEL": f"unix:{tmp_path / 'c'}"}
    run = launch("--workers", 2, "--max", 4, loop={**LOOP, "epochs": 99, "sleep": 0.05}, env=env)
    answers = scheduler.ask(Resize("a", 4, 0.0), (Done, Refused))
    assert answers[0] == Accepted("a", answers[0].step)
    assert answers[1:] == [Refused("a", "2 of 4 members computed within 0 s", (1, 2, 3, 4))]
    assert isinstance(scheduler.ask(Resize("b", 2, 60.0), (Done, Released))[-1], Done)
    assert sorted(run.pids()) == ["m0", "m1"], "whoever came for it is gone when it is answered"
    run.signal()
    assert run.finish() == Exit.PREEMPTED, run.said()


@slow
def test_a_snapshot_that_cannot_be_written_is_refused_with_the_reason(launch, tmp_path, scheduler):
    env = {"TUTTI_CHANNEL": f"unix:{tmp_path / 'c'}"}
    disk = tmp_path / "disk"
    run = launch("--workers", 2, "--disk", disk, loop={**LOOP, "epochs": 99, "sleep": 0.05}, env=env)
    run.wait_step(2)
    disk.rmdir()
    disk.write_text("in the way")
    answers = scheduler.ask(Snapshot("a", 100.0, "disk"), (Done, Refused))
    assert [type(word) for word in answers] == [Accepted, Refused]
    assert answers[1].why.startswith("File exists")
    assert len(run.events("unpersisted")) == 1, "it is not tried again and again"
    run.signal()
    assert run.finish() == Exit.PREEMPTED, run.said()
    assert run.status()["step"] >= 2, "the state stays in memory"


def test_what_was_asked_for_and_not_done_when_the_run_ended_is_not_said_to_be():
    answers: list[Answer] = []
    roster = Roster(SizeRule(1, 3), 2, 3)
    agent: Any = SimpleNamespace(roster=roster, heard={}, progress={}, code=Exit.FINISHED)
    dialogue = Dialogue(agent, 30.0, Story(None))
    dialogue.client = SimpleNamespace(answer=answers.append, close=lambda: None)  # type: ignore[assignment]
    requests = (Resize("a", 3, 60.0), Resize("b", 1, 60.0), Snapshot("c", 60.0))
    dialogue.open = {request.id: Open(request, 0.0, 7, 2, 2) for request in requests}
    dialogue.close()
    ended = [Refused(name, "the run has ended", (1, 2, 3)) for name in "ac"]
    assert answers == [ended[0], Released("b", -1, (), "none"), ended[1]]


class Scribes(Tier):
    """Each process it starts writes one step more than the last; the first of them ends when it may."""

    def __init__(self, folder):
        self.count = folder / "count"
        self.count.write_text("")
        super().__init__(Folder(folder), folder / "into", 60.0, Story(None), dict(os.environ))
        code = "import json, pathlib, sys; f = pathlib.Path(sys.argv[1]); f.open('a').write('x'); "
        self._words = [
            sys.executable,
            "-c",
            f"{code}print(json.dumps({{'step': len(f.read_text())}}))",
            str(self.count),
        ]


@pytest.mark.parametrize("newest", [1, 2], ids=["that very step", "an older one"])
def test_the_last_step_is_written_once_whichever_was_being_written(tmp_path, newest):
    tier = Scribes(tmp_path)
    tier._start()
    assert tier.persist_now(newest, lambda: False)
    assert tier.step == newest


def test_a_second_signal_ends_the_writing_and_nothing_is_said_to_be_saved(tmp_path):
    tier = Scribes(tmp_path)
    tier._words = [sys.executable, "-c", "import signal; signal.pause()"]
    assert not tier.persist_now(1, lambda: True)
    assert tier.complaint == "it was ended"
