"""All shelves of a run, one for each failure domain, and the checksums that are taken of them off the path."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tutti.train.agent.lines import Message
from tutti.train.agent.shelf import Entry, Shelf, TooSmall

SHARE = 0.05
IDLE_S = 0.05


class Cabinet:
    """Reserves, retires and checks the slots of all members. A domain's shelf is what its loss takes with it."""

    def __init__(self, folder: Path, domains: tuple[str, ...] = ("",)) -> None:
        self.folder = folder
        self.domains = domains
        self._in_use: dict[tuple[str, str], str] = {}
        self._gather()

    def shelf(self, domain: str) -> Shelf:
        """A domain's shelf; made again when the domain was lost."""
        path = self.folder / domain
        path.mkdir(exist_ok=True, mode=0o700)
        return Shelf(path)

    def shelves(self) -> list[Shelf]:
        return [self.shelf(domain) for domain in self.domains]

    def entries(self) -> list[Entry]:
        return [entry for shelf in self.shelves() for entry in shelf.entries()]

    def reserve(self, domain: str, member: str, role: str, entry: Entry) -> None:
        """Slots for what a member keeps in one role: its own snapshots, those of a buddy, or a guest's."""
        self.shelf(domain).reserve(entry)
        self._in_use[member, role] = entry.member

    def serve(self, domain: str, member: str, said: Message) -> str:
        """Slots that a member asks for; why it cannot have them, empty when it has them."""
        entry = Entry(said["shelf"], said["table"], said["data"], said["count"])
        try:
            self.reserve(domain, member, said.get("role", "own"), entry)
        except (TooSmall, OSError) as error:
            return str(error)
        return ""

    def clear(self) -> None:
        """Give all of it back."""
        for shelf in self.shelves():
            for entry in shelf.entries():
                shelf.remove(entry.member)

    def highest_number(self) -> int:
        """Of the members that kept anything here; -1 when there is nothing."""
        return max((int(entry.member[1:].partition("-")[0]) for entry in self.entries()), default=-1)

    def retire(self, step: int, members: list[str]) -> None:
        """Give back what nobody would go back to, now that this step is complete."""
        self._in_use = {key: name for key, name in self._in_use.items() if key[0] in members}
        kept = [name for (_, role), name in self._in_use.items() if role != "guest"]
        for shelf in self.shelves():
            shelf.retire(step, kept)

    def newest_generation(self) -> int:
        """The last generation that kept anything here."""
        labels = (label for shelf in self.shelves() for entry in shelf.entries() for label in shelf.labels(entry))
        return max((label.generation for label in labels), default=0)

    def memory_bytes(self) -> int:
        return sum(entry.memory_bytes for entry in self.entries())

    def replicas(self) -> int:
        """How many members have a copy of their state in another domain."""
        return sum(1 for (_, role) in self._in_use if role.startswith("buddy"))

    def digest_next(self) -> float:
        """Take the checksum of one sealed slot that has none; the seconds it took, 0 when there is none to take."""
        began = time.monotonic()
        for shelf in self.shelves():
            for entry in shelf.entries():
                for slot in shelf.open(entry):
                    is_done = slot.digest_unless_written()
                    slot.close()
                    if is_done:
                        return time.monotonic() - began
        return 0.0

    def _gather(self) -> None:
        """What a run with another number of domains left here is moved to where this one looks."""
        into = self.folder / self.domains[0]
        into.mkdir(parents=True, exist_ok=True, mode=0o700)
        known = {self.folder / domain for domain in self.domains}
        for folder in [self.folder, *(path for path in self.folder.iterdir() if path.is_dir())]:
            if folder not in known:
                for path in [path for path in folder.iterdir() if path.is_file()]:
                    path.rename(into / path.name)


def rehearsed(count: int) -> tuple[str, ...]:
    """The names of failure domains that are tried on one machine."""
    return tuple(f"d{number}" for number in range(count)) if count > 1 else ("",)


def shelves_in(folder: Path) -> list[Shelf]:
    """The shelves of all failure domains whose memory is on this machine."""
    return [Shelf(path) for path in [folder, *folder.iterdir()] if path.is_dir()] if folder.is_dir() else []


class Checksums(threading.Thread):
    """Hashes what was sealed, in a twentieth of one processor: the hash releases the interpreter's lock."""

    def __init__(self, cabinet: Cabinet) -> None:
        super().__init__(name="tutti-checksums", daemon=True)
        self._cabinet = cabinet
        self._ended = threading.Event()

    def run(self) -> None:
        pause_s = IDLE_S
        while not self._ended.wait(pause_s):
            try:
                pause_s = max(IDLE_S, self._cabinet.digest_next() * (1 - SHARE) / SHARE)
            except OSError:
                pause_s = IDLE_S

    def end(self) -> None:
        self._ended.set()
        self.join(10)
