"""What has been asked of gangs and not yet been answered, so that the same thing is not asked at every step."""

from typing import NamedTuple

from tutti.engine import events as ev
from tutti.engine.model import Life, Seats, State
from tutti.engine.plan import AnyAction, Evict

from .outcome import ENDS, RESIZES, kind

ANSWERS = (ev.Resized, ev.Evicted, ev.Ended, ev.Refused)


class Ask(NamedTuple):
    """One open question: what, the seats before it and while it is open, and until when it stands."""

    what: str
    word: str
    before: tuple[Seats, ...]
    seats: tuple[Seats, ...]
    state: State
    until: int
    refused: bool = False


class Asked:
    """Open questions by gang. One stands until it is answered, its time is up, or the gang has changed meanwhile."""

    def __init__(self) -> None:
        self._open: dict[str, Ask] = {}

    def ask(self, action: AnyAction, before: tuple[Seats, ...], life: Life, until: int) -> None:
        """Note what is asked of a gang whose life now looks like this."""
        self._open[action.gang] = Ask(_what(action), kind(action), before, life.seats, life.state, until)

    def stands(self, action: AnyAction, life: Life, now: int) -> bool:
        """Whether this has been asked already and the answer is still to be waited for."""
        ask = self._open.get(action.gang)
        if ask is None or ask.what != _what(action):
            return False
        return now < ask.until and life.seats is ask.seats and life.state is ask.state

    def is_overdue(self, gang: str, now: int) -> bool:
        """Whether an answer should have come by now."""
        ask = self._open.get(gang)
        return ask is not None and not ask.refused and now >= ask.until

    def word(self, gang: str) -> str:
        """What was last asked of the gang."""
        return self._open[gang].word if gang in self._open else ""

    def before(self, gang: str) -> tuple[Seats, ...]:
        """The gang's seats before it was asked to change them."""
        return self._open[gang].before if gang in self._open else ()

    def heard(self, event: ev.Event) -> None:
        """An event may be the answer."""
        if self._open and isinstance(event, ANSWERS):
            self._open.pop(event.gang, None)

    def refused(self, action: AnyAction, life: Life, until: int) -> None:
        """The answer was no: do not ask again before this moment."""
        self._open[action.gang] = Ask(_what(action), kind(action), life.seats, life.seats, life.state, until, True)


def _what(action: AnyAction) -> str:
    if isinstance(action, Evict):
        return f"evict:{action.how}"
    return "resize" if isinstance(action, RESIZES) else kind(action) if isinstance(action, ENDS) else ""
