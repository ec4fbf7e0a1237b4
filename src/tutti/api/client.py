"""The client: a job is a method call away. `tutti.connect()` gives one; the command line is made of it.

Starts fast: standard library only, and as little of it as will do.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from tutti.errors import Died, Misused, NoDaemon, NotFound, Refused, TuttiError

from .home import Home, home

if TYPE_CHECKING:
    from .handles import ClusterShown, JobHandle, PlanShown

ERRORS: dict[int, type[TuttiError]] = {2: Misused, 3: NotFound, 4: Refused, 5: NoDaemon}
START_S = 20.0
SERVICE_S = 3.0
"""How long the shared service may take to be started again."""
AGAIN_S = 0.2
"""How long a daemon that went away may take to come back by itself."""
Answer = dict[str, Any]


class Client:
    """Speaks to the daemon of one home. One connection, made when it is first needed."""

    def __init__(self, where: Home | None = None) -> None:
        self.home = where or home()
        self._socket: socket.socket | None = None
        self._file: Any = None

    # -- requests

    def get(self, path: str, **query: object) -> Answer:
        """Ask; raises the error the daemon answers with, or NoDaemon."""
        asked = urlencode({key: value for key, value in query.items() if value not in ("", None)})
        answer: Answer = json.loads(self.call("GET", f"{path}?{asked}" if asked else path))
        return answer

    def post(self, path: str, body: object = None) -> Answer:
        """Ask for something to be changed."""
        answer: Answer = json.loads(self.call("POST", path, json.dumps(body or {}).encode()))
        return answer

    def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """One request, tried again once where an idle connection had been closed."""
        fresh = self._socket is None
        try:
            return self._call(method, path, body)
        except (ConnectionError, EOFError):
            self.close()
            if fresh or method != "GET":
                raise NoDaemon("the daemon has gone away", str(self.home.socket), "the same again") from None
            return self._call(method, path, body)

    def _call(self, method: str, path: str, body: bytes) -> bytes:
        self._connect()
        assert self._socket is not None
        head = f"{method} {path} HTTP/1.1\r\nHost: tutti\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body)
        status, headers = self._head()
        data: bytes = self._file.read(int(headers.get("content-length", "0")))
        if status >= 400:
            raise error_of(data)
        return data

    def _head(self) -> tuple[int, dict[str, str]]:
        first = self._file.readline()
        if not first:
            raise EOFError
        headers = {}
        while (line := self._file.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(first.split()[1]), headers

    def events(self, after: int = -1) -> Generator[Answer, None, None]:
        """What changes from now on, as it does, on a connection of its own; ends when the daemon does."""
        other = Client(self.home)
        other._connect()
        assert other._socket is not None
        other._socket.sendall(f"GET /v1/events?after={after} HTTP/1.1\r\nHost: tutti\r\n\r\n".encode())
        other._head()
        return other._told()

    def _told(self) -> Generator[Answer, None, None]:
        try:
            for line in self._file:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            self.close()

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._file.close()
            self._socket.close()
            self._socket = None

    # -- the daemon

    def _connect(self) -> None:
        limit = time.monotonic() + (SERVICE_S if self.home.is_shared else 0.0)
        while self._socket is None:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                made.connect(str(self.home.socket))
                self._socket, self._file = made, made.makefile("rb")
            except OSError:
                made.close()
                if time.monotonic() >= limit:
                    raise self._not_up() from None
                time.sleep(0.05)

    def _not_up(self) -> NoDaemon:
        if self.home.is_shared:
            said = "the service that all users of this machine share is not running"
            return NoDaemon(said, str(self.home.path), "systemctl start tutti; TUTTI_HOME=FOLDER for one of your own")
        kind = Died if self.home.socket.exists() else NoDaemon
        return kind("no daemon is running here", str(self.home.path), "tutti run ... starts one")

    def is_up(self) -> bool:
        """Whether a daemon answers."""
        try:
            self._connect()
        except NoDaemon:
            return False
        return True

    def start(self, devices: str = "") -> None:
        """Make sure that a daemon runs. `devices` counts only for the one that is started here."""
        if self.is_up():
            return
        if self.home.is_shared:
            raise self._not_up()
        self._make_home()
        import subprocess  # noqa: PLC0415 - only the first command needs it

        command = [sys.executable, "-m", "tutti.local.daemon"] + (["--devices", devices] if devices else [])
        ready, says = os.pipe()
        with self.home.log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*command, "--ready", str(says)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[says],
                start_new_session=True,
                cwd="/",
                env={**os.environ, "TUTTI_HOME": str(self.home.path)},
            )
        os.close(says)
        with os.fdopen(ready, "rb") as answer:
            said = answer.read()
        process.returncode = 0
        if said.startswith(b"{"):
            raise error_of(said)
        self._await_socket()

    def _make_home(self) -> None:
        try:
            self.home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.home.log.open("ab").close()
        except OSError as problem:
            raise Refused(
                f"nothing can be written here: {problem.strerror}",
                str(self.home.path),
                "TUTTI_HOME=FOLDER names another place",
            ) from None

    def _await_socket(self) -> None:
        """Another daemon may have won the race to start; then its socket is there in a moment."""
        limit = time.monotonic() + START_S
        while not self.is_up():
            if time.monotonic() > limit:
                raise NoDaemon("the daemon did not start", str(self.home.log), "look at the end of that file")
            time.sleep(0.02)

    # -- jobs

    def submit(self, command: list[str] | tuple[str, ...] | str = (), **job: Any) -> "JobHandle":
        """Submit one job: the keys of a job file as keywords. The daemon is started where there is none."""
        sent = described(command, job)
        self.start()
        row = self.post("/v1/jobs", {"jobs": [sent]})["jobs"][0]
        return self.handle(row["name"])

    def plan(self, command: list[str] | tuple[str, ...] | str = (), **job: Any) -> "PlanShown":
        """What would happen to such a job now, or without one what the plan is; nothing is submitted."""
        from .handles import PlanShown  # noqa: PLC0415 - no command needs it

        sent = described(command, job)
        self.start()
        return PlanShown(self.post("/v1/plan", sent) if sent["job"] else self.get("/v1/plan"))

    def cluster(self) -> "ClusterShown":
        """The nodes and devices as they are now."""
        from .handles import ClusterShown  # noqa: PLC0415

        self.start()
        return ClusterShown(self.get("/v1/nodes")["nodes"])

    def waited(self, name: str, seconds: float) -> Answer:
        """A job that has ended, or the state it is in when the time is over.

        A daemon that goes away meanwhile is started again: the job goes on without it.
        """
        self._connect()
        while True:
            try:
                return self.get(job_path(name, "wait"), **{"for": int(seconds)})
            except NoDaemon:
                time.sleep(AGAIN_S)
                self.start()

    def jobs(self, which: str = "active") -> list[Answer]:
        """Jobs as rows."""
        found: list[Answer] = self.get("/v1/jobs", which=which)["jobs"]
        return found

    def job(self, name: str) -> "JobHandle":
        """A job that is there already."""
        self.get(job_path(name))
        return self.handle(name)

    def handle(self, name: str) -> "JobHandle":
        """A job by name, whether it is there or not."""
        from .handles import JobHandle  # noqa: PLC0415 - no command needs it

        return JobHandle(self, name)


def described(command: list[str] | tuple[str, ...] | str, job: Answer) -> Answer:
    """A job as it is sent: the keys of a job file, and where and by what it was submitted."""
    from .context import context  # noqa: PLC0415 - only submissions need it

    said = {**job, "command": command} if command else job
    return {"job": said, "context": context(said)}


def job_path(name: str, *rest: str) -> str:
    """The route of a job."""
    return "/".join(["/v1/jobs", quote(name, safe=""), *rest])


def error_of(data: bytes) -> TuttiError:
    """The error an answer tells of."""
    try:
        said = json.loads(data)
        kind = ERRORS.get(int(said.get("code", 1)), TuttiError)
        return kind(said["error"], said.get("where") or None, said.get("hint") or None)
    except (ValueError, KeyError, TypeError):
        return TuttiError(f"the daemon answered with something strange: {data[:200]!r}")


def connect(where: str = "") -> Client:
    """A client of this user's daemon, or of the one in another home. `submit` starts the daemon where there is none."""
    from pathlib import Path  # noqa: PLC0415

    return Client(Home(Path(where).absolute()) if where else None)
