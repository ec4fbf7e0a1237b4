"""The Trainer of Hugging Face transformers: `Trainer(..., callbacks=[ElasticCallback()])`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tutti.train import pilot
from tutti.train.errors import TrainError
from tutti.train.pilot import Pilot, Wanted, refuse

transformers: Any = importlib.import_module("transformers")
PLATEAU = "ReduceLROnPlateau"


class ElasticCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Makes a Trainer's steps commits: members may come, go and be lost, and each sample is used once per epoch."""

    def __init__(self, global_batch: int = 0, microbatch: int = 0) -> None:
        self._asked = (global_batch, microbatch)
        self.job = pilot.present()
        self.trainer: Any = None
        self.pilot: Pilot | None = None
        self._clip: pilot.Clip | None = None

    # what the trainer calls

    def on_init_end(self, *_: Any, **__: Any) -> None:
        self.attach(owner_of(sys._getframe(1)))

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        refuse(
            self.trainer is None, "the callback came too late: give it to Trainer(..., callbacks=[ElasticCallback()])"
        )

    def on_step_end(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        state.epoch = self._epochs_done()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        if self.pilot:
            self.pilot.finish()

    # what it does to the trainer

    def attach(self, trainer: Any) -> None:
        """Take over the trainer's data, its optimizer's step and its idea of being one of several."""
        check(trainer)
        self.trainer = trainer
        self._make_loader, trainer.get_train_dataloader = trainer.get_train_dataloader, self._loader
        self._run_epoch, trainer._run_epoch = trainer._run_epoch, self._epoch
        self._save, trainer._save_checkpoint = trainer._save_checkpoint, self._save_first
        trainer._get_num_items_in_batch = lambda *_: None
        trainer._clip_grad_norm = trainer._get_grad_norm = lambda *_, **__: self._clip and self._clip.norm
        self._place(self.job)
        self.job.on_resize(self._place)

    def _loader(self) -> Pilot:
        args = self.trainer.args
        each = args.per_device_train_batch_size
        batch, microbatch = self._asked
        wanted = Wanted(
            batch or each * args.gradient_accumulation_steps * pilot.first_size(),
            microbatch or (each if args.gradient_accumulation_steps > 1 else 0),
            args.data_seed if args.data_seed is not None else args.seed,
        )
        # What is left of a step after its first piece is computed inside the commit, however many pieces there are.
        args.gradient_accumulation_steps = self.trainer.accelerator.gradient_accumulation_steps = 1
        self.pilot = Pilot(self.job, self._make_loader(), wanted, self._count)
        return self.pilot

    def _epoch(self, **named: Any) -> None:
        """One epoch, or what is left of it for one who came later."""
        assert self.pilot is not None
        self._enter(self.pilot)
        if named["epoch"] < self.job.course.epoch:
            # It was over before this member came, and perhaps the last one was.
            self._count()
            self.trainer.state.epoch = self._epochs_done()
            return
        left = {}
        if named["epoch"] == self.job.course.epoch and self.pilot.steps_done:
            left = dict.fromkeys(
                ("steps_in_epoch", "num_update_steps_per_epoch"), len(self.pilot) - self.pilot.steps_done
            )
        self._run_epoch(**{**named, **left})

    def _enter(self, loop: Pilot) -> None:
        trainer = self.trainer
        if loop.steppers:
            return
        opt, sched = trainer.optimizer.optimizer, trainer.lr_scheduler
        self._clip = pilot.Clip(lambda: list(trainer.model.parameters()), trainer.args.max_grad_norm or 0.0)
        steppers = [self._clip, opt]
        if type(sched).__name__ != PLATEAU:
            steppers.append(pilot.Beat(self.job, sched))
            trainer.lr_scheduler = trainer.callback_handler.lr_scheduler = pilot.Still(sched)
        trainer.optimizer.step = self._commit
        loop.enter(steppers, model=trainer.model, opt=opt, sched=sched)

    def _commit(self, closure: Any = None) -> None:
        del closure
        assert self.pilot is not None
        trainer = self.trainer
        self.pilot.commit(lambda piece: trainer.training_step(trainer.model_wrapped, piece))

    def _epochs_done(self) -> float:
        course = self.job.course
        return course.epoch + course.cursor / max(1, course.length)

    def _count(self) -> None:
        self.trainer.state.global_step = self.job.step

    def _place(self, job: Any) -> None:
        """The trainer believes to be alone, and still knows who is the first: that one writes files and logs."""
        trainer = self.trainer
        kind = importlib.import_module("accelerate.utils").DistributedType
        for state in (trainer.args.distributed_state, trainer.accelerator.state):
            state.distributed_type, state.num_processes = kind.NO, 1
            state.process_index = state.local_process_index = job.rank
        trainer.state.is_world_process_zero = trainer.state.is_local_process_zero = job.rank == 0

    def _save_first(self, *arguments: Any, **named: Any) -> None:
        if self.job.rank == 0:
            self._save(*arguments, **named)


def check(trainer: Any) -> None:
    """Refuse what would be trained otherwise than its author meant."""
    args = trainer.args
    refuse(not hasattr(trainer, "_run_epoch"), "ElasticCallback needs transformers 5 or newer: its loop is by epochs")
    refuse(
        bool(args.deepspeed or getattr(args, "fsdp", None)),
        "ElasticCallback adds up gradients itself: no deepspeed, no fsdp",
    )
    refuse(trainer.accelerator.scaler is not None, "ElasticCallback cannot scale losses: use bf16 in place of fp16")
    refuse(args.n_gpu > 1, "one member has one device: let the launcher give each its own (CUDA_VISIBLE_DEVICES)")


def owner_of(frame: Any) -> Any:
    """The Trainer whose method called this callback."""
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "callback_handler") and hasattr(owner, "get_train_dataloader"):
            return owner
        frame = frame.f_back
    raise TrainError("ElasticCallback was called by something that is not a Trainer of transformers")
