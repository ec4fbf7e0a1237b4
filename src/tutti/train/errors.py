"""What can go wrong for the user of the library, said so that they can do something about it."""

from __future__ import annotations


class TrainError(Exception):
    """A mistake or a limit, with what to do about it. The state of the job is intact."""


class NotProtected(TrainError):
    """A verb was used before `protect`."""


class AlreadyJoined(TrainError):
    """`join` was called twice in one process."""


class StateChanged(TrainError):
    """Protected state no longer has the shape it was protected with."""


class DataChanged(TrainError):
    """The dataset, the batch or the seed is not what the run was started with, or ranks disagree about them."""


class NoMemory(TrainError):
    """The machine cannot hold the snapshots."""


class OtherRun(TrainError):
    """A snapshot was found that belongs to another model, topology or run."""


class LostState(TrainError):
    """No tier holds a complete step."""


class GroupLost(Exception):
    """The group of this generation cannot go on; the next generation will. Never reaches the user's loop."""
