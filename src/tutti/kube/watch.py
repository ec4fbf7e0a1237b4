"""List, then watch; when the stream ends go on from the last version; when that is too old list again and compare."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from .api import Api, ApiError, Meta
from .http import Broken

T = TypeVar("T")


class Line(msgspec.Struct):
    """One change, the object still unread."""

    type: str
    object: msgspec.Raw


GONE = 410


WITHIN = 90
"""Seconds in which a stream says how far it has come, whatever happens: bookmarks come once a minute."""


BRIEF = 1.0
"""Seconds a stream lasts at least; whoever ends it at once, each time, is not asked for another at once."""
FRESH = 10.0
"""Seconds for which a listing is good enough to go on from; a server that is busy is not asked for others meanwhile."""
LONGEST, SHORT = 30.0, 2.0
"""Seconds between two attempts to see a kind again; nodes and pods, without which nothing is decided, are urgent."""


class Stamp(msgspec.Struct, rename="camel"):
    """Which object, and which version of it."""

    uid: str = ""
    resource_version: str = ""


class Stamped(msgspec.Struct):
    """Of an object, only that."""

    metadata: Stamp


class Bookmark(msgspec.Struct):
    """Of an object, only how far it reaches."""

    metadata: Meta


class Listener(Generic[T]):
    """Keeps one kind of object up to date.

    `put` and `drop` are called for every change; after a gap, for every difference: objects that vanished unseen are
    dropped, and those that did not change are left alone.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        item: type[T],
        put: Callable[[T], None],
        drop: Callable[[T], None],
        changed: Callable[[], None],
        is_bulky: bool = False,
        **query: object,
    ) -> None:
        """Of objects that are bulky, and of pods, only the names are kept here."""
        self.api = api
        self.path = path
        self.item = item
        self.put = put
        self.drop = drop
        self.changed = changed
        self.query = query
        self.version = ""
        self.known: dict[str, tuple[str, T]] = {}
        """Version and object by uid."""
        self.lists = 0
        self.reopened = 0
        self.unreadable = 0
        Event = msgspec.defstruct("Event", [("type", str), ("object", item)])  # noqa: N806
        self._event: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)
        self._line = msgspec.json.Decoder(Line)
        self.trouble = ""
        """Why it is out of sight at the moment: what has become of it since the stream broke off is not known."""
        self._gone: set[str] | None = None
        """What has gone while a listing is compared."""
        self._is_urgent = item.__name__ in ("Node", "Pod")
        self._is_bulky = is_bulky or item.__name__ == "Pod"

    async def list(self) -> None:
        """Read everything and tell the differences to what was known."""
        items, version, unreadable = await self.api.list(self.path, self.item, **self.query)
        self.lists += 1
        self.unreadable += unreadable
        metas: list[Any] = [item.metadata for item in items]  # type: ignore[attr-defined]
        there = {meta.uid for meta in metas}
        # What is gone goes first: its name may have been given to another since.
        for uid in [uid for uid in self.known if uid not in there]:
            self._drop(self.known[uid][1])
        for item, meta in zip(items, metas, strict=True):
            kept = self.known.get(meta.uid)
            if kept is None or kept[0] != meta.resource_version:
                self._put(item)
        self.version = version
        self.changed()

    async def missed(self) -> int:
        """How many objects are not as a full listing has them, though the stream has come as far. Changes nothing.

        What happens meanwhile is no difference: whatever is newer than the listing, or has gone since it was asked for.
        Nor is what cannot be read; that is found out only where there seems to be a difference.
        """
        return await self._missed(Stamped) and await self._missed(self.item)

    async def _missed(self, read_as: type[Any]) -> int:
        self._gone = set()
        try:
            items, version, _ = await self.api.list(self.path, read_as, **self.query)
            there = {item.metadata.uid: item.metadata.resource_version for item in items}
            for _ in range(WITHIN):
                if not self._unlike(there, version) or is_older(version, self.version):
                    break
                await asyncio.sleep(1)
            return self._unlike(there, version)
        finally:
            self._gone = None

    def _unlike(self, there: dict[str, str], version: str) -> int:
        gone = self._gone or ()
        known = {uid: kept[0] for uid, kept in self.known.items()}
        unheard = sum(uid not in known and uid not in gone for uid in there)
        stale = sum(uid in known and known[uid] != at and is_older(known[uid], at) for uid, at in there.items())
        return unheard + stale + sum(uid not in there and is_older(at, version) for uid, at in known.items())

    async def follow(self) -> None:
        """Watch for ever; lists first where that has not been done."""
        failures, listed = 0, 0.0
        while True:
            asked = 0.0
            try:
                if not self.version:
                    await self.list()
                    listed = time.monotonic()
                began = time.monotonic()
                await self._stream()
                failures = 0
                self.reopened += 1
                if time.monotonic() - began < BRIEF:
                    await asyncio.sleep(pause(1))
                continue
            except ApiError as no:
                asked, self.trouble = no.retry_after, str(no)
                if no.status == GONE:
                    self.version = ""
            except Broken as problem:
                self.trouble = str(problem)
            except msgspec.DecodeError:
                # A line that was cut off, or is none of the server's: what it would have said is read anew.
                self.version, self.trouble = "", "a line that is no JSON"
            failures += 1
            if failures > 1 and self._is_urgent and time.monotonic() - listed > FRESH:
                # A stream that goes on from long ago is open before it has told what it missed.
                self.version = ""
            if failures > 1 or self.version:
                await asyncio.sleep(pause(failures, asked, SHORT if self._is_urgent else LONGEST))

    async def _stream(self) -> None:
        stream = self.api.watch(self.path, self.version, **self.query)
        async with contextlib.aclosing(stream):
            async for lines in stream:
                if self.trouble:
                    self.trouble = ""
                    self.changed()
                for line in lines:
                    if line:
                        self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = self._event.decode(line)
        except msgspec.ValidationError:
            self._skip(line)
            return
        if event.type == "ERROR":
            status: dict[str, Any] = msgspec.json.decode(self._line.decode(line).object)
            raise ApiError(int(status.get("code") or 0), str(status.get("reason")), str(status.get("message")))
        version = event.object.metadata.resource_version
        if is_older(version, self.version):
            # Told twice: what it says may have been undone since.
            return
        self.version = version
        if event.type == "BOOKMARK":
            return
        if event.type == "DELETED":
            self._drop(event.object)
        else:
            self._put(event.object)
        self.changed()

    def _skip(self, line: bytes) -> None:
        """An object nobody could have meant must not keep us from seeing the others."""
        self.unreadable += 1
        self.version = msgspec.json.decode(self._line.decode(line).object, type=Bookmark).metadata.resource_version

    def _put(self, item: T) -> None:
        meta: Any = item.metadata  # type: ignore[attr-defined]
        known = self.known.get(meta.uid)
        slim = item if not self._is_bulky else known[1] if known is not None else _bare(item)
        self.known[meta.uid] = (meta.resource_version, slim)
        self.put(item)

    def _drop(self, item: T) -> None:
        meta: Any = item.metadata  # type: ignore[attr-defined]
        self.known.pop(meta.uid, None)
        if self._gone is not None:
            self._gone.add(meta.uid)
        self.drop(item)


def _bare(item: T) -> T:
    """Only the name; there may be very many."""
    meta: Any = item.metadata  # type: ignore[attr-defined]
    slim = type(meta)(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return type(item)(metadata=slim)  # type: ignore[call-arg]


def is_older(version: str, than: str) -> bool:
    """Whether a version is not later than another; where they are no numbers, nobody can tell."""
    return version.isdigit() and than.isdigit() and int(version) <= int(than)


def pause(failures: int, asked: float = 0.0, most: float = LONGEST) -> float:
    """Longer each time, up to half a minute, and never all at once."""
    longest: float = min(0.2 * 2 ** min(failures, 8), most)
    return max(asked, longest * (0.5 + random.random() / 2))
