"""The job as its training loop sees it: join, protect, batches, commit, on_resize."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from tutti.train import batches as feeding
from tutti.train import fsdp, grid, recover, wrap
from tutti.train.agent.exits import Exit
from tutti.train.calm import Calm
from tutti.train.course import Course
from tutti.train.domains import Places
from tutti.train.errors import AlreadyJoined, NotProtected, TrainError
from tutti.train.group import Group
from tutti.train.keep import Keeper
from tutti.train.member import Member
from tutti.train.pace import Pace
from tutti.train.state import Protected
from tutti.train.step import Step
from tutti.train.zygote import end_with_parent

CALLBACK_S = 60.0
KEEP_S = 10.0
HERE = str(Path(__file__).parent)

_current: Job | None = None


class Job:
    """One member's view of the run. Everything that can change does so inside `commit`."""

    def __init__(self, member: Member | None, slots: int, every: int) -> None:
        self.member = member
        self.group = Group()
        self.protected = Protected()
        self.course = Course()
        self.wrappers = wrap.Wrappers()
        self.keeper = Keeper(member, slots, every) if member else None
        self.step_now: Step | None = None
        self.generation = 0
        self.members: tuple[str, ...] = ()
        self.is_entered = False
        self.is_torn = False
        self.is_fresh = True
        self.is_standby = False
        self.came_later = False
        self.has_to_move = False
        """Whether all agreed on a change that has to wait for the next loop."""
        self.steppers: list[Any] = []
        self.pace = Pace()
        self.calm = Calm()
        self.places = Places(("",))
        self.delivery = "exactly-once"
        self._place = (0, 1)
        self._callbacks: list[Callable[[Job], None]] = []
        self._epochs_opened = 0

    @property
    def rank(self) -> int:
        return self._place[0]

    @property
    def world(self) -> int:
        return self._place[1]

    @property
    def step(self) -> int:
        """Committed steps."""
        return self.course.step

    @property
    def level(self) -> str:
        """What a resize means for this loop, as a level of the support table."""
        if self.member is None:
            return "L0"
        if self.protected.grid:
            return "L4"
        if not self.protected.split:
            return "L2"
        return "L3" if fsdp.is_live(self.protected.modules()) else "L4"

    def protect(self, **things: Any) -> None:
        """Name the state that must survive: anything with a state_dict, tensors, or dictionaries of tensors."""
        if not things:
            raise NotProtected(
                "protect() was given nothing: name what must survive, as in protect(model=model, opt=opt)"
            )
        self.protected.add(things)
        if self.keeper:
            self.keeper.is_split = recover.shards(self)

    def pipeline(self, stages: int, tensor: int = 1) -> grid.Grid:
        """Say that neighbouring ranks hold the stages of one replica of the model (each on `tensor` ranks): where this
        rank is among them. Each protects its own stage, and all of a replica get the same samples.
        """
        if self.is_entered:
            raise TrainError("pipeline() was called after the first batch: the stages are said before protect()")
        found = grid.place(stages, tensor, self.rank, self.world, self.is_standby)
        self.protected.cut(found)
        if self.member:
            self.member.say("unit", unit=found.unit)
            found = recover.line_up(self, found)
        if self.keeper:
            self.keeper.is_split = True
        return found

    def on_resize(self, callback: Callable[[Job], None]) -> None:
        """Call this after every change of rank or world; for loggers and others that keep a copy of them."""
        self._callbacks.append(callback)

    def batches(  # noqa: PLR0913 - each is a choice of the user's
        self, dataset: Any, global_batch: int = 0, seed: int = 0, *, epochs: int = 1, microbatch: int = 0,
        numerics: str = "fast", logical: int = 8, collate: Callable[[list[Any]], Any] | None = None,
        loader: dict[str, Any] | None = None, batch_per_member: int = 0, lr_rule: str = "", together: int = 0,
    ) -> Iterator[Any]:  # fmt: skip
        """This rank's batches of the next `epochs` epochs: each sample is committed exactly once, whoever comes and
        goes (a stream that cannot be asked again: at least once).

        With `batch_per_member` the batch grows with the members, and `lr_rule` ("linear", "sqrt") may scale the rates.
        So many neighbouring ranks as `together` says get the same samples: they compute one model (tensor parallel; in
        a pipeline it is known).
        """
        if not self.protected.things:
            raise NotProtected("batches() was called before protect(): a restart would have no state to go on from")
        first = self._epochs_opened
        self._epochs_opened += epochs
        opened = range(first, first + epochs)
        together, is_cut = together or feeding.together_in(self), self.protected.grid is not None
        plan = feeding.Plan(
            global_batch, seed, opened, microbatch, numerics, logical, batch_per_member, lr_rule, together, is_cut
        )
        return feeding.batches(self, dataset, plan, collate, loader)

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of `count` epochs, for a loop that does something after each; one call of `batches` in each. Who
        comes later, or goes on from memory, begins with the epoch that the run is in.
        """
        if not self.protected.things:
            raise NotProtected("epochs() was called before protect(): a restart would have no state to go on from")
        recover.enter(self)
        first = self._epochs_opened
        # Who comes in the very moment in which an epoch ends takes part in what follows it: the others are there.
        begun = self.course.epoch - int(self.came_later and self.course.is_between)
        for number in range(first, first + count):
            if number >= begun:
                self._epochs_opened = number
                yield number - first

    def commit(self, *steppers: Any) -> bool:
        """End the body of the loop: reduce, agree, step every optimizer and scheduler given, snapshot; resize if asked.

        True when a step was committed; False when more pieces of it follow, or when it has to be computed again.
        """
        if self.step_now is None:
            raise TrainError("commit() was called outside `for batch in job.batches(...)`: there is no step to commit")
        return self.step_now.commit(steppers)

    # used by the parts of this package

    def set_place(self, rank: int, world: int) -> None:
        self._place = (rank, world)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))

    def tell(self, event: str, text: str, **facts: Any) -> None:
        """Add to the run's story."""
        if self.member:
            self.member.say("story", event=event, text=text, facts={"member": self.member.name, **facts})

    def delivers(self, how: str) -> None:
        """What is promised about the samples of this run."""
        if how != self.delivery and self.rank == 0:
            self.tell("delivery", f"the data is a stream, which cannot be asked again: {how}", delivery=how)
        self.delivery = how

    def call_back(self) -> None:
        """Run the user's callbacks; one that never returns ends this member instead of hanging all of them."""
        for callback in self._callbacks:
            timer = threading.Timer(CALLBACK_S, self._hung, [getattr(callback, "__name__", "a callback")])
            timer.daemon = True
            timer.start()
            try:
                callback(self)
            finally:
                timer.cancel()

    def _hung(self, name: str) -> None:
        self.tell(
            "hung",
            f"the on_resize callback {name} has not returned for {CALLBACK_S:.0f} s; this member ends",
            callback=name,
        )
        # Nobody knows what it holds on to.
        guard = threading.Timer(KEEP_S, os._exit, [Exit.CRASHED])
        guard.daemon = True
        guard.start()
        recover.keep_whole(self)
        sys.stderr.flush()
        os._exit(Exit.CRASHED)


