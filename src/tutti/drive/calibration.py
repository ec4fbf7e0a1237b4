"""How true were the forecasts? Each is kept with what came of it."""

from collections.abc import Sequence
from statistics import median_low

from tutti.engine import events as ev
from tutti.engine.model import DAY, HOUR, MINUTE, NEVER, Data
from tutti.engine.world import Touched

from .forecasts import RANGE, UNSTRETCHED, Forecast

KEEP = 10_000
LATEST = 200
ENOUGH = 20
"""Starts from which forecasts are corrected by how they came out."""
LEAST, MOST = 50, 20_000
HORIZONS = ((10 * MINUTE, "under 10 min"), (HOUR, "10 min to 1 h"), (6 * HOUR, "1 to 6 h"), (DAY, "6 to 24 h"))
LATER = "over 24 h"


class Outcome(Data, frozen=True):
    """A forecast and when the gang really started."""

    forecast: Forecast
    started: int


class Accuracy(Data, frozen=True):
    """How good the forecasts of one range were."""

    horizon: str
    forecasts: int
    covered_ppm: int
    """How many of a million real starts lay inside the outer (90 %) range."""
    median_error: int
    """Middle distance between forecast and start, in microseconds."""


class ForecastBook:
    """Forecasts not yet decided, and those that are, the latest few thousand."""

    def __init__(self, keep: int = KEEP) -> None:
        self.open: dict[str, list[Forecast]] = {}
        self.outcomes: list[Outcome] = []
        self.unpromised = 0
        """Forecasts without a number whose gang then started."""
        self._keep = keep

    def made(self, forecasts: Sequence[Forecast]) -> None:
        """Remember forecasts until their gangs start."""
        for forecast in forecasts:
            self.open.setdefault(forecast.gang, []).append(forecast)

    def watch(self, event: ev.Event, touched: Touched) -> None:
        """Listen to a driver's events: starts decide forecasts, gangs that end before they start void them."""
        if touched.note:
            return
        if isinstance(event, ev.Starting):
            self.started(event.gang, event.at)
        elif isinstance(event, ev.Ended | ev.Held | ev.Changed):
            name = event.gang if isinstance(event.gang, str) else event.gang.name
            self.open.pop(name, None)

    def started(self, name: str, at: int) -> None:
        """A gang started: every forecast made of it is decided."""
        for forecast in self.open.pop(name, ()):
            if forecast.is_promise:
                self.outcomes.append(Outcome(forecast, at))
            else:
                self.unpromised += 1
        del self.outcomes[: -self._keep]

    def stretch(self) -> tuple[int, ...]:
        """How much further than drawn each moment of a range should lie, judged by the latest starts, in thousandths.

        Gangs that were submitted later, and users who are wrong together, are in no drawn future, but they are in the
        outcomes.
        """
        latest = self.outcomes[-LATEST:]
        if len(latest) < ENOUGH:
            return UNSTRETCHED
        return tuple(_stretch(latest, place, percent) for place, percent in enumerate(RANGE))

    def accuracy(self) -> list[Accuracy]:
        """All forecasts together, then by how far ahead they looked."""
        names = [name for _, name in HORIZONS] + [LATER]
        parts = {name: [o for o in self.outcomes if _horizon(o.forecast) == name] for name in names}
        found = [_accuracy("all", self.outcomes)] if self.outcomes else []
        return found + [_accuracy(name, part) for name, part in parts.items() if part]


def _stretch(outcomes: Sequence[Outcome], place: int, percent: int) -> int:
    """What the drawn moments must be multiplied with for so many of a hundred starts to come before them."""
    ratios = []
    for outcome in outcomes:
        made = outcome.forecast.made
        drawn = outcome.forecast.drawn[place] if outcome.forecast.drawn else NEVER
        if drawn < NEVER:
            ratios.append(max(outcome.started - made, 0) * 1000 // max(drawn - made, MINUTE))
    if len(ratios) < ENOUGH:
        return 1000
    # One rank to the outside: the next start is not among those that were ranked.
    rank = len(ratios) * percent // 100 + (1 if percent > 50 else -1 if percent < 50 else 0)
    return min(max(sorted(ratios)[min(max(rank, 0), len(ratios) - 1)], LEAST), MOST)


def _horizon(forecast: Forecast) -> str:
    ahead = forecast.p50 - forecast.made
    return next((name for most, name in HORIZONS if ahead < most), LATER)


def _accuracy(name: str, outcomes: Sequence[Outcome]) -> Accuracy:
    inside = sum(1 for o in outcomes if o.forecast.p5 <= o.started and (o.started <= o.forecast.p95 or _is_open(o)))
    errors = [abs(o.started - o.forecast.p50) for o in outcomes]
    return Accuracy(name, len(outcomes), inside * 1_000_000 // len(outcomes), median_low(errors))


def _is_open(outcome: Outcome) -> bool:
    return outcome.forecast.p95 >= NEVER
