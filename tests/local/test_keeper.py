"""Keepers as real processes: members start together, end whole, and how they ended is written down."""

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.local.stage import until
from tutti.local.keeper import cgroup, records, tree
from tutti.local.keeper.gate import Gate, wait_at
from tutti.local.keeper.locks import Busy, Locks, is_held
from tutti.local.keeper.logs import Log
from tutti.local.links import started
from tutti.train.agent import lines
from tutti.train.agent.watch import state_of


class Stage:
    """A nursery and the runs it was asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        ours, self.process = started()
        self.line = lines.Lines(ours)
        assert self.line.receive(None)[0]["say"] == "ready"

    def run(self, nonce: str, *argv: str, members: int = 1, **more: object) -> "Run":
        folder = self.path / nonce
        (folder / "logs").mkdir(parents=True)
        env = {"PATH": os.environ["PATH"], "TUTTI_RUN": nonce}
        spec = {
            "job": nonce, "nonce": nonce, "argv": list(argv), "cwd": str(self.path), "env": env,
            "logs": str(folder / "logs"), "members": [{"rank": at, "env": {"RANK": str(at)}} for at in range(members)],
            "grace_s": 0.3, **more,
        }  # fmt: skip
        (folder / "spec.json").write_text(json.dumps(spec))
        self.line.send({"say": "fork", "folder": str(folder)})
        assert self.line.receive(None)[0]["say"] == "forked"
        return Run(folder)

    def close(self) -> None:
        self.line.close()
        self.process.wait(timeout=10)
        for folder in self.path.iterdir():
            if (folder / "claim").exists():
                who = records.claimed_by(str(folder))
                if records.claim_is_alive(who):
                    os.kill(int(who.split("/")[1]), signal.SIGKILL)
                tree.sweep(folder.name)


OPEN: list["Run"] = []


@pytest.fixture(autouse=True)
def _hang_up():
    yield
    while OPEN:
        OPEN.pop().line.close()


class Run:
    """One run, as a daemon would see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.line = lines.connect(str(folder / "s"))
        except ConnectionRefusedError:
            # Over before anybody listened: all there is to know is in its record.
            assert records.read_record(str(folder / "exit.json"))
            ours, theirs = socket.socketpair()
            theirs.close()
            self.line = lines.Lines(ours)
        OPEN.append(self)
        self.heard: list[dict] = []

    def hear(self, word: str) -> Any:
        """The next message of that kind."""

        def found():
            self.heard += self.line.receive(0.1)
            return next((message for message in self.heard if message["say"] == word), None)

        message = until(found, word)
        self.heard.remove(message)
        return message

    def up(self) -> None:
        """All members run: the keeper says so in its greeting, or a moment later."""
        if self.hear("hello")["phase"] != "running":
            self.hear("up")

    def record(self) -> Any:
        return until(lambda: records.read_record(str(self.folder / "exit.json")), "the exit record")

    def log(self, rank: int = 0) -> str:
        path = self.folder / "logs" / f"rank-{rank}.log"
        return path.read_text() if path.exists() else ""

    @property
    def keeper(self) -> int:
        return int(until(lambda: records.claimed_by(str(self.folder)), "the claim").split("/")[1])


@pytest.fixture(scope="module")
def stage():
    with tempfile.TemporaryDirectory(prefix="tt") as folder:
        made = Stage(Path(folder))
        try:
            yield made
        finally:
            made.close()


def test_members_write_their_logs_and_their_end_is_recorded(stage):
    run = stage.run("plain", "sh", "-c", "echo I am $RANK; exit 0", members=3)
    assert run.hear("ended")["code"] == 0
    assert [run.log(rank) for rank in range(3)] == ["I am 0\n", "I am 1\n", "I am 2\n"]
    assert run.record()["members"] == {"0": 0, "1": 0, "2": 0}
    assert not tree.marked("plain")


def test_nobody_passes_the_gate_before_all_are_there(stage):
    """When the first member runs, the logs of all of them are there: every one had been forked by then."""
    run = stage.run("gate", "sh", "-c", "ls $LOGS | wc -l", members=8, env={
        "PATH": os.environ["PATH"], "TUTTI_RUN": "gate", "LOGS": str(stage.path / "gate" / "logs"),
    })  # fmt: skip
    run.hear("ended")
    assert [int(run.log(rank)) for rank in range(8)] == [8] * 8


