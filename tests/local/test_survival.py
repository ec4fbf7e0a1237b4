"""The daemon is killed at every point it can be killed at; the machine reboots; the disk is full."""

import contextlib
import fcntl
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.local.stage import Box, box, line_in, put, until
from tutti.api.client import job_path
from tutti.errors import NoDaemon, NotFound, Refused, TuttiError
from tutti.local.keeper import cgroup, records
from tutti.local.keeper.locks import is_held

ONCE_MORE = "echo $TUTTI_ATTEMPT >> tries; test $TUTTI_ATTEMPT = 0 || exit 0; exec sleep 600"
"""Runs for ever at first, and ends well the second time."""


def test_gangs_do_not_notice_that_the_daemon_is_killed(four):
    job = four.submit(
        "sh", "-c", "echo begun >> begins; while ! test -e go; do sleep 0.05; done; exit 5", workers=2, name="long"
    )
    four.becomes("long", "running")
    before = {rank["rank"]: rank["pid"] for rank in four.client.get(job_path("long"))["ranks"]}
    four.kill()
    four.start()
    four.becomes("long", "running")
    assert {rank["rank"]: rank["pid"] for rank in four.client.get(job_path("long"))["ranks"]} == before
    (four.path / "go").touch()
    assert job.wait() == 5
    assert (four.path / "begins").read_text() == "begun\n" * 2


def test_devices_need_not_be_named_again_while_gangs_run_on_them():
    with box("3") as made:
        made.submit("sleep", "600", workers=3, name="long", grace="0s")
        made.becomes("long", "running")
        made.kill()
        made.devices = ""
        made.start(TUTTI_DEVICES="")
        status = made.client.get("/v1/status")
        assert (status["devices"], status["source"]) == (3, "made-up")
        assert made.state("long") == "running"
        made.client.job("long").cancel()
        made.client.job("long").wait()


def test_an_end_that_nobody_heard_is_not_lost(four):
    job = four.submit("sh", "-c", "sleep 0.5; exit 6", name="alone")
    four.becomes("alone", "running")
    four.kill()
    until(lambda: not four.keepers(), "the keeper's end")
    seen = time.time()
    four.start()
    assert job.wait() == 6
    row = four.row("alone")
    assert row["why"] == "rank 0 ended with exit code 6"
    assert row["ended_us"] / 1e6 < seen, "it ended when it ended, not when somebody heard of it"


def test_a_start_that_its_daemon_did_not_live_to_see_is_made_again_at_once():
    with box("2", start=False) as made:
        dies = made.start(TUTTI_FAULT="spawn: attached")
        with contextlib.suppress(TuttiError, ConnectionError):
            made.submit("sleep", "600", workers=2, name="steady", grace="0s")
        dies.wait(timeout=20)
        made.client.close()
        until(lambda: not made.keepers(), "the keeper's end")
        made.start()
        seen: set[str] = set()

        def is_running() -> bool:
            row = made.row("steady")
            seen.add(row["reason"])
            return bool(row["state"] == "running")

        until(is_running, "the new start")
        assert "BackingOff" not in seen
        made.client.job("steady").cancel()
        made.client.job("steady").wait()


def test_what_waits_is_still_there(four):
    holder = four.submit("sleep", "600", workers=4, name="holder", time="1h")
    four.becomes("holder", "running")
    four.submit("true", workers=4, name="waits", time="1m")
    four.submit("true", name="on-hold", held=True)
    until(lambda: four.state("on-hold") == "held", "the hold")
    four.kill()
    four.start()
    assert four.becomes("waits", "waiting")["reason"] in {"NoCapacity", ""}
    assert four.state("on-hold") == "held"
    holder.cancel()
    assert four.client.job("waits").wait() == 0


def test_a_cancellation_that_was_acknowledged_is_carried_out(four):
    job = four.submit("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", name="stubborn", grace="30s")
    four.becomes("stubborn", "running")
    job.cancel()
    four.kill()
    four.start()
    assert job.wait() == 137
    assert four.row("stubborn")["state"] == "cancelled"


def test_a_keeper_that_is_killed_costs_one_restart(four):
    job = four.submit("sh", "-c", ONCE_MORE, name="k")
    four.becomes("k", "running")
    until(lambda: line_in(four.path / "tries"), "its first line")
    os.kill(four.keepers()[0], signal.SIGKILL)
    assert job.wait() == 0
    assert (four.path / "tries").read_text() == "0\n1\n"


