"""Amounts as people write them: 80G of memory, half a core, 2:8 workers."""

import re
from fractions import Fraction

from tutti.engine.model import MOST_AMOUNT, MOST_MEMBERS

from .lazy import pattern
from .problems import Misread

NUMBER = pattern(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)")
DECIMAL = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
BINARY = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50}
A_MEMORY = "write bytes or a unit: 512M, 80G, 64GiB"
A_CPU = "write cores: 4, 0.5, or 500m"
WORKERS = pattern(r"([0-9]{1,9})(?:\s*[:-]\s*([0-9]{1,9}))?")


def memory(written: float | str) -> int:
    """Bytes. Decimal units are G, GB; binary ones Gi, GiB."""
    if isinstance(written, int) and not isinstance(written, bool):
        return _counted(written, written, A_MEMORY)
    found = NUMBER.fullmatch(str(written).strip())
    unit = found[2].lower().removesuffix("b") if found else ""
    size = BINARY.get(unit) or DECIMAL.get(unit)
    if not found or not size:
        raise Misread(f"{written!r} is no amount of memory", A_MEMORY)
    return _counted(int(Fraction(found[1]) * size), written, A_MEMORY)


def binary_memory(written: str, default: str = "M") -> int:
    """Bytes the way batch systems count: G is 2^30, and a bare number is in `default` units."""
    found = NUMBER.fullmatch(written.strip())
    unit = found[2].lower().removesuffix("b").removesuffix("i") if found else ""
    size = BINARY.get((unit or default.lower()) + "i") if found and found[2].lower() != "b" else 1
    if not found or not size:
        raise Misread(f"{written!r} is no amount of memory", "write a number and a unit: 4000M, 16G")
    return _counted(int(Fraction(found[1]) * size), written, A_MEMORY)


def cpu(written: float | str) -> int:
    """Thousandths of a core."""
    text = str(written).strip()
    found = NUMBER.fullmatch(text)
    if not found or isinstance(written, bool) or found[2] not in {"", "m"}:
        raise Misread(f"{written!r} is no number of cores", A_CPU)
    milli = Fraction(found[1]) if found[2] else Fraction(found[1]) * 1000
    if milli.denominator != 1:
        raise Misread(f"{written!r} is finer than a thousandth of a core", A_CPU)
    return _counted(int(milli), written, A_CPU)


def count(written: int | str, what: str = "number", least: int = 0, most: int = MOST_MEMBERS) -> int:
    """A whole number between two bounds."""
    text = str(written).strip()
    if isinstance(written, bool) or not re.fullmatch(r"[0-9]{1,15}", text):
        raise Misread(f"{written!r} is no {what}", f"write a whole number from {least:,} to {most:,}")
    number = int(text)
    if not least <= number <= most:
        raise Misread(f"{written!r} is out of bounds", f"write a {what} from {least:,} to {most:,}")
    return number


def workers(written: int | str) -> tuple[int, int]:
    """Least and most members, from `4` or `2:8`."""
    found = WORKERS.fullmatch(str(written).strip())
    if not found or isinstance(written, bool):
        raise Misread(f"{written!r} is no number of workers", "write 4, or 2:8 for two to eight")
    low = int(found[1])
    high = int(found[2]) if found[2] else low
    if high < low:
        raise Misread(f"{written!r} has more workers at least than at most", f"write {high}:{low}")
    if low < 1 or high > MOST_MEMBERS:
        raise Misread(f"{written!r} is out of bounds", f"write 1 to {MOST_MEMBERS:,} workers")
    return low, high


def spelled_memory(amount: int) -> str:
    """Bytes in the largest unit that leaves a whole number."""
    units = {unit: size for unit, size in (BINARY | DECIMAL).items() if size > 1 and amount and amount % size == 0}
    unit = max(units, key=lambda unit: units[unit], default="")
    return f"{amount // units[unit]}{unit[0].upper()}{unit[1:]}" if unit else str(amount)


def _counted(amount: int, written: object, hint: str) -> int:
    if not 0 <= amount <= MOST_AMOUNT:
        raise Misread(f"{written!r} is more than can be counted", hint)
    return amount


def legal_name(text: str) -> str:
    """A name as somebody else's system allows it, as one that is legal here."""
    plain = re.sub(r"[^\w.@+-]+", "-", text).strip("-.")
    return plain if plain and plain[0].isalnum() else f"job-{plain}".rstrip("-")
