"""Checkpoints that a program writes itself, kept in memory as well: `torch.load` of one reads it from there.

A copy counts as long as the file is the very one that was written, whatever it is called by now; anything else is read
from where it is.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tutti.train.agent.shelf import free_bytes

KEPT = 2
SHARE = 4
"""A copy takes at most this part of the memory that is free."""


def watch(folder: str) -> None:
    """Keep what is saved from now on, and load what is kept."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if getattr(torch.save, "is_watched", False):
        return
    torch.save = torch.serialization.save = saving(torch.save, folder)
    torch.load = torch.serialization.load = loading(torch.load, folder)


def saving(save: Callable[..., Any], folder: str) -> Callable[..., Any]:
    @functools.wraps(save)
    def changed(thing: Any, file: Any, *arguments: Any, **named: Any) -> None:
        save(thing, file, *arguments, **named)
        if isinstance(file, (str, os.PathLike)) and not has_joined():
            with contextlib.suppress(OSError):
                keep(os.fspath(file), folder)

    changed.is_watched = True  # type: ignore[attr-defined]
    return changed


def loading(load: Callable[..., Any], folder: str) -> Callable[..., Any]:
    @functools.wraps(load)
    def changed(file: Any, *arguments: Any, **named: Any) -> Any:
        kept = kept_copy(os.fspath(file), folder) if isinstance(file, (str, os.PathLike)) else ""
        if kept:
            sys.stderr.write(f"tutti train: {os.fspath(file)} is read from memory\n")
        return load(kept or file, *arguments, **named)

    return changed


def has_joined() -> bool:
    """A member of a job has better than its own files."""
    return getattr(sys.modules.get("tutti.train.job"), "_current", None) is not None


def keep(path: str, folder: str) -> None:
    """A copy of a file that was just written, in the place of the oldest."""
    if os.path.getsize(path) > free_bytes(Path(folder)) // SHARE:
        return
    name = os.path.join(folder, identity(path))
    half = f"{name}.{os.getpid()}"
    shutil.copyfile(path, half)
    os.rename(half, name)
    copies = sorted(
        (entry for entry in os.scandir(folder) if "." not in entry.name), key=lambda one: one.stat().st_mtime
    )
    for old in copies[:-KEPT]:
        os.unlink(old.path)


def kept_copy(path: str, folder: str) -> str:
    """The copy of this very file, if there is one."""
    try:
        name = os.path.join(folder, identity(path))
    except OSError:
        return ""
    return name if os.path.exists(name) else ""


def identity(path: str) -> str:
    """What stays the same when a file is renamed and changes when it is written."""
    about = os.stat(path)
    return "-".join(map(str, (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)))
