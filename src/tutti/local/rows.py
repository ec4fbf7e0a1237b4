"""Jobs, devices and queues as the API shows them: the world, the journal and the booking put side by side."""

import shlex
import sqlite3
from collections.abc import Mapping

import msgspec

from tutti.api import types as t
from tutti.api.rows import devices_held, elastic, placed, sizes
from tutti.drive.forecasts import Forecast
from tutti.engine.model import NEVER, QUEUED, SECOND, Gang, Job, Life, State, Token
from tutti.engine.plan import Reason
from tutti.engine.world import World
from tutti.jobs.durations import duration
from tutti.jobs.gang import array_of
from tutti.jobs.job import DEVICE
from tutti.jobs.job import Job as Written
from tutti.views.moments import coming, iso

from .booking import Booking
from .held import Course, Held
from .shelf import wanted_devices, wanted_members


def active_row(
    world: World, held: Held, job: Job, reason: Reason | None, forecast: Forecast | None, now: int, place: int = 0
) -> t.JobRow:
    """A job that has not ended."""
    life, gang = job.life, job.gang
    waits = life.state in QUEUED
    seated = sum(seats.members for seats in life.seats)
    progress = life.progress
    eta = _start(job, forecast) if waits else _end(world, gang.name, now)
    low, high = sizes(gang)
    done, tasks = task_counts(held)
    return t.JobRow(
        name=gang.name,
        id=held.id,
        user=gang.user,
        queue=gang.queue,
        state=life.state.value,
        members=wanted_members(gang) if waits else seated,
        min=low,
        max=high,
        devices=wanted_devices(gang) if waits else devices_held(job, DEVICE),
        priority=gang.priority,
        placed="" if waits else placed(world, job),
        reason=_token(life.state, reason),
        detail=reason.detail if reason and waits else "",
        position=place if waits else 0,
        eta_us=eta if eta < NEVER else 0,
        eta=coming(eta, now) if 0 < eta < NEVER else "",
        submitted_us=gang.submitted,
        started_us=life.first_started,
        waited_s=_waited(gang, life, now) / SECOND,
        ran_s=0.0 if waits else max(now - life.started, 0) / SECOND,
        limit_s=_limit(held.job),
        elastic=elastic(gang),
        restarts=held.course.losses + life.restarts,
        step=progress.step if progress else 0,
        steps=progress.steps if progress else 0,
        rate=progress.rate_milli / 1000 if progress else 0.0,
        command=command_text(held.job),
        tasks_done=done,
        tasks=tasks,
    )


def _waited(gang: Gang, life: Life, now: int) -> int:
    """Until it first started; one that has to wait again, since then."""
    again = life.first_started and life.state in QUEUED
    return max(now - life.since if again else (life.first_started or now) - gang.submitted, 0)


def _token(state: State, reason: Reason | None) -> str:
    if state is State.HELD:
        return Token.HELD.value
    return reason.token.value if reason and state in QUEUED else ""


def _start(job: Job, forecast: Forecast | None) -> int:
    promise = job.life.promise
    if promise is not None and promise.start < NEVER:
        return promise.start
    return forecast.p50 if forecast is not None and forecast.is_promise else NEVER


def _end(world: World, name: str, now: int) -> int:
    """When it will probably end; once that has passed, when it will at the latest."""
    slot = world.slots.get(name, -1)
    ahead = [int(end) for end in world.ends[slot] if end > now] if slot >= 0 else []
    return min(ahead, default=NEVER)


def _limit(job: Written) -> float:
    return duration(job.time) / SECOND if job.time else 0.0


def task_counts(held: Held) -> tuple[int, int]:
    """How many tasks of an array are over, and how many there are."""
    tasks = held.course.tasks
    if tasks is None:
        return 0, 0
    running = len(held.run.here()) if held.run else 0
    over = len(tasks.done) + len(tasks.failed)
    return over, over + running + len(tasks.waiting)


def command_text(job: Written) -> str:
    """The command as one line."""
    if job.command:
        return job.command if isinstance(job.command, str) else shlex.join(job.command)
    return "; ".join(command_text(msgspec.convert({"command": part.command}, Written)) for part in job.roles.values())


def ended_row(row: sqlite3.Row) -> t.JobRow:
    """A job from the journal that has ended."""
    gang = msgspec.json.decode(row["gang"], type=Gang)
    job = msgspec.json.decode(row["job"], type=Written)
    low, high = sizes(gang)
    begun = row["started"] or row["ended"]
    array = array_of(job)
    tasks = msgspec.json.decode(row["tasks"] or b"{}", type=Course).tasks if array else None
    return t.JobRow(
        name=row["name"],
        id=row["id"],
        user=row["user"],
        queue=row["queue"],
        state=row["state"],
        members=row["members"],
        min=low,
        max=high,
        devices=row["devices"],
        priority=gang.priority,
        submitted_us=row["submitted"],
        started_us=row["started"],
        ended_us=row["ended"],
        waited_s=max(begun - row["submitted"], 0) / SECOND,
        ran_s=max(row["ended"] - begun, 0) / SECOND if row["started"] else 0.0,
        limit_s=_limit(job),
        code=row["code"],
        why=row["why"],
        command=command_text(job),
        tasks_done=len(tasks.done) + len(tasks.failed) if tasks else 0,
        tasks=len(array.indices) if array else 0,
    )


def node_rows(world: World, booking: Booking, held: Mapping[str, Held]) -> list[t.NodeRow]:
    """Nodes with a cell for each device."""
    ranks = {device: one.id for job in held.values() if job.run for one in job.run.here() for device in one.devices}
    rows = []
    for at, node in enumerate(booking.box.nodes):
        cells = [
            t.Device(id=d.id, index=d.index, kind=d.kind, rank=ranks.get(d.id, -1), **_cell(world, booking, d.id))
            for d in booking.box.on(at)
        ]
        rows.append(
            t.NodeRow(
                name=node.name,
                state=world.nodes[at].state.name.lower() if world.nodes[at] else "gone",  # type: ignore[union-attr]
                place=list(node.place),
                kind=cells[0].kind if cells else "",
                devices=cells,
                free=sum(1 for cell in cells if cell.state == "free"),
                cpus=node.capacity.get("cpu", 0) / 1000,
                memory_bytes=node.capacity.get("memory", 0),
            )
        )
    return rows


def _cell(world: World, booking: Booking, device: str) -> dict[str, str]:
    owner = booking.owner.get(device)
    if owner is not None:
        slot = world.slots.get(owner, -1)
        starting = slot >= 0 and world.job_in(slot).life.state is State.STARTING
        state = "draining" if device in booking.out else "starting" if starting else "busy"
        return {"state": state, "job": owner, "note": booking.out.get(device, "")}
    if device in booking.foreign:
        return {"state": "foreign", "note": booking.foreign[device]}
    if device in booking.out:
        return {"state": "drained", "note": booking.out[device]}
    return {"state": "free"}


def moment_row(row: sqlite3.Row) -> t.Moment:
    """An entry of a story."""
    return t.Moment(at_us=row["at"], at=iso(row["at"]), kind=row["kind"], text=row["text"])
