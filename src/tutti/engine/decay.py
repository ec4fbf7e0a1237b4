"""How past use is forgotten: by half in every half-life, in whole steps of fixed-point arithmetic.

Floating point would make two machines disagree about who goes first.
"""

from math import isqrt

STEPS = 1024
"""Steps in a half-life; between two steps nothing is forgotten."""
ONE = 1 << 48


def _table() -> tuple[int, ...]:
    # 2 ** (-1 / 1024), by ten square roots of one half, in fixed point.
    root = ONE // 2
    for _ in range(10):
        root = isqrt(root * ONE)
    powers = [ONE]
    for _ in range(STEPS - 1):
        powers.append(powers[-1] * root // ONE)
    return tuple(powers)


POWERS = _table()


def decayed(amount: int, steps: int) -> int:
    """What is left of an amount after so many steps."""
    halves, part = divmod(steps, STEPS)
    return (amount >> min(halves, 200)) * POWERS[part] // ONE


def steps_between(begin: int, now: int, half_life: int) -> int:
    """How many whole steps of forgetting lie between two moments, counted from the beginning of time."""
    step = max(half_life // STEPS, 1)
    return max(now // step - begin // step, 0)
