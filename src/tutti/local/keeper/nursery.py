"""A process that has everything a keeper needs in memory and forks one in a millisecond.

It answers lines on its standard input: a folder in, a keeper out. One keeper waits ready for the next folder (see
`spare.py`). The nursery ends with its daemon; keepers do not.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable

from tutti.local.keeper import member, records, tree
from tutti.local.keeper.gate import Gate
from tutti.local.keeper.keeper import Keeper
from tutti.local.keeper.logs import Log
from tutti.local.keeper.spare import Kit, Spare, kit
from tutti.local.keeper.spec import MemberSpec, Spec, from_record, to_record
from tutti.train.agent import lines
from tutti.train.agent.watch import Watch

BEGIN_S = 0.1
"""How long the next keeper to be kept ready waits for the run of the last one to begin."""
MEMORY = "/dev/shm"  # noqa: S108 - a folder of a name of its own is made there


class Nursery:
    """Makes keepers, and has one ready."""

    def __init__(self, line: lines.Lines) -> None:
        self._line = line
        self._spare: Spare | None = None
        self._begins: Spare | None = None
        """One that has a run to begin: until that is done nothing else is to compete with it."""

    def run(self) -> None:
        """Fork keepers until the daemon is gone."""
        self._line.send({"say": "ready", "pid": os.getpid()})
        while self._line.is_open:
            self._await_begin()
            if self._spare is None and self._begins is None:
                # A machine that has no process to spare may have one when it is needed.
                with contextlib.suppress(OSError):
                    self._spare = Spare(keep, rehearse, self._fork)
            for request in self._line.receive(wait_s=0.0 if self._begins else None):
                self._line.send(self._made(str(request["folder"]), bool(request.get("early"))))

    def _await_begin(self) -> None:
        """Until the run that was last asked for has begun, or somebody asks for another."""
        if self._begins is not None:
            look = select.poll()
            look.register(self._line, select.POLLIN)
            look.register(self._begins, select.POLLIN)
            told = [descriptor for descriptor, _ in look.poll(BEGIN_S * 1000)]
            if self._line.fileno() not in told:
                self._begins.close()
                self._begins = None

    def _made(self, folder: str, early: bool) -> lines.Message:
        try:
            with lines.listen(os.path.join(folder, records.SOCKET)) as listener:
                return {"say": "forked", "folder": folder, "pid": self._keeper(folder, listener, early)}
        except OSError as problem:
            return {"say": "failed", "folder": folder, "why": f"{problem.strerror}: {folder}"}

    def _keeper(self, folder: str, listener: socket.socket, early: bool) -> int:
        # Whoever has time leaves the spare to those who have none.
        spare = self._spare if not early else None
        if spare is not None and spare.take(folder, listener):
            self._spare, self._begins = None, spare
            return spare.pid
        if spare is not None and not spare.pid:
            self._spare = None
        return self._fork(lambda: keep(folder, listener, kit()))

    def _fork(self, work: Callable[[], int]) -> int:
        """A child in a session of its own, which never returns into the nursery's code."""
        pid = os.fork()
        if pid == 0:
            self._line.socket.close()
            for spare in (self._spare, self._begins):
                if spare is not None:
                    spare.close()
            _work_and_exit(work)
        return pid


def main() -> int:
    """Be the nursery of the daemon on standard input."""
    # Nobody waits for keepers here: the kernel collects them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    _more_files()
    Nursery(lines.Lines(socket.socket(fileno=os.dup(0)))).run()
    return 0


def _more_files() -> None:
    """A wide gang has a pipe and a handle for each member; the members themselves get back what was usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    member.FILES = (soft, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _work_and_exit(work: Callable[[], int]) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        code = work()
    except BaseException:  # noqa: BLE001 - a fork must never return into the nursery's own code
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _own_log(folder: str) -> None:
    log = os.open(os.path.join(folder, "keeper.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def rehearse(mine: Kit) -> None:
    """Go through a start and an end with nobody in it.

    A fork shares its memory with its parent until it writes to it, page by page; what a run will write to is our own
    afterwards, before anybody waits for it.
    """
    nobody = Spec("", "", ["true"], "/", dict(os.environ), "", [MemberSpec(0)])
    spec = from_record(json.loads(json.dumps(to_record(nobody))))
    with (
        tempfile.TemporaryDirectory(prefix="tutti-", dir=_memory()) as folder,
        lines.listen(os.path.join(folder, records.SOCKET)) as listener,
    ):
        keeper = Keeper(folder, spec, listener, Kit(mine.group))
        records.claim(folder, mine.name)
        records.read_record(os.path.join(folder, records.CLAIM))
        log = Log(os.devnull, 0)
        log.open()
        gate = Gate()
        gate.await_all((), 1.0)
        gate.open()
        keeper.locks.take([])
        tree.living(mine.group)
        json.dumps(keeper.record([]))
        if mine.warm is None:
            # At the end everything below this process goes, so there must be nobody who is needed.
            keeper.rehearse_end(member.Member(MemberSpec(0), Watch(member.forked(lambda: os._exit(0))), log))
        log.close()
        keeper.selector.close()


def _memory() -> str | None:
    """A place for files that no disk has to take."""
    return MEMORY if os.access(MEMORY, os.W_OK) else None


def keep(folder: str, listener: socket.socket, mine: Kit) -> int:
    """Be the keeper of the run in a folder, unless somebody has claimed the run before."""
    _own_log(folder)
    if not records.claim(folder, mine.name or records.own_identity()):
        mine.end()
        return 0
    spec_file = os.path.join(folder, records.SPEC)
    found = records.read_record(spec_file)
    if found is None:
        records.write_whole(
            os.path.join(folder, records.EXIT),
            {"version": 1, "why": "refused", "refused": f"{spec_file} cannot be read", "code": 1, "members": {}},
        )
        mine.end()
        return 1
    spec = from_record(found)
    if spec.early:
        rehearse(mine)
    keeper = Keeper(folder, spec, listener, mine)
    signal.signal(signal.SIGTERM, lambda *_: keeper.stop(keeper.spec.grace_s, "stopped"))
    keeper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())


__all__ = ["keep", "main"]
