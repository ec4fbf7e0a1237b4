"""What was lost on the way: the gang before and after, field by field, in words."""

from collections.abc import Iterator
from typing import Any

from tutti.engine.model import NEVER, Coupling, Gang, OnLoss, Role
from tutti.jobs.durations import spelled
from tutti.jobs.finish import bounds
from tutti.jobs.size_rule import spelled as spelled_rule

from .groups import plain


def differences(before: Gang, after: Gang) -> tuple[str, ...]:
    """Each thing the first says and the second does not."""
    return tuple(dict.fromkeys([*_gang(before, after), *_roles(before, after)]))


def _gang(before: Gang, after: Gang) -> Iterator[str]:
    yield from _changed("queue", before.queue, after.queue)
    yield from _changed("priority", before.priority, after.priority)
    yield from _changed("time limit", _time(before.estimate.limit), _time(after.estimate.limit))
    yield from _changed("probable run time", _time(before.estimate.p50 or NEVER), _time(after.estimate.p50 or NEVER))
    yield from _changed("not before", _time(before.begin or NEVER), _time(after.begin or NEVER))
    yield from _changed("deadline", _time(before.deadline), _time(after.deadline))
    yield from _changed("longest wait", before.max_wait, after.max_wait)
    yield from _changed("may be interrupted", before.preemptible, after.preemptible)
    yield from _changed("may be parked", before.parkable, after.parkable)
    if before.after != after.after:
        yield f"after {', '.join(before.after)}: jobs it waits for"
    if before.on_loss is not after.on_loss and before.on_loss is not OnLoss.RESTART:
        yield f"on loss of a member: {before.on_loss.value}"
    if before.domain_ask != after.domain_ask:
        yield "countable resources of a domain"


def _roles(before: Gang, after: Gang) -> Iterator[str]:
    others = {role.name: role for role in after.roles}
    if len(before.roles) == len(after.roles) == 1:
        others = {before.roles[0].name: after.roles[0]}
    for role in before.roles:
        other = others.get(role.name)
        if other is None:
            yield f"role {role.name}: it is not there"
            continue
        for what in _role(role, other, _level(before, role), _level(after, other)):
            yield f"role {role.name}: {what}" if len(before.roles) > 1 else what


def _role(role: Role, other: Role, level: tuple[str, str], other_level: tuple[str, str]) -> Iterator[str]:
    for word, one, two in zip(("at least", "wants", "at most"), bounds(role), bounds(other), strict=True):
        yield from _changed(f"members, {word}", one, two)
    yield from _changed("coupling", role.coupling.value, other.coupling.value)
    yield from _changed("ask", _ask(role), _ask(other))
    if role.coupling is Coupling.GANG:
        yield from _changed("size rule", spelled_rule(role.rule), spelled_rule(other.rule))
    yield from _changed("all within one", level[0], other_level[0])
    yield from _changed("preferably in one", level[1], other_level[1])
    yield from _changed("groups", _segment(role), _segment(other))
    yield from _changed("at most in one domain", role.caps, other.caps)


def _level(gang: Gang, role: Role) -> tuple[str, str]:
    return plain(gang.within or role.within), plain(gang.near or role.near)


def _segment(role: Role) -> str:
    return f"{role.segment.members}@{plain(role.segment.level)}" if role.segment else ""


def _ask(role: Role) -> dict[str, int]:
    asked = role.shapes[0].ask if role.shapes else {}
    return {"gpu" if name.endswith("/gpu") else name: n for name, n in sorted(asked.items()) if name != "pods" and n}


def _time(time: int) -> str:
    return "" if time >= NEVER else spelled(time)


def _changed(what: str, before: Any, after: Any) -> Iterator[str]:
    if before != after:
        yield f"{what} {_shown(before)}" + (f" (it becomes {_shown(after)})" if after not in ("", None, ()) else "")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{amount} {name}" for name, amount in value.items()) or "nothing"
    return str(value) if value not in ("", None, ()) else "none"