def test_a_task_that_ended_is_counted_once_whoever_is_killed(four):
    """Its end is stored, then a new daemon hears of it again, then the keeper of the rest is killed."""
    line = "echo $TUTTI_TASK >> ran; test $TUTTI_TASK = 0 || while ! test -e go; do sleep 0.05; done"
    job = four.submit("sh", "-c", line, name="tasks", array=3)
    until(lambda: four.row("tasks")["tasks_done"] == 1, "the end of the first task")

    def is_stored() -> bool:
        with contextlib.closing(sqlite3.connect(f"file:{four.home.journal}?mode=ro", uri=True)) as base:
            return b'"done":[1]' in base.execute("SELECT life FROM jobs").fetchone()[0]

    until(is_stored, "its place in the journal")
    for _ in range(2):
        four.kill()
        four.start()
        four.becomes("tasks", "running")
    os.kill(four.keepers()[0], signal.SIGKILL)
    until(lambda: sorted((four.path / "ran").read_text().split()) == [*"01122"], "the second start of the others")
    (four.path / "go").touch()
    assert job.wait() == 0


def test_a_member_that_was_lost_before_the_daemon_was_is_still_replaced(four):
    """There is no room to replace it, then the daemon is killed, then there is room."""
    job = four.submit("sh", "-c", "while ! test -e go; do sleep 0.05; done", name="hurt", workers=3, on_loss="repair")
    four.becomes("hurt", "running")
    for device in range(4):
        four.client.post(f"/v1/devices/{device}/drain", {})
    ranks = four.client.get(job_path("hurt"))["ranks"]
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    four.becomes("hurt", "degraded")
    four.kill()
    four.start()
    four.becomes("hurt", "degraded")
    for device in range(4):
        four.client.post(f"/v1/devices/{device}/undrain", {})
    four.becomes("hurt", "running")
    assert four.row("hurt")["members"] == 3
    assert four.client.get("/v1/status")["trouble"] == []
    (four.path / "go").touch()
    assert job.wait() == 0


def test_after_a_reboot_gangs_are_lost_and_begin_again(four):
    """The claim of a run names another boot: whatever has its number now is somebody else."""
    job = four.submit("sh", "-c", ONCE_MORE, name="r")
    four.becomes("r", "running")
    until(lambda: line_in(four.path / "tries"), "its first line")
    four.kill()
    folder = next(four.home.runs.iterdir())
    boot, _, rest = records.claimed_by(str(folder)).partition("/")
    keeper = int(rest.split("/")[0])
    os.kill(keeper, signal.SIGKILL)
    (folder / records.CLAIM).write_text(f'{{"who": "{boot[::-1]}/1/1"}}')
    four.start()
    assert job.wait() == 0
    assert (four.path / "tries").read_text() == "0\n1\n"


def test_after_a_reboot_a_process_with_the_same_number_is_somebody_else(tmp_path):
    """The boot id is another, as after a reboot; the keeper's number belongs to a living process all the same."""
    boot = tmp_path / "boot"
    boot.write_text("first")
    with box("4", start=False) as made:
        made.env["TUTTI_FAULT_BOOT_ID"] = str(boot)
        made.start()
        job = made.submit("sh", "-c", ONCE_MORE, name="r")
        made.becomes("r", "running")
        until(lambda: line_in(made.path / "tries"), "its first line")
        keeper = int(records.claimed_by(str(next(made.home.runs.iterdir()))).split("/")[1])
        made.kill()
        boot.write_text("second")
        made.start()
        assert job.wait() == 0
        assert (made.path / "tries").read_text() == "0\n1\n"
        until(lambda: not Path(f"/proc/{keeper}").exists(), "the end of the old keeper")


def test_a_restart_of_the_daemon_keeps_every_account(four):
    """The sheet of a job that runs, and what its owner has used, go on from where they were."""
    four.submit("sleep", "600", workers=2, name="long")
    four.becomes("long", "running")

    def sheet() -> float:
        return float(sum(four.client.get(job_path("long"))["sheet"].values()))

    def used() -> float:
        return float(sum(four.client.get("/v1/report")["users"].values()))

    until(lambda: four.client.get("/v1/report") and sheet() >= 1.0, "two devices for half a second")
    four.client.post("/v1/stop")
    four.daemons[-1].wait(timeout=20)
    before = time.time()
    four.client.close()
    four.start()
    four.becomes("long", "running")
    report = four.client.get("/v1/report")
    assert sheet() >= 1.0
    assert used() * 3600 >= 1.0
    assert report["closes"]
    assert report["since_us"] / 1e6 < before
    four.client.job("long").cancel()


