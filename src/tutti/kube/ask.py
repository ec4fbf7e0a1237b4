"""A client like that of one box, for a cluster: it reads everything once, as the scheduler would, and answers."""

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from tutti.api.client import error_of
from tutti.api.http import Request
from tutti.api.routes import handler

from .config import Config, parse
from .credentials import Credentials

if TYPE_CHECKING:
    from .api import Api
    from .scheduler import Scheduler

SETTINGS = "/api/v1/namespaces/tutti-system/configmaps/tutti"
"""Where an installed scheduler has its settings."""


class Asking:
    """Answers GET requests of the API from one look at the cluster; nothing is written."""

    def __init__(self, credentials: Credentials, config: Config | None) -> None:
        """Without settings, those in the cluster count: with others the answers would not be the scheduler's."""
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


async def settings(api: "Api") -> Config:
    """What the scheduler in the cluster goes by; the defaults where nothing is installed or one may not look."""
    from .api import ApiError  # noqa: PLC0415

    try:
        found = await api.get(SETTINGS, dict[str, Any])
    except ApiError as no:
        if no.status not in (403, 404):
            raise
        if no.status == 403:
            sys.stderr.write("note: the scheduler's settings cannot be read (configmap tutti-system/tutti)\n")
        return Config()
    return parse(str((found.get("data") or {}).get("config.toml") or ""), "configmap tutti-system/tutti")


async def looked(credentials: Credentials, config: Config | None) -> "Scheduler":
    """A scheduler that has read everything once and does nothing; its connections are still open."""
    from . import memory  # noqa: PLC0415
    from .api import Api  # noqa: PLC0415
    from .scheduler import Scheduler, moment  # noqa: PLC0415

    api = Api(credentials)
    try:
        config = config or await settings(api)
        scheduler = Scheduler(api, config)
        await scheduler.read_once()
        kept, history = await memory.read(api, config)
    except BaseException:
        api.close()
        raise
    now = moment()
    scheduler.driver.intake.history = history
    scheduler.driver.resync(memory.restored(scheduler.mirror.listing(now, {}, away=memory.away(kept)), kept), now)
    scheduler.driver._looked = now
    return scheduler
