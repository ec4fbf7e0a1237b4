"""A port for the members of each gang to meet at. None is given twice: not by us, and not by another scheduler here."""

import os
import socket
from collections.abc import Collection
from pathlib import Path

from .keeper.locks import is_held

FIRST, LAST = 20_000, 29_999
"""Below the ports that the kernel hands out by itself, so that no connection takes one by chance."""


class Ports:
    """Which port is next. Each is locked like a device, by the keeper, for as long as its gang runs."""

    def __init__(self, locks: Path, start: int | None = None) -> None:
        self._locks = locks
        spread = int.from_bytes(os.urandom(2), "big") if start is None else start
        self._next = FIRST + spread % (LAST - FIRST + 1)

    def choose(self, taken: Collection[int]) -> int:
        """A port that nobody holds or listens on."""
        for _ in range(LAST - FIRST + 1):
            port = self._next
            self._next = FIRST if port >= LAST else port + 1
            if port not in taken and not is_held(self.lock(port)) and is_free(port):
                return port
        return 0

    def lock(self, port: int) -> str:
        """The lock file of a port."""
        return str(self._locks / f"port-{port}")


def is_free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
