"""A cluster as the scheduler would see it, for those who only want to look: everything is read from the API."""

import asyncio
from typing import NamedTuple

from tutti.engine.view import View
from tutti.engine.world import World

from . import memory
from .api import Api
from .config import Config
from .credentials import Credentials
from .mirror import Mirror
from .scheduler import Scheduler, moment


class Seen(NamedTuple):
    """The view, its moment, and what is behind it."""

    view: View
    now: int
    world: World
    mirror: Mirror


async def look(credentials: Credentials, config: Config) -> Seen:
    """Read everything once and build the engine's world from it; nothing is written."""
    api = Api(credentials)
    try:
        scheduler = Scheduler(api, config)
        await scheduler.read_once()
        kept, _ = await memory.read(api, config)
    finally:
        api.close()
    now = moment()
    listing = memory.restored(scheduler.mirror.listing(now, {}), kept)
    world = World.load(listing)
    return Seen(world.view(), now, world, scheduler.mirror)


def look_now(credentials: Credentials, config: Config) -> Seen:
    """The same, for callers without a loop."""
    return asyncio.run(look(credentials, config))
