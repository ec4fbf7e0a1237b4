"""The port: opened when somebody asks for the page, and again by the next daemon, until somebody closes it."""

import asyncio
import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import msgspec

from tutti.api.home import Home
from tutti.api.http import MOST_HEAD, Request, Response, serve_connection
from tutti.api.routes import Service
from tutti.errors import Misused, Refused

from .guard import Guard
from .peer import is_loopback, peer_uid
from .site import Site, user_of
from .token import Tokens

MOST_BODY = 1 << 20
MOST_CONNECTIONS = {True: 200, False: 50}
"""Of the owner, and of everybody else together: nobody can keep the owner out."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/serve: where to open the page; the same is kept for the next daemon."""

    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    """Names by which the page may be called, beside those of this machine."""
    fresh: bool = False
    """A new token; the old one is worth nothing from now on."""
    close: bool = False


class Port:
    """One TCP port, open or not."""

    def __init__(self, service: Service, home: Home) -> None:
        self._service, self._home = service, home
        self._kept = home.path / "page.json"
        self._server: asyncio.Server | None = None
        self._guard: Guard | None = None
        self.tokens = Tokens(home)
        self._where = Asked()
        self._connections = {True: 0, False: 0}

    async def open(self, said: dict[str, Any]) -> str:
        """Open, move or close the port. Returns the address, without the token; empty when it is closed."""
        asked = _asked(said)
        if asked.close:
            self.close(forget=True)
            return ""
        if not self._stays(asked):
            await self._listen(asked)
        self._where = msgspec.structs.replace(asked, port=self.number, fresh=False)
        try:
            self.tokens.of(os.getuid())
            self._guard = Guard(self.tokens.owner, asked.host, asked.names)
            _write(self._kept, msgspec.json.encode(self._where))
        except OSError as problem:
            self.close()
            raise Refused(f"the token cannot be written: {problem.strerror}", str(self._home.token)) from None
        return self.address

    async def again(self) -> str:
        """Open the port that an earlier daemon had open, if any."""
        try:
            kept = msgspec.json.decode(self._kept.read_bytes())
        except (OSError, msgspec.DecodeError):
            return ""
        self.tokens.recall()
        with contextlib.suppress(Misused, Refused, OSError):
            return await self.open(kept)
        return ""

    def look(self, said: dict[str, Any]) -> str:
        """The address for somebody who may not open, move or close the page. Raises Refused, where that was asked."""
        if self._server is None:
            raise Refused("the page is not open", hint="an administrator opens it: sudo tutti serve")
        if msgspec.structs.replace(_asked(said), fresh=False) not in {Asked(), self._where}:
            raise Refused("only an administrator may move or close the page", hint="tutti serve")
        return self.address

    def token(self, uid: int, fresh: bool) -> str:
        """The token of a user, which may be a new one."""
        try:
            return self.tokens.of(uid, fresh)
        except OSError as problem:
            raise Refused(f"the token cannot be written: {problem.strerror}", str(self._home.path)) from None

    def close(self, forget: bool = False) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if forget:
            self._kept.unlink(missing_ok=True)

    @property
    def number(self) -> int:
        """The port that was got."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """Where the page is."""
        host = f"[{self._where.host}]" if ":" in self._where.host else self._where.host
        return f"http://{host}:{self.number}/"

    def _stays(self, asked: Asked) -> bool:
        return self._server is not None and asked.host == self._where.host and asked.port in {0, self._where.port}

    async def _listen(self, asked: Asked) -> None:
        server = await self._bound(asked)
        self.close()
        self._server = server

    async def _bound(self, asked: Asked) -> asyncio.Server:
        # The port of last time, where nobody says which: a bookmark goes on working.
        wanted = [asked.port] if asked.port else [_kept_port(self._kept), 0]
        for port in wanted:
            try:
                return await asyncio.start_server(self._connected, asked.host, port, limit=MOST_HEAD)
            except OSError as problem:
                if port and not asked.port:
                    continue
                raise Refused(*_why(asked, port, problem)) from None
        raise AssertionError("the last port tried is any")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owner = self._is_owner(writer)
        if self._connections[owner] >= MOST_CONNECTIONS[owner] or self._guard is None:
            writer.close()
            return

        async def handle(request: Request) -> Response:
            # The guard may have changed since the connection was made.
            assert self._guard is not None
            return await Site(self._service, self._guard, user_of(os.getuid()), owner).handle(request)

        self._connections[owner] += 1
        try:
            await serve_connection(reader, writer, handle, lambda _: None, MOST_BODY)
        finally:
            self._connections[owner] -= 1

    def _is_owner(self, writer: asyncio.StreamWriter) -> bool:
        theirs, ours = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        if not theirs or not is_loopback(self._where.host):
            return False
        return peer_uid(theirs[:2], ours[:2]) in {os.getuid(), 0}


def _asked(said: dict[str, Any]) -> Asked:
    try:
        asked = msgspec.convert(said, Asked)
    except msgspec.ValidationError as problem:
        raise Misused(f"this is not how to open a page: {problem}") from None
    if not 0 <= asked.port < 65536:
        raise Misused(f"there is no port {asked.port}", hint="one from 1 to 65535, or 0 for any")
    return asked


def _kept_port(path: Path) -> int:
    try:
        return int(msgspec.json.decode(path.read_bytes())["port"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
        return 0


def _why(asked: Asked, port: int, problem: OSError) -> tuple[str, str, str]:
    where = f"{asked.host}:{port}"
    if problem.errno == errno.EADDRINUSE:
        return f"port {port} is taken", where, "another --port, or none"
    if problem.errno == errno.EACCES:
        return f"port {port} is for administrators", where, "a --port above 1023"
    return f"the page cannot be opened there: {problem.strerror or problem}", where, "--host 127.0.0.1"


def _write(path: Path, data: bytes) -> None:
    half = path.with_name(f"{path.name}.{os.getpid()}")
    half.write_bytes(data)
    half.replace(path)
