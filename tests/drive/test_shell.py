"""The shell around the loop: a small backend, a clock that jumps, and everything that can go wrong between them."""

import asyncio

from tests.clusters import drawn, gang
from tests.drive.first_come import first_come
from tutti.drive.backend import Accepted, Backend, Capabilities, Clock, Refused
from tutti.drive.loop import Driver
from tutti.drive.notice import Notice, Trouble
from tutti.drive.shell import run
from tutti.engine import events as ev
from tutti.engine.plan import Start
from tutti.engine.policy import Policy


class Jumping:
    """A clock on which waiting takes no time but lets everybody else go first."""

    def __init__(self):
        self.moment = 0

    def now(self):
        return self.moment

    async def sleep_until(self, moment):
        for _ in range(20):
            await asyncio.sleep(0)
        self.moment = max(self.moment, moment)


class Toy:
    """Runs every gang for no time at all. `refusals` starts fail first; the stream breaks after `breaks` events."""

    can = Capabilities()

    def __init__(self, gangs, refusals=0, breaks=0, raises=0):
        self.world = drawn("4 4")
        for each in gangs:
            self.world.apply(ev.Submitted(0, each))
        self.refusals, self.breaks, self.raises = refusals, breaks, raises
        self.keys, self.starts, self.listings = {}, [], 0
        self.outbox: asyncio.Queue[ev.Event] = asyncio.Queue()
        self.stop = asyncio.Event()
        self.left = len(gangs)

    async def listing(self):
        self.listings += 1
        return self.world.listing()

    async def events(self):
        sent = 0
        while True:
            event = await self.outbox.get()
            yield event
            sent += 1
            if sent == self.breaks:
                raise ConnectionError("watch expired")

    async def apply(self, action, key):
        if key in self.keys:
            return self.keys[key]
        if self.raises:
            self.raises -= 1
            raise OSError("no route")
        if self.refusals:
            self.refusals -= 1
            return Refused("not yet")
        self.keys[key] = Accepted()
        if isinstance(action, Start):
            self.starts.append(action.gang)
            for event in (
                ev.Starting(0, action.gang, action.seats),
                ev.Running(0, action.gang),
                ev.Ended(0, action.gang),
            ):
                self.world.apply(event)
                if not isinstance(event, ev.Starting):
                    self.outbox.put_nowait(event)
            self.left -= 1
            if not self.left:
                self.stop.set()
        return self.keys[key]


def played(**ways):
    gangs = [gang(f"g{i}", 4, submitted=i) for i in range(6)]
    notices: list[Notice] = []

    async def play():
        backend, clock = Toy(gangs, **ways), Jumping()
        driver = Driver(Policy(), decide=first_come, tell=notices.append)
        await asyncio.wait_for(run(driver, backend, clock, backend.stop), 30)
        return backend

    return asyncio.run(play()), [notice.trouble for notice in notices]


def test_everything_submitted_is_started_once_and_in_order():
    backend, troubles = played()
    assert backend.starts == [f"g{i}" for i in range(6)]
    assert troubles == []


def test_refused_and_failing_starts_are_tried_again():
    backend, troubles = played(refusals=3, raises=2)
    assert sorted(backend.starts) == [f"g{i}" for i in range(6)]
    assert troubles.count(Trouble.REFUSED) == 5


def test_a_broken_stream_is_followed_by_a_new_listing_and_nothing_runs_twice():
    backend, troubles = played(breaks=3)
    assert backend.listings > 1
    assert sorted(backend.starts) == [f"g{i}" for i in range(6)]
    assert Trouble.LOST_TOUCH in troubles


def test_toys_are_backends_and_clocks():
    async def check():
        backend: Backend = Toy([])
        clock: Clock = Jumping()
        return backend.can.bind, clock.now()

    assert asyncio.run(check()) == (True, 0)
