"""Whether the keeper of a gang that runs may let the members of the next one go.

The daemon offers it by making a file, and takes that back by removing it. Whoever wants to do either of both holds the
lock of that file meanwhile, so only one of them can; a lock ends with whoever holds it.
"""

from __future__ import annotations

import fcntl
import os

from tutti.local.keeper.records import BEGUN, begun_at

TURN = "turn"


def offer(folder: str) -> None:
    """From now on the keeper of another run may let the members of this one go."""
    os.close(os.open(_path(folder), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def recall(folder: str) -> bool:
    """Nobody else may let them go from now on; False where somebody has, or is doing so."""
    try:
        file = os.open(_path(folder), os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return not begun_at(folder)
    try:
        if not _locked(file) or begun_at(folder):
            return False
        os.unlink(_path(folder))
    except OSError:
        return not begun_at(folder)
    finally:
        os.close(file)
    return True


class Turn:
    """The offer, in the hands of the keeper that it was made to: everything is open, so that taking it is quick."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(_path(folder), os.O_WRONLY | os.O_CLOEXEC)
        try:
            self._note = os.open(os.path.join(folder, BEGUN), os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._file)
            raise

    def take(self) -> bool:
        """Note that the members go; False where the offer was taken back. Nobody can take it back afterwards."""
        if not _locked(self._file) or not os.fstat(self._file).st_nlink:
            return False
        try:
            os.write(self._note, b"1")
        except OSError:
            return False
        return True

    def close(self) -> None:
        os.close(self._file)
        os.close(self._note)


def _path(folder: str) -> str:
    return os.path.join(folder, TURN)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
