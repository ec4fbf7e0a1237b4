"""The order of the samples: a pure function of seed and epoch.

Position i of an epoch maps to one index of the dataset by a keyed permutation (a Feistel network over a grid just
larger than the dataset, walked until it lands inside). Nothing is materialised, any position can be asked for alone,
and no number of members appears in it.

The arithmetic works on single numbers and on integer arrays alike, and never leaves 63 bits (32 where that is enough).
"""

from __future__ import annotations

import math
from typing import Any

ROUNDS = 6
MASK = 0xFFFFFFFF


def keys(seed: int, epoch: int) -> list[int]:
    """Round keys; neighbouring seeds and epochs have nothing in common."""
    state = (seed * 0x9E3779B97F4A7C15 + epoch * 0xD1B54A32D192ED03 + 0x2545F4914F6CDD1D) & 0xFFFFFFFFFFFFFFFF
    result = []
    for _ in range(ROUNDS):
        state = (state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        result.append((mixed ^ (mixed >> 31)) & MASK)
    return result


def index_at(position: int, length: int, seed: int, epoch: int) -> int:
    """The dataset index at one position of an epoch."""
    if not 0 <= position < length:
        raise IndexError(f"position {position} is outside an epoch of {length} samples")
    table, width, height = keys(seed, epoch), *grid(length)
    found = _shuffle(position, table, width, height)
    while found >= length:
        found = _shuffle(found, table, width, height)
    return int(found)


def indices_at(positions: Any, length: int, seed: int, epoch: int) -> Any:
    """The dataset indices at an integer array (or tensor) of positions."""
    table, width, height = keys(seed, epoch), *grid(length)
    found = _shuffle(positions, table, width, height)
    outside = found >= length
    while outside.any():
        found[outside] = _shuffle(found[outside], table, width, height)
        outside = found >= length
    return found


def grid(length: int) -> tuple[int, int]:
    """The smallest nearly square grid with a cell for every sample."""
    width = max(1, math.isqrt(max(0, length - 1)) + 1)
    return width, max(1, -(-length // width))


# What follows changes arrays in place where it may, and never leaves the width of their integers: arrays of 32 bits are
# worked out in half the time, and are enough for `fits_32` samples.


def fits_32(length: int) -> bool:
    return length < 1 << 30


def _shuffle(value: Any, table: list[int], width: int, height: int) -> Any:
    right = value // width
    left = value - right * width
    for number, key in enumerate(table):
        if number % 2 == 0:
            left = _turn(left, _mix(right, key), width)
        else:
            right = _turn(right, _mix(left, key), height)
    right *= width
    right += left
    return right


def _turn(value: Any, by: Any, size: int) -> Any:
    by -= by // size * size
    value += by
    value -= value // size * size
    return value


def _mix(value: Any, key: int) -> Any:
    # The multipliers have 31 bits, so that a 32-bit value times one of them stays a positive 63-bit integer.
    value = value ^ key
    value *= 0x45D9F3B5
    value &= MASK
    value ^= value >> 15
    value *= 0x2C1B3C6D
    value &= MASK
    value ^= value >> 13
    return value
