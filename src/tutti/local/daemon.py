"""The daemon: one process per home that decides, journals and answers. Gangs outlive it."""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import sqlite3
import struct
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tutti.api.home import Home, home
from tutti.api.http import MOST_HEAD, Request, serve_connection
from tutti.api.routes import handler
from tutti.drive.estimates import History, Memory
from tutti.drive.ledger import Ledger, LedgerState
from tutti.drive.loop import Driver, Keyed
from tutti.drive.notice import Notice
from tutti.drive.shell import run as drive
from tutti.engine.events import Ended, Event
from tutti.engine.model import ENDED, SECOND, Listing, State
from tutti.errors import Refused, TuttiError

from . import shelf
from .backend import LocalBackend
from .booking import Booking
from .chronicle import Chronicle
from .devices import Box, look, shared_locks, user_name
from .ends import Verdict
from .estimates import CommandHistory
from .fault import now_us, steady_us
from .forecasting import Forecasting
from .held import Held
from .hooks import Hooks
from .journal import Journal
from .keeper import cgroup
from .links import Nursery
from .ports import Ports
from .recover import Recovery
from .retention import Retention
from .service import LocalService
from .settings import Settings, read_settings
from .starting import Starting
from .upcoming import Upcoming
from .watching import Watching

if TYPE_CHECKING:
    from tutti.web.port import Port

KEEP_EVERY, KEEP_SOON = 10 * SECOND, 2 * SECOND
"""How often accounts are stored, and how soon when a job has ended: what it did must not be forgotten."""
LOOK_EVERY_S = 1.0
SWITCH_S = 0.0005
"""How long the thread that writes the journal may have to wait for a turn while the other one decides."""
LOCK_S = 10.0
TAKEN = 0
"""Exit code when another daemon is there already: not an error."""


class WallClock:
    """The clock on the wall."""

    def now(self) -> int:
        return now_us()

    async def sleep_until(self, moment: int) -> None:
        await asyncio.sleep(max((moment - now_us()) / SECOND, 0.0))


class CountingDriver(Driver):
    """Says which of the events that were told it has looked at."""

    seen: Callable[[int], None]

    def step(self, events: Iterable[Event], now: int) -> list[Keyed]:
        """Take in what happened."""
        taken = list(events)
        self.seen(len(taken))
        return super().step(taken, now)


