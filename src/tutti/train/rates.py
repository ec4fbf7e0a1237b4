"""The learning rate of a batch that grows with the members: by a rule that was asked for, and told each time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutti.train.job import Job

RULES = {"linear": lambda ratio: ratio, "sqrt": math.sqrt}


def scale_rates(job: Job) -> None:
    """Bring every learning rate to the present world. The rates the loop was started with are those of its first
    world.
    """
    course = job.course
    if not course.lr_rule or course.lr_world == job.world:
        return
    if course.lr_world:
        factor = RULES[course.lr_rule](job.world / course.lr_world)
        multiply(job, factor)
        if job.rank == 0:
            text = (
                f"learning rates times {factor:.4g} ({course.lr_rule} rule, {course.lr_world} to {job.world} members)"
            )
            job.tell("rates", text, rule=course.lr_rule, factor=factor, world=job.world)
    course.lr_world = job.world


def multiply(job: Job, factor: float) -> None:
    """Rates of optimizers, and the base rates from which schedulers work theirs out."""
    for optimizer in job.protected.optimizers():
        for group in optimizer.param_groups:
            for name in ("lr", "initial_lr"):
                if name in group:
                    group[name] = group[name] * factor
    for thing in job.protected.things.values():
        if hasattr(thing, "base_lrs"):
            thing.base_lrs = [rate * factor for rate in thing.base_lrs]
            thing._last_lr = [rate * factor for rate in thing.get_last_lr()]