def test_one_failure_ends_the_others_and_is_named(stage):
    run = stage.run("fail", "sh", "-c", "test $RANK = 1 && exit 7; exec sleep 600", members=3)
    ended = run.hear("ended")
    assert (ended["code"], ended["first"], ended["why"]) == (7, 1, "failed")


def test_a_member_killed_from_outside_is_told_and_the_others_go_on(stage):
    run = stage.run("lost", "sleep", "600", members=2)
    run.up()
    victim = run.hear("members")["rows"][0][1]
    os.kill(victim, signal.SIGKILL)
    assert run.hear("exit")["code"] == -signal.SIGKILL
    assert not (run.folder / "exit.json").exists()
    run.line.send({"say": "stop", "grace_s": 0.2, "why": "restart"})
    assert run.hear("ended")["lost_first"] is True


STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
DOUBLE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
print("forked", flush=True)
time.sleep(600)
"""
HYDRA = """
import os, time
# Each head grows the next and dies, so that whoever counts processes is always late.
print("up", flush=True)
while True:
    if os.fork():
        time.sleep(0.001)
        os._exit(0)
    os.setsid()
"""
SWARM = """
import os, time
print("up", flush=True)
for _ in range(6):
    os.fork()
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("nonce", "program"),
    [("stubborn", STUBBORN), ("double", DOUBLE), ("hydra", HYDRA), ("swarm", SWARM)],
    ids=["stubborn", "double", "hydra", "swarm"],
)
def test_nothing_survives_the_end(stage, nonce, program):
    run = stage.run(nonce, sys.executable, "-c", program)
    until(run.log, "its first line")
    run.line.send({"say": "stop", "grace_s": 0.2, "why": "cancel"})
    assert run.hear("ended")["left"] == []
    assert not tree.marked(nonce)


