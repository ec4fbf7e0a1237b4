"""DeepSpeed's elastic batch: the batch size with most legal device counts, and those counts.

The rule is public: candidate batches are the micro-batch sizes (and their least common multiple), each times the
largest highly composite number that keeps it under the limit; a count is legal when it divides batch / micro-batch.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from math import isqrt, lcm
from typing import Any

from tutti.engine.model import Data

PRIMES = (2, 3, 5, 7, 11, 13, 17)
MOST_COMPOSITE = 720_720
MOST_BATCH = 1 << 24
MOST_MICRO = 16


class Block(Data, frozen=True):
    """The elasticity block, its values checked."""

    micro: tuple[int, ...]
    most_batch: int
    least: int
    most: int
    version: str
    prefer_larger: bool
    per_node: int
    model_parallel: int

    @classmethod
    def read(cls, block: dict[str, Any], per_node: int) -> "Block":
        """From keys and values. Raises ValueError with what is wrong."""
        micro = block.get("micro_batch_sizes", [2, 4, 6])
        if (
            not isinstance(micro, list)
            or not micro
            or not all(_whole(size) for size in micro)
            or len(micro) > MOST_MICRO
        ):
            raise ValueError(f"micro_batch_sizes {micro!r} is no list of positive numbers")
        least, most = _positive(block, "min_gpus", 1), _positive(block, "max_gpus", 10_000)
        if most < least:
            raise ValueError(f"max_gpus {most} is less than min_gpus {least}")
        limit = _positive(block, "max_train_batch_size", 2000)
        if limit < max(micro):
            raise ValueError(f"max_train_batch_size {limit} is less than a micro batch of {max(micro)}")
        per = _positive(block, "num_gpus_per_node", per_node or 1)
        parallel = _positive(block, "model_parallel_size", 1)
        if per % parallel:
            raise ValueError(f"num_gpus_per_node {per} is no multiple of model_parallel_size {parallel}")
        larger = block.get("prefer_larger_batch", block.get("prefer_larger_batch_size", True))
        return cls(tuple(micro), limit, least, most, str(block.get("version", 0.1)), larger is not False, per, parallel)


class Counts(Data, frozen=True):
    """The batch that was chosen, and the device counts that divide it."""

    batch: int
    counts: tuple[int, ...]


def legal_counts(block: Block) -> Counts:
    """Which device counts are legal. Version 0.2 counts whole nodes."""
    if not block.version.startswith("0.2"):
        return _best(block.micro, block.most_batch, block.least, block.most, block.prefer_larger)
    replicas = max(block.per_node // block.model_parallel, 1)
    nodes = _best(
        block.micro,
        block.most_batch // replicas,
        max(block.least // block.per_node, 1),
        block.most // block.per_node,
        block.prefer_larger,
    )
    return Counts(nodes.batch * replicas, tuple(count * block.per_node for count in nodes.counts))


def _best(micro: tuple[int, ...], limit: int, least: int, most: int, larger: bool) -> Counts:
    best = Counts(0, ())
    for batch in sorted(set(_candidates(micro, limit))):
        counts = _dividing(batch, micro, least, most)
        better = len(counts) > len(best.counts) or (len(counts) == len(best.counts) and (batch > best.batch) is larger)
        if counts and better:
            best = Counts(batch, counts)
    if not best.counts:
        raise ValueError(f"no batch up to {limit} has a legal count of devices from {least} to {most}")
    return best


def _candidates(micro: tuple[int, ...], limit: int) -> Iterator[int]:
    common = lcm(*micro)
    for base in (*micro, *((common,) if common <= limit else ())):
        if base <= limit:
            composites = _highly_composite()
            yield base * composites[bisect_right(composites, limit // base) - 1]


def _dividing(batch: int, micro: tuple[int, ...], least: int, most: int) -> tuple[int, ...]:
    counts: set[int] = set()
    for size in micro:
        if batch % size == 0:
            counts.update(count for count in _divisors(batch // size) if least <= count <= most)
    return tuple(sorted(counts))


def _divisors(number: int) -> Iterator[int]:
    for small in range(1, isqrt(number) + 1):
        if number % small == 0:
            yield small
            yield number // small


@lru_cache(maxsize=1)
def _highly_composite() -> tuple[int, ...]:
    """Numbers with more divisors than any smaller one."""
    records: list[int] = []
    most = 0
    for number, divisors in sorted(_smooth(1, 1, 0, 20)):
        if divisors > most:
            records.append(number)
            most = divisors
    return tuple(records)


def _smooth(number: int, divisors: int, at: int, power: int) -> Iterator[tuple[int, int]]:
    """Products of the first primes with falling powers: all highly composite numbers are among them."""
    yield number, divisors
    if at == len(PRIMES):
        return
    for exponent in range(1, power + 1):
        number *= PRIMES[at]
        if number > MOST_COMPOSITE:
            return
        yield from _smooth(number, divisors * (exponent + 1), at + 1, exponent)


def _positive(block: dict[str, Any], key: str, otherwise: int) -> int:
    value = block.get(key, otherwise)
    if not _whole(value):
        raise ValueError(f"{key} {value!r} is no positive number")
    return int(value)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_BATCH
