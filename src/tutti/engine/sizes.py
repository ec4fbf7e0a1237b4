"""Which sizes are legal, which one is nearest, and why a size is not legal.

Legal sizes come as a sorted sequence that is cheap however far it reaches: an arithmetic `range`, or a short tuple.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import isqrt, lcm

import msgspec

from .estimate import leading_role, rate
from .estimate import sizes as asked_sizes
from .model import MOST_AMOUNT, MOST_MEMBERS, Coupling, Gang, Job, Role, SizeRule, Speed

SHOWN = 8
"""How many entries of a long list a sentence repeats."""
POWERS = tuple(1 << i for i in range(MOST_MEMBERS.bit_length()))


class Sizes(msgspec.Struct, frozen=True):
    """The sizes a role may have: least, wanted and most, each of them legal; `legal` is empty when nothing is."""

    low: int
    want: int
    high: int
    legal: Sequence[int]


def legal(rule: SizeRule, size: int) -> bool:
    """Whether so many members satisfy every part of the rule."""
    return 1 <= size <= MOST_MEMBERS and not any(_broken(rule, size))


def legal_sizes(rule: SizeRule, low: int, high: int) -> Sequence[int]:
    """All legal sizes from low to high, smallest first; costs no more than a few comparisons."""
    low, high = max(low, 1), min(high, MOST_MEMBERS)
    listed = _listed(rule)
    if listed is not None:
        return _between(listed, low, high)
    step = max(rule.multiple, 1)
    least = max(low, _least_for_memory(rule))
    return range(-(-least // step) * step, high + 1, step)


def largest_legal(rule: SizeRule, low: int, high: int) -> int | None:
    """The largest legal size from low to high."""
    found = legal_sizes(rule, low, high)
    return found[-1] if found else None


def next_legal(rule: SizeRule, above: int, high: int = MOST_MEMBERS) -> int | None:
    """The smallest legal size that is larger than `above` and at most `high`."""
    found = legal_sizes(rule, above + 1, high)
    return found[0] if found else None


def nearest(rule: SizeRule, size: int, low: int = 1, high: int = MOST_MEMBERS) -> tuple[int | None, int | None]:
    """The legal sizes next to a size, below and above it, inside the bounds."""
    return largest_legal(rule, low, min(size - 1, high)), next_legal(rule, max(size, low - 1), high)


def why_not(rule: SizeRule, size: int) -> str:
    """Why a size is not legal and which sizes near it are; empty when it is."""
    if legal(rule, size):
        return ""
    if size < 1:
        broken = f"{size} is no number of members"
    elif size > MOST_MEMBERS:
        broken = f"{size:,} is more than {MOST_MEMBERS:,} members"
    else:
        broken = "; ".join(filter(None, _broken(rule, size)))
    return f"{broken}; {describe_nearest(*nearest(rule, size))}"


def describe_nearest(below: int | None, above: int | None) -> str:
    """A pair of neighbouring legal sizes in words."""
    known = [f"{size:,}" for size in (below, above) if size is not None]
    if not known:
        return "no size is legal"
    return "nearest legal sizes are " + " and ".join(known) if len(known) > 1 else f"nearest legal size is {known[0]}"


def role_rule(role: Role) -> SizeRule:
    """The role's rule; where members come in segments, a size is also a multiple of the segment."""
    if role.segment is None or role.segment.members <= 1:
        return role.rule
    return msgspec.structs.replace(role.rule, multiple=lcm(max(role.rule.multiple, 1), role.segment.members))


def role_sizes(role: Role, shape: int = 0, told: tuple[int, ...] = ()) -> Sizes:
    """Least, wanted and most members of a role on a shape, all legal; `told` are the sizes the job says it can have."""
    low, want, high = asked_sizes(role, shape)
    found = legal_sizes(role_rule(role), low, high)
    if told:
        found = tuple(size for size in sorted(set(told)) if size in found)
    if not found:
        return Sizes(0, 0, 0, ())
    up_to_want = _between(found, low, want)
    return Sizes(found[0], up_to_want[-1] if up_to_want else found[0], found[-1], found)


