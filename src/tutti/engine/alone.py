"""Does somebody who waits alone start right away? Most gangs come while nobody else waits and there is room.

Nobody was promised anything then, so nothing but the present counts. The plan is the one that `deliberate` makes; where
the gang cannot start, or anything more is to be minded, nothing is decided here.
"""

from .answers import Deliberate, glanced
from .cache import Cache, Card
from .head_count import is_odd
from .model import NEVER
from .place import Need, Outlook, seats_of
from .plan import Plan, Start
from .policy import Policy
from .profile import Bools, Profile
from .view import View


def alone(view: View, now: int, policy: Policy, cache: Cache, deliberate: Deliberate) -> Plan | None:
    """Start the one gang that waits; None where that takes a closer look."""
    if view.watched or view.draining or view.windows or view.promised or view.faulty:
        return None
    if cache.rules(view).limited or policy.place.one_wide_gang_per_node:
        return None
    job = view.held(next(iter(view.queued)))
    card = cache.card(view, job, policy.reserve.quantile)
    if not card.kin.free or not _is_ready(card):
        return None
    need = card.needs[0][0]
    outlook = Outlook(Profile(view, now, policy.reserve.quantile, view.class_ready), need, 0, 1, _mask(view, need))
    size = outlook.size(card.size(0, 0))
    seating = outlook.choose(size) if size else None
    if seating is None:
        return None
    start = Start(job.gang.name, view.number, seats=(seats_of(view, need, seating),))
    return glanced(view, now, policy, (start,), NEVER, deliberate)


def _is_ready(card: Card) -> bool:
    """Whether nothing but room is missing, as far as is known: most gangs are, and for the others there is `gate`."""
    gang, queue = card.job.gang, card.queue
    if queue is None or queue.closed or not gang.preemptible:
        return False
    return card.kin.plain and card.kin.flaw is None and not is_odd(card.job)


def _mask(view: View, need: Need) -> Bools:
    """Classes whose nodes take members of this need."""
    eligible = view.topology.eligible(*need.key)
    return view.class_ready if eligible.all() else view.class_ready & eligible[view.class_kind]
