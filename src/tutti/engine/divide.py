"""How an amount is divided: whole units, by weight, up to a roof, guarantees first. Nothing is handed out twice."""

import heapq
from collections.abc import Sequence
from math import lcm


def divide(amount: int, weights: Sequence[int], roofs: Sequence[int]) -> list[int]:
    """Hand out whole units one by one, each to whoever then has the least per weight; the first of equals wins.

    Nobody gets more than their roof. Whoever weighs nothing gets only what the others leave, in equal parts.
    """
    given = _pour(amount, weights, roofs)
    left = amount - sum(given)
    if left > 0 and min(weights, default=1) <= 0:
        rest = _pour(left, [int(weight <= 0) for weight in weights], roofs)
        given = [first + second for first, second in zip(given, rest, strict=True)]
    return given


def _pour(amount: int, weights: Sequence[int], roofs: Sequence[int]) -> list[int]:
    given = [0] * len(weights)
    thirsty = [i for i, weight in enumerate(weights) if weight > 0 and roofs[i] > 0]
    while thirsty:
        total = sum(weights[i] for i in thirsty)
        full = [i for i in thirsty if roofs[i] * total <= weights[i] * amount]
        if not full:
            break
        for i in full:
            given[i] = roofs[i]
            amount -= roofs[i]
        thirsty = [i for i in thirsty if not given[i]]
    if thirsty and amount > 0:
        _level(amount, weights, roofs, thirsty, given)
    return given


def _level(amount: int, weights: Sequence[int], roofs: Sequence[int], thirsty: list[int], given: list[int]) -> None:
    """Fill those whose roof is above the water line: whole parts at once, then the few units that remain."""
    total = sum(weights[i] for i in thirsty)
    for i in thirsty:
        given[i] = amount * weights[i] // total
    left = amount - sum(given[i] for i in thirsty)
    scale = lcm(*(weights[i] for i in thirsty))
    line = [((given[i] + 1) * (scale // weights[i]), i) for i in thirsty if given[i] < roofs[i]]
    heapq.heapify(line)
    while left and line:
        _, i = line[0]
        given[i] += 1
        left -= 1
        if given[i] < roofs[i]:
            heapq.heapreplace(line, ((given[i] + 1) * (scale // weights[i]), i))
        else:
            heapq.heappop(line)


def parted(amount: int, needs: Sequence[int], weights: Sequence[int], roofs: Sequence[int]) -> list[int]:
    """Guarantees first, scaled down where they exceed the amount; then the rest by weight, up to each roof."""
    sure = divide(amount, needs, needs)
    left = amount - sum(sure)
    if left <= 0:
        return sure
    more = divide(left, weights, [roof - first for roof, first in zip(roofs, sure, strict=True)])
    return [first + second for first, second in zip(sure, more, strict=True)]
