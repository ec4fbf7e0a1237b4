"""A decision small enough to be read at a glance: first come, first served, on single nodes."""

from tutti.engine.model import Job, Kind, Seats, State, Token
from tutti.engine.plan import Plan, Reason, Start
from tutti.engine.view import View


def first_come(view: View, now, policy, cache=None) -> Plan:
    """Start gangs in the order they were submitted; the first that does not fit stops the line."""
    free = {at: _free(view, at) for at in view.node_index.values() if _is_ready(view, at)}
    actions, answers = [], {}
    waiting = [view.held(slot) for slot in view.queued]
    for job in sorted(waiting, key=lambda job: (job.gang.submitted, job.gang.name)):
        if job.life.state not in {State.WAITING, State.PARKED} or job.life.attempt.not_before > now or job.gang.after:
            answers[job.gang.name] = Reason(Token.BACKING_OFF)
            continue
        seats = None if answers else placed(job, free)
        if seats is None:
            answers[job.gang.name] = Reason(Token.NO_CAPACITY, Kind.WAIT)
        else:
            actions.append(Start(job.gang.name, view.number, seats=seats))
    tries = [job.life.attempt.not_before for job in waiting if job.life.attempt.not_before > now]
    return Plan(view.number, now, tuple(actions), answers, min(tries, default=1 << 62))


def placed(job: Job, free: dict[int, int]) -> tuple[Seats, ...] | None:
    """One seat run for each role, or None; what is used is taken from `free`."""
    left, seats = dict(free), []
    for role in job.gang.roles:
        runs: list[tuple[int, int]] = []
        missing, ask = role.min, max(role.shapes[0].ask["gpu"], 1)
        for node in tuple(left):
            count = min(left[node] // ask, missing)
            if count > 0:
                runs.append((node, count))
                left[node] -= count * ask
                missing -= count
        if missing:
            return None
        seats.append(Seats(tuple(n for n, _ in runs), tuple(c for _, c in runs)))
    free.update(left)
    return tuple(seats)


def _free(view: View, at: int) -> int:
    return max(int(view.class_free[view.resources["gpu"], view.class_of[at]]), 0)


def _is_ready(view: View, at: int) -> bool:
    return bool(view.class_ready[view.class_of[at]])
