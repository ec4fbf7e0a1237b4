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


ONE_STEP = POWERS[1]
"""What is left of one after a step."""


def decayed(amount: int, steps: int) -> int:
    """What is left of an amount after so many steps."""
    if steps < STEPS:
        return amount * POWERS[steps] // ONE
    halves, part = divmod(steps, STEPS)
    return (amount >> min(halves, 200)) * POWERS[part] // ONE


def steps_between(begin: int, now: int, half_life: int) -> int:
    """How many whole steps of forgetting lie between two moments, counted from the beginning of time."""
    step = half_life // STEPS if half_life >= STEPS else 1
    steps = now // step - begin // step
    return max(steps, 0)


def next_step(now: int, half_life: int) -> int:
    """When something is next forgotten."""
    step = half_life // STEPS if half_life >= STEPS else 1
    return now - now % step + step


def remembered(begin: int, until: int, half_life: int) -> int:
    """How much of the time between two moments still counts at the second, after forgetting step by step."""
    steps = steps_between(begin, until, half_life)
    if not steps:
        return until - begin
    step = half_life // STEPS if half_life >= STEPS else 1
    all_of_them = decayed(ONE, steps)
    # Whole slices between the first and the last step: one + one^2 + ... , a geometric series.
    between = (ONE_STEP - all_of_them) * step // (ONE - ONE_STEP)
    return (step - begin % step) * all_of_them // ONE + between + until % step