@pytest.mark.parametrize(
    "program", [DOUBLE, HYDRA.replace("up", "forked"), SWARM.replace("up", "forked")], ids=["double", "hydra", "swarm"]
)
def test_without_a_group_the_tree_is_found_by_its_parents(program):
    """In a process of its own, because whoever ends a tree ends everything below itself."""
    watcher = f"""
import subprocess, sys, time
from tutti.local.keeper import tree
tree.adopt_orphans()
child = subprocess.Popen([sys.executable, "-c", {program!r}], stdout=subprocess.PIPE)
assert child.stdout.readline() == b"forked\\n"
assert tree.end_tree(None, {{child.pid}}) == []
child.wait()
child.stdout.close()
assert tree.living(None) == []
print("clean")
"""
    done = subprocess.run([sys.executable, "-c", watcher], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("clean\n", "")


def test_orphans_that_have_ended_are_not_left_lying_while_a_member_runs(stage):
    run = stage.run("orphans", "sh", "-c", "for i in 1 2 3 4 5; do (true & true); done; echo left; exec sleep 600")
    until(run.log, "its first line")
    keeper = int(records.claimed_by(str(run.folder)).split("/")[1])
    member = run.hear("members")["rows"][0][1]
    until(lambda: tree.descendants(keeper) == [member], "nobody but the member")
    run.line.send({"say": "stop", "grace_s": 0.0, "why": "cancel"})
    assert run.hear("ended")["left"] == []


def waiting(stage: Stage, nonce: str, *argv: str) -> Run:
    """A run of three members that are at the gate, and whose daemon has not said go."""
    run = stage.run(nonce, *argv, members=3, on_word=os.getpid())
    until(lambda: [state_of(pid) for pid in tree.marked(nonce)] == ["t"] * 3, "three members at the gate")
    return run


def test_members_have_become_their_program_before_the_word_and_done_nothing_of_it(stage):
    run = waiting(stage, "ready", "sh", "-c", "echo ran")
    assert {Path(f"/proc/{pid}/comm").read_text() for pid in tree.marked("ready")} == {"sh\n"}
    assert [run.log(rank) for rank in range(3)] == [""] * 3
    run.line.send({"say": "go"})
    assert run.hear("ended")["code"] == 0
    assert [run.log(rank) for rank in range(3)] == ["ran\n"] * 3


def test_a_keeper_that_is_killed_before_the_word_lets_nobody_go(stage):
    run = waiting(stage, "unasked", "sh", "-c", "echo ran")
    os.kill(run.keeper, signal.SIGKILL)
    until(lambda: not tree.marked("unasked"), "the members' end")
    assert [run.log(rank) for rank in range(3)] == [""] * 3


def test_a_run_that_is_ended_before_the_word_never_runs(stage):
    run = waiting(stage, "ended", "sh", "-c", "echo ran; sleep 600")
    run.line.send({"say": "stop", "grace_s": 5, "why": "cancel"})
    assert run.hear("ended")["code"] == -signal.SIGTERM
    assert [run.log(rank) for rank in range(3)] == [""] * 3


def test_a_program_that_runs_as_its_owner_is_not_traced(stage):
    """Under a trace it would not be allowed to; so it waits before it is executed."""
    program = stage.path / "as-owner"
    shutil.copy("/bin/echo", program)
    program.chmod(0o4755)
    run = stage.run("owner", str(program), "hello", members=2, on_word=os.getpid())
    until(lambda: {state_of(pid) for pid in tree.descendants(run.keeper)} == {"S"}, "two members at the gate")
    run.line.send({"say": "go"})
    assert run.hear("ended")["code"] == 0
    assert run.log(1) == "hello\n"


def test_a_member_that_is_killed_on_its_way_keeps_nobody_waiting():
    """A signal to a process that is traced stops it; it is passed on, so that it has its effect."""
    gate = Gate()
    pid = os.fork()
    if pid == 0:
        wait_at(gate.ends(), "/bin/true")
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(7)
    gate.await_all([pid], 60.0)
    gate.open()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM


def test_a_member_that_never_arrives_is_given_up():
    gate = Gate()
    pid = os.fork()
    if pid == 0:
        signal.pause()
    gate.await_all([pid], 0.1)
    gate.open()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_members_inherit_nothing_but_their_streams(stage):
    run = stage.run("files", "sh", "-c", "ls /proc/$$/fd", members=2)
    assert run.hear("ended")["code"] == 0
    assert [run.log(rank).split() for rank in range(2)] == [["0", "1", "2"]] * 2


def test_a_keeper_that_is_killed_takes_its_members_with_it(stage):
    run = stage.run("killed", "sleep", "600", members=2)
    run.up()
    os.kill(run.keeper, signal.SIGKILL)
    until(lambda: not tree.marked("killed"), "the members' end")
    assert not (run.folder / "exit.json").exists()


def test_the_limit_is_kept_without_any_daemon(stage):
    run = stage.run("limit", "sh", "-c", "trap 'echo asked; exit 0' TERM; while :; do sleep 0.05; done", limit_s=0.3)
    run.line.close()
    assert run.record()["why"] == "limit"
    assert run.log().endswith("asked\n")


def test_a_signal_comes_before_the_limit(stage):
    program = "trap 'echo warned' USR1; while :; do sleep 0.05; done"
    run = stage.run("notice", "sh", "-c", program, limit_s=0.8, notice=int(signal.SIGUSR1), notice_s=0.5)
    run.hear("ended")
    assert "warned" in run.log()


def test_a_run_that_was_made_void_never_begins(stage):
    folder = stage.path / "void"
    (folder / "logs").mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"job": "void"}))
    assert records.claim(str(folder), records.VOID)
    stage.line.send({"say": "fork", "folder": str(folder)})
    assert stage.line.receive(None)[0]["say"] == "forked"
    # It may be gone before anybody can call it.
    with contextlib.suppress(OSError), contextlib.closing(lines.connect(str(folder / "s"))) as line:
        until(lambda: not line.receive(0.1) and not line.is_open, "the keeper's end")
    assert not (folder / "exit.json").exists()
    assert records.claimed_by(str(folder)) == records.VOID


def test_members_run_when_the_daemon_says_go_and_not_before(stage):
    run = stage.run("word", "sh", "-c", "echo ran", members=2, on_word=os.getpid())
    assert run.hear("hello")["phase"] == "starting"
    run.line.send({"say": "unheard-of"})
    assert run.hear("unknown")["of"] == "unheard-of"
    assert [run.log(rank) for rank in range(2)] == ["", ""]
    run.line.send({"say": "go"})
    assert run.hear("ended")["code"] == 0
    assert [run.log(rank) for rank in range(2)] == ["ran\n", "ran\n"]


@pytest.mark.parametrize("daemon", ["hangs up", "dies"])
def test_a_gang_whose_daemon_goes_before_it_said_go_never_runs(stage, daemon):
    someone = subprocess.Popen(["sleep", "600"])
    run = stage.run(f"no-word-{daemon[0]}", "sh", "-c", "echo ran", members=2, on_word=someone.pid)
    run.hear("hello")
    if daemon == "hangs up":
        run.line.close()
    someone.kill()
    someone.wait(timeout=10)
    record = run.record()
    assert (record["why"], record["members"]) == ("refused", {})
    assert "before it could begin" in record["refused"]
    assert [run.log(rank) for rank in range(2)] == ["", ""]
    until(lambda: not tree.marked(run.folder.name), "the end of its members")


