"""Keeping snapshots: when one is due, where it goes, what it costs."""

from __future__ import annotations

import time
from typing import Any

from tutti.train import plain
from tutti.train.agent.bill import SLACK
from tutti.train.agent.interval import every_steps, failure_rate
from tutti.train.agent.slots import Label
from tutti.train.buddy import Buddies
from tutti.train.errors import NoMemory
from tutti.train.member import Member
from tutti.train.patience import BUSY_S, Patience
from tutti.train.snapshot import NO_STEP, Camera, Layout, lay_out, table_of
from tutti.train.state import Leaf

TABLE_ROOM = 1 << 16
PATIENCE = 3


class Keeper:
    """The snapshots of one member."""

    def __init__(self, member: Member, slots: int, every: int) -> None:
        self.member = member
        self.slots = slots
        self.every = every
        self.step = -1
        self.kept_in = 0
        """The generation that kept it."""
        self.failures = 0
        self.shelf = ""
        self.is_split = False
        self.state_bytes = 0
        self.complete = NO_STEP
        self.patience = Patience()
        self.buddies = Buddies(member, slots, self.patience)
        self._camera: Camera | None = None
        self._layout: Layout | None = None
        self._for: tuple[Any, ...] = ()
        self._leaves: dict[str, Leaf] = {}
        self._room = (0, 0)
        self._made = 0
        self._began = time.monotonic()
        self.cost_s = 0.0

    def is_complete(self, step: int, generation: int) -> None:
        """All ranks have sealed this step: it is not overwritten until they have sealed a newer one. One that somebody
        else has for the newest may be older than what is known here.
        """
        if step >= self.complete[0]:
            self.complete = self.buddies.complete = (step, generation)

    def note(self, step: int, generation: int) -> None:
        """Our part of this step is sealed."""
        self.step, self.kept_in = step, generation

    def sealed_in(self, generation: int) -> int:
        """The step that we have kept last in this generation; -1 for none. The parts of an earlier one are others."""
        return self.step if self.kept_in == generation else -1

    def begin(self) -> None:
        """Another generation: what was kept last and is not known to be complete counts for nothing. Whoever is lost
        may not have kept its part, and what is complete must not be given back for it.
        """
        self.step = min(self.step, self.complete[0])

    def is_due(self, step: int, step_s: float) -> bool:
        """Whether the step just computed should be kept."""
        if not self.slots:
            return False
        if self.step < 0:
            return True
        if not self.cost_s and not self.is_split and step - self.step < PATIENCE:
            return False
        return step - self.step >= self.interval(step_s)

    def take_over(self, step: int, generation: int) -> None:
        """This step was read back from memory, where it is complete without us: we need not keep it once more."""
        self.complete = self.buddies.complete = (step, generation)
        self.note(step, generation)

    def interval(self, step_s: float) -> int:
        """Steps between snapshots: as told, or from what a snapshot costs and how often members fail."""
        if self.every or self.is_split:
            return self.every or 1
        rate = failure_rate(self.failures, time.monotonic() - self._began)
        return every_steps(self.cost_s, step_s, rate)

    def keep(
        self,
        generation: int,
        step: int,
        place: tuple[int, int],
        state: tuple[dict[str, Leaf], dict[str, Any]],
        kind: str,
        slots: int = 0,
    ) -> bool:
        """Copy the state after `step` to a slot; False when all slots are being read, or when there is no memory for
        larger ones. `slots` is how many larger ones to ask for (0: as many as there always are).
        """
        leaves, rest = state[0], plain.dumps(state[1])
        layout = self._lay_out(leaves, place, kind)
        label = Label(generation, step, kind, layout.data_bytes, 0)
        self.patience.begin()
        try:
            camera = self._ready(layout, len(table_of(layout.text, rest)), slots or self.slots)
        except NoMemory as error:
            return self.patience.refuse(error, generation)
        camera.complete = self.complete
        return self.patience.insist(lambda: camera.take(label, leaves, layout, rest), BUSY_S if self.is_split else 0.0)

    def note_cost(self, taken_s: float) -> None:
        """How long the loop stood still for a snapshot, from reading the state to sealing the slot."""
        self.cost_s = taken_s if not self.cost_s else 0.7 * self.cost_s + 0.3 * taken_s

    def close(self) -> None:
        if self._camera:
            self._camera.close()

    def _lay_out(self, leaves: dict[str, Leaf], place: tuple[int, int], kind: str) -> Layout:
        if self._layout is not None and leaves is self._leaves and (place, kind) == self._for[:2]:
            return self._layout
        key = (place, kind, tuple(leaf.box for leaf in leaves.values()))
        if self._layout is None or key != self._for:
            self._layout, self._for = lay_out(leaves, *place), key
            self.state_bytes = sum(leaf.bytes_whole for leaf in leaves.values())
        self._leaves = leaves
        return self._layout

    def _ready(self, layout: Layout, table: int, slots: int) -> Camera:
        """A camera whose slots are large enough; new slots beside the old ones when they are not, which hold until
        these are sealed.
        """
        if self._camera is None or self._room[0] < table or self._room[1] < layout.data_bytes:
            room = (table + TABLE_ROOM, int(layout.data_bytes * SLACK))
            self._made += 1
            entry = self.member.ask_slots(f"{self.member.name}-{self._made - 1}", *room, slots)
            self.close()
            self._camera = Camera(self.member.shelf, entry)
            self.shelf, self._room = entry.member, room
        return self._camera
