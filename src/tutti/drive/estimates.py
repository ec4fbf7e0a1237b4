"""How long will it run? Learnt from earlier runs of the same user, command and size.

The middle estimate is the mean of the last two runs, which is hard to beat (Tsafrir, Etsion and Feitelson, 2007); the
cautious one is a quantile of the last runs. Everything is integer arithmetic and bounded, so that the same history
gives the same estimates everywhere.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tutti.engine.estimate import sizes
from tutti.engine.model import NEVER, SECOND, Data, Estimate, Gang, Source

KEEP_RUNS = 20
KEEP_KEYS = 20_000
KEEP_ERRORS = 500
ENOUGH_ERRORS = 20
"""Past errors of one kind of estimate from which they are drawn instead of assumed."""
ENOUGH = 5
"""Runs from which a quantile means something; with fewer, the longest run is doubled."""

Key: TypeAlias = tuple[str, ...]
FILLED = frozenset({Source.DECLARED, Source.HISTORY, Source.NONE})
"""Estimates that history may complete."""
STEM = re.compile(r"(?:[-_.](?:\d+|(?=[0-9a-f]*\d)[0-9a-f]{5,}))+$")


def stem(gang: Gang) -> str:
    """The gang's name without the number or hash at its end: what stays the same from run to run."""
    return STEM.sub("", gang.name) or gang.name


class Errors:
    """How wrong estimates were: run time over estimate, in thousandths, by source."""

    def __init__(self) -> None:
        self._ratios: dict[Source, list[int]] = {}

    def learn(self, estimate: Estimate, ran: int) -> None:
        """A gang with this estimate ran so long."""
        guess = estimate.at(50)
        if 0 < guess < NEVER and ran > 0:
            ratios = self._ratios.setdefault(estimate.source, [])
            ratios.append(min(ran * 1000 // guess, 1_000_000))
            del ratios[:-KEEP_ERRORS]

    def lengths(self, estimate: Estimate) -> list[int]:
        """Run times a gang with this estimate would have had with each error of the past; few errors are none."""
        ratios = self._ratios.get(estimate.source, [])
        guess = estimate.at(50)
        if len(ratios) < ENOUGH_ERRORS or guess >= NEVER:
            return []
        return [max(min(guess * ratio // 1000, estimate.limit), SECOND) for ratio in ratios]

    def dump(self) -> dict[str, list[int]]:
        """As plain data."""
        return {source.value: list(ratios) for source, ratios in sorted(self._ratios.items())}

    @classmethod
    def recalled(cls, data: dict[str, list[int]]) -> "Errors":
        """From stored data."""
        errors = cls()
        errors._ratios = {Source(source): list(ratios) for source, ratios in data.items()}
        return errors


class Runs(Data, frozen=True):
    """The last runs under one key, oldest first, in microseconds at the wanted size."""

    key: Key
    lengths: tuple[int, ...]


class Memory(Data, frozen=True):
    """A history as plain data, to be stored."""

    runs: tuple[Runs, ...] = ()
    errors: dict[str, list[int]] = {}


class History:
    """Run times by user, command and size; where that is unknown by user and size, then by user."""

    def __init__(self, command: Callable[[Gang], str] = stem) -> None:
        self._command = command
        self.errors = Errors()
        """How wrong estimates were; forecasts draw from it."""
        self._runs: OrderedDict[Key, tuple[int, ...]] = OrderedDict()

    def learn(self, gang: Gang, ran: int) -> bool:
        """Take in a run. True while little is known of this kind, so that those who wait deserve a new estimate."""
        if ran <= 0:
            return False
        self.errors.learn(gang.estimate, ran)
        keys = self.keys(gang)
        for key in keys:
            before = self._runs.pop(key, ())
            self._runs[key] = (*before, ran)[-KEEP_RUNS:]
        while len(self._runs) > KEEP_KEYS:
            self._runs.popitem(last=False)
        return len(self._runs[keys[0]]) <= 2

    def estimate(self, gang: Gang) -> Estimate:
        """The gang's estimate, completed from history.

        A declared limit stays the limit, and nothing is estimated above it. Quantiles that were declared stay too.
        The source says where the quantiles come from.
        """
        told = gang.estimate
        if told.source not in FILLED or (told.source is Source.DECLARED and (told.p50 or told.p90)):
            return told
        limit = NEVER if told.source is Source.NONE else told.limit
        runs = self._best(gang)
        if not runs:
            return Estimate(limit, source=Source.DECLARED) if limit < NEVER else Estimate()
        p50, p90 = quantiles(runs)
        return Estimate(limit, min(p50, limit), min(p90, limit), Source.HISTORY)

    def alike(self, one: Gang, other: Gang) -> bool:
        """Whether the two are runs of the same thing."""
        return one.user == other.user and self.keys(one)[0] == self.keys(other)[0]

    def keys(self, gang: Gang) -> tuple[Key, Key, Key]:
        """Where runs of this gang are kept, the most telling place first."""
        size = str(sum(sizes(role)[1] for role in gang.roles))
        return (gang.user, self._command(gang), size), (gang.user, size), (gang.user,)

    def memory(self) -> Memory:
        """All of it as plain data; `recalled` gives the same estimates again."""
        return Memory(tuple(Runs(key, lengths) for key, lengths in self._runs.items()), self.errors.dump())

    @classmethod
    def recalled(cls, memory: Memory, command: Callable[[Gang], str] = stem) -> "History":
        """A history from stored data."""
        history = cls(command)
        history.errors = Errors.recalled(memory.errors)
        history._runs.update((runs.key, runs.lengths) for runs in memory.runs)
        return history

    def dump(self) -> bytes:
        """The history in bytes, for a file or a ConfigMap."""
        return msgspec.json.encode(self.memory())

    def _best(self, gang: Gang) -> tuple[int, ...]:
        known = self.keys(gang) if gang.user else self.keys(gang)[:2]
        return next((runs for key in known if (runs := self._runs.get(key))), ())


def quantiles(runs: tuple[int, ...]) -> tuple[int, int]:
    """What half of the runs, and nine in ten, are expected to stay under."""
    last = runs[-2:]
    p50 = sum(last) // len(last)
    if len(runs) < ENOUGH:
        return p50, 2 * max(runs)
    ranked = sorted(runs)
    return p50, max(p50, ranked[-(-9 * len(ranked) // 10) - 1])
