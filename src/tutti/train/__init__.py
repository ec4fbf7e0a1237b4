"""Inside the job: grow, shrink, lose a worker and go on, with no sample lost or seen twice.

`join` is the way in; see docs/tutorial/elastic-training.md. Importing this package imports neither torch nor anything
else of tutti.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tutti.train.errors import TrainError

if TYPE_CHECKING:
    from tutti.train.job import Job

__all__ = ["TrainError", "join"]


def join(**options: Any) -> Job:
    """Become a member of the job that this process was started for; alone, a job of one."""
    from tutti.train.job import join as join_now  # noqa: PLC0415 - torch comes with it, and only now

    return join_now(**options)
