"""A client like that of one box, for a cluster: it reads everything once, as the scheduler would, and answers."""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from tutti.api.client import error_of
from tutti.api.http import Request
from tutti.api.routes import handler

from .config import Config
from .credentials import Credentials

if TYPE_CHECKING:
    from .scheduler import Scheduler


class Asking:
    """Answers GET requests of the API from one look at the cluster; nothing is written."""

    def __init__(self, credentials: Credentials, config: Config) -> None:
        self.credentials = credentials
        self.config = config

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """An answer as plain data. Raises what a command reports."""
        answer: dict[str, Any] = msgspec.json.decode(self.call("GET", path, **query))
        return answer

    def call(self, method: str, path: str, **query: Any) -> bytes:
        """The same as it was sent."""
        from .plain import plainly  # noqa: PLC0415

        with plainly():
            return asyncio.run(self._call(method, path, query))

    async def _call(self, method: str, path: str, query: dict[str, Any]) -> bytes:
        scheduler = await looked(self.credentials, self.config)
        try:
            said = {name: str(value) for name, value in query.items() if value not in ("", None)}
            answer = await handler(scheduler.service)(Request(method=method, path=path, query=said))
        finally:
            scheduler.api.close()
        if answer.status >= 400:
            raise error_of(answer.body)
        return answer.body


async def looked(credentials: Credentials, config: Config) -> "Scheduler":
    """A scheduler that has read everything once and does nothing; its connections are still open."""
    from . import memory  # noqa: PLC0415
    from .api import Api  # noqa: PLC0415
    from .scheduler import Scheduler, moment  # noqa: PLC0415

    scheduler = Scheduler(Api(credentials), config)
    try:
        await scheduler.read_once()
        kept, history = await memory.read(scheduler.api, config)
    except BaseException:
        scheduler.api.close()
        raise
    now = moment()
    scheduler.driver.intake.history = history
    scheduler.driver.resync(memory.restored(scheduler.mirror.listing(now, {}), kept), now)
    scheduler.driver._looked = now
    return scheduler
