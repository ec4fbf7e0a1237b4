"""How a job ends, as exit codes that a scheduler can tell apart."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Each code asks for something different from whoever started the job. AGAIN is between a member and its agent."""

    FINISHED = 0
    CRASHED = 1
    PREEMPTED = 75
    RELEASED = 76
    AGAIN = 85
    NO_RETRY = 93


MEANING = {
    Exit.FINISHED: "finished",
    Exit.CRASHED: "crashed",
    Exit.PREEMPTED: "preempted with state",
    Exit.RELEASED: "released",
    Exit.AGAIN: "to be restarted from memory",
    Exit.NO_RETRY: "do not retry",
}


def meaning(code: int) -> str:
    """The words for an exit code; a negative code is a signal, as subprocess reports it."""
    if code < 0:
        return f"killed by signal {-code}"
    return MEANING.get(Exit(code), "crashed") if code in set(Exit) else f"crashed with code {code}"