class Daemon:
    """Everything put together."""

    def __init__(self, where: Home, settings: Settings, box: Box) -> None:
        self.home = where
        self.journal = Journal(where.journal)
        self._check_box(box)
        self.booking = Booking(box)
        self.booking.out = msgspec.json.decode(shelf.remembered(self.journal, "drained") or "{}", type=dict[str, str])
        ports = Ports(shared_locks())
        self.starting = Starting(where, box, settings, ports)
        self.backend = LocalBackend(self.booking, self.journal, self.starting, ports, Nursery())
        self.watching = Watching(settings.engine_policy())
        self.chronicle = Chronicle(self.journal, self.backend.held)
        self.history = self._history()
        self.ledger = self._ledger()
        self.driver = CountingDriver(
            settings.engine_policy(),
            can=self.backend.can,
            history=self.history,
            ledger=self.ledger,
            decide=self.watching.decide,
            tell=_log,
            watch=(self.chronicle.watch, self._watch),
            epoch=f"{os.getpid()}-{time.time_ns():x}/",
        )
        self.forecasting = Forecasting(self.driver, self.history.errors)
        self.forecasting.load(shelf.remembered(self.journal, "forecasts"))
        self.service = LocalService(
            where, settings, self.driver, self.backend, self.journal, self.chronicle, self.forecasting, self.watching
        )
        self.hooks = Hooks(settings)
        self.retention = Retention(where, self.journal, settings, self.service.sheets)
        self.service.on_settings = self._turn_to
        self._port: Port | None = None
        self._wire()
        self._kept_at = 0
        self._has_news = False
        self.shared = False
        """One service for all users: anybody may connect, and members run as whoever submitted them."""

    def _wire(self) -> None:
        self.watching.backend, self.watching.chronicle = self.backend, self.chronicle
        self.chronicle.world = lambda: self.driver.world
        self.chronicle.happened = self.hooks.happened
        self.backend.world_listing = self._listing
        self.backend.on_end = self._ended
        self.backend.on_news = self._news
        self.service.open_page = self._open_page
        self.backend.arming.upcoming = Upcoming(
            lambda: self.driver.world, self.service.line_up, self.backend.held, self.booking
        )
        self.backend.succession.driver = self.driver
        self.driver.seen = self._seen
        self._recall_outcomes()

    async def _open_page(self, asked: dict[str, Any], uid: int, may_move: bool) -> tuple[str, str]:
        """The address of the page, and the token of whoever asks for it."""
        port = self._page_port()
        address = await port.open(asked) if may_move else port.look(asked)
        return address, port.token(uid, bool(asked.get("fresh"))) if address else ""

    def _page_port(self) -> "Port":
        from tutti.web.port import Port  # noqa: PLC0415 - most daemons never open one

        self._port = self._port or Port(self.service, self.home)
        return self._port

    def _seen(self, events: int) -> None:
        self.backend.seen += events

    def _listing(self) -> Listing:
        return self.driver.world.listing()

    def _watch(self, event: object, touched: object) -> None:
        self.forecasting.book.watch(event, touched)  # type: ignore[arg-type]  # both come from the driver
        if isinstance(event, Ended):
            self.service.see_who_waits_in_vain()
        self.backend.arming.soon()

    def _ended(self, held: Held, found: Verdict, at: int) -> None:
        self._has_news = True
        self.chronicle.ended(held, found, at)
        self.service.has_ended(held.name)

    def _news(self, held: Held, kind: str, text: str) -> None:
        if kind:
            self.chronicle.entry(held, kind, text, now_us())
        if kind in {"", "lost"}:
            self.hooks.happened(held, kind or text)
        self.chronicle.feed.news("job", held.name)

    def _check_box(self, box: Box) -> None:
        """Gangs that run on devices which are gone must not be forgotten: another number of devices is refused."""
        before = shelf.remembered(self.journal, "devices")
        running = self.journal.rows("SELECT count(*) FROM runs WHERE phase NOT IN ('ended', 'ready')")[0][0]
        mine = f"{box.source}:{len(box.devices)}:{box.spec}"
        if before and before != mine and running:
            raise Refused(
                f"{running} runs are on other devices ({before}), so this daemon cannot start with {mine}",
                hint="start it with the same devices, and change them when nothing runs",
            )
        self.journal.later(shelf.kept("devices", mine), shelf.kept("spec", box.spec))

    # -- what is carried over from one daemon to the next

    def _history(self) -> History:
        text = shelf.remembered(self.journal, "history")
        return CommandHistory.recalled(msgspec.json.decode(text, type=Memory)) if text else CommandHistory()

    def _ledger(self) -> Ledger:
        ledger = Ledger("gpu")
        if text := shelf.remembered(self.journal, "ledger"):
            state = msgspec.json.decode(text, type=LedgerState)
            sql = "SELECT name, state FROM jobs WHERE ended >= ? ORDER BY ended"
            ledger.restore(state, {name: State(word) for name, word in self.journal.rows(sql, state.at)})
        return ledger

    def _recall_outcomes(self) -> None:
        ended = self.journal.rows("SELECT name, state FROM jobs WHERE ended > 0 ORDER BY ended DESC LIMIT 10000")
        for row in reversed(ended):
            state = State(row["state"])
            self.driver.intake.outcomes.remember(row["name"], state if state in ENDED else State.LOST)

    def keep(self) -> None:
        """Store what would otherwise be lost with this process."""
        self._kept_at, self._has_news = steady_us(), False
        encode = msgspec.json.encode
        usage = self.driver.world.listing().usage
        self.journal.later(
            shelf.kept("history", encode(self.history.memory()).decode()),
            shelf.kept("ledger", encode(self.ledger.state()).decode()),
            shelf.kept("usage", encode(usage).decode()),
            shelf.kept("forecasts", self.forecasting.dump()),
        )

    # -- running

    async def run(self, ready: int) -> None:
        """Until somebody says stop."""
        recovery = Recovery(self.backend, self.service.settings)
        self.backend.first_listing = recovery.listing()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.service.stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        server = await self._listen()
        recovery.take_ends()
        driving = asyncio.create_task(drive(self.driver, self.backend, WallClock(), self.service.stopping))
        await recovery.go_on()
        self.backend.arming.soon()
        looking = asyncio.create_task(self._look())
        say_ready(ready, b"ready")
        await self.backend.nursery.warm()
        if (self.home.path / "page.json").exists():
            self.service.page = await self._page_port().again()
        await self.service.stopping.wait()
        looking.cancel()
        server.close()
        # Whoever finds the socket and nobody listening takes the daemon for dead and starts it again.
        with contextlib.suppress(OSError):
            self.home.socket.unlink()
        if self._port is not None:
            self._port.close()
        await asyncio.wait([driving], timeout=5)
        await self.backend.arming.stand_down()
        self.close()

    def close(self) -> None:
        """Leave everything as the next daemon wants to find it."""
        self.chronicle.flush()
        self.keep()
        self.backend.close()
        self.journal.close()

    def _turn_to(self, settings: Settings) -> None:
        self.hooks.settings = self.retention.settings = settings

    def _reload(self) -> None:
        self.backend.spawn(self.service.reload(Request(method="POST", path="/", user="SIGHUP", uid=os.getuid())))

    async def _listen(self) -> asyncio.Server:
        """The socket appears under its name when it is listened on, and not before."""
        fresh = self.home.path / f"new-{os.getpid()}.sock"
        fresh.unlink(missing_ok=True)
        before = os.umask(0o111 if self.shared else 0o177)
        try:
            server = await asyncio.start_unix_server(self._connected, str(fresh), limit=MOST_HEAD, backlog=512)
        finally:
            os.umask(before)
        fresh.rename(self.home.socket)
        return server

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, uid = peer(writer.get_extra_info("socket"))
        user = user_name(uid)

        def who(request: Request) -> None:
            request.pid, request.uid, request.user = pid, uid, user

        with contextlib.suppress(asyncio.CancelledError):  # a daemon that ends hangs up
            await serve_connection(reader, writer, handler(self.service), who)

    async def _look(self) -> None:
        """Now and then; an idle daemon does next to nothing."""
        seen = -1
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            world = self.driver.world
            self.watching.look_around()
            if world.queued:
                self.watching.note_reasons([world.job_in(slot).gang.name for slot in list(world.queued)[:200]])
                await self.forecasting.refresh()
            self.service.sheets.turn(now_us(), world.version)
            due = KEEP_SOON if self._has_news else KEEP_EVERY
            if world.version != seen and steady_us() - self._kept_at > due:
                seen = world.version
                self.keep()
            await self.retention.turn()


