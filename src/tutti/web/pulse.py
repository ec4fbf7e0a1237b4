"""Changes for a page: what happens within a moment is told as one, and silence is broken now and then."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from tutti.api.types import News

EVERY_S = 0.1
BEAT_S = 15.0
MOST_JOBS = 100


class Changes(msgspec.Struct):
    """One server-sent event on GET /page/changes."""

    id: int
    kinds: list[str]
    jobs: list[str]
    many: bool = False
    """More jobs changed than are named."""


async def pulse(
    news: AsyncIterator[News], every_s: float = EVERY_S, beat_s: float = BEAT_S
) -> AsyncGenerator[bytes, None]:
    """Server-sent events: at most one per `every_s`. A beat in between finds out whether anybody still listens."""
    waiting: dict[tuple[str, str], int] = {}
    came = asyncio.Event()

    async def gather() -> None:
        async for one in news:
            waiting[(one.kind, one.job)] = one.id
            came.set()

    gathering = asyncio.create_task(gather())
    try:
        yield b"retry: 1000\n\n"
        while True:
            try:
                await asyncio.wait_for(came.wait(), beat_s)
            except TimeoutError:
                yield b": nothing new\n\n"
                continue
            await asyncio.sleep(every_s)
            came.clear()
            told = told_of(waiting)
            waiting.clear()
            yield b"id: %d\nevent: changes\ndata: %s\n\n" % (told.id, msgspec.json.encode(told))
    finally:
        gathering.cancel()


def told_of(waiting: dict[tuple[str, str], int]) -> Changes:
    """Everything that came within a moment, each thing once."""
    jobs = [job for _, job in waiting if job]
    return Changes(
        id=max(waiting.values(), default=0),
        kinds=sorted({kind for kind, _ in waiting}),
        jobs=jobs[:MOST_JOBS],
        many=len(jobs) > MOST_JOBS,
    )
