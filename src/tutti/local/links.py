"""The daemon's end of the lines to keepers, and to the nursery that makes them."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .fault import point
from .keeper import records

MOST_LINE = 1 << 20
PACKAGE = str(Path(__file__).resolve().parents[2])
Message = dict[str, Any]
Hear = Callable[[Message], None]


class NotForked(Exception):
    """No keeper could be made."""


class KeeperLink:
    """A connection to one keeper; it is made again when it breaks and the keeper lives."""

    def __init__(self, folder: Path, hear: Hear, gone: Callable[[], None]) -> None:
        self.folder = folder
        self._hear, self._gone = hear, gone
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._unsent: list[bytes] = []

    @property
    def is_up(self) -> bool:
        """Whether somebody is at the other end, as far as is known."""
        return self._writer is not None

    async def connect(self) -> None:
        """Connect and listen from now on. Raises OSError when nobody is there."""
        reader, writer = await asyncio.open_unix_connection(str(self.folder / records.SOCKET), limit=MOST_LINE)
        self._writer = writer
        for data in self._unsent:
            writer.write(data)
        self._unsent.clear()
        self._task = asyncio.create_task(self._listen(reader))

    def send(self, message: Message) -> None:
        """Say something to the keeper, now or as soon as it is there."""
        data = json.dumps(message).encode() + b"\n"
        if self._writer is None:
            self._unsent.append(data)
        else:
            self._writer.write(data)

    def close(self) -> None:
        """Hang up for good."""
        self._gone = _nothing
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                self._hear(json.loads(line))
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._gone()


def _nothing() -> None:
    """Nobody cares any longer."""


def started() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A nursery, and our end of the line to it."""
    ours, theirs = socket.socketpair()
    path = os.pathsep.join([PACKAGE, *filter(None, [os.environ.get("PYTHONPATH")])])
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tutti.local.keeper.nursery"],
            stdin=theirs.fileno(),
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
    return ours, process


class Nursery:
    """The process that forks keepers; started when first needed, and again when it is gone."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._turn = asyncio.Lock()

    async def fork(self, folder: Path, early: bool = False) -> int:
        """A keeper for the run in a folder: its process id. Raises NotForked."""
        async with self._turn:
            for _ in range(2):
                answer = await self._asked({"say": "fork", "folder": str(folder), "early": early})
                if answer is not None:
                    if answer.get("say") != "forked":
                        raise NotForked(str(answer.get("why", "the nursery could not fork")))
                    return int(answer["pid"])
                self._drop()
        raise NotForked("the process that forks keepers does not answer")

    async def warm(self) -> None:
        """Have it ready before it is needed."""
        async with self._turn:
            with suppress(OSError):
                await self._start()

    async def _asked(self, message: Message) -> Message | None:
        try:
            if self._writer is None:
                await self._start()
            assert self._writer is not None
            assert self._reader is not None
            point("spawn: asked")
            self._writer.write(json.dumps(message).encode() + b"\n")
            line = await self._reader.readline()
        except (OSError, ConnectionError):
            return None
        point("spawn: answered")
        return json.loads(line) if line else None

    async def _start(self) -> None:
        if self._writer is not None:
            return
        ours, self._process = started()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        await self._reader.readline()

    def _drop(self) -> None:
        if self._writer is not None:
            # Closing is left to the loop, which may have ended: this is seen at once.
            with suppress(OSError):
                self._writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            self._writer.close()
            self._writer = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.5)

    def close(self) -> None:
        """Let it end; keepers go on."""
        self._drop()
