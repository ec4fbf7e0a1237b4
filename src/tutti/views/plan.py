"""A plan as people read it: what is done, to whom, where; and who waits for what."""

from collections import Counter
from collections.abc import Sequence

from tutti.engine.model import NEVER, SECOND, Seats
from tutti.engine.plan import GIVES_SEATS, AnyAction, Await, Evict, Plan, Reserve, Resume, Start
from tutti.engine.view import View

from .table import table, time_s

MOST_NODES = 6


def plan_lines(view: View, plan: Plan) -> list[str]:
    """Actions in the order in which they are carried out, then the gangs that wait."""
    rows = [_action(view, plan.at, action) for action in plan.actions]
    rows += [("wait", name, str(reason.token), reason.detail) for name, reason in sorted(plan.answers.items())]
    return table(rows, right=False) or ["nothing to do, and nobody waits"]


def _action(view: View, now: int, action: AnyAction) -> tuple[str, str, str, str]:
    word = str(type(action).__struct_config__.tag)
    if isinstance(action, Reserve):
        if action.promise is None:
            return word, action.gang, "withdrawn", action.why
        start = action.promise.start
        when = "no time" if start >= NEVER else f"in {time_s((start - now) / SECOND)}"
        return word, action.gang, when, where(view, action.promise.seats)
    if isinstance(action, Await):
        return word, action.gang, "", where(view, action.pledge.seats) if action.pledge else "given up"
    if isinstance(action, Evict):
        return word, action.gang, str(action.how), _for_whom(action)
    if isinstance(action, GIVES_SEATS):
        members = sum(held.members for held in action.seats)
        lent = ", lent" if isinstance(action, Start | Resume) and action.lent else ""
        many = f"{members} {'member' if members == 1 else 'members'}"
        return word, action.gang, many, where(view, action.seats) + lent
    return word, action.gang, "", action.why


def _for_whom(action: Evict) -> str:
    return f"for {action.room_for}{': ' + action.why if action.why else ''}" if action.room_for else ""


def where(view: View, seats: Sequence[Seats]) -> str:
    """The nodes of some seats, with the members on each; of many only the first."""
    members: Counter[int] = Counter()
    for held in seats:
        for node, count in zip(held.nodes, held.counts, strict=True):
            members[node] += count
    named = [f"{_name(view, node)}x{count}" if count > 1 else _name(view, node) for node, count in members.items()]
    return ", ".join(named[:MOST_NODES]) + (f" and {len(named) - MOST_NODES} more" if len(named) > MOST_NODES else "")


def _name(view: View, node: int) -> str:
    there = view.nodes[node] if 0 <= node < len(view.nodes) else None
    return there.name if there else "?"


def reason_lines(plan: Plan) -> list[str]:
    """How many gangs wait for what, most common first."""
    rows = [(token, str(len(names)), ", ".join(names[:3])) for token, names in waiting(plan)]
    return table([("reason", "gangs", "first"), *rows], right=False) if rows else ["nobody waits"]


def waiting(plan: Plan) -> list[tuple[str, list[str]]]:
    """The gangs that wait for each reason, the most common reason first."""
    found: dict[str, list[str]] = {}
    for name, reason in sorted(plan.answers.items()):
        found.setdefault(str(reason.token), []).append(name)
    return sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
