"""What the end of a run means for its gang. Pure: a record in, a verdict out."""

import signal
from enum import Enum
from typing import Any, NamedTuple

from tutti.engine.model import SECOND, OnLoss, State
from tutti.engine.plan import Evict
from tutti.jobs.job import Job

PREEMPTED = 75
QUICK = 60 * SECOND
"""A run that is lost sooner than this waits before it begins again, longer each time."""
FIRST_PAUSE, LONGEST_PAUSE = SECOND, 300 * SECOND
TIME_IS_OVER = 124
"""What `timeout` ends with, too."""


class Fate(Enum):
    """What becomes of the gang."""

    OVER = "over"
    AGAIN = "again"
    """Back in the queue."""
    REFUSED = "refused"
    """It never began."""


class Verdict(NamedTuple):
    """How it goes on, with the exit code people see and a sentence."""

    fate: Fate
    state: State
    code: int
    why: str
    kept: bool = False
    """Its work is kept whole."""
    parked: bool = False


def verdict(job: Job, leaving: str, leaving_why: str, restarts: int, record: dict[str, Any]) -> Verdict:
    """What the record of an ended run means. `leaving` is what the run was told, if it was told to end."""
    code = exit_code(int(record.get("code") or 0))
    why = str(record.get("why", ""))
    if why == "refused" and leaving not in {"cancel", "fail"}:
        return Verdict(Fate.REFUSED, State.WAITING, 125, str(record.get("refused", "")))
    if leaving:
        return _told(leaving, leaving_why, code, record)
    if why == "limit":
        return _at_limit(job, code, restarts)
    if why == "hang":
        return _lost(job, "it reported no progress for too long", restarts, code or 1)
    if not code:
        return Verdict(Fate.OVER, State.FINISHED, 0, "")
    return _failed(job, code, restarts, record)


def _told(leaving: str, leaving_why: str, code: int, record: dict[str, Any]) -> Verdict:
    kept = bool(record.get("saved")) or code == PREEMPTED
    match leaving:
        case "cancel":
            return Verdict(Fate.OVER, State.CANCELLED, code or 130, leaving_why or "cancelled")
        case "fail":
            return Verdict(Fate.OVER, State.FAILED, code or 1, leaving_why)
        case "park":
            return Verdict(Fate.AGAIN, State.PARKED, code, leaving_why, kept, parked=kept)
        case _:
            return Verdict(Fate.AGAIN, State.WAITING, code, leaving_why, kept)


def _at_limit(job: Job, code: int, restarts: int) -> Verdict:
    if job.on_limit == "requeue" and restarts < job.retries:
        return Verdict(Fate.AGAIN, State.WAITING, code, "its time was over", kept=code == PREEMPTED)
    return Verdict(Fate.OVER, State.FAILED, TIME_IS_OVER, f"its time of {job.time} was over")


def _failed(job: Job, code: int, restarts: int, record: dict[str, Any]) -> Verdict:
    raw, rank = int(record.get("code") or 0), int(record.get("first", -1))
    if raw == PREEMPTED:
        return _lost(job, "it left with its state", restarts, code, kept=True)
    if raw < 0 or record.get("lost_first"):
        return _lost(job, f"rank {rank} was {died(raw)}", restarts, code)
    return Verdict(Fate.OVER, State.FAILED, code, f"rank {rank} ended with exit code {code}")


def _lost(job: Job, why: str, restarts: int, code: int, kept: bool = False) -> Verdict:
    """Killed from outside: by its policy it starts again, as often as it may."""
    if job.on_loss is OnLoss.FAIL:
        return Verdict(Fate.OVER, State.FAILED, code, why)
    if restarts >= job.retries:
        often = "once" if restarts == 1 else f"{restarts} times"
        return Verdict(Fate.OVER, State.FAILED, code, f"{why}, and it was restarted {often}" if restarts else why)
    return Verdict(Fate.AGAIN, State.WAITING, code, why, kept)


def for_whom(action: Evict) -> str:
    """Why a gang has to go, where it is for another."""
    return f"for {action.room_for}{'; ' + action.why if action.why else ''}" if action.room_for else ""


def pause(losses: int) -> int:
    """How long a gang that was lost so often waits before it tries again."""
    return min(FIRST_PAUSE << min(losses - 1, 20), LONGEST_PAUSE)


def exit_code(raw: int) -> int:
    """An exit code as a shell shows it: a signal is 128 and its number."""
    return 128 - raw if raw < 0 else raw


def died(raw: int) -> str:
    """How a process went, in words."""
    if raw >= 0:
        return f"ended with exit code {raw}"
    try:
        return f"killed by {signal.Signals(-raw).name}"
    except ValueError:
        return f"killed by signal {-raw}"
