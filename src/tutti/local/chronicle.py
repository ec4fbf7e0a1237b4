"""Listens to every event of the driver: writes the story of each job, keeps its life in the journal, tells the page."""

import asyncio
from collections.abc import Callable

from tutti.api.news import Feed
from tutti.engine import events as ev
from tutti.engine.model import NEVER, SECOND, Job, Seats
from tutti.engine.world import Touched, World
from tutti.views.moments import clock_text, span

from . import shelf
from .ends import Verdict
from .held import Held
from .journal import Journal

FLUSH_S = 0.05


class Chronicle:
    """What happened, for people and for the next daemon."""

    def __init__(self, journal: Journal, held: dict[str, Held]) -> None:
        self._journal = journal
        self._held = held
        self._dirty: dict[str, None] = {}
        self._flushing = False
        self.feed = Feed()
        self._waited_for: dict[str, dict[str, int]] = {}
        self._sizes: dict[str, int] = {}
        self._missing: dict[str, list[int]] = {}
        """Ranks that were lost and have not been replaced."""
        self._promised: dict[str, int] = {}
        self.world: Callable[[], World] | None = None
        self.happened: Callable[[Held, str, Verdict | None], None] = lambda *_: None
        """Called at the moments that hooks know: submitted, started, resized, lost ..."""

    # -- listening

    def watch(self, event: ev.Event, touched: Touched) -> None:
        """One event was entered in the world."""
        name = getattr(event, "gang", None)
        if touched.note or name is None:
            self.feed.news("nodes" if touched.nodes else "queues")
            return
        name = name if isinstance(name, str) else name.name
        held = self._held.get(name)
        if held is None:
            return
        self._tell(held, event)
        self._dirty[name] = None
        self.feed.news("job", name)
        if isinstance(event, ev.Starting) and event.lent:
            # Whose room it is must be on the disk before it runs there: whoever comes after us could not tell.
            self.flush()
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def _tell(self, held: Held, event: ev.Event) -> None:
        match event:
            case ev.Starting():
                self._started(held, event)
            case ev.MemberLost():
                self._missing.setdefault(held.name, []).extend(event.ranks)
            case ev.Running():
                back = self._missing.pop(held.name, [])
                text = f"rank {', '.join(map(str, sorted(back)))} is back: " if back else ""
                self.entry(held, "running", f"{text}all members are up", event.at)
            case ev.Promised():
                self._promise(held, event)
            case ev.Resized():
                self._resized(held, event.seats, event.at)
            case ev.Leaving():
                room = f" to make room for {event.leaving_for}" if event.leaving_for else ""
                self.entry(held, "leaving", f"it was told to leave{room}", event.at)
            case ev.Held():
                self.entry(held, "held", "put on hold", event.at)
            case ev.Released():
                self.entry(held, "released", "the hold is over", event.at)

    def _started(self, held: Held, event: ev.Starting) -> None:
        self._missing.pop(held.name, None)
        members = sum(seats.members for seats in event.seats)
        self._sizes[held.name] = members
        waited = self._waited_for.pop(held.name, {})
        since = max(event.at - held.gang.submitted, 0)
        why = max(waited, key=lambda token: waited[token], default="")
        text = f"started with {members} {'member' if members == 1 else 'members'}, {span(since)} after it was submitted"
        text += ", in room that is kept for another" if event.lent else ""
        self.entry(held, "started", text + (f"; it waited mostly for {why}" if why else ""), event.at)
        self._promised.pop(held.name, None)
        self.happened(held, "started", None)

    def _promise(self, held: Held, event: ev.Promised) -> None:
        start = event.promise.start if event.promise else 0
        before = self._promised.get(held.name, 0)
        if not start or start >= NEVER or abs(start - before) < SECOND:
            return
        self._promised[held.name] = start
        word = "promised a start" if not before else "the promise was moved"
        self.entry(held, "promised", f"{word}: {clock_text(start, event.at)}", event.at)

    def _resized(self, held: Held, seats: tuple[Seats, ...], at: int) -> None:
        after = sum(one.members for one in seats)
        before = self._sizes.get(held.name, after)
        self._sizes[held.name] = after
        if held.is_loose or before == after:
            return
        self.entry(held, "resized", f"{'grew' if after > before else 'shrank'} from {before} to {after} members", at)
        self.happened(held, "resized", None)

    def waits(self, name: str, token: str, length: int) -> None:
        """A gang has waited for a reason for so long more."""
        mine = self._waited_for.setdefault(name, {})
        mine[token] = mine.get(token, 0) + length

    # -- writing

    def entry(self, held: Held, kind: str, text: str, at: int) -> None:
        """One line of a job's story."""
        self._journal.later(shelf.told(held.id, at, kind, text))

    def ended(self, held: Held, found: Verdict, at: int) -> None:
        """The last line."""
        code = f" with exit code {found.code}" if found.code else ""
        why = f": {found.why}" if found.why else ""
        self.entry(held, found.state.value, f"{found.state.value}{code}{why}", at)
        for known in (self._waited_for, self._sizes, self._promised, self._missing, self._dirty):
            known.pop(held.name, None)
        self.feed.news("job", held.name, found.state.value)
        self.happened(held, found.state.value, found)
        self.happened(held, "ended", found)

    def flush(self) -> None:
        """Put the lives that changed into the journal."""
        self._flushing = False
        assert self.world is not None
        world = self.world()
        for name in self._dirty:
            job = job_of(world, name)
            if job is not None and (held := self._held.get(name)) is not None:
                self._journal.later(shelf.lived(held, job.life))
        self._dirty.clear()

    # -- telling


def job_of(world: World, name: str) -> Job | None:
    """A gang of the world, by name."""
    slot = world.slots.get(name, -1)
    return world.jobs[slot] if slot >= 0 else None
