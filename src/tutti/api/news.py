"""What has changed of late, told to every page that listens."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from .types import News

KEEP = 1000
TOGETHER_S = 0.02
"""What happens together is told together."""


class Feed:
    """Numbered changes, the latest of them kept."""

    def __init__(self) -> None:
        self._number = 0
        self._recent: deque[News] = deque(maxlen=KEEP)
        self._changed = asyncio.Event()

    def news(self, kind: str, job: str = "", state: str = "") -> None:
        """Something changed that a page may show."""
        if self._recent and self._recent[-1].kind == kind and self._recent[-1].job == job and not state:
            last = self._recent[-1]
            if last.id == self._number and not self._changed.is_set():
                self._recent.pop()
        self._number += 1
        self._recent.append(News(id=self._number, kind=kind, job=job, state=state))
        self._changed.set()

    def listen(self, after: int) -> AsyncIterator[News]:
        """Changes after a number, as they happen; below 0, those from this call on, whenever the first is asked for."""
        return self._listen(self._number if after < 0 else after)

    async def _listen(self, seen: int) -> AsyncIterator[News]:
        while True:
            fresh = [news for news in self._recent if news.id > seen]
            for news in fresh:
                seen = news.id
                yield news
            if not fresh:
                self._changed.clear()
                await self._changed.wait()
                await asyncio.sleep(TOGETHER_S)
