"""A shell beside a member: on a terminal of its own, with the member's variables, inside the gang's process tree."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import pty
import selectors
import signal
import struct
import termios
from typing import TYPE_CHECKING, Any

from tutti.local.keeper.member import as_user, set_limits
from tutti.train.agent.lines import Lines
from tutti.train.agent.watch import Watch

if TYPE_CHECKING:
    from tutti.local.keeper.keeper import Keeper
    from tutti.local.keeper.spec import MemberSpec

PIECE = 16 << 10


class Attached:
    """One shell and the line of the person who uses it."""

    def __init__(self, keeper: Keeper, line: Lines, member: MemberSpec, message: dict[str, Any]) -> None:
        self._keeper, self._line = keeper, line
        self._screen, theirs = pty.openpty()
        self.resize(message)
        pid = os.fork()
        if pid == 0:
            try:
                _become(keeper, member, theirs, message)
            finally:
                os._exit(127)
        os.close(theirs)
        self._watch = Watch(pid)
        keeper.selector.register(self._screen, selectors.EVENT_READ, self._show)
        keeper.selector.register(self._watch, selectors.EVENT_READ, self._ended)

    @property
    def pid(self) -> int:
        return self._watch.pid

    def keys(self, data: str) -> None:
        """What the person typed."""
        with contextlib.suppress(OSError):
            os.write(self._screen, base64.b64decode(data))

    def resize(self, message: dict[str, Any]) -> None:
        """The person's window has another size."""
        size = struct.pack("HHHH", int(message.get("rows", 24)), int(message.get("columns", 80)), 0, 0)
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._screen, termios.TIOCSWINSZ, size)

    def hang_up(self) -> None:
        """The person has gone; the shell goes too."""
        with contextlib.suppress(OSError):
            os.killpg(self._watch.pid, signal.SIGHUP)
        self._watch.send(signal.SIGHUP)

    def _show(self) -> None:
        try:
            data = os.read(self._screen, PIECE)
        except OSError:
            data = b""
        if data:
            self._line.send({"say": "screen", "data": base64.b64encode(data).decode()})
        else:
            self._keeper.selector.unregister(self._screen)

    def _ended(self) -> None:
        code = self._watch.reap()
        if code is None:
            return
        self._keeper.selector.unregister(self._watch)
        with contextlib.suppress(KeyError, ValueError):
            self._show()
            self._keeper.selector.unregister(self._screen)
        os.close(self._screen)
        self._watch.close()
        self._keeper.shells.pop(self._line.fileno(), None)
        self._line.send({"say": "gone", "code": code})


def _become(keeper: Keeper, member: MemberSpec, terminal: int, message: dict[str, Any]) -> None:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for stream in (0, 1, 2):
        os.dup2(terminal, stream)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    if keeper.group is not None:
        with contextlib.suppress(OSError):
            keeper.group.add_me()
    if keeper.spec.uid >= 0:
        os.fchown(0, keeper.spec.uid, -1)
    set_limits(keeper.spec.limits)
    as_user(keeper.spec.uid, keeper.spec.gid, keeper.spec.groups)
    os.umask(keeper.spec.umask)
    os.chdir(keeper.spec.cwd)
    env = {**keeper.spec.env, **member.env, "TERM": str(message.get("term", "xterm"))}
    argv = [str(word) for word in message.get("argv") or [env.get("SHELL", "/bin/sh")]]
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606 - what the owner of the gang asked for
    except OSError as problem:
        os.write(2, f"tutti: {argv[0]!r} cannot be executed: {problem.strerror}\r\n".encode(errors="replace"))
