"""Small files that are either there whole or not at all: claims, exit records, who a process is."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from typing import Any

from tutti.train.agent.watch import identity, is_alive

CLAIM = "claim"
EXIT = "exit.json"
SPEC = "spec.json"
SOCKET = "s"
BEGUN = "begun"
"""Empty until the members of a run that was made ready early are let go."""
VOID = "void"
"""What the claim of a run says that must never begin."""

Record = dict[str, Any]


def write_whole(path: str, data: Record) -> None:
    """Write a record so that it survives a crash of the machine and is never seen by halves."""
    put(path, data, os.fsync)
    settle(os.path.dirname(path))


def put(path: str, data: Record, store: Callable[[int], None] = lambda _: None) -> None:
    """Write a record so that it is never seen by halves; only the end of the machine could lose it."""
    fresh = f"{path}.{os.getpid()}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, json.dumps(data).encode())
        store(descriptor)
    finally:
        os.close(descriptor)
    os.rename(fresh, path)


def settle(folder: str) -> None:
    """Make the entries of a folder durable."""
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_record(path: str) -> Record | None:
    """A record, or None where there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def claim(folder: str, who: str) -> bool:
    """Be the one that decides what becomes of a run: its keeper, or a daemon that makes it void. First come wins."""
    mine = os.path.join(folder, f"{CLAIM}.{os.getpid()}")
    with open(mine, "w", encoding="utf-8") as file:
        json.dump({"who": who}, file)
    try:
        os.link(mine, os.path.join(folder, CLAIM))
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(mine)
    return True


def begin_note(folder: str) -> int:
    """Where it is noted that members which were made ready early go: whoever finds the run without its daemon can tell.

    It is open beforehand, so that one byte is all there is to do then.
    """
    return os.open(os.path.join(folder, BEGUN), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)


def begun_at(folder: str) -> int:
    """When members of a run that was made ready early were let go, in microseconds; 0 where they were not."""
    try:
        found = os.stat(os.path.join(folder, BEGUN))
    except OSError:
        return 0
    return found.st_ctime_ns // 1000 if found.st_size else 0


def claimed_by(folder: str) -> str:
    """Who claimed the run: a process identity, 'void', or nothing yet."""
    found = read_record(os.path.join(folder, CLAIM))
    return str(found["who"]) if found and "who" in found else ""


def keeper_of(folder: str) -> int:
    """The number of the process that claimed the run; 0 where none did."""
    _, _, rest = claimed_by(folder).partition("/")
    number = rest.partition("/")[0]
    return int(number) if number.isdigit() else 0


def claim_is_alive(who: str) -> bool:
    """Whether the process that claimed a run still runs, in this boot, and is not another with its number."""
    if not who or who == VOID:
        return False
    try:
        return is_alive(who)
    except (OSError, ValueError, IndexError):
        return False


def own_identity() -> str:
    """This process, named so that no later process is mistaken for it."""
    return identity(os.getpid())


__all__ = ["claim", "claim_is_alive", "claimed_by", "own_identity", "read_record", "settle", "write_whole"]
