"""A loop that belongs to somebody else's trainer: it is dealt its batches here, and where it would step its optimizer
the step is committed instead.

Such a trainer counts its steps itself. One that has to be computed again is therefore computed again in here, inside
what the trainer takes for `optimizer.step()`, and the trainer never hears of it. It also believes that it is alone: the
gradients are added up by the commit, so that no collective of its own can meet another member at the wrong place.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tutti.train import job as jobs
from tutti.train import recover
from tutti.train.errors import TrainError
from tutti.train.feed import STREAM, feed_of

FOR_EVER = 1 << 40


@dataclass(frozen=True)
class Wanted:
    """What a callback may be told; 0 is worked out from what the trainer was told."""

    global_batch: int = 0
    microbatch: int = 0
    seed: int = 0


@dataclass
class Clip:
    """Clips the gradients once they are those of the whole batch: a stepper that goes before the optimizer."""

    parameters: Callable[[], list[torch.nn.Parameter]]
    limit: float
    norm: torch.Tensor | None = None

    def step(self) -> None:
        if self.limit:
            self.norm = torch.nn.utils.clip_grad_norm_(self.parameters(), self.limit)


@dataclass
class Beat:
    """Steps a scheduler with the commit, as often as its trainer would: every few steps, or at the end of epochs."""

    job: jobs.Job
    scheduler: Any
    interval: str = "step"
    frequency: int = 1

    def step(self) -> None:
        if self._is_due():
            with warnings.catch_warnings():
                # It is overridden, on purpose, and has been called.
                warnings.filterwarnings("ignore", message="Seems like `optimizer.step")
                self.scheduler.step()

    def _is_due(self) -> bool:
        course, now = self.job.course, self.job.step_now
        if self.interval == "step":
            return (course.step + 1) % self.frequency == 0
        is_end = now is not None and now.deal.stop >= course.length
        return is_end and (course.epoch + 1) % self.frequency == 0


class Still:
    """A scheduler as its trainer sees it: all of it but the stepping, which the commit does."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def step(self, *_: Any, **__: Any) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)


@dataclass
class Pilot:
    """The trainer's data loader, and the end of its steps."""

    job: jobs.Job
    loader: Any
    wanted: Wanted
    place: Callable[[], None]
    """Brings the trainer's counters to where the job is; called before each step."""
    steppers: list[Any] = field(default_factory=list)
    _kept: list[Any] = field(default_factory=list)
    _pieces: Iterator[Any] | None = None

    def __len__(self) -> int:
        length = len(feed_of(self.loader, None, None))
        if length == STREAM:
            raise TypeError("a stream has no length")
        return (length - 1) // self.wanted.global_batch + 1

    @property
    def dataset(self) -> Any:
        return getattr(self.loader, "dataset", self.loader)

    @property
    def steps_done(self) -> int:
        """Steps of the present epoch that are committed."""
        return -(-self.job.course.cursor // self.wanted.global_batch)

    def enter(self, steppers: list[Any], **things: Any) -> None:
        """Protect what is trained, and go to where the job is; a newcomer waits here until it is let in."""
        if self.steppers:
            return
        self.steppers = self.job.steppers = steppers
        self.job.protect(**things)
        recover.enter(self.job)

    def __iter__(self) -> Iterator[Any]:
        """The steps of one epoch, by the first piece of each that this rank computes."""
        epoch = self.job.course.epoch
        while self.job.course.epoch == epoch:
            piece = self._next()
            if self.job.course.epoch != epoch:
                # The last step of the epoch had no sample for this rank, and is over.
                self._kept.append(piece)
                return
            self.place()
            yield piece

    def commit(self, compute: Callable[[Any], Any]) -> None:
        """The trainer has computed its piece: commit it with all that follow, again and again until it counts."""
        step = self.job.step
        while not self.job.commit(*self.steppers):
            piece = self._next()
            if self.job.step > step:
                self._kept.append(piece)
                return
            compute(piece)

    def finish(self) -> None:
        """The trainer has ended: from here on a lost collective is its own business."""
        if self._pieces is not None:
            recover.stop_holding(self.job)

    def _next(self) -> Any:
        if self._kept:
            return self._kept.pop()
        if self._pieces is None:
            wanted = self.wanted
            self._pieces = self.job.batches(
                self.loader, wanted.global_batch, wanted.seed, epochs=FOR_EVER, microbatch=wanted.microbatch
            )
        return next(self._pieces)


def present() -> jobs.Job:
    """The job this process has joined; it joins if it has not."""
    return jobs._current or jobs.join()


def first_size() -> int:
    """Members the run was first started with: what a batch "per device" was meant for."""
    return int(os.environ.get("TUTTI_TRAIN_FIRST") or 1)


def refuse(is_wrong: bool, text: str) -> None:
    if is_wrong:
        raise TrainError(text)
