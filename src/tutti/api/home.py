"""Where things are: one folder holds everything of one scheduler, `TUTTI_HOME`."""

import os
from pathlib import Path

from tutti.errors import Misused

SOCKET_BYTES = 107
SHARED = Path("/var/lib/tutti")
"""Home of the one service for all users; see `tutti setup --system`."""
UNIT = Path("/etc/systemd/system/tutti.service")
LONGEST_TAIL = len("/runs/0123456789abcdef/s")


class Home:
    """The folder and the names of what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if len(os.fsencode(path)) + LONGEST_TAIL > SOCKET_BYTES:
            raise Misused(
                f"the path of TUTTI_HOME is too long for a socket ({len(os.fsencode(path))} bytes)",
                str(path),
                f"a folder with a path of at most {SOCKET_BYTES - LONGEST_TAIL} bytes",
            )

    @property
    def is_shared(self) -> bool:
        """Whether it belongs to the one service for all users, which only systemd starts."""
        return self.path == SHARED

    @property
    def socket(self) -> Path:
        return self.path / "daemon.sock"

    @property
    def lock(self) -> Path:
        return self.path / "daemon.lock"

    @property
    def log(self) -> Path:
        return self.path / "daemon.log"

    @property
    def journal(self) -> Path:
        return self.path / "journal.db"

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def token(self) -> Path:
        return self.path / "token"

    @property
    def runs(self) -> Path:
        """One folder per run, named by its nonce."""
        return self.path / "runs"

    @property
    def logs(self) -> Path:
        """One folder per job, named by its number."""
        return self.path / "logs"

    @property
    def locks(self) -> Path:
        """Locks of made-up devices, which belong to this home alone."""
        return self.path / "locks"

    def make(self, shared: bool = False) -> None:
        """Make the folder and what must be in it; only its owner may look inside. Others of a shared one may pass."""
        mode = 0o711 if shared else 0o700
        for folder in (self.path, self.runs, self.logs, self.locks):
            folder.mkdir(parents=True, exist_ok=True, mode=mode)
            if shared:
                folder.chmod(mode)


def home() -> Home:
    """The home that `TUTTI_HOME` names; else that of the shared service where there is one; else that of this user."""
    chosen = os.environ.get("TUTTI_HOME")
    if chosen:
        return Home(Path(chosen).expanduser().absolute())
    # A service that is being restarted is the service all the same.
    if (SHARED / "daemon.sock").exists() or (UNIT.exists() and SHARED.is_dir()):
        return Home(SHARED)
    state = os.environ.get("XDG_STATE_HOME")
    return Home((Path(state) if state else Path.home() / ".local" / "state") / "tutti")
