"""Will a job that has just come meet its deadline? Said at once, while its owner still looks."""

from tutti.engine.decide import decide
from tutti.engine.edit import Submit, edited
from tutti.engine.estimate import run_time
from tutti.engine.model import NEVER, Gang, Job
from tutti.engine.plan import Plan, Reserve
from tutti.engine.policy import Policy
from tutti.engine.view import View
from tutti.views.moments import span


def warning(view: View, now: int, policy: Policy, gang: Gang) -> str:
    """By how much a gang would miss its deadline and why; empty where it has none, or will meet it as far as known."""
    length = run_time(Job(gang), view.queues.get(gang.queue), policy.reserve.quantile)
    if gang.deadline >= NEVER or length >= NEVER:
        return ""
    with_it = view if view.job(gang.name) else edited(view, [Submit(gang)])
    start = _start(decide(with_it, now, policy), gang.name, now)
    late = start + length - gang.deadline
    if late <= 0:
        return ""
    when = f"starts in {span(start - now)}" if start > now else "would start now"
    return f"{gang.name} misses its deadline by {span(late)}: it {when} and may run {span(length)}"


def _start(plan: Plan, name: str, now: int) -> int:
    """When the plan lets a gang start; now, where it does not say."""
    given = (one.promise for one in plan.actions if isinstance(one, Reserve) and one.gang == name)
    return next((promise.start for promise in given if promise is not None and promise.start < NEVER), now)
