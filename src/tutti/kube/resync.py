"""No stream of changes is trusted for ever: now and then everything is listed and compared with what is known."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from .api import ApiError
from .http import Broken

if TYPE_CHECKING:
    from .scheduler import Scheduler


async def verify_all(scheduler: "Scheduler", group: asyncio.TaskGroup) -> None:
    """One kind after the other, for ever."""
    while True:
        await asyncio.sleep(scheduler.config.resync)
        for path in list(scheduler.listeners):
            with suppress(ApiError, Broken):
                await verify(scheduler, path, group)


async def verify(scheduler: "Scheduler", path: str, group: asyncio.TaskGroup) -> int:
    """Compare what is known of a kind with a listing; where they differ it is read anew. How many do?"""
    missed = await scheduler.listeners[path].missed()
    if missed:
        scheduler.metrics.add("tutti_kube_drift_total", missed)
        await scheduler.reread(path, group)
    return missed
