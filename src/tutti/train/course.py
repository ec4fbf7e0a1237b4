"""How far the run is: step, epoch, cursor, ledger. Moves only at a commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tutti.train import ledger
from tutti.train.errors import DataChanged

KEPT = (
    "step",
    "epoch",
    "cursor",
    "seed",
    "length",
    "global_batch",
    "numerics",
    "logical",
    "per_member",
    "lr_rule",
    "lr_world",
    "opened",
)


@dataclass
class Course:
    """The run's place in its data, the same on every rank."""

    step: int = 0
    epoch: int = 0
    cursor: int = 0
    seed: int = 0
    length: int = 0
    global_batch: int = 0
    numerics: str = "fast"
    logical: int = 0
    per_member: int = 0
    lr_rule: str = ""
    lr_world: int = 0
    opened: int = 0
    """The last epoch of the loop that was begun last."""
    ledger: ledger.Ledger = field(default_factory=ledger.Ledger)

    @property
    def is_between(self) -> bool:
        """Whether a loop has ended and the next has not begun."""
        return self.epoch > self.opened and not self.cursor

    def advance(self, start: int, stop: int) -> None:
        """A step was committed: note its samples and move on."""
        self.ledger.add(self.epoch, start, stop)
        self.step += 1
        self.cursor = stop
        if stop >= self.length:
            self.end_epoch()

    def end_epoch(self) -> None:
        self.epoch, self.cursor = self.epoch + 1, 0

    def open(self, wanted: dict[str, Any]) -> None:
        """Bind the run to its data; data other than the run began with is refused."""
        for name, value in wanted.items():
            had = getattr(self, name)
            if self.length and had != value:
                raise DataChanged(
                    f"the run began with {name} = {had} and batches() was now given {value}: "
                    f"the order of the samples would change. "
                    f"Start a new run for other data (another --run-id)"
                )
        for name, value in wanted.items():
            setattr(self, name, value)

    def to_record(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in KEPT}, "ledger": self.ledger.to_record()}


def from_record(record: dict[str, Any]) -> Course:
    return Course(**{name: record[name] for name in KEPT}, ledger=ledger.from_record(record["ledger"]))
