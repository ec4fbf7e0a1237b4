"""Following a job: its output as it is written, and above it one line that says what it waits for."""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click

from tutti.api.client import Client, job_path
from tutti.cli.interrupt import INTERRUPTED, Interrupt
from tutti.errors import NoDaemon

QUICK_S, SLOW_S = 0.01, 0.2
LAST_LINES = 15
AWAY_S = 1.0
FIRST_S, FIRST_PLAIN_S = 0.3, 2.0
"""How soon it is said what a job waits for: on a terminal, and elsewhere."""


class Tail:
    """The growing end of one rank's log, across rotations."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        self._path, self._prefix = path, prefix
        self._at = 0
        self._inode = 0
        self._rest = b""

    def more(self) -> bytes:
        """What was written since the last look."""
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._inode or found.st_size < self._at:
                    self._at, self._inode = 0, found.st_ino
                file.seek(self._at)
                data = file.read(1 << 20)
        except OSError:
            return b""
        self._at += len(data)
        return self._prefixed(data) if self._prefix else data

    def _prefixed(self, data: bytes) -> bytes:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return b"".join(self._prefix.encode() + line + b"\n" for line in lines)


class Watcher(threading.Thread):
    """Waits for the end of a job on a line of its own; a daemon that goes away is started again."""

    def __init__(self, client: Client, name: str) -> None:
        super().__init__(daemon=True)
        self._client = Client(client.home)
        self._name = name
        self._told = ""
        self.answer: dict[str, Any] | None = None
        self.problem: Exception | None = None

    def run(self) -> None:
        while self.answer is None and self.problem is None:
            try:
                self._look()
            except Exception as problem:  # noqa: BLE001 - told to the one who follows
                self.problem = problem

    def _look(self) -> None:
        try:
            found = self._client.get(job_path(self._name, "wait"), **{"for": 60})
            self.answer = found if found["ended"] else None
            self._told = tell_trouble(self._name, found, self._told)
        except NoDaemon:
            time.sleep(AWAY_S)
            self._client.start()


def tell_trouble(name: str, answer: dict[str, Any], told: str) -> str:
    """Say once why an end that has come cannot be told yet; what has been said by now."""
    trouble = str(answer.get("trouble", ""))
    if trouble and trouble != told:
        click.echo(f"{name} has ended, and that is told when the disk has it: {trouble}", err=True)
    return trouble or told


def follow(client: Client, row: dict[str, Any], ranks: list[int], interrupt: Interrupt | None = None) -> int:
    """Print a job's output until it ends; its exit code. Ctrl-C ends the job if it is given, else looking."""
    name = row["name"]
    watcher = Watcher(client, name)
    watcher.start()
    tails: list[Tail] = []
    status = StatusLine(client, name)
    pressed = 0
    while True:
        try:
            if interrupt is not None:
                interrupt.let()
            tails = tails or _tails(client, name, ranks)
            _watch(watcher, tails, status)
            break
        except KeyboardInterrupt:
            pressed += 1
            status.clear()
            if interrupt is None:
                raise
            _cancel(client, name, hard=pressed > 1)
    if watcher.problem is not None:
        raise watcher.problem
    assert watcher.answer is not None
    code = ended(watcher.answer, ranks)
    return INTERRUPTED if pressed and watcher.answer["job"]["state"] == "cancelled" else code


def _tails(client: Client, name: str, ranks: list[int]) -> list[Tail]:
    """The logs to look at; a job that ended before it began has none."""
    folder = client.get(job_path(name)).get("log_folder")
    found = [Path(folder) / f"rank-{rank}.log" for rank in ranks] if folder else []
    return [Tail(path, f"[{rank}] " if len(ranks) > 1 else "") for rank, path in zip(ranks, found, strict=False)]


def _watch(watcher: Watcher, tails: list[Tail], status: "StatusLine") -> None:
    pause = QUICK_S
    while True:
        over = not watcher.is_alive()
        pieces = [piece for tail in tails if (piece := tail.more())]
        if pieces:
            status.clear()
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            pause = QUICK_S
            continue
        if over:
            status.clear()
            return
        status.refresh()
        time.sleep(pause)
        pause = min(pause * 1.1, SLOW_S)


def _cancel(client: Client, name: str, hard: bool) -> None:
    """The first Ctrl-C asks the job to end, the second does not ask."""
    click.echo(f"\nending {name}{'' if hard else ' (Ctrl-C again to end it at once)'}", err=True)
    try:
        client.post(job_path(name, "cancel"), {"why": "Ctrl-C", **({"grace_s": 0.0} if hard else {})})
    except Exception as problem:  # noqa: BLE001 - it may have ended by itself; the watcher knows
        click.echo(str(problem), err=True)


def ended(answer: dict[str, Any], shown: list[int]) -> int:
    """Say how it ended where that is not plain; its exit code."""
    row, first = answer["job"], answer.get("first", -1)
    if row["state"] == "finished":
        return 0
    if first >= 0 and first not in shown:
        path = Path(answer["log_folder"]) / f"rank-{first}.log"
        click.echo(f"the last lines of rank {first}:", err=True)
        for line in last_lines(path):
            click.echo(f"  {line}", err=True)
    click.echo(outcome(row), err=True)
    return int(row["code"] or 1)


def outcome(row: dict[str, Any]) -> str:
    """How a job ended, in a line."""
    state, why = row["state"], row.get("why") or ""
    return f"{row['name']} {why if why.startswith(state) else state + (': ' + why if why else '')}"


def last_lines(path: Path, count: int = LAST_LINES) -> list[str]:
    """The end of a log."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - (16 << 10), 0))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except OSError:
        return []


class StatusLine:
    """While a job waits, one line stays alive: reason, place in line, when it will start.

    Without a terminal there is nothing to keep alive: each reason is said once.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name
        self._shown = self._said = ""
        self._is_alive = sys.stderr.isatty()
        self._next = time.monotonic() + (FIRST_S if self._is_alive else FIRST_PLAIN_S)
        self._over = False

    def refresh(self) -> None:
        """Ask again, a few times a second at most, as long as it waits."""
        if self._over or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.5 if self._is_alive else FIRST_PLAIN_S)
        try:
            row = self._client.get(job_path(self._name))["job"]
        except Exception:  # noqa: BLE001 - a status line is not worth an error
            return
        if row["state"] not in {"waiting", "held", "parked"}:
            self.clear()
            self._over = row["state"] != "starting"
            return
        text = f"{self._name} waits: {row['reason'] or 'looking'}"
        text += f", starts {row['eta']}" if row.get("eta") else ""
        if self._is_alive:
            self._put(text)
        elif row["reason"] and row["reason"] != self._said:
            self._said = row["reason"]
            click.echo(text, err=True)

    def _put(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()
        self._shown = text

    def clear(self) -> None:
        """Make room for output."""
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._shown = ""
