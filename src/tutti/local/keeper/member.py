"""One rank as a process: forked, made ready, turned into the job's program, and held at a gate until all are there."""

from __future__ import annotations

import contextlib
import marshal
import os
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tutti.local.keeper.cgroup import Cgroup
from tutti.local.keeper.gate import Gate, wait_at
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

    def is_outdated(self) -> bool:
        """Whether another file has taken the place of the program since it was executed."""
        try:
            return os.readlink(f"/proc/{self.pid}/exe").endswith(" (deleted)")
        except OSError:
            return False

    def is_fresh(self, age_s: float) -> bool:
        """Whether its program was made so lately that somebody may be about to make it again."""
        try:
            return os.stat(f"/proc/{self.pid}/exe").st_mtime > time.time() - age_s
        except OSError:
            return False


class Orders(NamedTuple):
    """What a process must know to become one certain member."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    umask: int
    cpus: list[int]
    limits: dict[str, list[int]]
    user: tuple[int, int, list[int]]


def orders(spec: Spec, member: MemberSpec) -> Orders:
    """The part of a specification that one member needs."""
    user = (spec.uid, spec.gid, spec.groups)
    env = {**spec.env, **member.env}
    return Orders(member.argv or spec.argv, env, spec.cwd, spec.umask, member.cpus, spec.limits, user)


class Warm:
    """A process that waits to become a member: forked and in its control group before anybody needs it.

    To enter a control group takes the kernel ten milliseconds, and a fork some more; nobody has to wait for either.
    """

    def __init__(self, group: Cgroup | None, not_mine: socket.socket) -> None:
        """`not_mine` is a line of the keeper that must end with the keeper."""
        self._line, theirs = socket.socketpair()
        parent = os.getpid()

        def wait() -> None:
            self._line.close()
            not_mine.close()
            _alone(group, parent)
            told = _told(theirs)
            if told is not None:
                _become(*told, parent)

        self.watch = Watch(forked(wait))
        theirs.close()

    def take(self, told: Orders, gate: Gate, writer: int) -> bool:
        """Have it become a member; False where it is no longer there."""
        data = marshal.dumps(tuple(told))
        with self._line:
            try:
                socket.send_fds(self._line, [len(data).to_bytes(8, "little")], [*gate.ends(), writer])
                self._line.sendall(data)
            except OSError:
                return False
        return True

    def end(self) -> None:
        """It was not needed."""
        self._line.close()
        self.watch.send(signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.watch.pid, 0)
        self.watch.close()


def received(line: socket.socket, most: int, files: int) -> tuple[bytes, list[int]]:
    """Data and open files; a program that is executed later has nothing of them."""
    data, ends, _, _ = socket.recv_fds(line, most, files)
    for end in ends:
        os.set_inheritable(end, False)
    return data, ends


def _told(line: socket.socket) -> tuple[Orders, tuple[int, int], int] | None:
    """In a process that waits: what it shall become, or None when nobody needs it."""
    head, ends = received(line, 8, 3)
    if len(head) < 8 or len(ends) < 3:
        return None
    data = bytearray()
    while len(data) < int.from_bytes(head, "little"):
        piece = line.recv(1 << 20)
        if not piece:
            return None
        data += piece
    line.close()
    return Orders(*marshal.loads(data)), (ends[0], ends[1]), ends[2]  # noqa: S302 - from our own parent


def start(spec: Spec, member: MemberSpec, gate: Gate, log: Log, group: Cgroup | None, warm: Warm | None) -> Member:
    """Have one member up to the gate: out of the process that waits for this, or else out of a new one."""
    writer = log.pipe()
    watch = warm.watch if warm is not None and warm.take(orders(spec, member), gate, writer) else None
    if watch is None:
        parent = os.getpid()

        def begin() -> None:
            _alone(group, parent)
            gate.leave_to_keeper()
            _become(orders(spec, member), gate.ends(), writer, parent)

        watch = Watch(forked(begin))
    os.close(writer)
    return Member(member, watch, log)


def forked(work: Callable[[], None]) -> int:
    """A child that does the work and never returns into the keeper's own code."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as problem:  # noqa: BLE001 - see above
            _say(f"tutti: this member could not be started: {problem}")
        finally:
            os._exit(NOT_EXECUTABLE)
    return pid


def _alone(group: Cgroup | None, parent: int) -> None:
    """What every member needs, whoever it is."""
    os.setsid()
    _signals_as_new()
    die_with(parent)
    if group is not None:
        with contextlib.suppress(OSError):
            group.add_me()
    if FILES is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, FILES)


def _become(told: Orders, gate: tuple[int, int], writer: int, parent: int) -> None:
    _standard_streams(writer)
    if told.cpus:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, told.cpus)
    set_limits(told.limits)
    as_user(*told.user)
    # A change of user takes this request away, so it comes after that once more.
    die_with(parent)
    os.umask(told.umask)
    os.chdir(told.cwd)
    program = _found(told.argv[0], told.env)
    wait_at(gate, program)
    if os.getppid() == parent:
        _execute(program, told.argv, told.env)


def _standard_streams(writer: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(writer, 1)
    os.dup2(writer, 2)


def _signals_as_new() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def set_limits(limits: dict[str, list[int]]) -> None:
    """What the submitter's own processes may use; a limit that may not be raised again stays as it is."""
    for name, (soft, hard) in limits.items():
        number = getattr(resource, name, None)
        if number is not None:
            with contextlib.suppress(OSError, ValueError):
                _limit(number, soft, hard)


def _limit(number: int, soft: int, hard: int) -> None:
    try:
        resource.setrlimit(number, (soft, hard))
    except ValueError:
        most = resource.getrlimit(number)[1]
        resource.setrlimit(number, (_least(soft, most), _least(hard, most)))


def _least(one: int, other: int) -> int:
    """The lower of two limits; there may be none."""
    return min((each for each in (one, other) if each != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY)


def as_user(uid: int, gid: int, groups: list[int]) -> None:
    """Give up what the keeper may and the submitter may not; only a keeper of the shared service has any of it."""
    if uid < 0 or uid == os.getuid():
        return
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


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
