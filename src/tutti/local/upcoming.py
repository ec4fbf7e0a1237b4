"""Who is next, and where: a guess from the lines and the expected ends, for those who want to be ready for it."""

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest

from tutti.engine.model import QUEUED, Job, State
from tutti.engine.order import Standing
from tutti.engine.world import World

from .booking import Booking
from .fault import now_us
from .held import Held

FRONT = 4
"""So many of each line are looked at."""


class Upcoming:
    """The next starts, as far as they can be foreseen for nothing."""

    def __init__(
        self, world: Callable[[], World], lines: Callable[[], Standing], held: Mapping[str, Held], booking: Booking
    ) -> None:
        self._world, self._lines, self._held, self._booking = world, lines, held, booking

    def gangs(self) -> Iterator[Held]:
        """Gangs that wait for nothing but room: those who were promised a start, then the first of each line."""
        world, now = self._world(), now_us()
        if not world.queued:
            return
        fronts = zip_longest(*(line[:FRONT] for line in self._lines().lines.values()))
        first = [int(entry[-1]) for row in fronts for entry in row if entry is not None]
        for slot in dict.fromkeys([*world.promised, *first]):
            job = world.job_in(slot)
            held = self._held.get(job.gang.name)
            if held is not None and wants_room(job, now):
                yield held

    def devices(self, node: int) -> list[str]:
        """Devices of a node in the order in which they will probably be free."""
        booking, world = self._booking, self._world()

        def free_at(device: str) -> int:
            slot = world.slots.get(booking.owner.get(device, ""), -1)
            return int(world.ends[slot].min()) if slot >= 0 else 0

        mine = (device.id for device in booking.box.on(node))
        return sorted((one for one in mine if one not in booking.out and one not in booking.foreign), key=free_at)


def wants_room(job: Job, now: int) -> bool:
    """Whether nothing but room can be missing."""
    life, gang = job.life, job.gang
    may = life.state in QUEUED and life.state is not State.HELD
    return may and not gang.after and gang.begin <= now and life.attempt.not_before <= now
