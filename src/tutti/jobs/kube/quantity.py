"""Amounts as Kubernetes writes them, as whole numbers: 500m, 2, 1.5Gi, 4e3. Always rounded up, as Kubernetes does."""

from fractions import Fraction
from functools import lru_cache

from tutti.jobs.lazy import pattern

SUFFIX = {
    **{letter: Fraction(1000) ** power for power, letter in enumerate(["", "k", "M", "G", "T", "P", "E"])},
    **{f"{letter}i": Fraction(1024) ** (power + 1) for power, letter in enumerate("KMGTPE")},
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
}
WRITTEN = pattern(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)")


class BadQuantity(ValueError):
    """Not an amount."""


@lru_cache(4096)
def quantity(written: str | float, per_unit: int = 1) -> int:
    """The amount in units of 1/per_unit, rounded up."""
    found = WRITTEN.fullmatch(str(written).strip())
    if found is None:
        raise BadQuantity(f"{written!r} is not a quantity")
    number = Fraction(found[1] + found[2]) if found[2] else Fraction(found[1]) * SUFFIX[found[3] or ""]
    scaled = number * per_unit
    return -((-scaled.numerator) // scaled.denominator)


def amount(resource: str, written: str | float) -> int:
    """The amount of a resource in the engine's unit: thousandths of a processor, bytes, whole devices."""
    return quantity(written, 1000 if resource == "cpu" else 1)