def job_sizes(job: Job, role: int, shape: int = 0) -> Sizes:
    """The sizes of a gang's role now: what its job reports as legal narrows the role that sets the pace."""
    reported = job.life.progress.legal_sizes if job.life.progress else ()
    paces = bool(reported) and leading_role(job.gang) == role
    found = role_sizes(job.gang.roles[role], shape, reported if paces else ())
    return msgspec.structs.replace(found, low=0) if is_optional(job.gang, role, shape) else found


def is_optional(gang: Gang, role: int, shape: int = 0) -> bool:
    """Whether a gang may start without any member of a role, because there are others and nobody waits for these."""
    asked = gang.roles[role]
    return len(gang.roles) > 1 and asked.coupling is Coupling.LOOSE and not asked_sizes(asked, shape)[0]


def marginal(speed: Speed, size: int, next_size: int) -> int:
    """What each added (or removed) member is worth between two sizes, in thousandths of one member's speed."""
    if size == next_size:
        return 0
    return (rate(speed, next_size) - rate(speed, size)) // (next_size - size)


def _broken(rule: SizeRule, size: int) -> Iterable[str]:
    """One sentence for each part of the rule that a positive size breaks."""
    if rule.multiple > 1 and size % rule.multiple:
        yield f"tensor x pipeline groups of {rule.multiple:,}: {size:,} is not a multiple of {rule.multiple:,}"
    if rule.power_of_two and size & (size - 1):
        yield f"{size:,} is not a power of two"
    if rule.sizes and size not in rule.sizes:
        yield f"{size:,} is not one of the listed sizes ({_some(rule.sizes)})"
    if size * rule.member_bytes < rule.state_bytes:
        yield _too_little_memory(rule, size)
    if rule.batch > MOST_AMOUNT:
        yield f"a global batch of {rule.batch:,} is larger than can be counted"
    elif rule.batch > 0 and rule.batch % size:
        yield f"a global batch of {rule.batch:,} does not divide evenly over {size:,} members"


def _too_little_memory(rule: SizeRule, size: int) -> str:
    state, each, held = _bytes(rule.state_bytes), _bytes(rule.member_bytes), _bytes(size * rule.member_bytes)
    if rule.member_bytes <= 0:
        return f"the sharded state of {state} fits nowhere, because no memory per member is given"
    least = _least_for_memory(rule)
    return f"the sharded state of {state} needs at least {least:,} members of {each}, and {size:,} hold {held}"


def _least_for_memory(rule: SizeRule) -> int:
    if rule.state_bytes <= 0:
        return 1
    return -(-rule.state_bytes // rule.member_bytes) if rule.member_bytes > 0 else MOST_MEMBERS + 1


@lru_cache(maxsize=1024)
def _listed(rule: SizeRule) -> tuple[int, ...] | None:
    """All legal sizes where they are few; None where they are an arithmetic series."""
    if rule.sizes:
        few: Iterable[int] = sorted(set(rule.sizes))
    elif rule.power_of_two:
        few = POWERS
    elif rule.batch > 0:
        few = _divisors(rule.batch) if rule.batch <= MOST_AMOUNT else ()
    else:
        return None
    return tuple(size for size in few if legal(rule, size))


def _divisors(number: int) -> list[int]:
    """The divisors up to the largest number of members, in order."""
    import numpy as np  # noqa: PLC0415 - whoever only asks for plain rules starts without it

    small = np.arange(1, min(isqrt(number), MOST_MEMBERS) + 1)
    lower = [int(divisor) for divisor in small[number % small == 0]]
    return sorted({divisor for low in lower for divisor in (low, number // low) if divisor <= MOST_MEMBERS})


def _between(found: Sequence[int], low: int, high: int) -> Sequence[int]:
    return found[bisect_left(found, low) : bisect_left(found, high + 1)]


def _some(sizes: tuple[int, ...]) -> str:
    ordered = sorted(set(sizes))
    shown = ", ".join(f"{size:,}" for size in ordered[:SHOWN])
    return shown if len(ordered) <= SHOWN else f"{shown} and {len(ordered) - SHOWN} more"


def _bytes(amount: int) -> str:
    """An amount of memory in the largest decimal unit that leaves at least one whole."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= size:
            tenths = amount * 10 // size
            return f"{tenths // 10} {unit}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10} {unit}"
    return f"{amount} bytes"
