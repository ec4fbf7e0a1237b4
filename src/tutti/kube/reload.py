"""The configuration file is read again when it changes: policy, queues and times hold at once, the rest later."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tutti.errors import Misused

from .config import Config, parse

if TYPE_CHECKING:
    from .scheduler import Scheduler

EVERY = 2.0
AT_ONCE = ("policy", "queues", "start_within", "up_within", "evict_within", "resync")


async def follow(scheduler: "Scheduler", path: str, every: float = EVERY) -> None:
    """Look at the file now and then, for ever. What is wrong with it is said, and the settings in force stay."""
    known = _text(path)
    while True:
        await asyncio.sleep(every)
        text = _text(path)
        if text is None or text == known:
            continue
        known = text
        try:
            say(scheduler.reconfigure(parse(text, path)))
        except Misused as problem:
            scheduler.metrics.add("tutti_kube_trouble_total", label="config")
            say(f"{path} was not taken: {problem.what}")


def _text(path: str) -> str | None:
    """The file as it is; None while it is being replaced."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return None


def kept(old: Config, new: Config) -> list[str]:
    """Settings that have changed and hold only after a restart."""
    fields = [name for name in Config.__struct_fields__ if name not in AT_ONCE]
    return [name for name in fields if getattr(old, name) != getattr(new, name)]


def say(text: str) -> None:
    """A line in the log."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
