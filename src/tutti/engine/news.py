"""Which gangs changed since somebody last looked? So that whoever remembers something need not look at all of them."""

from .view import View


class News:
    """Where in the list of touches somebody has read up to."""

    __slots__ = ("_read", "_touches")

    def __init__(self) -> None:
        self._touches: list[int] | None = None
        self._read = 0

    def since(self, view: View) -> set[int] | None:
        """Slots that changed since the last view that was asked about; None where that is not known."""
        known = view.touches is self._touches and self._read <= view.touched
        changed = set(view.touches[self._read : view.touched]) if known else None
        self._touches, self._read = view.touches, view.touched
        return changed
