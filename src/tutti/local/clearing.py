"""Devices that must be empty by a certain time: who can give members back does so now, at a step of its own; who can
begin again elsewhere is asked to leave in time to save its work; whoever is still there at the end is lost there.
"""

import asyncio
from collections.abc import Sequence

from tutti.drive.loop import Driver
from tutti.engine.model import SECOND, Job, OnLoss, Resizing
from tutti.engine.sizes import job_sizes
from tutti.jobs.durations import duration

from .backend import LocalBackend
from .chronicle import job_of
from .fault import now_us
from .held import Change, Held, Placed, Run
from .layout import seats_of


class Clearing:
    """Has gangs leave devices."""

    def __init__(self, driver: Driver, backend: LocalBackend) -> None:
        self._driver, self._backend = driver, backend

    def leave_by(self, names: Sequence[str], devices: Sequence[str], by_s: float) -> None:
        """Gangs that hold any of these devices, which are drained, must have left them in so many seconds."""
        cleared, loop = frozenset(devices), asyncio.get_running_loop()
        for name in names:
            held = self._backend.held.get(name)
            if held is not None and not self._gives_back(held, cleared, now_us() + round(by_s * SECOND)):
                grace_s = min(duration(held.job.grace) / SECOND, by_s)
                loop.call_later(by_s - grace_s, self._ask_to_leave, held, cleared, grace_s)
        loop.call_later(by_s, self._lose, tuple(names), cleared)

    def _gives_back(self, held: Held, devices: frozenset[str], by: int) -> bool:
        """Ask a gang that can change its size while it runs to go on without its members there."""
        run, job = held.run, job_of(self._driver.world, held.name)
        if run is None or job is None or not _can_shrink(held, run):
            return False
        there = self._there(run, devices)
        stay = _staying(job, [one for one in held.seated(run) if one not in there])
        if stay is None:
            return False
        kept = {one.id for one in stay}
        out = [one.id for one in held.seated(run) if one.id not in kept]
        run.change = Change(f"clear-{now_us()}", seats_of(held.gang, stay, job.life.seats), out, [], wants_answer=True)
        run.change.names = [f"m{rank}" for rank in out] if held.is_led else []
        self._backend.spawn(self._backend.carry_out(held, run, run.change, by))
        return True

    def _ask_to_leave(self, held: Held, devices: frozenset[str], grace_s: float) -> None:
        """A gang that would begin again after a loss anyway is not killed: it may save its work first."""
        run = held.run
        moves = held.job.on_loss is OnLoss.RESTART and held.job.preemptible and not held.is_loose
        if run is not None and not run.leaving and moves and self._there(run, devices):
            self._backend.end(held, "requeue", "its devices are drained", grace_s)

    def _lose(self, names: tuple[str, ...], devices: frozenset[str]) -> None:
        """The time is over."""
        for name in names:
            held = self._backend.held.get(name)
            run = held.run if held else None
            if run is None or run.link is None or run.leaving:
                continue
            ranks = [one.id for one in self._there(run, devices)]
            if ranks:
                run.link.send({"say": "signal", "number": 9, "ranks": ranks})

    def _there(self, run: Run, devices: frozenset[str]) -> list[Placed]:
        """Members on these devices, as far as they are still drained."""
        out = devices & set(self._backend.booking.out)
        return [one for one in run.here() if out & set(one.devices)]


def _can_shrink(held: Held, run: Run) -> bool:
    speaks = "resize" in run.can and held.gang.resizing is Resizing.LIVE
    quiet = bool(run.up) and not run.leaving and run.change is None and not run.broken
    # A launcher that has started others since would not know which of its members is meant.
    known = not held.is_led or run.is_as_begun
    return speaks and quiet and known and len(held.gang.roles) == 1 and not held.is_loose


def _staying(job: Job, left: list[Placed]) -> list[Placed] | None:
    """As many of those that are left as make a legal size, the first of them; None where there is none."""
    shape = job.life.seats[0].shape if job.life.seats else 0
    sizes = [size for size in job_sizes(job, 0, shape).legal if size <= len(left)]
    return sorted(left, key=lambda one: one.id)[: max(sizes)] if sizes else None
