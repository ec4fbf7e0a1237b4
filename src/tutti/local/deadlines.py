"""Will a job that has just come meet its deadline? Said at once, while its owner still looks."""

from collections.abc import Sequence

from tutti.engine.decide import decide
from tutti.engine.edit import Submit, edited
from tutti.engine.estimate import run_time
from tutti.engine.model import NEVER, Gang, Job
from tutti.engine.plan import Plan, Reserve
from tutti.engine.policy import Policy
from tutti.engine.view import View
from tutti.views.moments import span


def warnings(view: View, now: int, policy: Policy, gangs: Sequence[Gang]) -> list[str]:
    """By how much gangs will miss their deadlines and why, as far as is known; one decision for all of them."""
    new = [Submit(gang) for gang in gangs if view.job(gang.name) is None]
    plan = decide(edited(view, new) if new else view, now, policy)
    lengths = (run_time(Job(gang), view.queues.get(gang.queue), policy.reserve.quantile) for gang in gangs)
    pairs = zip(gangs, lengths, strict=True)
    found = (_warning(gang, length, _start(plan, gang.name, now), now) for gang, length in pairs)
    return [told for told in found if told]


def _warning(gang: Gang, length: int, start: int, now: int) -> str:
    late = start + length - gang.deadline
    if length >= NEVER or late <= 0:
        return ""
    when = f"it starts in {span(start - now)} and" if start > now else "even if it starts now, it"
    return f"{gang.name} misses its deadline by {span(late)}: {when} may run {span(length)}"


def _start(plan: Plan, name: str, now: int) -> int:
    """When the plan lets a gang start; now, where it does not say."""
    given = (one.promise for one in plan.actions if isinstance(one, Reserve) and one.gang == name)
    return next((promise.start for promise in given if promise is not None and promise.start < NEVER), now)
