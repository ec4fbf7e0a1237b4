"""A linear program, solved as textbooks do: the largest c x with A x <= b and x >= 0, where b is never negative."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TINY = 1e-9
STEPS = 10_000


def largest(c: Floats, a: Floats, b: Floats) -> Floats:
    """The x with the largest c x; one of them where there are several."""
    rows, columns = a.shape
    table = np.zeros((rows + 1, columns + rows + 1))
    table[:rows, :columns], table[:rows, columns:-1], table[:rows, -1] = a, np.eye(rows), b
    table[-1, :columns] = -c
    basis = np.arange(columns, columns + rows)
    for step in range(STEPS):
        entering = _entering(table[-1, :-1], cautious=step > STEPS // 2)
        if entering < 0:
            break
        column = table[:rows, entering]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(column > TINY, table[:rows, -1] / column, np.inf)
        leaving = int(ratios.argmin())
        table[leaving] /= table[leaving, entering]
        others = np.arange(rows + 1) != leaving
        table[others] -= np.outer(table[others, entering], table[leaving])
        basis[leaving] = entering
    found = np.zeros(columns + rows)
    found[basis] = table[:rows, -1]
    return found[:columns]


def _entering(prices: Floats, cautious: bool) -> int:
    """The column that helps most; the first that helps where going round in circles is feared."""
    at = int((prices < -TINY).argmax()) if cautious else int(prices.argmin())
    return at if prices[at] < -TINY else -1
