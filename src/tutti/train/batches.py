"""The loop's iterator: deals each step to the ranks, and deals it again when the ranks change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti.train import recover
from tutti.train.deal import Deal, check_batch, deal_fast, deal_ordered, step_window
from tutti.train.errors import DataChanged, TrainError
from tutti.train.feed import Feed, checksum
from tutti.train.step import Step

if TYPE_CHECKING:
    from tutti.train.job import Job


@dataclass(frozen=True)
class Plan:
    """What batches() was asked for."""

    global_batch: int
    seed: int
    epochs: range
    microbatch: int = 0
    numerics: str = "fast"
    logical: int = 8

    def deal(self, start: int, stop: int, world: int) -> Deal:
        if self.numerics == "ordered":
            return deal_ordered(start, stop, world, self.logical)
        return deal_fast(start, stop, world, self.microbatch)

    def check(self) -> None:
        if self.numerics not in ("fast", "ordered"):
            raise DataChanged(f"numerics={self.numerics!r} is not known: it is 'fast' or 'ordered'")
        if self.numerics == "ordered" and self.logical < 1:
            raise DataChanged("ordered numerics need at least one logical rank")


def batches(
    job: Job, dataset: Any, plan: Plan, collate: Callable[[list[Any]], Any] | None, loader: dict[str, Any] | None
) -> Iterator[Any]:
    """Yield this rank's pieces, step after step, until the epochs are committed."""
    plan.check()
    feed = Feed(dataset, collate, loader)
    check_batch(plan.global_batch, len(feed), 1)
    recover.enter(job)
    job.course.open(
        {
            "seed": plan.seed,
            "length": len(feed),
            "global_batch": plan.global_batch,
            "numerics": plan.numerics,
            "logical": plan.logical,
        }
    )
    while job.course.epoch in plan.epochs or job.course.epoch < plan.epochs.start:
        check_length(feed, job.course.length)
        yield from one_step(job, feed, plan)
    if job.course.epoch >= plan.epochs.stop:
        recover.stop_holding(job)


def one_step(job: Job, feed: Feed, plan: Plan) -> Iterator[Any]:
    """The pieces of one attempt at one step; the attempt ends early when the ranks change."""
    course = job.course
    deal = plan.deal(*step_window(course.cursor, course.length, plan.global_batch), job.world)
    expected = checksum(feed.indices(deal.start, deal.stop, course.seed, course.epoch))
    step = job.step_now = Step(job, deal, plan.numerics, expected)
    place = (job.generation, course.step)
    try:
        if not deal.pieces[job.rank]:
            step.commit_idle()
        for piece in deal.pieces[job.rank]:
            indices = feed.indices(piece.start, piece.stop, course.seed, course.epoch)
            step.begin(piece, checksum(indices))
            yield feed.read(indices.tolist(), lambda: ahead(job, feed, plan))
            if step.is_open:
                raise TrainError(
                    "the body of the loop ended without job.commit(opt): every batch is committed, "
                    "also one without a gradient"
                )
            if (job.generation, course.step) != place:
                break
    finally:
        job.step_now = None
        if job.generation != place[0] or step.is_failed:
            feed.forget()


def ahead(job: Job, feed: Feed, plan: Plan) -> Iterator[list[int]]:
    """The indices this rank will read from here on, as long as nobody comes or goes."""
    epoch, cursor = job.course.epoch, job.course.cursor
    while epoch in plan.epochs:
        deal = plan.deal(*step_window(cursor, job.course.length, plan.global_batch), job.world)
        for piece in deal.pieces[job.rank]:
            yield feed.indices(piece.start, piece.stop, job.course.seed, epoch).tolist()
        cursor = deal.stop
        if cursor >= job.course.length:
            epoch, cursor = epoch + 1, 0


def check_length(feed: Feed, length: int) -> None:
    if len(feed) != length:
        raise DataChanged(
            f"the dataset had {length} samples when the run began and now has {len(feed)}: "
            f"the order of the samples would change"
        )
