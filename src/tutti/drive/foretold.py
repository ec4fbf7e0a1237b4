"""A forecast for people and for machines."""

from typing import Any

from tutti.engine.model import NEVER, SECOND
from tutti.views.moments import clock

from .forecasts import Forecast


def forecast_text(told: Forecast | None, now: int) -> str:
    """A forecast as a sentence: a range with odds, and what it rests on."""
    if told is None:
        return ""
    if not told.is_promise:
        return f"not within {told.horizon // (3600 * SECOND)} h in most simulated futures; {told.assuming}"
    odds = round(told.odds_ppm / 100_000)
    last = clock(told.p90, now) if told.p90 < NEVER else "never"
    span = f"about {clock(told.p50, now)}" if told.p10 == told.p90 else f"between {clock(told.p10, now)} and {last}"
    return f"{span} in {min(odds, 9)} of 10 simulated futures, {told.assuming}"


def forecast_json(told: Forecast | None) -> dict[str, Any]:
    """A forecast for machines; moments beyond the horizon are left out."""
    if told is None:
        return {}
    found = {key: getattr(told, key) for key in ("p5", "p10", "p50", "p90", "p95")}
    known = {f"{key}_us": value for key, value in found.items() if value < NEVER}
    return {**known, "odds": told.odds_ppm / 1e6, "draws": told.draws, "assuming": told.assuming}
