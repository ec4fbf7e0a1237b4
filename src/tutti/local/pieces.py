"""Pieces of log files. A rank is a number and a job's folder is ours, so no path can lead elsewhere."""

import os
from pathlib import Path

from tutti.api.types import Logs
from tutti.errors import NotFound


def log_sizes(folder: Path) -> dict[int, int]:
    """How long the log of each rank is, the rotated part included."""
    found: dict[int, int] = {}
    if not folder.is_dir():
        return found
    with os.scandir(folder) as entries:
        for entry in entries:
            rank = entry.name.removeprefix("rank-").partition(".log")[0]
            if rank.isdigit():
                found[int(rank)] = found.get(int(rank), 0) + entry.stat().st_size
    return found


def log_piece(name: str, folder: str, rank: int, begin: int, most: int, ended: bool) -> Logs:
    """The end of a rank's log, or what comes after a place in it."""
    path = Path(folder) / f"rank-{rank}.log"
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(size - most, 0) if begin < 0 or begin > size else begin
            file.seek(start)
            data = file.read(most)
    except FileNotFoundError:
        if begin < 0 and not Path(folder).exists() and ended:
            raise NotFound(f"{name} has no log of rank {rank}", hint=f"tutti show {name}") from None
        return Logs(job=name, rank=rank, text="", begin=0, next=0, size=0, ended=ended)
    return Logs(
        job=name,
        rank=rank,
        text=data.decode(errors="replace"),
        begin=start,
        next=start + len(data),
        size=size,
        ended=ended,
    )