def test_a_member_that_fails_at_the_gate_is_a_failure_and_no_refusal(stage):
    run = stage.run("no-folder", "true", cwd="/no/such/folder", on_word=os.getpid())
    assert run.record()["code"] == 126
    assert "no/such/folder" in run.log()


def test_nothing_is_left_of_a_nursery_and_its_spare(tmp_path):
    group = cgroup.own_folder()
    others = set(Path(group).iterdir()) if group else set()
    made = Stage(tmp_path)
    before = until(lambda: len(kin := tree.descendants(made.process.pid)) >= 2 and kin, "a spare with its member")
    made.close()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in before), "their end")
    left = set(Path(group).iterdir()) - others if group else set()
    assert not {path.name for path in left} & {f"tutti-{pid}" for pid in before}


def test_a_spare_that_was_killed_is_replaced(tmp_path):
    made = Stage(tmp_path)
    try:
        until(lambda: len(tree.descendants(made.process.pid)) >= 2, "a spare with its member")
        spare = next(pid for pid, parent, _ in tree.processes() if parent == made.process.pid)
        os.kill(spare, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{spare}").exists(), "its end")
        assert made.run("without", "true").hear("ended")["code"] == 0
        until(lambda: len(tree.descendants(made.process.pid)) >= 2, "another spare")
        assert made.run("with", "true").hear("ended")["code"] == 0
    finally:
        made.close()


def test_the_spare_and_a_fresh_keeper_do_the_same(tmp_path):
    """Two runs at once: the second finds no spare that is ready."""
    made = Stage(tmp_path)
    try:
        until(lambda: len(tree.descendants(made.process.pid)) >= 2, "a spare with its member")
        runs = [made.run(f"same-{at}", "sh", "-c", "echo $RANK; ulimit -c", members=2) for at in range(3)]
        assert [run.hear("ended")["code"] for run in runs] == [0, 0, 0]
        assert len({(run.log(0), run.log(1)) for run in runs}) == 1
    finally:
        made.close()


def test_members_have_the_limits_of_their_submitter(stage):
    limits = {"RLIMIT_NOFILE": [77, 88], "RLIMIT_CORE": [0, 0], "RLIMIT_UNHEARD_OF": [1, 1]}
    run = stage.run("limits", "sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -c", members=2, limits=limits)
    run.hear("ended")
    assert [run.log(rank) for rank in range(2)] == ["77\n88\n0\n"] * 2


def test_only_one_claims_a_run(tmp_path):
    assert records.claim(str(tmp_path), "first")
    assert not records.claim(str(tmp_path), "second")
    assert records.claimed_by(str(tmp_path)) == "first"


def test_a_lock_says_who_holds_it(tmp_path):
    """For flock a second descriptor of this process is as good as another process."""
    path = str(tmp_path / "device-0")
    mine = Locks()
    mine.take([path])
    with pytest.raises(Busy, match="device-0 is held by process"):
        Locks().take([path])
    mine.give_all()
    assert not is_held(path)


def test_a_keeper_refuses_when_a_device_is_taken(stage):
    path = str(stage.path / "device-1")
    mine = Locks()
    mine.take([path])
    folder = stage.path / "taken"
    (folder / "logs").mkdir(parents=True)
    member = {"rank": 0, "env": {}, "locks": [path]}
    spec = {"job": "taken", "nonce": "taken", "argv": ["true"], "cwd": "/", "env": {}, "logs": str(folder / "logs")}
    (folder / "spec.json").write_text(json.dumps({**spec, "members": [member]}))
    stage.line.send({"say": "fork", "folder": str(folder)})
    stage.line.receive(None)
    record = Run(folder).record()
    assert record["why"] == "refused"
    assert "device-1 is held" in record["refused"]
    mine.give_all()


def test_members_and_locks_go_together(stage):
    path = str(stage.path / "device-2")
    folder = stage.path / "locked"
    (folder / "logs").mkdir(parents=True)
    spec = {"job": "locked", "nonce": "locked", "argv": ["sleep", "600"], "cwd": "/", "grace_s": 0.2}
    env = {"PATH": os.environ["PATH"], "TUTTI_RUN": "locked"}
    rest = {"env": env, "logs": str(folder / "logs"), "members": [{"rank": 0, "locks": [path]}]}
    (folder / "spec.json").write_text(json.dumps({**spec, **rest}))
    stage.line.send({"say": "fork", "folder": str(folder)})
    stage.line.receive(None)
    run = Run(folder)
    run.up()
    assert is_held(path)
    run.line.send({"say": "stop", "grace_s": 0.2, "why": "cancel"})
    run.hear("ended")
    assert not is_held(path)


def test_a_command_that_is_not_there_says_so(stage):
    run = stage.run("nothing", "no-such-program-here")
    assert run.hear("ended")["code"] == 127
    assert run.log() == "tutti: there is no command 'no-such-program-here'\n"


def test_a_late_daemon_hears_everything(stage):
    run = stage.run("late", "sleep", "600", members=2)
    run.up()
    second = Run(run.folder)
    assert second.hear("hello")["phase"] == "running"
    assert [row[0] for row in second.hear("members")["rows"]] == [0, 1]
    second.line.send({"say": "strange"})
    assert second.hear("unknown")["of"] == "strange"
    second.line.send({"say": "stop", "grace_s": 0.2, "why": "cancel"})
    assert run.hear("ended")["why"] == "cancel"


def test_a_flood_of_output_is_capped_and_holds_nobody_up(stage):
    run = stage.run("flood", "sh", "-c", "yes | head -c 30000000; echo done >&2", log_bytes=1 << 20)
    run.hear("ended")
    folder = run.folder / "logs"
    sizes = [path.stat().st_size for path in folder.iterdir()]
    assert sum(sizes) <= 2 << 20
    assert run.log().endswith("done\n")


def test_a_log_that_cannot_be_written_is_counted(tmp_path):
    log = Log(str(tmp_path / "missing" / "rank-0.log"), 1 << 20)
    log.note("lost")
    assert log.lost == 5


def test_a_member_joins_a_run_that_goes_on(stage):
    run = stage.run("grow", "sh", "-c", "echo here $RANK; exec sleep 600", members=1)
    run.up()
    more = run.folder / "more.json"
    more.write_text(json.dumps({"members": [{"rank": 1, "env": {"RANK": "1"}}]}))
    run.line.send({"say": "spawn", "id": "a", "file": str(more)})
    assert run.hear("spawned")["ranks"] == [1]
    until(lambda: run.log(1) == "here 1\n", "the new member's line")
    run.line.send({"say": "release", "id": "b", "ranks": [1], "grace_s": 1.0})
    assert run.hear("released")["ranks"] == [1]
    run.line.send({"say": "stop", "grace_s": 0.2, "why": "cancel"})
    run.hear("ended")


def test_of_members_that_cannot_all_be_started_none_is_and_the_run_goes_on(stage):
    run = stage.run("unable", "sh", "-c", "echo here; exec sleep 600")
    run.up()
    more = run.folder / "more.json"
    more.write_text(json.dumps({"members": [{"rank": rank, "env": {}} for rank in range(1, 9)]}))
    usual = resource.prlimit(run.keeper, resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path(f"/proc/{run.keeper}/fd").iterdir())
    resource.prlimit(run.keeper, resource.RLIMIT_NOFILE, (highest + 16, usual[1]))
    run.line.send({"say": "spawn", "id": "c", "file": str(more)})
    assert run.hear("refused")["why"] == "no process could be started: Too many open files"
    assert [run.log(rank) for rank in range(1, 9)] == [""] * 8
    resource.prlimit(run.keeper, resource.RLIMIT_NOFILE, usual)
    run.line.send({"say": "spawn", "id": "d", "file": str(more)})
    assert len(run.hear("spawned")["ranks"]) == 8
    run.line.send({"say": "stop", "grace_s": 0.0, "why": "cancel"})
    assert run.hear("ended")["left"] == []


def test_a_shell_beside_a_member(stage):
    run = stage.run("attach", "sleep", "600")
    run.up()
    shell = Run(run.folder)
    shell.hear("hello")
    shell.line.send({"say": "attach", "rank": 0, "argv": ["sh", "-c", "echo beside $RANK; exit 3"]})
    assert shell.hear("gone")["code"] == 3
    run.line.send({"say": "stop", "grace_s": 0.2, "why": "cancel"})
    run.hear("ended")


def test_the_nursery_ends_with_its_daemon_and_keepers_do_not(stage):
    ours, process = started()
    ours.close()
    assert process.wait(timeout=20) == 0
