"""How the launcher starts members and the store: forked from a zygote, or run as written when they are not Python."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tutti.train import zygote
from tutti.train.agent import lines
from tutti.train.agent.begin import Begin
from tutti.train.agent.folder import Folder
from tutti.train.agent.watch import Watch, state_of

PR_SET_CHILD_SUBREAPER = 36
WARM_S = 120.0
STORE_S = 30.0
ZYGOTE_S = 5.0
ZYGOTE_LOOK_S = 0.5
STREAMING = "glibc.cpu.x86_non_temporal_threshold"
STREAMED_BYTES = 1 << 20
LARGE = {
    "accelerate": "accelerate",
    "datasets": "datasets",
    "lightning": "lightning.pytorch",
    "lightning_fabric": "lightning_fabric",
    "pytorch_lightning": "pytorch_lightning",
    "transformers": "transformers.trainer",
}
OURS = re.compile(r"^\s*(?:from|import)\s+tutti\b", re.MULTILINE)
IMPORTS = re.compile(rf"^\s*(?:from|import)\s+({'|'.join(LARGE)})\b", re.MULTILINE)


class CannotStart(Exception):
    """A member or the store could not be started."""


@dataclass(frozen=True)
class Machine:
    """Which of how many machines this is, and how the others reach it."""

    rank: int = 0
    count: int = 1
    address: str = "127.0.0.1"


@dataclass(frozen=True)
class Command:
    """What a member runs: a Python program (argv without the interpreter) or any other."""

    argv: tuple[str, ...]
    is_python: bool
    interpreter: str = sys.executable


def read_command(words: list[str]) -> Command:
    """`python loop.py`, `loop.py`, `-m package.loop`, or anything that can be executed."""
    first = Path(words[0]).name
    if first.startswith("python") and len(words) > 1 and (words[1] == "-m" or not words[1].startswith("-")):
        interpreter = sys.executable if words[0] in ("python", "python3") else words[0]
        return Command(tuple(words[1:]), is_python=True, interpreter=interpreter)
    if first.endswith(".py") or words[0] == "-m":
        return Command(tuple(words), is_python=True)
    return Command(tuple(words), is_python=False)


def text_of(command: Command) -> str:
    try:
        return Path(command.argv[0]).read_text(errors="replace") if command.is_python else ""
    except OSError:
        return ""


def worth_warming(command: Command) -> list[str]:
    """Large libraries that the program names in its imports: imported once, before the members are forked."""
    return [LARGE[name] for name in dict.fromkeys(IMPORTS.findall(text_of(command)))]


def may_join(command: Command) -> bool:
    """Whether the program looks as if it would join: it names this library, or one whose trainers are attached to."""
    return bool(OURS.search(text_of(command)) or worth_warming(command))


class Hands:
    """Starts processes as children of this one, which adopts the orphans of the zygote."""

    def __init__(self, command: Command, folder: Folder, run: str) -> None:
        adopt_orphans()
        self.command = command
        self.folder = folder
        self.run = run
        self.machine = Machine()
        self._store: Watch | None = None
        self._address = ""
        self._elsewhere = ""
        os.environ["TUTTI_TRAIN_WARM"] = ",".join(worth_warming(command))
        self.tell: Callable[[str], None] = lambda _: None
        self._begin_zygote(may_fork=True)

    def _begin_zygote(self, may_fork: bool) -> None:
        """Have a process that members are forked from, and wait until it is warm."""
        ours, theirs = socket.socketpair()
        self._line = lines.Lines(ours)
        self._zygote = 0
        try:
            with undisturbed():
                is_fork = may_fork and can_fork(self.command)
                self._zygote = self._fork_zygote(ours, theirs) if is_fork else self._run_zygote(theirs)
            theirs.close()
            self._await("warm")
        except BaseException:
            self._drop_zygote()
            raise

    def _drop_zygote(self) -> None:
        self._line.close()
        if self._zygote:
            os.kill(self._zygote, signal.SIGKILL)
            os.waitpid(self._zygote, 0)
            self._zygote = 0

    def _run_zygote(self, theirs: socket.socket) -> int:
        command = self.command
        program = [
            command.interpreter if command.is_python else sys.executable,
            "-m",
            "tutti.train.zygote",
            str(theirs.fileno()),
        ]
        process = subprocess.Popen(  # noqa: S603 - the user's own interpreter
            program, pass_fds=[theirs.fileno()], env=with_streaming(with_path(os.environ)), start_new_session=True
        )
        process.returncode = 0
        return process.pid

    def _fork_zygote(self, ours: socket.socket, theirs: socket.socket) -> int:
        pid = os.fork()
        if pid == 0:
            ours.close()
            os.setsid()
            zygote.take_signals()
            zygote.serve_and_exit(theirs)
        return pid

    def store(self) -> str:
        """The store's address; a new one when the last was lost."""
        if self._elsewhere:
            return self._elsewhere
        if self._store is None or not self._store.is_running():
            self._start_store()
        return self._address

    def use_store(self, address: str) -> None:
        """Groups meet at a store on another machine."""
        self._elsewhere = address

    def store_watch(self) -> Watch:
        assert self._store is not None
        return self._store

    def start(self, member: str, facts: Begin) -> int:
        """Start one member."""
        env = self._environment(member, facts)
        if self.command.is_python:
            return self._fork("member", env, list(self.command.argv))
        process = subprocess.Popen(self.command.argv, env=env, start_new_session=True)  # noqa: S603
        process.returncode = 0
        return process.pid

    def renew_store(self) -> None:
        """End the store; the next one is empty, so that a new attempt does not meet the addresses of the last."""
        if self._store:
            self._store.send(signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._store.fileno(), os.WEXITED)
            self._store.close()
            self._store = None

    def close(self) -> None:
        """End the store and the zygote, and wait for both."""
        self.renew_store()
        self._line.close()
        if not self._zygote:
            return
        watch = Watch(self._zygote)
        if not select.select([watch], [], [], ZYGOTE_S)[0]:
            watch.send(signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._zygote, 0)
        watch.close()

    def _start_store(self) -> None:
        reader, writer = os.pipe()
        # The zygote has no copy of our pipe: the store opens it through our own entry in /proc, while we hold it open.
        reply = f"/proc/{os.getpid()}/fd/{writer}"
        try:
            pid = self._fork(
                "store",
                {**with_path(os.environ), "TUTTI_TRAIN_REPLY": reply, "TUTTI_TRAIN_PARENT": str(os.getpid())},
                [],
            )
            port = os.read(reader, 32) if select.select([reader], [], [], STORE_S)[0] else b""
        finally:
            os.close(reader)
            os.close(writer)
        if not port:
            raise CannotStart("the store did not say where it listens: see the lines above")
        self._store = Watch(pid)
        self._address = f"{self.machine.address}:{int(port)}"

    def _fork(self, what: str, env: Mapping[str, str], argv: list[str]) -> int:
        request = {"say": "fork", "what": what, "env": dict(env), "argv": argv, "cwd": str(Path.cwd())}
        answer = self._answer("forked") if self._line.send(request) else None
        if answer is None:
            self.tell("the process that members are forked from is gone: another is started")
            self._drop_zygote()
            # Not forked from here any more: it would hold on to all that is open by now.
            self._begin_zygote(may_fork=False)
            self._line.send(request)
            answer = self._await("forked")
        return int(answer["pid"])

    def _await(self, word: str) -> lines.Message:
        answer = self._answer(word)
        if answer is None:
            raise CannotStart(
                f"the process that members are forked from did not answer ({word}): "
                f"can {self.command.interpreter} import torch?"
            )
        return answer

    def _answer(self, word: str) -> lines.Message | None:
        """What the zygote says; None when it is gone, or frozen."""
        until = time.monotonic() + WARM_S
        while self._line.is_open and time.monotonic() < until:
            for message in self._line.receive(ZYGOTE_LOOK_S):
                if message["say"] == word:
                    return message
            if state_of(self._zygote) in ("T", "t"):
                return None
        return None

    def _environment(self, member: str, facts: Begin) -> dict[str, str]:
        host, _, port = self.store().rpartition(":")
        return {
            **with_path(os.environ),
            **torchrun_variables(facts, self.machine, self.run),
            "MASTER_ADDR": host,
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "TUTTI_TRAIN_AGENT": str(self.folder.path),
            "TUTTI_TRAIN_MEMBER": member,
            "TUTTI_TRAIN_INDEX": str(facts.index),
            "TUTTI_TRAIN_PARENT": str(os.getpid()),
        }


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """A signal that comes meanwhile is heard afterwards: between the start of a process and the moment in which we know
    its number, nobody could end it.
    """
    heard: list[int] = []
    known = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in known:
        signal.signal(number, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)
    for late in heard:
        signal.raise_signal(late)


