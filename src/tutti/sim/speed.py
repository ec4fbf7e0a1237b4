"""How much faster is a gang that has more? Curves by size, in thousandths of one member's speed."""

from collections.abc import Iterable, Mapping

from tutti.engine.model import Speed


def power_law(exponent: float, most: int) -> Speed:
    """Speed grows as size to a power below one: the usual shape of data parallel training."""
    return Speed(tuple((size, round(1000 * size**exponent)) for size in _sampled(most)))


def amdahl(serial: float, most: int) -> Speed:
    """A part of the work cannot be shared, however many there are."""
    return Speed(tuple((size, round(1000 / (serial + (1 - serial) / size))) for size in _sampled(most)))


def measured(rates: Mapping[int, float]) -> Speed:
    """Measured rates by size, relative to the rate of the smallest one."""
    smallest = min(rates)
    unit = rates[smallest] / smallest
    points = [(size, round(1000 * rates[size] / unit)) for size in sorted(rates)]
    return Speed(tuple(_never_falling(points)))


def _never_falling(points: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """More members are never slower: those that would not help are left idle."""
    best, found = 0, []
    for size, rate in points:
        best = max(best, rate)
        found.append((size, best))
    return found


def _sampled(most: int) -> list[int]:
    """Every size up to 16, then steps of an eighth; between them straight lines will do."""
    sizes = list(range(1, min(most, 16) + 1))
    while sizes[-1] < most:
        sizes.append(min(sizes[-1] + max(sizes[-1] // 8, 1), most))
    return sizes
