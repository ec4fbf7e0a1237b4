"""`python -m tutti.train.persist RUN INTO`: the newest complete snapshot, as a torch.distributed.checkpoint folder.

A process of its own: it holds no lock of the trainer's interpreter, imports nothing of the user's, and pins the slots
it copies. The folder appears under its name only when all of it is on disk, and can be loaded without this library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from tutti.train import plain
from tutti.train.agent.cabinet import shelves_in
from tutti.train.agent.shelf import Shelf
from tutti.train.boxes import Box, whole
from tutti.train.errors import OtherRun
from tutti.train.memory import Memory
from tutti.train.snapshot import NO_STEP
from tutti.train.state import Leaf

KEPT = 2
STEP = re.compile(r"step-(\d+)")


def main(argv: list[str]) -> int:
    """Persist, and say on the output which step is there now; a failure is one line on the error stream."""
    run, into = Path(argv[0]), Path(argv[1])
    try:
        step = persist(shelves_in(run / "slots"), into)
    except (OSError, dcp.api.CheckpointException) as error:
        sys.stderr.write(f"{reason_of(error)} ({into})\n")
        return 1
    if step < 0:
        sys.stderr.write("no step is complete in the memory of this machine\n")
        return 1
    sys.stdout.write(json.dumps({"step": step}))
    return 0


def reason_of(error: BaseException) -> str:
    """Why, in a few words; torch wraps what went wrong while it wrote, such as a full disk."""
    if isinstance(error, dcp.api.CheckpointException):
        error = next(iter(error.failures.values()))[0]
    return (error.strerror if isinstance(error, OSError) else "") or f"{type(error).__name__}: {error}".splitlines()[0]


def persist(shelves: list[Shelf], into: Path) -> int:
    """Write the newest complete step, unless it is there already; -1 when there is none."""
    into.mkdir(parents=True, exist_ok=True)
    step, state = take(shelves, saved_steps(into))
    if state:
        write(state, into, step)
        forget_old(into, step)
    return step


def take(shelves: list[Shelf], saved: list[int]) -> tuple[int, dict[str, Any]]:
    """The newest complete step and, unless it is saved, a copy of it. Its slots alone are pinned, and only while they
    are copied: the members go on, and need them.
    """
    with Memory(shelves) as memory:
        newest = [(step, memory.generation(step)) for step in memory.steps()[:1]]
    # Where that step is broken or was written over since, all are looked at.
    for only in (*newest, NO_STEP):
        if only[0] in saved:
            return only[0], {}
        with Memory(shelves, is_checked=True, only=only) as memory:
            steps = memory.steps()
            if steps:
                return steps[0], {} if steps[0] in saved else assemble(memory, steps[0])
    return -1, {}


def assemble(memory: Memory, step: int) -> dict[str, Any]:
    """The whole state of a step, nested as the user's own state dictionaries are."""
    rest, reader = memory.rest(step), memory.reader(step)

    def read(name: str) -> torch.Tensor:
        shape, dtype = reader.describe(name)
        tensor = torch.empty(shape, dtype=dtype)
        reader(name, tensor, whole(shape))
        return tensor

    things = plain.put(rest["things"], read)
    reader.settle()
    return {**things, "tutti": plain.dumps(rest).decode()}


def write(state: dict[str, Any], into: Path, step: int) -> None:
    """All or nothing: under another name until it is whole and on disk."""
    part = into / f"step-{step:09d}.part"
    shutil.rmtree(part, ignore_errors=True)
    try:
        with alone():
            dcp.save(state, checkpoint_id=part, no_dist=True)
        sync_folder(part)
        part.rename(into / f"step-{step:09d}")
        sync_folder(into)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def sync_folder(folder: Path) -> None:
    for path in [*folder.iterdir(), folder]:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)


def saved_steps(folder: Path) -> list[int]:
    """Steps that are whole in a folder, newest first."""
    names = [STEP.fullmatch(path.name) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted((int(name[1]) for name in names if name and (folder / name[0] / ".metadata").exists()), reverse=True)


def forget_old(folder: Path, written: int) -> None:
    """The newest stay, and the one that was just written: newer ones may be of a run that went on elsewhere."""
    for step in saved_steps(folder)[KEPT:]:
        if step != written:
            shutil.rmtree(folder / f"step-{step:09d}")


class Durable:
    """A persisted step in the form in which state is restored."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / f"step-{step:09d}"
        self.reader = dcp.FileSystemReader(self.path)
        self.metadata = self.reader.read_metadata().state_dict_metadata

    def rest(self) -> dict[str, Any]:
        found = {"tutti": ""}
        with alone():
            dcp.load(found, storage_reader=self.reader, no_dist=True)
        rest: dict[str, Any] = plain.loads(found["tutti"])
        return rest

    def __call__(self, name: str, target: torch.Tensor, box: Box) -> None:
        shape, dtype = self.describe(name)
        found = {key_of(name): torch.empty(shape, dtype=dtype)}
        with alone():
            dcp.load(found, storage_reader=self.reader, no_dist=True)
        full = found[key_of(name)]
        target.copy_(full[box.within(whole(shape))] if shape else full)

    def settle(self) -> None:
        """Every call has filled its tensor already."""

    def describe(self, name: str) -> tuple[tuple[int, ...], torch.dtype]:
        found: Any = self.metadata[key_of(name)]
        return tuple(found.size), found.properties.dtype

    def check(self, leaves: Mapping[str, Leaf], is_part: bool) -> None:
        """Refuse to be read into a state of another kind, before anything of it has changed. A stage is a part only."""
        mine = {key_of(leaf.name): (leaf.shape, leaf.tensor.dtype) for leaf in leaves.values()}
        things = tuple({f"{leaf.name.partition('/')[0]}." for leaf in leaves.values()})
        tensors = (name for name, found in self.metadata.items() if isinstance(found, TensorStorageMetadata))
        known = {name: self.describe(name) for name in tensors if name in mine or name.startswith(things)}
        names = sorted(mine if is_part else {*mine, *known})
        odd = next((name for name in names if mine.get(name) != known.get(name)), "")
        if odd:
            raise OtherRun(
                f"{self.path} is of another model: {odd} is {worded(known.get(odd))} there and {worded(mine.get(odd))} "
                f"here. Nothing was changed: name another folder for this run, or take that one away"
            )


def worded(kind: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return f"{list(kind[0])} of {str(kind[1]).removeprefix('torch.')}" if kind else "missing"


@contextmanager
def alone() -> Iterator[None]:
    """torch warns that a checkpoint is read or written by one process; here that is the intention."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def key_of(name: str) -> str:
    """The name that torch.distributed.checkpoint gives a nested entry."""
    return name.replace("/", ".")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
