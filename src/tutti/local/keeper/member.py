"""One rank as a process: forked, made ready, held at a gate, and turned into the job's program when all are there."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
from dataclasses import dataclass

from tutti.local.keeper.cgroup import Cgroup
from tutti.local.keeper.logs import Log
from tutti.local.keeper.spec import MemberSpec, Spec
from tutti.local.keeper.tree import die_with
from tutti.train.agent.watch import Watch

NOT_FOUND, NOT_EXECUTABLE = 127, 126
FILES: tuple[int, int] | None = None
"""How many files a member may open, where the keeper itself may open more."""


@dataclass
class Member:
    """A rank that was started: its process, its log, how it ended."""

    spec: MemberSpec
    watch: Watch
    log: Log
    code: int | None = None
    """None while it runs; negative for a signal."""
    released: bool = False
    """It was asked to go, so its end is no loss."""
    failed_at: float = 0.0

    @property
    def rank(self) -> int:
        return self.spec.rank

    @property
    def pid(self) -> int:
        return self.watch.pid

    def signal(self, number: int) -> None:
        """Signal the member and its process group."""
        with contextlib.suppress(OSError):
            os.killpg(self.watch.pid, number)
        self.watch.send(number)


class Gate:
    """Members wait here: each says that it is ready, all go on when it opens."""

    def __init__(self) -> None:
        self.ready, self._ready_in = os.pipe()
        self._opens, self._holds = os.pipe()
        os.set_blocking(self.ready, False)
        self.waiting = 0

    def fileno(self) -> int:
        return self.ready

    def count(self) -> int:
        """How many have said that they are ready since the last call."""
        try:
            return len(os.read(self.ready, 4096))
        except BlockingIOError:
            return 0

    def pass_through(self) -> None:
        """In a member: say that it is ready and wait; without a keeper there is nothing to wait for."""
        os.close(self._holds)
        os.write(self._ready_in, b".")
        os.close(self._ready_in)
        os.close(self.ready)
        if os.read(self._opens, 1) != b"":
            os._exit(1)
        os.close(self._opens)

    def open(self) -> None:
        for end in (self._holds, self._opens, self._ready_in, self.ready):
            os.close(end)


def start(spec: Spec, member: MemberSpec, gate: Gate, log: Log, group: Cgroup | None) -> Member:
    """Fork one member up to the gate."""
    writer = log.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(spec, member, gate, writer, group, parent)
        except BaseException as problem:  # noqa: BLE001 - a fork must never return into the keeper's own code
            _say(f"tutti: this member could not be started: {problem}")
        finally:
            os._exit(NOT_EXECUTABLE)
    os.close(writer)
    gate.waiting += 1
    return Member(member, Watch(pid), log)


def _become(spec: Spec, member: MemberSpec, gate: Gate, writer: int, group: Cgroup | None, parent: int) -> None:
    os.setsid()
    _standard_streams(writer)
    _signals_as_new()
    if group is not None:
        with contextlib.suppress(OSError):
            group.add_me()
    if member.cpus:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, member.cpus)
    if FILES is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, FILES)
    _as_user(spec)
    # A change of user takes this request away, so it comes after that.
    die_with(parent)
    os.umask(spec.umask)
    os.chdir(spec.cwd)
    argv = member.argv or spec.argv
    env = {**spec.env, **member.env}
    program = _found(argv[0], env)
    gate.pass_through()
    if os.getppid() == parent:
        _execute(program, argv, env)


def _standard_streams(writer: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(writer, 1)
    os.dup2(writer, 2)


def _signals_as_new() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _as_user(spec: Spec) -> None:
    """Give up what the keeper may and the submitter may not; only a keeper of the shared service has any of it."""
    if spec.uid < 0 or spec.uid == os.getuid():
        return
    os.setgroups(spec.groups)
    os.setresgid(spec.gid, spec.gid, spec.gid)
    os.setresuid(spec.uid, spec.uid, spec.uid)


def _found(name: str, env: dict[str, str]) -> str:
    """Where the program is, looked up before the gate so that all of them begin at the same moment."""
    return shutil.which(name, path=env.get("PATH", os.defpath)) or name


def _execute(program: str, argv: list[str], env: dict[str, str]) -> None:
    try:
        os.execve(program, argv, env)  # noqa: S606 - the job's own program
    except FileNotFoundError:
        _say(f"tutti: there is no command {argv[0]!r}")
        os._exit(NOT_FOUND)
    except OSError as problem:
        _say(f"tutti: {argv[0]!r} cannot be executed: {problem.strerror}")
        os._exit(NOT_EXECUTABLE)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode(errors="replace"))
    sys.stdout = sys.stderr = None  # nothing buffered may be written twice