def can_fork(command: Command) -> bool:
    """A launcher that has torch already, in the interpreter the members want, needs no second import of it."""
    return "torch" in sys.modules and command.is_python and command.interpreter == sys.executable


def torchrun_variables(facts: Begin, machine: Machine, run: str) -> dict[str, str]:
    """What torchrun would have set: the store at the master's address is ours, so it is named as the agent's."""
    one_node = {"GROUP_RANK": str(machine.rank), "GROUP_WORLD_SIZE": str(machine.count)}
    ranks = {"RANK": str(facts.rank), "LOCAL_RANK": str(facts.local), "ROLE_RANK": str(facts.rank)}
    sizes = {name: str(facts.world) for name in ("WORLD_SIZE", "ROLE_WORLD_SIZE")}
    sizes["LOCAL_WORLD_SIZE"] = str(facts.local_world)
    elastic = {
        "TORCHELASTIC_RESTART_COUNT": str(facts.attempt),
        "TORCHELASTIC_RUN_ID": run,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    return {**one_node, **ranks, **sizes, **elastic}


def with_path(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with this copy of the library on the path, so that a job needs no installation."""
    here = str(Path(__file__).resolve().parents[2])
    paths = [here, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    return {**env, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def with_streaming(env: Mapping[str, str]) -> dict[str, str]:
    """The environment in which large copies go past the caches, which takes little more than half the time: the C
    library's own limit is far too high on machines with large caches. What the user has set stays.
    """
    known = env.get("GLIBC_TUNABLES", "")
    if STREAMING in known:
        return dict(env)
    return {**env, "GLIBC_TUNABLES": ":".join(filter(None, [known, f"{STREAMING}={STREAMED_BYTES:#x}"]))}


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise CannotStart(f"the kernel refused to let this process adopt orphans (error {ctypes.get_errno()})")
