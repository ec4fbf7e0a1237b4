"""Whose turn is it? Whole gangs of a queue take turns where the queue asks for it and the gang can be parked."""

from .desk import Desk
from .model import Job, State
from .reclaim import Victim, reclaim_from
from .reserve import hold_again


def rotate(desk: Desk) -> None:
    """Gangs whose slice is over make room for the one of their queue that has not run for longest."""
    if not desk.policy.rotate.on or not desk.rules.sliced:
        return
    for queue in sorted(desk.view.queues.values(), key=lambda queue: queue.name):
        if queue.slice:
            _turn(desk, queue.name, queue.slice)


def _turn(desk: Desk, queue: str, length: int) -> None:
    waiting = sorted(
        (job for job in desk.blocked if job.gang.queue == queue and job.life.pledge is None),
        key=lambda job: (job.life.since, job.gang.name),
    )
    for job in waiting:
        over = [
            Victim(slot, other, (), switch_cost(other))
            for slot in desk.view.seated
            if (other := desk.view.held(slot)).gang.queue == queue and _is_over(desk, other, length)
        ]
        over.sort(key=lambda victim: (victim.job.life.turn, victim.job.gang.name))
        if over:
            _give_turn(desk, job, over)


def _give_turn(desk: Desk, job: Job, over: list[Victim]) -> None:
    """Make room for a gang whose turn it is; a promise it was given for later is not in its own way."""
    stay = desk.stays.get(job.gang.name)
    desk.unseat(job)
    if not reclaim_from(desk, job, over) and stay is not None:
        hold_again(desk, job, stay)


def _is_over(desk: Desk, job: Job, length: int) -> bool:
    """Whether a gang's turn is over: its slice, what it is left alone for, and so many times what a switch costs."""
    life = job.life
    if not job.gang.parkable or life.state is not State.RUNNING or job.gang.name in desk.disturbed:
        return False
    told = life.progress
    switch = (told.save_cost + told.restart_cost) if told else 0
    queue = desk.queue(job)
    least = max(length, job.gang.min_run, queue.min_run if queue else 0)
    end = life.turn + max(least, desk.policy.rotate.switch_factor * switch)
    desk.wake(end)
    return end <= desk.now


def switch_cost(job: Job) -> int:
    """What parking and resuming costs, in member-microseconds."""
    told = job.life.progress
    members = sum(held.members for held in job.life.seats)
    return members * ((told.save_cost + told.restart_cost) if told else 0)
