"""Which room is lent? What one decision knows of it."""

from .releases import lent
from .view import View


class Loans:
    """Who runs in lent room, who comes to, and whose leaving was counted on."""

    __slots__ = ("borrowers", "cleared", "failed", "stays")

    def __init__(self, view: View) -> None:
        self.borrowers = lent(view)
        """Gangs in lent room that may be asked for it, as it is after everything decided so far."""
        self.stays: dict[str, int] = {}
        """Gangs that this plan puts into lent room, and until when they would stay if nobody asked for it."""
        self.failed: dict[tuple[object, int], int] = {}
        """Requests for lent room that found none: by what was asked and for how long, the fewest members."""
        self.cleared = 0
        """The latest loan that a promise of this plan counts on to be over."""

    def clear(self, view: View) -> int:
        """A promise is given that counts on all borrowers leaving: the latest of their loans, 0 where there is none."""
        latest = max((view.held(slot).life.lent for slot in self.borrowers), default=0)
        self.cleared = max(self.cleared, latest)
        return latest
