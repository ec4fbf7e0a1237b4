"""The loop's iterator: deals each step to the ranks, and deals it again when the ranks change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

from tutti.train import fsdp, hold, recover
from tutti.train.deal import Deal, check_batch, deal_fast, deal_ordered, groups_of, in_step, to_neighbours
from tutti.train.errors import DataChanged, StateChanged, TrainError
from tutti.train.feed import STREAM, Feed, feed_of
from tutti.train.rates import RULES, scale_rates
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
    per_member: int = 0
    lr_rule: str = ""
    together: int = 1
    is_cut: bool = False
    """Whether those that are together hold a stage each: then what each adds up is its own."""

    def batch(self, world: int) -> int:
        """Samples of a step: the same for any number of members, unless it was asked to grow with them."""
        return self.global_batch or self.per_member * world

    def deal(self, start: int, stop: int, world: int, is_sharded: bool) -> Deal:
        groups = groups_of(world, self.together)
        if self.numerics == "ordered":
            deal = deal_ordered(start, stop, groups, self.logical)
        else:
            deal = deal_fast(start, stop, groups, self.microbatch)
            deal = in_step(deal) if is_sharded and stop > start else deal
        return to_neighbours(deal, self.together) if self.together > 1 else deal

    def check(self) -> None:
        counts: dict[str, Any] = {
            "global_batch": self.global_batch, "batch_per_member": self.per_member, "microbatch": self.microbatch,
            "logical": self.logical,
        }  # fmt: skip
        for name, count in counts.items():
            if not isinstance(count, Integral) or count < 0:
                raise DataChanged(f"{name}={count!r}: it is a whole number, and not below 0")
        if self.numerics not in ("fast", "ordered"):
            raise DataChanged(f"numerics={self.numerics!r} is not known: it is 'fast' or 'ordered'")
        if self.numerics == "ordered" and self.logical < 1:
            raise DataChanged("ordered numerics need at least one logical rank")
        if bool(self.global_batch) == bool(self.per_member):
            raise DataChanged("a step needs either global_batch (at least one sample) or batch_per_member, not both")
        if self.numerics == "ordered" and self.per_member:
            raise DataChanged("ordered numerics need a global_batch: batch_per_member changes with the members")
        if self.together < 1 or (self.together > 1 and self.numerics == "ordered" and not self.is_cut):
            raise DataChanged(f"together={self.together}: it is at least 1, and 1 in ordered numerics")
        if self.lr_rule not in ("", *RULES):
            raise DataChanged(f"lr_rule={self.lr_rule!r} is not known: it is {' or '.join(map(repr, RULES))}")
        if self.lr_rule and not self.per_member:
            raise DataChanged("lr_rule is for batch_per_member: with a global_batch the learning rate has no reason")


def batches(
    job: Job, dataset: Any, plan: Plan, collate: Callable[[list[Any]], Any] | None, loader: dict[str, Any] | None
) -> Iterator[Any]:
    """Yield this rank's pieces, step after step, until the epochs are committed."""
    plan.check()
    feed = feed_of(dataset, collate, loader)
    check_batch(plan.batch(1), len(feed), 1)
    recover.enter(job)
    is_behind = job.came_later and is_over(job, plan)
    if not job.course.length or job.course.epoch in plan.epochs:
        job.course.opened = plan.epochs.stop - 1
    if job.has_to_move:
        recover.move(job)
    check_together(job, plan)
    fsdp.check_groups(job.protected.split, groups_of(job.world, plan.together))
    wanted = {
        "seed": plan.seed,
        "length": len(feed),
        "global_batch": plan.global_batch,
        "numerics": plan.numerics,
        "logical": plan.logical,
        "per_member": plan.per_member,
        "lr_rule": plan.lr_rule,
    }
    hold.HoldingGroup.passes = False
    job.course.open(wanted)
    job.delivers(feed.delivery)
    while job.course.epoch in plan.epochs or job.course.epoch < plan.epochs.start:
        if not job.course.length:
            # The course was brought back to what it was before the data was opened.
            job.course.open(wanted)
        check_length(feed, job.course.length)
        scale_rates(job)
        start, stop = feed.window(job.course.cursor, plan.batch(job.world), job.course.epoch)
        if start == stop:
            end_epoch(job, start)
            continue
        yield from one_step(job, feed, plan, plan.deal(start, stop, job.world, bool(job.protected.split)))
    if job.course.epoch >= plan.epochs.stop:
        recover.stop_holding(job)
        hold.HoldingGroup.passes = is_behind


def together_in(job: Job) -> int:
    """How many ranks compute one model, where nothing else is said."""
    return job.protected.grid.unit if job.protected.grid else 1


def check_together(job: Job, plan: Plan) -> None:
    """In a pipeline it is known who computes together, and the gradients are added up by the commit."""
    if plan.is_cut and plan.together != together_in(job):
        raise DataChanged(
            f"together={plan.together}, but pipeline() said that {together_in(job)} ranks hold one replica: "
            f"leave it out"
        )
    if plan.is_cut and job.wrappers.parallel():
        raise StateChanged(
            "a stage is wrapped in DistributedDataParallel: in a pipeline the commit adds up the gradients of the "
            "replicas, so leave the wrapper out"
        )


def is_over(job: Job, plan: Plan) -> bool:
    """Whether the others have left what follows this loop behind them."""
    course = job.course
    return course.epoch >= plan.epochs.stop and not (course.epoch == plan.epochs.stop and course.is_between)


def end_epoch(job: Job, position: int) -> None:
    """A stream is at its end, which nobody knew before."""
    if position == 0:
        raise DataChanged("the stream gave no samples: there is nothing to train on")
    job.course.end_epoch()


def one_step(job: Job, feed: Feed, plan: Plan, deal: Deal) -> Iterator[Any]:
    """The pieces of one attempt at one step; the attempt ends early when the ranks change."""
    course = job.course
    expected = feed.checksum(deal.start, deal.stop, course.seed, course.epoch)
    is_last = deal.stop >= course.length and course.epoch + 1 >= plan.epochs.stop
    step = job.step_now = Step(job, deal, plan.numerics, expected, is_last)
    place = (job.generation, course.step)
    try:
        if not deal.pieces[job.rank]:
            step.commit_idle()
        for piece in deal.pieces[job.rank]:
            indices = feed.indices(piece.start, piece.stop, course.seed, course.epoch)
            step.begin(piece, feed.checksum(piece.start, piece.start + piece.counted, course.seed, course.epoch))
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
        window = feed.window(cursor, plan.batch(job.world), epoch)
        deal = plan.deal(*window, job.world, bool(job.protected.split))
        for piece in deal.pieces[job.rank]:
            yield feed.indices(piece.start, piece.stop, job.course.seed, epoch).tolist()
        cursor = deal.stop
        if cursor >= job.course.length:
            epoch, cursor = epoch + 1, 0


def check_length(feed: Feed, length: int) -> None:
    if len(feed) != length and length != STREAM:
        raise DataChanged(
            f"the dataset had {length} samples when the run began and now has {len(feed)}: "
            f"the order of the samples would change"
        )