def test_a_daemon_starts_only_once(four):
    second = four.spawn()
    assert second.wait(timeout=30) == 0
    assert four.client.get("/v1/status")["pid"] == four.daemons[0].pid


def test_a_lock_that_outlives_its_daemon_for_a_moment_keeps_nobody_out():
    """As when a daemon is killed while it forks: the child has the lock until it is another program."""
    with box("2", start=False) as made:
        lock = os.open(made.home.lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        waits = made.spawn()
        until(lambda: any("daemon.lock" in held for held in open_files(waits.pid)), "the daemon at the lock")
        assert waits.poll() is None
        os.close(lock)
        until(made.client.is_up, "the daemon's start")
        assert made.client.get("/v1/status")["pid"] == waits.pid


def open_files(pid: int) -> list[str]:
    found = []
    with contextlib.suppress(OSError):
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(str(one.readlink()))
    return found


def test_a_newer_journal_stops_the_daemon_with_a_sentence(monkeypatch):
    import sqlite3

    with box("2", start=False) as made:
        with sqlite3.connect(made.home.journal) as base:
            base.execute("PRAGMA user_version = 99")
        monkeypatch.setenv("TUTTI_DEVICES", "2")
        with pytest.raises(Refused, match="version 99"):
            made.client.start()


def test_other_devices_are_refused_while_something_runs(four):
    job = four.submit("sleep", "600", name="busy")
    four.becomes("busy", "running")
    four.kill()
    four.devices = "2"
    process = four.spawn()
    assert process.wait(timeout=30) == 1
    assert "with other devices" in (log := four.home.log.read_text()) or "on other devices" in log
    four.devices = "4"
    four.start()
    job.cancel()
    assert job.wait() == 143


def test_a_full_disk_refuses_jobs_and_harms_no_gang():
    """The daemon may write a little more and then nothing: what is acknowledged is stored, the rest is refused."""
    with box("4", start=False) as made:
        made.start()
        job = made.submit("sh", "-c", "sleep 3; exit 4", name="runs")
        made.becomes("runs", "running")
        pid = made.daemons[-1].pid
        used = made.home.journal.with_name("journal.db-wal").stat().st_size
        import resource

        resource.prlimit(pid, resource.RLIMIT_FSIZE, (used + 4096, resource.RLIM_INFINITY))
        refused = None
        for number in range(50):
            try:
                made.submit("true", name=f"more-{number}", held=True, env={"FILL": "x" * 20_000})
            except TuttiError as problem:
                refused = problem
                break
        assert refused is not None
        assert "cannot be written" in str(refused)
        assert made.client.get("/v1/status")["trouble"]
        kept = {row["name"] for row in made.client.get("/v1/jobs")["jobs"]}
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        made.kill()
        made.start()
        assert job.wait() == 4
        after = {row["name"] for row in made.client.get("/v1/jobs")["jobs"]}
        assert after == kept - {"runs"}


def test_a_disk_that_turns_read_only_harms_no_gang(tmp_path):
    """What is asked for meanwhile is refused with a reason; what ends meanwhile is stored once it can be."""
    frozen = tmp_path / "frozen"
    with box("4", start=False) as made:
        made.env["TUTTI_FAULT_READ_ONLY"] = str(frozen)
        made.start()
        job = made.submit("sh", "-c", "while ! test -e go; do sleep 0.05; done; exit 4", name="runs")
        made.becomes("runs", "running")
        frozen.touch()
        with pytest.raises(TuttiError, match="Read-only file system"):
            made.submit("true", name="refused")
        assert made.client.get("/v1/status")["trouble"]
        (made.path / "go").touch()
        until(lambda: "runs" not in {row["name"] for row in made.client.get("/v1/jobs")["jobs"]}, "its end")
        answer = made.client.waited("runs", 5)
        assert not answer["ended"]
        assert "Read-only" in answer["trouble"], "whoever waits is told why"
        frozen.unlink()
        assert job.wait() == 4
        assert made.submit("true", name="taken").wait() == 0
        assert not made.client.get("/v1/status")["trouble"]
        names = {row["name"] for row in made.client.get("/v1/jobs", which="all")["jobs"]}
        assert names == {"runs", "taken"}


@pytest.mark.parametrize("jump_s", [-86_400, 86_400])
def test_a_clock_that_jumps_while_gangs_run_changes_nothing_for_them(tmp_path, jump_s):
    clock = tmp_path / "clock"
    put(clock, "0")
    with box("2", start=False) as made:
        made.env["TUTTI_FAULT_CLOCK"] = str(clock)
        made.start()
        runs = made.submit("sh", "-c", "while ! test -e go; do sleep 0.05; done", name="runs", workers=2, time="1h")
        made.becomes("runs", "running")
        waits = made.submit("true", name="waits", workers=2, time="1m")
        until(lambda: made.row("waits")["reason"], "a reason")
        put(clock, str(jump_s))
        later = made.submit("true", name="later", time="1m")
        assert made.state("runs") == "running"
        (made.path / "go").touch()
        assert [job.wait() for job in (runs, waits, later)] == [0, 0, 0]
        assert made.client.get(job_path("runs"))["runs"] == 1
        report = made.client.get("/v1/report")
        assert report["closes"]
        made.kill()
        made.start()
        assert {row["state"] for row in made.client.get("/v1/jobs", which="all")["jobs"]} == {"finished"}
        assert made.submit("true", name="after").wait() == 0


def test_a_clock_that_jumps_back_loses_nothing(four):
    """Moments in the journal lie in the future, as after the clock was set back: jobs still run and end."""
    import sqlite3

    four.submit("true", name="later", held=True)
    until(lambda: four.state("later") == "held", "the hold")
    four.kill()
    ahead = 3_600_000_000
    with sqlite3.connect(four.home.journal) as base:
        base.execute("UPDATE jobs SET submitted = submitted + ?", (ahead,))
        base.execute("UPDATE jobs SET gang = json_set(gang, '$.submitted', submitted)")
    four.start()
    four.client.post(job_path("later", "release"))
    assert four.client.job("later").wait() == 0


# -- every point


class Patient:
    """A person who keeps trying: each order is given until it is acknowledged, through as many daemons as it takes."""

    def __init__(self, made: Box) -> None:
        self.made = made

    def do(self, order: Callable[[], Any], done: Callable[[], bool]) -> None:
        for _ in range(5):
            try:
                order()
            except (NoDaemon, ConnectionError, OSError):
                self._back()
                if done():
                    return
            except TuttiError:
                if done():
                    return
                raise
            else:
                return
        raise AssertionError("the order was never acknowledged")

    def _back(self) -> None:
        self.made.client.close()
        self.made.daemons[-1].wait(timeout=20)
        self.made.start()


def story(made: Box) -> None:
    """A gang, one that is ready when it ends, and a cancellation, through whatever happens to the daemon."""
    person = Patient(made)

    def known(name: str) -> bool:
        return any(row["name"] == name for row in made.client.get("/v1/jobs", which="all")["jobs"])

    def ended(name: str) -> None:
        made.client.job(name).wait()

    line = "echo x >> a.$RANK; sleep 0.2"
    person.do(lambda: made.submit("sh", "-c", line, workers=2, name="a"), lambda: known("a"))
    person.do(lambda: made.submit("sh", "-c", "echo x >> c.$RANK", workers=2, name="c"), lambda: known("c"))
    person.do(lambda: made.submit("true", name="b", held=True), lambda: known("b"))
    person.do(
        lambda: made.client.post(job_path("b", "cancel")),
        lambda: made.row("b")["state"] == "cancelled",
    )
    for name in "ac":
        person.do(partial(ended, name), lambda: False)


def in_order(made: Box) -> None:
    """Nothing lost, nothing twice, nobody left, no lock held."""
    rows = {row["name"]: row for row in made.client.get("/v1/jobs", which="all")["jobs"]}
    states = {name: row["state"] for name, row in rows.items()}
    assert states == {"a": "finished", "b": "cancelled", "c": "finished"}
    assert [(made.path / f"{name}.{rank}").read_text() for name in "ac" for rank in range(2)] == ["x\n"] * 4
    until(lambda: not made.keepers(), "the keepers' end")
    assert not [path for path in made.home.locks.iterdir() if is_held(str(path))]
    assert not [path for path in (made.path / "shared").iterdir() if is_held(str(path))]


def answers(made: Box) -> None:
    """Until the latest daemon answers or is dead."""
    until(lambda: made.client.is_up() or made.daemons[-1].poll() is not None, "a daemon")


def points(folder: Path) -> int:
    """How many points the story passes when nothing is killed."""
    count = folder / "count"
    with box("2", start=False) as made:
        made.start(TUTTI_FAULT_COUNT=str(count))
        story(made)
        in_order(made)
    return len(count.read_text().splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_a_kill_at_every_point_loses_nothing_and_runs_nothing_twice(part, tmp_path):
    """The story is told once for each point; the daemon dies there, and the next one goes on."""
    passed = points(tmp_path)
    assert passed > 8
    for kill_at in range(1 + part, passed + 1, 2):
        with box("2", start=False) as made:
            made.spawn(TUTTI_FAULT=str(kill_at))
            answers(made)
            if made.daemons[-1].poll() is not None:
                made.start()
            story(made)
            try:
                in_order(made)
            except (NoDaemon, ConnectionError):
                # To look at what has ended makes sure that the disk has it: that is a point, too.
                made.client.close()
                made.daemons[-1].wait(timeout=20)
                made.start()
                in_order(made)


@pytest.mark.slow
def test_a_kill_while_recovering_from_a_kill(tmp_path):
    """The second daemon dies too, at each of its first points, with a gang that runs and one that was about to."""
    for kill_at in range(1, 6):
        with box("2") as made:
            job = made.submit("sh", "-c", "echo x >> a; sleep 1.5", name="a")
            made.becomes("a", "running")
            made.submit("sh", "-c", "echo x >> b", workers=2, name="b", time="1m")
            made.kill()
            second = made.spawn(TUTTI_FAULT=str(kill_at))
            answers(made)
            made.client.close()
            second.kill()
            second.wait(timeout=10)
            made.start()
            assert job.wait() == 0
            assert made.client.job("b").wait() == 0
            assert (made.path / "a").read_text() == "x\n"
            assert (made.path / "b").read_text() == "x\nx\n"


def test_the_control_group_of_a_keeper_that_was_killed_is_removed(four):
    job = four.submit("sleep", "600", name="ward", retries=0, grace="0s", on_loss="fail")
    four.becomes("ward", "running")
    keeper = four.keepers()[0]
    group = Path(cgroup.path_of(keeper) or "nowhere")
    was_there = group.is_dir()
    os.kill(keeper, signal.SIGKILL)
    assert job.wait() != 0
    until(lambda: not group.is_dir(), "its end")
    assert was_there == (group.is_absolute() and os.access(group.parent, os.W_OK))


def is_known(made: Box, name: str) -> bool:
    try:
        return bool(made.client.get(job_path(name, "story")))
    except NotFound:
        return False


def test_logs_and_history_go_when_they_are_too_many_or_too_old(tmp_path):
    """By the daemon itself, whose clock is put forward; what runs keeps everything."""
    clock = tmp_path / "clock"
    put(clock, "0")
    config = '[logs]\nkeep = "2h"\ntotal = "100KiB"\n[history]\nkeep = "4h"\n'
    with box("2", config, start=False) as made:
        made.env["TUTTI_FAULT_CLOCK"] = str(clock)
        made.start()
        print_60k = ("sh", "-c", "head -c 60000 /dev/zero | tr '\\0' x")
        made.submit("sh", "-c", "echo begun; while ! test -e go; do sleep 0.05; done", name="runs")
        for name in ("first", "second"):
            assert made.submit(*print_60k, name=name).wait() == 0
        folders = {name: Path(made.client.get(job_path(name))["log_folder"]) for name in ("runs", "first", "second")}

        put(clock, "61")
        until(lambda: not folders["first"].exists(), "the oldest to make room")
        assert (folders["runs"].exists(), folders["second"].exists()) == (True, True)

        put(clock, str(3 * 3600))
        until(lambda: not folders["second"].exists(), "the end of what is too old")
        assert made.state("second") == "finished"
        assert made.log("runs") == "begun\n"

        put(clock, str(5 * 3600))
        until(lambda: not any(map(partial(is_known, made), ("first", "second"))), "the end of their history")
        assert is_known(made, "runs")
        (made.path / "go").touch()
        assert made.client.job("runs").wait() == 0
