"""How the pictures look: one set of colours, words and units for the page and for the images."""

from typing import NamedTuple

POLICY_COLOURS = ("#2a6f97", "#e07a5f", "#3d9970", "#8e6c8a", "#c9a227", "#5f6c7b", "#b5536b", "#4a4e9a")
LEDGER = {
    "useful-kept": ("useful", "#3d9970"),
    "useful-later-lost": ("useful, later lost", "#b5536b"),
    "start-up": ("start-up", "#c9a227"),
    "held-starting": ("held while starting", "#e3c565"),
    "snapshot-stall": ("snapshots", "#8e6c8a"),
    "resize": ("changing size", "#a58fc0"),
    "degraded": ("broken gang holds on", "#e07a5f"),
    "reserved-idle": ("idle, kept for a promise or as a spare", "#7fb3d5"),
    "fragmented-idle": ("idle, nobody who waits fits", "#4f81a8"),
    "quota-idle": ("idle by quota", "#35566f"),
    "no-demand": ("idle, nobody waits", "#e4e7ea"),
    "broken": ("broken nodes", "#4a4a4a"),
    "foreign": ("used by others", "#9a9a9a"),
    "unknown": ("unknown", "#cccccc"),
}
"""Categories of the ledger in the order of their areas, from the bottom up."""
BAR_COLOURS = (
    "#2a6f97",
    "#61a5c2",
    "#e07a5f",
    "#f2b880",
    "#3d9970",
    "#95c8a8",
    "#8e6c8a",
    "#c5a3c1",
    "#c9a227",
    "#e3d08a",
    "#b5536b",
    "#d99bab",
)
FEW_HOURS, MANY_HOURS = 3, 240
"""What lasts no longer is shown in minutes, what lasts longer in days."""
SECOND, MINUTE, DAY = 1 / 3600, 1 / 60, 24
MARKS = (
    (SECOND, "1 s"),
    (10 * SECOND, "10 s"),
    (MINUTE, "1 min"),
    (10 * MINUTE, "10 min"),
    (1, "1 h"),
    (6, "6 h"),
    (DAY, "1 d"),
    (7 * DAY, "1 week"),
    (30 * DAY, "1 month"),
    (365 * DAY, "1 year"),
)
"""Where an axis that reaches from seconds to months has its marks, in hours."""
FAR_APART = 20
"""Times are shown by proportions where the longest is so many times the shortest."""
INK, QUIET, GRID = "#22303c", "#6b7783", "#e6e9ec"


def policy_colour(at: int) -> str:
    """The colour of the policy in this place."""
    return POLICY_COLOURS[at % len(POLICY_COLOURS)]


def bar_colour(row: int) -> str:
    """The colour of a job's bars."""
    return BAR_COLOURS[row * 7 % len(BAR_COLOURS)]


def is_dark(colour: str) -> bool:
    """Whether white letters can be read on it."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 299 * red + 587 * green + 114 * blue < 150_000


class Unit(NamedTuple):
    """What times are shown in: its name, and how many hours it has."""

    name: str
    hours: float


def unit_of(hours: float, since: float = 0.0) -> Unit:
    """The unit in which so many hours are read most easily, where they begin so many hours after the first."""
    if hours <= FEW_HOURS:
        return Unit("minutes", MINUTE)
    is_long = hours >= MANY_HOURS or (hours >= DAY and since >= MANY_HOURS)
    return Unit("days", DAY) if is_long else Unit("hours", 1)


def marks(low: float, high: float) -> tuple[list[float], list[str]]:
    """The marks of an axis of proportions from time to time, and their names; none where the two are too close."""
    if high < FAR_APART * low:
        return [], []
    shown = [(at, name) for at, name in MARKS if 0.8 * low <= at <= 1.25 * high]
    return [at for at, _ in shown], [name for _, name in shown]
