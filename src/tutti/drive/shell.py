"""The loop for worlds that run by the clock: waits for events or for the next known moment, and carries out."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from tutti.engine.events import Event
from tutti.engine.model import NEVER, SECOND

from .backend import Backend, Clock, Refused
from .loop import Driver, Keyed

PAUSE = SECOND
"""Between the end of one stream of events and the next listing."""
GONE = None
"""What the inbox holds when the backend's stream of events has ended."""


async def run(driver: Driver, backend: Backend, clock: Clock, stop: asyncio.Event | None = None) -> None:
    """Drive the backend until told to stop.

    When its stream of events ends or anything else about it breaks, the backend is listed anew and the stream is begun
    again, after a while.
    """
    stop = stop or asyncio.Event()
    while not stop.is_set():
        try:
            await _attend(driver, backend, clock, stop)
        except Exception as failure:  # noqa: BLE001 - whatever the backend does, gangs that run must not suffer from it
            driver.lost_touch(f"{type(failure).__name__}: {failure}", clock.now())
        if not stop.is_set():
            await clock.sleep_until(clock.now() + PAUSE)


async def _attend(driver: Driver, backend: Backend, clock: Clock, stop: asyncio.Event) -> None:
    """One listing and the stream that belongs to it. Listening begins first, so that nothing falls between the two."""
    inbox: asyncio.Queue[Event | None] = asyncio.Queue()
    pump = asyncio.create_task(_pump(backend, inbox))
    try:
        driver.resync(await backend.listing(), clock.now())
        await _serve(driver, backend, clock, inbox, stop)
    finally:
        pump.cancel()
        with suppress(asyncio.CancelledError):
            await pump


async def _pump(backend: Backend, inbox: "asyncio.Queue[Event | None]") -> None:
    try:
        async for event in backend.events():
            inbox.put_nowait(event)
    finally:
        inbox.put_nowait(GONE)


async def _serve(
    driver: Driver, backend: Backend, clock: Clock, inbox: "asyncio.Queue[Event | None]", stop: asyncio.Event
) -> None:
    """Step whenever there is something to step for, until the stream ends or somebody says stop."""
    await asyncio.sleep(0)  # what happened before anybody looked comes before the first decision
    batch = _arrived(inbox)
    while True:
        events = [event for event in batch if event is not None]
        await _carry_out(driver, backend, clock, driver.step(events, clock.now()))
        if len(events) < len(batch) or stop.is_set():
            return
        batch = await _next(inbox, clock, driver.wake_at, stop)


def _arrived(inbox: "asyncio.Queue[Event | None]") -> list[Event | None]:
    return [inbox.get_nowait() for _ in range(inbox.qsize())]


async def _next(
    inbox: "asyncio.Queue[Event | None]", clock: Clock, wake_at: int, stop: asyncio.Event
) -> list[Event | None]:
    """Everything that has arrived, as soon as anything has; nothing when the moment comes first."""
    first = asyncio.create_task(inbox.get())
    waits = [first, asyncio.create_task(stop.wait())]
    if wake_at < NEVER:
        waits.append(asyncio.create_task(clock.sleep_until(wake_at)))
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    batch = [first.result()] if first.done() and not first.cancelled() else []
    return batch + _arrived(inbox)


async def _carry_out(driver: Driver, backend: Backend, clock: Clock, actions: Iterable[Keyed]) -> None:
    """Hand each action to the backend, in order; what it refuses goes back to the driver."""
    waiting = list(actions)
    while waiting:
        key, action = waiting.pop(0)
        try:
            answer = await backend.apply(action, key)
        except Exception as failure:  # noqa: BLE001 - a backend that fails has refused; the others must go on
            answer = Refused(f"{type(failure).__name__}: {failure}")
        if isinstance(answer, Refused):
            waiting += driver.refused(key, action, answer, clock.now())
