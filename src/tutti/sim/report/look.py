"""How the pictures look: one set of colours and words for the page and for the images."""

POLICY_COLOURS = ("#2a6f97", "#e07a5f", "#3d9970", "#8e6c8a", "#c9a227", "#5f6c7b", "#b5536b", "#4a4e9a")
LEDGER = {
    "useful-kept": ("useful", "#3d9970"),
    "useful-later-lost": ("useful, later lost", "#b5536b"),
    "start-up": ("start-up", "#c9a227"),
    "held-starting": ("held while starting", "#e3c565"),
    "snapshot-stall": ("snapshots", "#8e6c8a"),
    "resize": ("changing size", "#a58fc0"),
    "degraded": ("broken gang holds on", "#e07a5f"),
    "reserved-idle": ("idle, kept for a promise", "#7fb3d5"),
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
MANY_HOURS = 240
"""What lasts longer is shown in days."""
INK, QUIET, GRID = "#22303c", "#6b7783", "#e6e9ec"


def policy_colour(at: int) -> str:
    """The colour of the policy in this place."""
    return POLICY_COLOURS[at % len(POLICY_COLOURS)]


def bar_colour(row: int) -> str:
    """The colour of a job's bars."""
    return BAR_COLOURS[row * 7 % len(BAR_COLOURS)]
