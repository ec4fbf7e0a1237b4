"""Keeps an eye on things: the reasons of the latest plan, devices that others use."""

from collections.abc import Mapping, Sequence

from tutti.engine import events as ev
from tutti.engine.cache import Cache
from tutti.engine.decide import decide
from tutti.engine.model import SECOND
from tutti.engine.plan import Plan, Reason
from tutti.engine.policy import Policy
from tutti.engine.view import View

from .backend import LocalBackend
from .chronicle import Chronicle
from .devices import foreigners, locked_elsewhere
from .fault import now_us, steady_us

REASONS_EVERY = SECOND
MOST_REASONS = 200
"""Waiting gangs whose reason is noted for their story; the others are too far back to be interesting."""


class Watching:
    """The decision that a driver uses, with its answers kept; and what is looked at now and then."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._answers: Mapping[str, Reason] = {}
        self._noted = 0
        self.plans = 0
        self.spent_us = 0
        self.backend: LocalBackend | None = None
        self.chronicle: Chronicle | None = None

    def decide(self, view: View, now: int, policy: Policy, cache: Cache | None = None) -> Plan:
        """The engine's decision; its answers are kept until the next one."""
        self._policy = policy
        begun = steady_us()
        plan = decide(view, now, policy, cache)
        self.plans += 1
        self.spent_us += steady_us() - begun
        self._answers = plan.answers
        return plan

    def decided(self, view: View, now: int) -> Plan:
        """A decision that nobody carries out."""
        return decide(view, now, self._policy)

    def reason(self, name: str) -> Reason | None:
        """Why a gang waits, by the latest plan."""
        return self._answers.get(name)

    def note_reasons(self, names: Sequence[str]) -> None:
        """Add up what gangs wait for, for their stories."""
        now = steady_us()
        length, self._noted = min(now - self._noted, 60 * SECOND) if self._noted else 0, now
        if self.chronicle is None or not length:
            return
        for name in names[:MOST_REASONS]:
            if (reason := self.reason(name)) is not None:
                self.chronicle.waits(name, reason.token.value, length)

    def look_around(self) -> None:
        """Devices that somebody else uses are not ours to give."""
        assert self.backend is not None
        booking = self.backend.booking
        if booking.box.source == "made-up":
            return
        ours = {one.pid for held in self.backend.held.values() if held.run for one in held.run.members.values()}
        found = {**locked_elsewhere(booking.box, booking.owner), **foreigners(booking.box, ours.__contains__)}
        for node in booking.strangers(found):
            self.backend.tell(ev.NodeSeen(now_us(), node))
