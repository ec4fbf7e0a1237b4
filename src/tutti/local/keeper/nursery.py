"""A process that has everything a keeper needs in memory and forks one in a millisecond.

It answers lines on its standard input: a folder in, a keeper out. It ends with its daemon; keepers do not.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import traceback

from tutti.local.keeper import member, records
from tutti.local.keeper.keeper import Keeper
from tutti.local.keeper.spec import from_record
from tutti.local.keeper.tree import adopt_orphans
from tutti.train.agent import lines


def main() -> int:
    """Fork keepers until the daemon is gone."""
    # Nobody waits for keepers here: the kernel collects them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    _more_files()
    line = lines.Lines(socket.socket(fileno=os.dup(0)))
    line.send({"say": "ready", "pid": os.getpid()})
    while line.is_open:
        for request in line.receive(wait_s=None):
            answer = _forked(request, line)
            line.send(answer)
    return 0


def _more_files() -> None:
    """A wide gang has a pipe and a handle for each member; the members themselves get back what was usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    member.FILES = (soft, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _forked(request: lines.Message, line: lines.Lines) -> lines.Message:
    folder = str(request["folder"])
    try:
        listener = lines.listen(os.path.join(folder, records.SOCKET))
    except OSError as problem:
        return {"say": "failed", "folder": folder, "why": f"{problem.strerror}: {folder}"}
    pid = os.fork()
    if pid == 0:
        line.socket.close()
        _keep_and_exit(folder, listener)
    listener.close()
    return {"say": "forked", "folder": folder, "pid": pid}


def _keep_and_exit(folder: str, listener: socket.socket) -> None:
    code = 1
    try:
        os.setsid()
        _own_streams(folder)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        code = keep(folder, listener)
    except BaseException:  # noqa: BLE001 - a fork must never return into the nursery's own code
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _own_streams(folder: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(os.path.join(folder, "keeper.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)
    os.close(log)


def keep(folder: str, listener: socket.socket) -> int:
    """Be the keeper of the run in a folder, unless somebody has claimed the run before."""
    if not records.claim(folder, records.own_identity()):
        return 0
    spec_file = os.path.join(folder, records.SPEC)
    found = records.read_record(spec_file)
    if found is None:
        records.write_whole(
            os.path.join(folder, records.EXIT),
            {"version": 1, "why": "refused", "refused": f"{spec_file} cannot be read", "code": 1, "members": {}},
        )
        return 1
    adopt_orphans()
    keeper = Keeper(folder, from_record(found), listener)
    signal.signal(signal.SIGTERM, lambda *_: keeper.stop(keeper.spec.grace_s, "stopped"))
    keeper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())


__all__ = ["keep", "main"]
