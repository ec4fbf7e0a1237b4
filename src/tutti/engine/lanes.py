"""How the free amounts of a resource are laid out: a lane is a table of time slots by classes of nodes."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .blocks import Rows
from .tally import Ints, Lane
from .view import View

T = TypeVar("T", bound=np.generic)


def units(view: View) -> tuple[list[int], list[type[np.signedinteger]]]:
    """The unit each resource is counted in, and the smallest integer that holds a node full of them."""
    kinds: list[type[np.signedinteger]] = []
    for unit, most in zip(view.units, view.most, strict=True):
        size = most // max(unit, 1)
        kinds.append(
            np.int8 if size <= 60 else np.int16 if size <= 16_000 else np.int32 if size < 1 << 30 else np.int64
        )
    return [max(unit, 1) for unit in view.units], kinds


def divided(amounts: Lane, units: int) -> Lane:
    """How many times so many units go into each amount."""
    if units <= 1:
        return amounts
    if units >> (8 * amounts.itemsize - 1):
        return np.zeros_like(amounts)
    return amounts // amounts.dtype.type(units)


def distinct(columns: NDArray[np.int32], counts: Ints) -> tuple[Rows, Ints]:
    """Each column once, and the members on each of its nodes."""
    if len(columns) == 1:
        return columns.astype(np.intp), counts
    found = dict(zip(columns.tolist(), counts.tolist(), strict=True))
    return np.fromiter(found, np.intp, len(found)), np.fromiter(found.values(), np.int64, len(found))


def wider(array: NDArray[T], width: int) -> NDArray[T]:
    """The same with more columns, all of them empty."""
    more = width - array.shape[-1]
    if more <= 0:
        return array.copy()
    shape = (*array.shape[:-1], more)
    return np.concatenate([array, np.zeros(shape, array.dtype)], axis=-1)


def taller(array: NDArray[T], height: int) -> NDArray[T]:
    """The same with more rows, all of them empty."""
    return np.concatenate([array, np.zeros((height - len(array), array.shape[1]), array.dtype)])