def join(*, slots: int | None = None, snapshot_every: int | None = None) -> Job:
    """Become a member of the run that this process was started for; without one, a job of one member.

    `slots` is how many snapshots are kept in memory (2; 0 for none), `snapshot_every` the steps between (0: chosen).
    """
    global _current  # noqa: PLW0603 - one process is one member
    if _current is not None:
        raise AlreadyJoined("join() was called twice in one process: keep the job it returned the first time")
    wrap.watch()
    folder = os.environ.get("TUTTI_TRAIN_AGENT")
    slots = int(os.environ.get("TUTTI_TRAIN_SLOTS", "2")) if slots is None else slots
    every = int(os.environ.get("TUTTI_TRAIN_EVERY", "0")) if snapshot_every is None else snapshot_every
    if not folder:
        _current = Job(None, 0, every)
        return _current
    end_with_agent()
    member = Member(Path(folder), os.environ["TUTTI_TRAIN_MEMBER"], int(os.environ["TUTTI_TRAIN_INDEX"]))
    _current = Job(member, slots, every)
    recover.listen(_current)
    recover.take_place(_current)
    watch_exceptions(_current)
    return _current


def end_with_agent() -> None:
    """A member that has joined saves and leaves when its agent is gone. But where other machines take part nobody goes
    on without this one's: the others would not know. (A shell between us would get the signal in our place.)
    """
    is_ours = os.getppid() == int(os.environ.get("TUTTI_TRAIN_PARENT", "0"))
    is_killed = os.environ.get("TUTTI_TRAIN_MACHINES") and is_ours
    # One that is frozen has to be woken for it.
    end_with_parent(os.getppid(), signal.SIGKILL if is_killed else signal.SIGCONT)


def theirs(trace: TracebackType | None) -> TracebackType | None:
    """The part of a trace that is the user's: where the program called us, not what we did then."""
    if trace is None:
        return None
    rest, file = theirs(trace.tb_next), trace.tb_frame.f_code.co_filename
    if file.startswith((HERE, "<frozen runpy>", contextlib.__file__)):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def watch_exceptions(job: Job) -> None:
    """An exception after a held failure is its consequence, not the loop's fault: the member is restarted from memory,
    and says so.
    """
    usual = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, TrainError):
            error.with_traceback(theirs(trace))
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            usual(kind, error, trace)
        sys.stderr.write("".join(f"[rank{job.rank}]: {line}" for line in text.getvalue().splitlines(keepends=True)))
        if torch.distributed.is_initialized() and job.group.failure:
            job.tell(
                "fallback", f"the loop raised {kind.__name__} after a lost collective; this member restarts from memory"
            )
            recover.keep_whole(job)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(Exit.AGAIN)
        if job.member:
            # The others may wait for this one: it does not wait for them as well.
            atexit.unregister(job.member.part)
        if not isinstance(error, TrainError):
            # Whoever starts it again under its name goes on where the loop failed.
            recover.keep_whole(job)

    sys.excepthook = hook
