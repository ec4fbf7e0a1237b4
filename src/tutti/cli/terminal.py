"""A person's terminal connected to a shell that a keeper runs."""

import base64
import json
import os
import select
import shutil
import signal
import socket
import sys
import termios
import tty
from pathlib import Path
from typing import Any

from tutti.errors import Refused

PIECE = 8 << 10
END = b"\x04"
AGAIN_S = 0.3
"""How often the end of what was typed is told: a shell that was not ready to read has missed it."""


def attached(folder: Path, rank: int, argv: list[str]) -> int:
    """Open a shell beside a rank and stay in it; its exit code."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(str(folder / "s"))
    except OSError as problem:
        raise Refused(f"the gang cannot be reached: {problem.strerror}", str(folder)) from None
    size = shutil.get_terminal_size()
    said = {"rank": rank, "argv": argv, "rows": size.lines, "columns": size.columns}
    _say(line, "attach", **said, term=os.environ.get("TERM", "dumb"))
    if not sys.stdin.isatty():
        return _exchange(line)
    before = termios.tcgetattr(0)
    signal.signal(signal.SIGWINCH, lambda *_: _resized(line))
    try:
        tty.setraw(0)
        return _exchange(line)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _resized(line: socket.socket) -> None:
    size = shutil.get_terminal_size()
    _say(line, "size", rows=size.lines, columns=size.columns)


def _say(line: socket.socket, word: str, **rest: Any) -> None:
    line.sendall(json.dumps({"say": word, **rest}).encode() + b"\n")


def _type(line: socket.socket, keys: bytes) -> None:
    _say(line, "keys", data=base64.b64encode(keys).decode())


def _exchange(line: socket.socket) -> int:
    """Keys one way, the screen the other, until the shell is gone."""
    received = b""
    sources: list[Any] = [line, 0]
    while True:
        ready, _, _ = select.select(sources, [], [], None if 0 in sources else AGAIN_S)
        if 0 in ready:
            typed = os.read(0, PIECE)
            if not typed:
                sources.remove(0)
            _type(line, typed or END)
        elif not ready:
            _type(line, END)
        if line in ready:
            data = line.recv(1 << 16)
            if not data:
                return 1
            *complete, received = (received + data).split(b"\n")
            for message in map(json.loads, complete):
                if message["say"] == "screen":
                    os.write(1, base64.b64decode(message["data"]))
                elif message["say"] == "gone":
                    return _code(message)


def _code(message: dict[str, Any]) -> int:
    if message.get("why"):
        raise Refused(str(message["why"]))
    code = int(message["code"])
    return 128 - code if code < 0 else code
