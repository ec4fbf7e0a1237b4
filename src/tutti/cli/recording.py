"""A recorded view from a file: a snapshot, and in a second line the plan that was made from it, if it was kept."""

import gzip
import sys
from pathlib import Path
from typing import NamedTuple

from tutti.engine.policy import Policy
from tutti.engine.record import replay
from tutti.engine.view import View
from tutti.errors import Misused

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
PLAN = b'"kind":"plan"'


class Recorded(NamedTuple):
    """What a file holds."""

    view: View
    now: int
    policy: Policy
    plan: bytes | None
    """The plan as it was recorded, to the byte."""


def read(name: str) -> Recorded:
    """What the file of that name holds ('-' is standard input). Raises Misused, with what is wrong with it."""
    snapshot, plan = parted(_bytes(name))
    try:
        return Recorded(*replay(snapshot), plan)
    except Misused as problem:
        problem.where = problem.where or name
        raise


def parted(data: bytes) -> tuple[bytes, bytes | None]:
    """The snapshot and the plan of a recording."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(lines) == 2 and PLAN in lines[1].replace(b" ", b""):
        return lines[0], lines[1] + b"\n"
    return data, None


def _bytes(name: str) -> bytes:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return gzip.decompress(data) if data.startswith(GZIP) else _plain(name, data)
    except FileNotFoundError:
        raise Misused(f"there is no file {name!r}.") from None
    except (OSError, EOFError) as problem:
        raise Misused(f"cannot read {name!r}: {problem}") from None


def _plain(name: str, data: bytes) -> bytes:
    if data.startswith(ZSTD):
        raise Misused(f"{name!r} is compressed with zstd", hint=f"zstd -dc {name} | tutti replay -")
    return data
