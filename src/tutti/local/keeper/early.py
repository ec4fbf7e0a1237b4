"""Members that are ready before there is room for them: at the gate, and let go by their keeper or by whoever has their
place until then.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import time
from typing import TYPE_CHECKING

from tutti.local.keeper import records, turn
from tutti.local.keeper.fault import point
from tutti.local.keeper.gate import Gate
from tutti.local.keeper.heir import HEAD_START_S, Waiting
from tutti.local.keeper.locks import Busy
from tutti.local.keeper.member import Member
from tutti.local.keeper.spec import MemberSpec
from tutti.train.agent.watch import started_at

if TYPE_CHECKING:
    from tutti.local.keeper.keeper import Keeper


DEVICES_MS = 100
"""How long devices may be on the way from whoever has let their members go."""


class Early:
    """What a keeper does for members whose turn has not come."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._note = -1
        self._line: Waiting | None = None
        """Where it hears that they were let go from outside."""
        self._held: list[tuple[int, str]] = []
        self.is_waiting = self._were_let_go = self._has_devices = False

    def prepare(self, specs: list[MemberSpec]) -> str:
        """Open what they will need when there is room for them; why that cannot be, or nothing."""
        point("early")
        keeper = self._keeper
        try:
            keeper.locks.take(keeper.spec.ports)
            keeper.locks.look_at([path for path in keeper.paths(specs) if path not in keeper.spec.ports])
            self._note = records.begin_note(keeper.folder)
        except Busy as problem:
            return str(problem)
        except OSError as problem:
            return f"its folder cannot be written: {problem.strerror}"
        self.is_waiting = True
        return ""

    def hold(self, gate: Gate, fresh: list[Member]) -> None:
        """They are at the gate: stopped, so that whoever may can let them go with a signal."""
        if not gate.hold([one.pid for one in fresh]):
            return
        self._held = [(one.pid, started_at(one.pid)) for one in fresh]
        with contextlib.suppress(OSError):
            self._line = Waiting(self._keeper.folder)
            self._keeper.selector.register(self._line, selectors.EVENT_READ, self._inherit)

    @property
    def offered(self) -> list[tuple[int, str]]:
        """Who can be let go from outside: process, and when it began."""
        return self._held if self._line is not None else []

    def _inherit(self) -> None:
        """Their turn has come, and with it the devices."""
        assert self._line is not None
        time.sleep(HEAD_START_S)
        paths, files = self._line.receive()
        if records.begun_at(self._keeper.folder):
            self._keeper.locks.inherit(paths, files)
            self._keeper.has_word = self._has_devices = True
        else:
            for file in files:
                os.close(file)

    def was_let_go(self) -> bool:
        """Whether somebody has let them go; if not, nobody can from now on but their keeper."""
        self._were_let_go = not turn.recall(self._keeper.folder)
        return self._were_let_go

    def _await_devices(self) -> None:
        """Whoever let them go had their devices and sends them after that, unless it was killed."""
        if self._line is not None and self._were_let_go and not self._has_devices:
            look = select.poll()
            look.register(self._line, select.POLLIN)
            if look.poll(DEVICES_MS):
                self._inherit()

    def begin(self, specs: list[MemberSpec], fresh: list[Member]) -> str:
        """There is room for them; why they cannot have it, or nothing."""
        point("word")
        keeper = self._keeper
        self._await_devices()
        let_go_at = records.begun_at(keeper.folder)
        if not let_go_at and any(one.is_outdated() for one in fresh):
            keeper.was_early = True
            return "its program was replaced while it waited"
        if why := keeper.lock(specs):
            return why
        point("locked")
        keeper.began = let_go_at or time.time_ns() // 1000
        try:
            os.write(self._note, b"1")
        except OSError as problem:
            return f"its folder cannot be written: {problem.strerror}"
        point("noted")
        return ""

    def let_go(self, fresh: list[Member]) -> None:
        """They run from now on, if they do not already."""
        if not self.is_waiting:
            return
        point("open")
        for one in fresh if self._held else ():
            if one.code is None:
                one.watch.send(signal.SIGCONT)
        if not self._were_let_go:
            time.sleep(HEAD_START_S)
        self.is_waiting, self._held = False, []
        if self._line is not None:
            self._keeper.selector.unregister(self._line)
            self._line.close()
            self._line = None

    def see_off(self, fresh: list[Member]) -> None:
        """Those who were so quick that they had ended before their keeper knew that they had begun."""
        for one in fresh if self._were_let_go else ():
            if one.code is not None:
                self._keeper.depart(one)
        self._were_let_go = False
