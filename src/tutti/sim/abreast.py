"""Several plays at once, a process for each core: policies and draws know nothing of each other."""

import os
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import NamedTuple

from tutti.engine.policy import Policy
from tutti.errors import TuttiError

from .experiment import Case, Outcome, Told, play


class Play(NamedTuple):
    """A case, made when it is played, and the policy it is to be played under."""

    case: Callable[[], Case]
    policy: Policy


def cores() -> int:
    """How many plays can run at once."""
    return len(os.sched_getaffinity(0))


def play_all(plays: Sequence[Play], told: Told, at_once: int = 0) -> list[Outcome]:
    """Play all of them; interrupted from the keyboard, those that had begun say what there is so far."""
    if min(at_once or cores(), len(plays)) < 2:
        return _in_turn(plays, told)
    stage = _Stage(plays, told)
    try:
        return stage.play(at_once or cores())
    finally:
        stage.clear()


def _in_turn(plays: Sequence[Play], told: Told) -> list[Outcome]:
    found: list[Outcome] = []
    for case, policy in plays:
        found.append(play(case(), policy, told))
        if found[-1].interrupted:
            break
    return found


class _Stage:
    """Who plays now, and what came of those who have played."""

    def __init__(self, plays: Sequence[Play], told: Told) -> None:
        self._waiting = list(enumerate(plays))
        self._told = told
        self._playing: dict[Connection, tuple[int, BaseProcess]] = {}
        self._found: dict[int, Outcome] = {}

    def play(self, at_once: int) -> list[Outcome]:
        """Play until everybody has played, or as far as they are when somebody interrupts it."""
        try:
            while self._waiting or self._playing:
                while self._waiting and len(self._playing) < at_once:
                    self._begin(*self._waiting.pop(0))
                self._listen()
        except KeyboardInterrupt:
            self._told = _unheard
            for _, process in self._playing.values():
                process.terminate()
            while self._playing:
                self._listen()
            if not self._found:
                raise
        return [self._found[number] for number in sorted(self._found)]

    def clear(self) -> None:
        """Leave nobody behind, whatever went wrong."""
        for _, process in self._playing.values():
            process.kill()
            process.join()

    def _begin(self, number: int, one: Play) -> None:
        ours, theirs = get_context("fork").Pipe(duplex=False)
        process = get_context("fork").Process(target=_perform, args=(one, theirs), daemon=True)
        # Whoever is told to stop before it knows what to do about it would end without a word.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._playing[ours] = number, process

    def _listen(self) -> None:
        for ready in wait(list(self._playing)):
            assert isinstance(ready, Connection)
            try:
                word = ready.recv()
            except EOFError:
                word = RuntimeError("a simulation ended without a word")
            self._heard(ready, word)

    def _heard(self, whom: Connection, word: object) -> None:
        if isinstance(word, tuple):
            self._told(*word)
            return
        number, process = self._playing.pop(whom)
        process.join()
        if isinstance(word, BaseException):
            raise word
        if isinstance(word, Outcome):
            self._found[number] = word


def _unheard(_policy: str, _done: int, _total: int) -> None:
    """Who was interrupted says only what came of it."""


def _perform(one: Play, parent: Connection) -> None:
    """Play in a process of its own. The keyboard interrupts the parent, which then asks for what there is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    with suppress(BrokenPipeError):
        parent.send(_played(one, parent))


def _played(one: Play, parent: Connection) -> Outcome | Exception | None:
    """What came of it, what went wrong, or nothing where it was interrupted before it began."""
    found: Outcome | None = None
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        found = play(one.case(), one.policy, lambda *word: parent.send(word))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except KeyboardInterrupt:
        return found
    except (BrokenPipeError, TuttiError) as failure:
        return failure
    except Exception:  # noqa: BLE001 - whatever it is, the parent is to say it
        return RuntimeError(f"a simulation failed\n{traceback.format_exc()}")
    return found


def _stop(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
