"""The Trainer of Lightning: `Trainer(devices=1, callbacks=[ElasticCallback()])`."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections import OrderedDict
from typing import Any

from tutti.train import pilot
from tutti.train.pilot import Pilot, Wanted, refuse

NAMES = ("lightning.pytorch", "pytorch_lightning")


def library() -> Any:
    """Whichever of the two packages is installed; they are the same under two names."""
    for name in NAMES:
        if importlib.util.find_spec(name.partition(".")[0]):
            return importlib.import_module(name)
    raise ImportError("neither lightning nor pytorch_lightning is installed")


class ElasticCallback(library().Callback):  # type: ignore[misc]
    """Makes a Trainer's steps commits: members may come, go and be lost, and each sample is used once per epoch."""

    def __init__(self, global_batch: int = 0, microbatch: int = 0) -> None:
        self._asked = (global_batch, microbatch)
        self.job = pilot.present()
        self.pilot: Pilot | None = None

    # what the trainer calls

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        check(trainer, pl_module)
        loop = trainer.fit_loop
        loader = loop._data_source.dataloader()
        batch, microbatch = self._asked
        batch = batch or (getattr(loader, "batch_size", 0) or 1) * pilot.first_size()
        wanted = Wanted(batch, microbatch, int(os.environ.get("PL_GLOBAL_SEED") or 0))
        self.pilot = Pilot(self.job, loader, wanted, lambda: self._count(trainer))
        loop._data_source = type(loop._data_source)(self.pilot, "")
        self._make_first(trainer.strategy)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Everything is built: protect it, and go to where the job is."""
        assert self.pilot is not None
        opt = trainer.optimizers[0]
        clip = pilot.Clip(lambda: list(pl_module.parameters()), float(trainer.gradient_clip_val or 0.0))
        trainer.gradient_clip_val = None
        beats, things = self._beats(trainer)
        opt.step = self._committing(trainer, opt)
        self.pilot.enter([clip, opt, *beats], model=pl_module, opt=opt, **things)
        epochs = trainer.fit_loop.epoch_progress
        for tracker in (epochs.current, epochs.total):
            count(tracker, self.job.course.epoch)

    def on_train_end(self, *_: Any) -> None:
        if self.pilot:
            self.pilot.finish()

    # what it does to the trainer

    def _beats(self, trainer: Any) -> tuple[list[pilot.Beat], dict[str, Any]]:
        """Schedulers are stepped by the commit; those that want a metric stay with the trainer."""
        beats, things = [], {}
        for number, config in enumerate(trainer.strategy.lr_scheduler_configs):
            things[f"sched{number}"] = config.scheduler
            if not config.reduce_on_plateau:
                beats.append(pilot.Beat(self.job, config.scheduler, config.interval, config.frequency))
                config.scheduler = pilot.Still(config.scheduler)
        return beats, things

    def _committing(self, trainer: Any, opt: Any) -> Any:
        """The optimizer's step: the trainer's, which brings the computing with it, is a commit; the commit takes it."""
        take, loop = opt.step, self.pilot
        assert loop is not None

        def step(closure: Any = None) -> Any:
            if closure is None:
                return take()
            result = closure()
            loop.commit(lambda piece: compute(trainer, opt, piece))
            return result

        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        return step

    def _count(self, trainer: Any) -> None:
        assert self.pilot is not None
        loop = trainer.fit_loop.epoch_loop
        count(loop.batch_progress.current, self.pilot.steps_done)
        count(loop.automatic_optimization.optim_progress.optimizer.step.total, self.job.step)
        loop._batches_that_stepped = self.job.step
        trainer.fit_loop._data_fetcher.fetched = self.pilot.steps_done

    def _make_first(self, strategy: Any) -> None:
        """Only the first member writes files and logs, though each believes that it is alone."""
        job = self.job
        kind = type(strategy)
        members = {"is_global_zero": property(lambda _: job.rank == 0)}
        strategy.__class__ = type(f"Elastic{kind.__name__}", (kind,), members)


def count(tracker: Any, number: int) -> None:
    """So many are done, and no other is begun."""
    for name in ("ready", "started", "processed", "completed"):
        if hasattr(tracker, name):
            setattr(tracker, name, number)


def compute(trainer: Any, opt: Any, piece: Any) -> None:
    """One more piece of a step, as the trainer computes the first."""
    loop = trainer.fit_loop.epoch_loop
    batch = trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(piece), dataloader_idx=0)
    named = loop._build_kwargs(OrderedDict(), batch, loop.batch_idx)
    loop.automatic_optimization._make_closure(named, opt, 0)()


def check(trainer: Any, pl_module: Any) -> None:
    """Refuse what would be trained otherwise than its author meant."""
    refuse(
        trainer.world_size != 1,
        "ElasticCallback adds up the gradients of all members itself: use Trainer(devices=1, strategy='auto')",
    )
    refuse(not pl_module.automatic_optimization, "ElasticCallback needs automatic optimization")
    refuse(
        trainer.accumulate_grad_batches != 1,
        "accumulate_grad_batches is not for an elastic job: use ElasticCallback(global_batch=N, microbatch=M)",
    )
    refuse(
        getattr(trainer.precision_plugin, "scaler", None) is not None,
        "ElasticCallback cannot scale losses: use precision='bf16-mixed' in place of '16-mixed'",
    )
