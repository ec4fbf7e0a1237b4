"""How far would bounds on running gangs, and on what users have, have to be raised for a gang to start?"""

import msgspec

from .bounds import ALL, USER, Cap, first_about
from .desk import Desk
from .edit import Value
from .model import Bound, Job, Queue


def raised_bounds(desk: Desk, job: Job, queue: Queue) -> dict[str, Value]:
    """Bounds of one queue on what runs there, and on what its users have, just high enough."""
    fields: dict[str, Value] = {}
    bounds = list(queue.bounds)
    for cap in desk.rules.caps.of(job.gang):
        most, limit = _enough(desk, job, cap)
        name, kind, who = cap.key
        if name != queue.name or not (limit or most is not None):
            continue
        if kind == ALL:
            fields |= {"max_running": most} if most is not None else {}
            continue
        told = first_about(queue, who, "") if kind == USER else first_about(queue, "", who)
        at = next((at for at, bound in enumerate(queue.bounds) if bound is told), None)
        if at is not None:
            bounds[at] = _wider_bound(bounds[at], most, limit)
    if tuple(bounds) != queue.bounds:
        fields["bounds"] = tuple(bounds)
    return fields


def _enough(desk: Desk, job: Job, cap: Cap) -> tuple[int | None, dict[str, int]]:
    """How many gangs, and how much, a bound would have to allow; nothing where it allows enough."""
    tally, least, resources = desk.shares.tally(), desk.least_amounts(job), desk.view.resources
    running = tally.running(cap, job.gang)
    held = {name: tally.held(cap, name) + least[resources[name]] for name in cap.limit if name in resources}
    over = {name: amount for name, amount in held.items() if least[resources[name]] and amount > cap.limit[name]}
    return (running if running > cap.most else None), over


def _wider_bound(bound: Bound, most: int | None, limit: dict[str, int]) -> Bound:
    """The bound with what is too little in it raised; a limit of every user may stand beside it."""
    more = {name: max(amount, limit.get(name, amount)) for name, amount in bound.limit.items()}
    running = bound.max_running if bound.max_running is None or most is None else max(bound.max_running, most)
    return msgspec.structs.replace(bound, max_running=running, limit=more)
