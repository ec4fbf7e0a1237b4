"""How what people are told gets into the cluster: behind the binds, a few at a time, and again where nobody answered.

What the API server refuses for good is written to the log once for each kind, and shows on the page; asking again would
change nothing.
"""

import asyncio
import time
from collections.abc import Callable
from enum import Enum

from .api import BUSY, Api, ApiError
from .http import Broken
from .metrics import Metrics
from .reload import say

QUIET = 0.01
WRITERS, BESIDE = 16, 3
"""Writes at a time: while nothing else is written, and beside binds that go on for long."""
GONE = frozenset({404, 409, 410})
"""Answers about objects that are gone, were made anew, or are another's to write."""


class Outcome(Enum):
    """What became of a word to the cluster."""

    TOLD = "told"
    """It stands there, or nobody is left to be told."""
    LATER = "later"
    """The server did not answer, or was busy; it may be told in a while."""
    REFUSED = "refused"
    """The server will not have it."""


class Pen:
    """Writes what is to be told."""

    def __init__(self, api: Api, metrics: Metrics) -> None:
        self.api = api
        self.metrics = metrics
        self.is_binding: Callable[[], bool] = lambda: False
        self.yields_until = 0.0
        """Until when binds that begin meanwhile go before what is still to be told."""
        self.refusals: dict[tuple[str, int], str] = {}
        """By kind and answer: what cannot be written here, in words."""
        self._at_ease, self._beside = asyncio.Semaphore(WRITERS), asyncio.Semaphore(BESIDE)

    async def write(self, method: str, path: str, body: object, kind: str, **query: object) -> Outcome:
        """Many at a time while nothing is bound; behind the binds, or in a trickle beside them, while they go on."""
        async with self._at_ease:
            while self.is_binding() and time.monotonic() < self.yields_until:  # noqa: ASYNC110 - a length of time
                await asyncio.sleep(2 * QUIET)
            if not self.is_binding():
                return await self._written(method, path, body, kind, **query)
            async with self._beside:
                return await self._written(method, path, body, kind, **query)

    async def _written(self, method: str, path: str, body: object, kind: str, **query: object) -> Outcome:
        """What cannot be told is not worth a fall."""
        try:
            await self.api.insist(method, path, body, kind, **query)
        except ApiError as no:
            self.metrics.add("tutti_kube_trouble_total", label="untold")
            if no.status in GONE:
                return Outcome.TOLD
            if no.status in BUSY:
                return Outcome.LATER
            self._refused(path, no)
            return Outcome.REFUSED
        except Broken:
            self.metrics.add("tutti_kube_trouble_total", label="untold")
            return Outcome.LATER
        return Outcome.TOLD

    def _refused(self, path: str, no: ApiError) -> None:
        what = kind_of(path)
        if (what, no.status) not in self.refusals:
            self.refusals[what, no.status] = f"{what} cannot be written: {no}"
            say(self.refusals[what, no.status])


def kind_of(path: str) -> str:
    """What an address is about, as people name it: plural.group, and the status where it is one."""
    parts = path.strip("/").split("/")
    group = f".{parts[1]}" if parts[0] == "apis" else ""
    named = parts[parts.index("namespaces") + 2 :]
    return f"{'status of ' if 'status' in named[2:] else ''}{named[0]}{group}"
