"""What the loop asks of a world: to list itself, to tell what happens, to carry out one action, to keep time."""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from tutti.engine.events import Event
from tutti.engine.model import Data, Gang, Listing, Resizing
from tutti.engine.plan import AnyAction


class Capabilities(Data, frozen=True):
    """What a backend can do. What it cannot is taken out of a gang's own abilities when the gang is submitted."""

    bind: bool = True
    """Puts members on nodes itself."""
    gate: bool = False
    """Chooses nodes, and lets somebody else bind."""
    live_resize: bool = True
    restart_resize: bool = True
    choose_device: bool = False
    park: bool = True
    """Can take a gang off its seats and keep its state."""
    enforce_limit: bool = False
    """Ends a gang that runs past its limit."""

    def limited(self, gang: Gang) -> Gang:
        """The gang as this backend can run it: nothing is planned for it that cannot be carried out."""
        resizing = gang.resizing
        if resizing is Resizing.NONE and not gang.parkable:
            return gang
        if resizing is Resizing.LIVE and not self.live_resize:
            resizing = Resizing.RESTART
        if resizing is Resizing.RESTART and not self.restart_resize:
            resizing = Resizing.NONE
        parkable = gang.parkable and self.park
        if (resizing, parkable) == (gang.resizing, gang.parkable):
            return gang
        return msgspec.structs.replace(gang, resizing=resizing, parkable=parkable)


EVERYTHING = Capabilities()


class Accepted(Data, frozen=True):
    """The action is under way; what becomes of it arrives as events."""


class Refused(Data, frozen=True):
    """The action was not begun, and nothing of it is left."""

    why: str
    not_before: int = 0
    """When it may be tried again; 0 lets the loop choose, waiting longer each time. A gang that was told to leave and
    never will (NEVER) runs on."""


class Backend(Protocol):
    """The world a plan is carried out in."""

    @property
    def can(self) -> Capabilities:
        """What this backend is able to do; fixed while it lives."""

    async def listing(self) -> Listing:
        """The full truth, for the start and when in doubt."""

    def events(self) -> AsyncIterator[Event]:
        """Changes since the last listing, and the outcomes of actions, in the order they happened."""

    async def apply(self, action: AnyAction, key: str) -> Accepted | Refused:
        """Begin one action and return at once. The same key a second time changes nothing and answers the same."""


class Clock(Protocol):
    """The only thing that sleeps. A simulated one jumps."""

    def now(self) -> int:
        """The present moment in microseconds."""

    async def sleep_until(self, moment: int) -> None:
        """Return when the moment has come, at once if it has passed."""
