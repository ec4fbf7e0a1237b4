"""The folder of a run: socket, journal, heartbeats, slots; who owns it, and how it is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tutti.train.agent.cabinet import Cabinet
from tutti.train.agent.posts import Past
from tutti.train.agent.watch import identity, is_alive

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

SOCKET_PATH_BYTES = 107


class Taken(Exception):
    """The run is already running."""


@dataclass(frozen=True)
class Folder:
    """Where things of one run are."""

    path: Path

    @property
    def socket(self) -> Path:
        return self.path / "agent.sock"

    @property
    def journal(self) -> Path:
        return self.path / "generations"

    @property
    def beats(self) -> Path:
        return self.path / "beats"

    @property
    def slots(self) -> Path:
        return self.path / "slots"

    @property
    def status(self) -> Path:
        return self.path / "status.json"

    @property
    def owner(self) -> Path:
        return self.path / "owner"

    def take(self) -> bool:
        """Become the owner; True when an earlier owner died and left its state here."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        was_here = self.owner.exists()
        holder = self.owner.read_text() if was_here else ""
        if holder and is_alive(holder):
            pid = holder.split("/")[1]
            raise Taken(f"run {self.path.name!r} is already running (process {pid}): use another --run-id, or end it")
        self.owner.write_text(identity(os.getpid()))
        self.slots.mkdir(exist_ok=True)
        self.socket.unlink(missing_ok=True)
        return was_here

    def first_size(self, want: int) -> int:
        """Members this run was first started with; a later start may want another number."""
        try:
            return int((self.path / "first").read_text())
        except (OSError, ValueError):
            (self.path / "first").write_text(str(want))
            return want

    def past(self, cabinet: Cabinet) -> Past:
        """What is remembered here of a run on several machines, and what its snapshots tell."""
        try:
            life, base = map(int, (self.path / "life").read_text().split())
        except (OSError, ValueError):
            life, base = 0, 0
        return Past(life, base, cabinet.newest_generation(), cabinet.highest_number())

    def remember(self, life: int, base: int) -> None:
        fresh = self.path / "life.new"
        fresh.write_text(f"{life} {base}")
        fresh.replace(self.path / "life")

    def remove(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.path, ignore_errors=True)

    def let_go(self) -> None:
        """Leave the state for the next start of this run, and nothing that looks alive."""
        self.socket.unlink(missing_ok=True)
        self.beats.unlink(missing_ok=True)

    def write_status(self, status: dict[str, object]) -> None:
        """Replace the status in one move, so that a reader never sees half of it."""
        fresh = self.path / "status.new"
        # On a full disk the last one stays, which says how old it is.
        with contextlib.suppress(OSError):
            fresh.write_text(json.dumps(status))
            fresh.replace(self.status)


def home() -> Path:
    """The folder of all runs of this user, in memory."""
    chosen = os.environ.get("TUTTI_TRAIN_HOME")
    shared = Path("/dev/shm")  # noqa: S108 - the folder in it is named for the user, mode 0700
    return Path(chosen) if chosen else shared / f"tutti-train-{os.getuid()}"


def folder_of(run: str) -> Folder:
    """The folder of a run."""
    if not RUN_NAME.fullmatch(run):
        raise ValueError(
            f"{run!r} cannot name a run: letters, digits, dot, dash and underscore, at most 64, "
            f"starting with a letter or digit"
        )
    folder = Folder(home() / run)
    if len(os.fsencode(folder.socket)) > SOCKET_PATH_BYTES:
        raise ValueError(
            f"{folder.socket} is too long for a Unix socket ({SOCKET_PATH_BYTES} bytes): "
            f"use a shorter --run-id or TUTTI_TRAIN_HOME"
        )
    return folder


def runs() -> list[Folder]:
    """Every run of this user that has a folder, running or left behind."""
    if not home().is_dir():
        return []
    return [Folder(path) for path in sorted(home().iterdir()) if (path / "owner").exists()]
