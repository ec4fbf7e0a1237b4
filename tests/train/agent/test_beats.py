import math
import os
import signal
import subprocess
import sys
import time

from tutti.train.agent.beats import COMPUTE, Beats, Budget, stragglers
from tutti.train.agent.exits import Exit, meaning
from tutti.train.agent.interval import best_interval_s, every_steps, failure_rate
from tutti.train.agent.sizes import SizeRule
from tutti.train.agent.watch import Watch, identity, is_alive


def test_a_beat_written_here_is_read_there(tmp_path):
    mine, theirs = Beats(tmp_path / "b"), Beats(tmp_path / "b")
    mine.phase(3, COMPUTE, 17, 5)
    mine.beat(3)
    beat = theirs.read(3)
    assert (beat.phase, beat.step, beat.compute_ns) == (COMPUTE, 17, 5)
    assert beat.beat_ns >= beat.since_ns > 0
    assert theirs.read(2).beat_ns == 0
    mine.clear(3)
    assert theirs.read(3).beat_ns == 0


def test_patience_is_learned_from_harmless_silence():
    budget = Budget(0.25, 2.0)
    assert budget.allowed_s == 2.0
    for _ in range(20):
        budget.observe(0.02)
    assert budget.allowed_s == 0.25
    for _ in range(64):
        budget.observe(0.1)
    assert math.isclose(budget.allowed_s, 0.4)
    for _ in range(64):
        budget.observe(5.0)
    assert budget.allowed_s == 2.0


def test_a_straggler_is_slower_than_the_others_not_than_a_number():
    assert stragglers({"a": 1.0, "b": 1.1, "c": 1.0, "d": 2.2}) == {"d": 2.0}
    assert stragglers({"a": 9.0, "b": 9.1, "c": 9.0}) == {}
    assert stragglers({"a": 1.0, "b": 9.0}) == {}


def test_a_process_is_watched_by_a_handle_that_never_means_another():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    watch = Watch(child.pid)
    name = identity(child.pid)
    try:
        assert watch.is_running()
        assert is_alive(name)
        assert watch.reap() is None
        watch.send(signal.SIGSTOP)
        while not watch.is_stopped():
            time.sleep(0.001)
        watch.send(signal.SIGKILL)
        os.waitid(os.P_PIDFD, watch.fileno(), os.WEXITED | os.WNOWAIT)
        assert watch.reap() == -signal.SIGKILL
        assert not watch.send(signal.SIGKILL)
        assert not is_alive(name)
    finally:
        child.returncode = -9
        watch.close()


def test_snapshots_are_as_rare_as_failures_allow_and_never_too_dear():
    assert best_interval_s(2.0, 1 / 3600) == math.sqrt(2 * 2.0 * 3600)
    assert every_steps(0.0, 0.1, 1.0) == 1
    for cost in (0.001, 0.02, 1.0):
        for rate in (1e-6, 1e-3, 1.0):
            steps = every_steps(cost, 0.1, rate)
            assert cost / (steps * 0.1) <= 0.02 + 1e-9
    assert every_steps(0.01, 0.1, 1e-9) * 0.1 <= 61
    assert failure_rate(0, 0) < failure_rate(1, 0) < failure_rate(1000, 10)


def test_sizes_say_why_and_what_instead():
    rule = SizeRule(2, 16, unit=4, batch=12)
    assert rule.legal() == (4, 8, 12)
    assert "outside 2 to 16" in rule.why_not(17)
    assert "multiple of 4" in rule.why_not(6)
    assert "batch of 12" in rule.why_not(16)
    assert rule.nearest(6) == (4, 8)
    assert (rule.at_most(11), rule.at_most(3)) == (8, None)
    assert "not one of 1, 2" in SizeRule(1, 8, listed=(1, 2)).why_not(3)


def test_every_way_to_end_has_words():
    assert [meaning(code) for code in (0, 75, 76, 93, -9, 3)] == [
        "finished",
        "preempted with state",
        "released",
        "do not retry",
        "killed by signal 9",
        "crashed with code 3",
    ]
    assert meaning(Exit.CRASHED) == "crashed"
