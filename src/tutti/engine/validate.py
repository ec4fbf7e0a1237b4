"""What is wrong with a gang, in sentences its owner can act on.

A gang with a fault is never looked at by the planner. Whether a sound gang can ever fit this cluster is another
question, and not asked here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import pairwise

from .estimate import sizes
from .model import (
    MOST_AMOUNT,
    MOST_MEMBERS,
    NEVER,
    Arrange,
    Coupling,
    Gang,
    Near,
    Role,
    Shape,
    SizeRule,
)
from .sizes import describe_nearest, is_optional, largest_legal, legal_sizes, next_legal, role_rule
from .topology import NODE, POOL
from .view import View

AFTER = ("any:", "failed:", "never:")
Outside = Callable[[str, str], bool]
"""Whether the first level is the second or lies outside it, as far as anybody knows."""


def faults(gang: Gang, view: View | None = None) -> tuple[str, ...]:
    """Everything wrong with a gang, one sentence each; empty when it is sound. With a view, also names nobody knows."""
    found = [*_gang_faults(gang), *_time_faults(gang), *_speed_faults(gang)]
    outside = _outside(view)
    for role in gang.roles:
        found += [f"role {role.name!r}: {fault}" for fault in _role_faults(gang, role, outside)]
    if view is not None:
        found += unknown_names(gang, view)
    return tuple(dict.fromkeys(found))


def unknown_names(gang: Gang, view: View) -> tuple[str, ...]:
    """Levels and resources the gang names and the cluster does not have, each with the nearest name it has."""
    found: list[str] = []
    levels = [NODE, *view.topology.levels]
    found += [
        f"{where}: no topology level is called {level!r}{_meant(level, levels)}"
        for where, level in _levels_named(gang)
        if level not in levels
    ]
    for at, role in enumerate(gang.roles):
        if is_optional(gang, at):
            continue
        asked = (name for shape in role.shapes for name, amount in shape.ask.items() if amount)
        missing = [name for name in asked if name not in view.resources]
        found += [f"role {role.name!r}: no node has {name!r}{_meant(name, view.resources)}" for name in missing]
    kept = {name: None for domain in view.domains.values() for name in domain.capacity}
    for level, ask in gang.domain_ask.items():
        missing = [name for name, amount in ask.items() if amount and name not in kept]
        found += [f"gang: no {level} has {name!r}{_meant(name, kept)}" for name in missing]
    return tuple(dict.fromkeys(found))


# -- the gang as a whole


def _gang_faults(gang: Gang) -> Iterator[str]:
    if not gang.name:
        yield "gang: it has no name"
    if not gang.roles:
        yield "gang: it has no roles, so there is nothing to start"
    for name, count in Counter(role.name for role in gang.roles).items():
        if count > 1:
            yield f"gang: {count} roles are called {name!r}; give each its own name"
    if sum(max(_most(role), 0) for role in gang.roles) > MOST_MEMBERS:
        yield f"gang: its roles have more than {MOST_MEMBERS:,} members together"
    for entry in gang.after:
        yield from _after_faults(gang.name, entry)
    for level, ask in gang.domain_ask.items():
        for name, amount in ask.items():
            yield from _amount_faults(f"gang: {name!r} of each {level}", amount)


def _after_faults(name: str, entry: str) -> Iterator[str]:
    prefix = next((prefix for prefix in AFTER if entry.startswith(prefix)), "")
    other = entry.removeprefix(prefix)
    if not other:
        yield f"gang: 'after' has the entry {entry!r}, which names no gang"
    elif other == name:
        yield "gang: it waits for itself ('after' names the gang)"


def _time_faults(gang: Gang) -> Iterator[str]:
    times = {
        "submitted": gang.submitted,
        "begin": gang.begin,
        "deadline": gang.deadline,
        "max_wait": gang.max_wait,
        "hold_up_to": gang.hold_up_to,
        "min_run": gang.min_run,
        "estimate.limit": gang.estimate.limit,
        "estimate.p50": gang.estimate.p50,
        "estimate.p90": gang.estimate.p90,
    }
    for name, value in times.items():
        if value < 0:
            yield f"gang: {name} is {value:,}; a time is not negative"
        elif value > NEVER:
            yield f"gang: {name} is {value:,}, which is later than any time"
    if gang.deadline < NEVER and gang.deadline <= gang.submitted:
        yield "gang: its deadline had passed when it was submitted"
    counts = {
        "downtime_cost": gang.downtime_cost,
        "interruptions_per_day": gang.interruptions_per_day,
        "restart_limit": gang.restart_limit,
    }
    for name, value in counts.items():
        yield from _amount_faults(f"gang: {name}", value)
    if abs(gang.priority) > MOST_AMOUNT:
        yield f"gang: priority {gang.priority:,} is beyond {MOST_AMOUNT:,}"


def _speed_faults(gang: Gang) -> Iterator[str]:
    points = gang.speed.points
    for size, rate in points:
        if not 1 <= size <= MOST_MEMBERS or not 0 <= rate <= MOST_AMOUNT:
            yield f"gang: the speed curve has a point at {size:,} members with speed {rate:,}"
    if any(size >= later for (size, _), (later, _) in pairwise(points)):
        yield "gang: the sizes of the speed curve do not rise"


def _amount_faults(what: str, amount: int) -> Iterator[str]:
    if amount < 0:
        yield f"{what} is {amount:,}; it cannot be negative"
    elif amount > MOST_AMOUNT:
        yield f"{what} is {amount:,}; no more than {MOST_AMOUNT:,} can be counted"


# -- one role


def _role_faults(gang: Gang, role: Role, outside: Outside) -> Iterator[str]:
    numbers = [*_number_faults(role), *_rule_faults(role.rule)]
    yield from numbers
    if not role.shapes:
        yield "it has no shapes, so nobody knows what a member asks for"
    for number, shape in enumerate(role.shapes, 1):
        where = f"shape {number}: " if len(role.shapes) > 1 else ""
        yield from (f"{where}{fault}" for fault in _shape_faults(role, number - 1, shape))
    parts = [*_segment_faults(role), *_cap_faults(role), *_loose_faults(role)]
    yield from parts
    # Sentences about what the numbers lead to would only confuse while the numbers themselves are wrong.
    if not numbers and not parts:
        yield from _size_faults(role)
        yield from _contradictions(gang, role, outside)


def _number_faults(role: Role) -> Iterator[str]:
    yield from _bound_faults(role.min, role.want, role.max, "")
    if role.min == 0 and (role.coupling is Coupling.GANG or _most(role) == 0):
        yield "it has zero members; give it a min of at least 1"
    for number, shape in enumerate(role.shapes, 1):
        if shape.min or shape.want or shape.max:
            low, want, high = shape.min or role.min, shape.want or role.want, shape.max or role.max
            yield from _bound_faults(low, want, high, f" on shape {number}")


def _bound_faults(low: int, want: int, high: int, where: str) -> Iterator[str]:
    for name, value in (("min", low), ("want", want), ("max", high)):
        if value < 0:
            yield f"{name} is {value:,}{where}; there are no negative members"
        elif value > MOST_MEMBERS:
            yield f"{name} is {value:,}{where}; a role has at most {MOST_MEMBERS:,} members"
    # 0 means that the next smaller bound is meant, so it contradicts nothing.
    if 0 < want < low:
        yield f"it wants {want:,} members and needs at least {low:,}{where}"
    if 0 < high < max(want, low):
        what = "wants" if want > low else "needs at least"
        yield f"it {what} {max(want, low):,} members and may have at most {high:,}{where}"


def _rule_faults(rule: SizeRule) -> Iterator[str]:
    if rule.multiple < 1:
        yield f"its size rule asks for a multiple of {rule.multiple:,}; the least is 1"
    for name, value in (("multiple", rule.multiple), ("batch", rule.batch)):
        if value > MOST_AMOUNT:
            yield f"its size rule has a {name} of {value:,}; no more than {MOST_AMOUNT:,} can be counted"
    if rule.batch < 0:
        yield f"its size rule has a batch of {rule.batch:,}"
    if bad := [size for size in rule.sizes if size < 1]:
        yield f"its size rule lists {bad[0]:,} as a size"
    if rule.state_bytes < 0 or rule.member_bytes < 0:
        yield "its size rule has negative bytes"
    elif rule.state_bytes and not rule.member_bytes:
        yield "its size rule gives state_bytes but not member_bytes, so no size is known to hold the state"


def _shape_faults(role: Role, number: int, shape: Shape) -> Iterator[str]:
    if not any(shape.ask.values()):
        yield "a member asks for nothing; name at least one resource and an amount"
    members = min(max(*sizes(role, number), 1), MOST_MEMBERS)
    for name, amount in shape.ask.items():
        yield from _amount_faults(f"{name!r} per member", amount)
        if 0 < amount <= MOST_AMOUNT and amount * members > NEVER:
            yield f"{members:,} members ask for more {name!r} together than can be counted"
    if not 1 <= shape.speed <= MOST_AMOUNT:
        yield f"a speed of {shape.speed:,} thousandths makes no sense"
    for group in shape.tags:
        if not group:
            yield "an empty group of tags is met by no node"
        elif set(group) <= set(shape.avoid):
            yield f"it needs a node with {' or '.join(map(repr, group))} and avoids every such node"


def _segment_faults(role: Role) -> Iterator[str]:
    if role.segment is not None and not 1 <= role.segment.members <= MOST_MEMBERS:
        yield f"its segments have {role.segment.members:,} members; the least is 1"


def _cap_faults(role: Role) -> Iterator[str]:
    for cap in role.caps:
        if cap.members < 1:
            yield f"at most {cap.members:,} members in one {cap.level} leave no room for any; the least is 1"


def _loose_faults(role: Role) -> Iterator[str]:
    if role.coupling is Coupling.GANG:
        return
    if role.segment is not None:
        yield "it is loose, so its members come one by one and cannot come in segments"
    if role.rule != SizeRule():
        yield "it is loose, so its members come one by one and cannot obey a size rule"


# -- what follows from several fields together


def _size_faults(role: Role) -> Iterator[str]:
    for number in range(max(len(role.shapes), 1)):
        low, _, high = sizes(role, number)
        where = f" on shape {number + 1}" if len(role.shapes) > 1 else ""
        if role.segment is not None and role.segment.members > high:
            yield f"a segment of {role.segment.members:,} is larger than the role, which has at most {high:,}{where}"
        elif high >= 1 and not legal_sizes(role_rule(role), low, high):
            yield _no_legal_size(role, low, high) + where


def _no_legal_size(role: Role, low: int, high: int) -> str:
    span = f"between {low:,} and {high:,}" if low < high else f"at {low:,}"
    if role.segment is not None and legal_sizes(role.rule, low, high):
        what = f"no legal size {span} is a multiple of its segments of {role.segment.members:,}"
    else:
        what = f"no size {span} is legal"
    near = largest_legal(role_rule(role), 1, low - 1), next_legal(role_rule(role), high)
    return f"{what}; {describe_nearest(*near)}"


def _contradictions(gang: Gang, role: Role, outside: Outside) -> Iterator[str]:
    low = min((sizes(role, number)[0] for number in range(len(role.shapes))), default=role.min)
    if role.coupling is Coupling.LOOSE:
        low = min(low, 1)
    inside = [level for level in (role.within, gang.within) if level]
    for within in dict.fromkeys(inside):
        yield from _too_many_for_one(role, low, within, outside)
        if role.arrange is Arrange.SPREAD and within == NODE and low > 1:
            yield f"its {low:,} members are to be spread and all on one node; drop one of the two"
    yield from _segment_contradictions(role, outside)
    yield from _mark_contradictions(role, outside)


def _limits(role: Role) -> Iterator[tuple[str, int, str]]:
    """At most how many members a domain of a level may hold, and in which words that was said."""
    for cap in role.caps:
        yield cap.level, cap.members, f"at most {cap.members:,} members in one {cap.level}"
    for near in role.repels:
        if near.mark in role.marks:
            yield near.level, 1, f"no two members in one {near.level} (each repels the mark {near.mark!r} of the other)"


def _too_many_for_one(role: Role, low: int, within: str, outside: Outside) -> Iterator[str]:
    for level, most, words in _limits(role):
        if low > most and outside(level, within):
            yield f"all of at least {low:,} members in one {within}, but {words}"


def _segment_contradictions(role: Role, outside: Outside) -> Iterator[str]:
    segment = role.segment
    if segment is None:
        return
    for level, most, words in _limits(role):
        if segment.members > most and outside(level, segment.level):
            yield f"segments of {segment.members:,} members inside one {segment.level}, but {words}"


def _mark_contradictions(role: Role, outside: Outside) -> Iterator[str]:
    for needed in role.needs:
        if any(_excludes(repelled, needed, outside) for repelled in role.repels):
            yield f"it needs to be near the mark {needed.mark!r} and repels it"


def _excludes(repelled: Near, needed: Near, outside: Outside) -> bool:
    return repelled.mark == needed.mark and outside(repelled.level, needed.level)


# -- names


def _levels_named(gang: Gang) -> Iterator[tuple[str, str]]:
    """Every level a gang names, and where."""
    for level in (gang.within, gang.near, *gang.domain_ask):
        if level:
            yield "gang", level
    for role in gang.roles:
        named = [role.within, role.near, *(cap.level for cap in role.caps)]
        named += [near.level for near in (*role.repels, *role.needs)]
        named += [role.segment.level] if role.segment else []
        for level in dict.fromkeys(named):
            if level:
                yield f"role {role.name!r}", level


def _meant(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, 1) or get_close_matches(name.lower(), names, 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(map(repr, names[:8]))}" if names else ""


def _outside(view: View | None) -> Outside:
    """The order of levels, from what is always true and from the pools of a view where they agree."""
    orders = [pool.levels for pool in view.topology.pools.values()] if view is not None else []

    def is_outside(outer: str, inner: str) -> bool:
        if outer in (inner, POOL) or inner == NODE:
            return True
        if outer == NODE or inner == POOL:
            return False
        both = [levels for levels in orders if outer in levels and inner in levels]
        return bool(both) and all(levels.index(outer) <= levels.index(inner) for levels in both)

    return is_outside


def _most(role: Role) -> int:
    return max((sizes(role, number)[2] for number in range(len(role.shapes))), default=sizes(role)[2])
