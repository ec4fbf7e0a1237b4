"""`tutti top`: the queue and the devices, redrawn when something changes."""

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import click

from tutti.api.client import Client
from tutti.cli.nodes import NOTHING
from tutti.cli.output import empty_without_daemon, is_coloured
from tutti.errors import TuttiError

PAUSE_S, TICK_S, AWAY_S = 0.2, 1.0, 1.0
"""Between two questions, between two pictures, and until somebody asks again who is away."""
MOST = 200
KEYS = "q quit   a all   s sort   / filter"


@click.command()
@click.option("--once", is_flag=True, help="Draw once and end; so it does where there is no terminal.")
def top(once: bool) -> None:
    """Watch the queue and the devices.

    Keys: q quits, a shows jobs that have ended too, s sorts (line, time, size, name), / filters by letters.
    """
    client = Client()
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        picture = Picture(client)
        picture.ask()
        click.echo("\n".join(picture.lines(10_000)))
        return
    with _screen():
        _live(client)


class Picture:
    """What is known, and how it is to be shown."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._jobs: list[dict[str, Any]] = []
        self._nodes: dict[str, Any] = NOTHING
        self._counts = {"running": 0, "waiting": 0}
        self._asked = 0.0
        self.all, self.order, self.words, self.typing = False, "line", "", False

    def ask(self) -> None:
        """The world as it is now."""
        which = "all" if self.all else "active"
        found = empty_without_daemon(lambda: self._client.get("/v1/jobs", which=which, limit=MOST), {"jobs": []})
        self._jobs = found["jobs"]
        self._nodes = empty_without_daemon(lambda: self._client.get("/v1/nodes"), NOTHING)
        self._counts = empty_without_daemon(lambda: self._client.get("/v1/status"), {"running": 0, "waiting": 0})
        self._asked = time.monotonic()

    def press(self, key: str) -> None:
        """A key changes what is shown."""
        from tutti.views.top import ORDERS  # noqa: PLC0415

        if self.typing:
            self.typing = key not in "\r\n\x1b"
            self.words = self.words[:-1] if key in "\x7f\b" else self.words + key if key.isprintable() else self.words
        elif key == "s":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        elif key == "a":
            self.all = not self.all
        elif key == "/":
            self.typing, self.words = True, ""

    def lines(self, rows: int) -> list[str]:
        """The picture as it is at this moment; clocks go on without asking."""
        import shutil  # noqa: PLC0415

        from tutti.views.top import arranged, later, summary, top_lines  # noqa: PLC0415 - not needed for --help

        columns = shutil.get_terminal_size((120, 40)).columns
        gone = time.monotonic() - self._asked
        jobs = arranged([later(job, gone) for job in self._jobs], self.order, self.words)
        first = summary(jobs, self._nodes, self._counts["running"], self._counts["waiting"])
        return [first, "", *top_lines(jobs, self._nodes, columns, rows - 2, is_coloured())]

    def keys(self) -> str:
        """The last line: what can be pressed, and what has been."""
        sorted_by = f"   sorted by {self.order}" if self.order != "line" else ""
        cursor = "_" if self.typing else ""
        return KEYS + sorted_by + (f"   filter: {self.words}{cursor}" if self.words or self.typing else "")


def _live(client: Client) -> None:
    picture, news = Picture(client), _news(client)
    stale = True
    while True:
        if stale:
            picture.ask()
        _draw(picture)
        ready, _, _ = select.select([sys.stdin, news], [], [], TICK_S)
        stale = news in ready
        if stale:
            time.sleep(PAUSE_S)
            os.read(news, 1 << 16)
        if sys.stdin in ready:
            key = os.read(sys.stdin.fileno(), 1).decode(errors="replace")
            if key in {"", "\x04"} or (key in {"q", "Q"} and not picture.typing):
                return
            picture.press(key)
            stale = stale or key == "a"


def _news(client: Client) -> int:
    """A pipe in which there is something whenever something has changed: much of it at once is one change."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def listen() -> None:
        while True:
            with contextlib.suppress(TuttiError, OSError, ValueError):
                for _ in client.events():
                    with contextlib.suppress(BlockingIOError):
                        os.write(writer, b".")
            time.sleep(AWAY_S)
            with contextlib.suppress(BlockingIOError):
                os.write(writer, b".")

    threading.Thread(target=listen, daemon=True).start()
    return reader


def _draw(picture: Picture) -> None:
    import shutil  # noqa: PLC0415

    rows = shutil.get_terminal_size((120, 40)).lines
    lines = picture.lines(rows - 2)[: rows - 2]
    body = "".join(f"{line}\x1b[K\n" for line in lines)
    sys.stdout.write(f"\x1b[H{body}\x1b[J\x1b[{rows};1H{picture.keys()}\x1b[K")
    sys.stdout.flush()


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """A screen of our own and keys as they are pressed; the terminal is as it was afterwards."""
    import termios  # noqa: PLC0415
    import tty  # noqa: PLC0415

    before = termios.tcgetattr(sys.stdin)
    sys.stdout.write("\x1b[?1049h\x1b[?25l")
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
