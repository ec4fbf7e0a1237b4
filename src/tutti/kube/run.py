"""`tutti kube run`: listen, become the leader, lead; on the way out let the next one in."""

import asyncio
import gc
import signal
from contextlib import suppress

from tutti.errors import Refused

from .api import Api
from .config import Config
from .credentials import Credentials
from .kinds import OWN
from .lease import Lease
from .manifests import apply
from .metrics import Metrics
from .reload import follow
from .scheduler import Scheduler
from .serve import Pages


class Stopped(Exception):
    """Somebody asked us to end."""


async def run(
    credentials: Credentials,
    config: Config,
    lease: bool = True,
    port: int | None = None,
    file: str | None = None,
    host: str | None = None,
) -> None:
    """Schedule until told to stop, or until the lease is lost. `file` is where the settings came from."""
    metrics = Metrics()
    api = Api(credentials, config.connections + 16)
    scheduler = Scheduler(api, config, metrics)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(RuntimeError):
            loop.add_signal_handler(number, stop.set)
    held = (
        Lease(Api(credentials, 2), config.namespace, config.scheduler_name, scheduler.identity, config.lease_seconds)
        if lease
        else None
    )
    try:
        async with asyncio.TaskGroup() as group:
            if port is not None:
                await Pages(scheduler, held, api).serve(group, port, host)
            group.create_task(_ended(stop, scheduler))
            if file is not None:
                group.create_task(follow(scheduler, file))
            await read_all(scheduler, group)
            await _lead(scheduler, held, api, metrics, group)
    except* Stopped:
        pass
    finally:
        if held is not None:
            await held.release()
            held.api.close()
        api.close()


async def read_all(scheduler: Scheduler, group: asyncio.TaskGroup) -> None:
    """What is read at the start mostly stays for good: nobody need look for rubbish in it, then or later."""
    gc.disable()
    try:
        await scheduler.listen(group)
        if not any(kind.kind is OWN for kind in scheduler.served):
            raise Refused("the kind Placement is missing in this cluster.", hint=apply("0-crds.yaml"))
    finally:
        gc.freeze()
        # Thousands of futures come and go for one object that stays.
        gc.set_threshold(100_000, 20, 20)
        gc.enable()


async def _ended(stop: asyncio.Event, scheduler: Scheduler) -> None:
    await stop.wait()
    await scheduler.hands.rest()
    raise Stopped


async def _lead(scheduler: Scheduler, held: Lease | None, api: Api, metrics: Metrics, group: asyncio.TaskGroup) -> None:
    if held is None:
        metrics.set("tutti_kube_leader", 1)
        group.create_task(scheduler.lead())
        return
    await held.acquire()
    api.fence = held.fence
    group.create_task(_kept(held))
    await scheduler.catch_up(group)
    metrics.set("tutti_kube_leader", 1)
    group.create_task(scheduler.lead())


async def _kept(held: Lease) -> None:
    """A leader that lost its lease ends; it comes back as a candidate when it is started again."""
    await held.keep()
    raise Refused("the lease was not renewed in time, so that another may lead.", hint="start it again")