def peer(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end of a Unix socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def _log(notice: Notice) -> None:
    sys.stderr.write(f"{notice.trouble}: {notice.gang} {notice.sentence}\n")
    sys.stderr.flush()


def say_ready(descriptor: int, what: bytes) -> None:
    """Tell whoever started us."""
    if descriptor >= 0:
        with contextlib.suppress(OSError):
            os.write(descriptor, what)
        with contextlib.suppress(OSError):
            os.close(descriptor)


def problem_json(problem: Exception) -> bytes:
    """An error as the client reads it."""
    if isinstance(problem, TuttiError):
        said = {"error": problem.what, "where": problem.where, "hint": problem.hint, "code": problem.exit_code}
    else:
        said = {"error": f"the daemon could not start: {type(problem).__name__}: {problem}", "code": 1}
    return json.dumps(said).encode()


def devices_in_use(where: Home) -> str:
    """Made-up devices that gangs of an earlier daemon run on or wait for: nobody has to name them again."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{where.journal}?mode=ro", uri=True)) as base:
            jobs = base.execute("SELECT 1 FROM jobs WHERE ended = 0 LIMIT 1").fetchone()
            spec = base.execute("SELECT value FROM meta WHERE key = 'spec'").fetchone()
    except sqlite3.Error:
        return ""
    return str(spec[0]) if jobs and spec else ""


def is_alone(where: Home, patience_s: float = LOCK_S) -> bool:
    """Whether this is the one daemon of its home; it is until it ends.

    One that was killed in the middle of a fork leaves its lock to the child for a moment: only a daemon that answers is
    taken for one.
    """
    lock = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    limit = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if answers(where) or time.monotonic() > limit:
                os.close(lock)
                return False
            time.sleep(0.02)
        else:
            return True


def answers(where: Home) -> bool:
    """Whether somebody listens on the socket of this home."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(str(where.socket))
        except OSError:
            return False
    return True


def main() -> int:
    """Start, unless a daemon of this home is there already."""
    parser = argparse.ArgumentParser(prog="tutti daemon")
    parser.add_argument("--devices", default=os.environ.get("TUTTI_DEVICES", ""))
    parser.add_argument("--ready", type=int, default=-1)
    parser.add_argument("--system", action="store_true", help="one service for all users of this machine")
    options = parser.parse_args()
    where = home()
    sys.setswitchinterval(SWITCH_S)
    try:
        where.make(options.system)
        if not is_alone(where):
            say_ready(options.ready, b"taken")
            return TAKEN
        settings = read_settings(where.config)
        box = look(
            options.devices or str(settings.devices.made_up or "") or devices_in_use(where),
            settings.devices.cpu_slots,
            settings.devices.exclude,
            where.locks,
        )
        asyncio.run(_run(where, settings, box, options))
    except Exception as problem:
        say_ready(options.ready, problem_json(problem))
        raise
    return 0


async def _run(where: Home, settings: Settings, box: Box, options: argparse.Namespace) -> None:
    daemon = Daemon(where, settings, box)
    daemon.shared = daemon.starting.shared = options.system
    if options.system:
        cgroup.nest()
    await daemon.run(options.ready)


if __name__ == "__main__":
    sys.exit(main())
