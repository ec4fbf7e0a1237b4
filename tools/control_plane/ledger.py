"""Who has written which field of which object, one after the other, from the `managedFields` that the API server keeps.

Two managers that take a field from each other in turn are a quarrel: each undoes what the other did, for ever.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tutti.kube.api import Api
from tutti.kube.credentials import from_file
from tutti.kube.watch import Listener


class Meta(msgspec.Struct, rename="camel"):
    """Who has written what."""

    name: str
    uid: str
    resource_version: str
    managed_fields: list[dict[str, Any]] = []


class Written(msgspec.Struct):
    """Of any object."""

    metadata: Meta


class Quarrel(NamedTuple):
    """A field that somebody got back after another had it, and who had it when."""

    name: str
    path: str
    told: tuple[frozenset[str], ...]

    def between(self, who: str) -> bool:
        """Whether somebody takes part in it, with another."""
        return any(who in owners for owners in self.told) and any(owners - {who} for owners in self.told)


def leaves(tree: dict[str, Any], above: str = "") -> Iterator[str]:
    """Fields, as paths."""
    for key, below in tree.items():
        if below:
            yield from leaves(below, f"{above}/{key}")
        elif key != ".":
            yield f"{above}/{key}"


class Ledger:
    """Who has owned each field of every object."""

    def __init__(self) -> None:
        self.owners: dict[str, dict[str, list[frozenset[str]]]] = {}
        """By the object's uid and the field."""
        self.names: dict[str, str] = {}
        self.versions: Counter[str] = Counter()
        """How often each manager was seen to have written something new, over all objects."""
        self._over: list[Quarrel] = []
        self._ever: dict[str, set[str]] = {}
        self._seen: dict[tuple[str, str, str, str], str] = {}

    def put(self, thing: Written) -> None:
        """An object as it is now."""
        meta = thing.metadata
        self.names[meta.uid] = meta.name
        now: dict[str, set[str]] = {}
        for entry in meta.managed_fields:
            self._count(meta.uid, entry)
            for path in leaves(entry.get("fieldsV1", {})):
                now.setdefault(path, set()).add(entry["manager"])
        fields = self.owners.setdefault(meta.uid, {})
        for path, who in now.items():
            history = fields.setdefault(path, [])
            if not history or history[-1] != who:
                history.append(frozenset(who))
                for each in who:
                    self._ever.setdefault(each, set()).add(path)

    def drop(self, thing: Written) -> None:
        """An object that is gone; only what was wrong with it is kept."""
        self.put(thing)
        uid = thing.metadata.uid
        self._over += self._of(uid)
        del self.owners[uid], self.names[uid]
        for key in [key for key in self._seen if key[0] == uid]:
            del self._seen[key]

    def quarrels(self) -> list[Quarrel]:
        """Of all objects that are there or were."""
        return self._over + [quarrel for uid in self.owners for quarrel in self._of(uid)]

    def fields_of(self, manager: str) -> set[str]:
        """Every field somebody has ever owned."""
        return self._ever.get(manager, set())

    def _of(self, uid: str) -> list[Quarrel]:
        told = self.owners[uid].items()
        return [
            Quarrel(self.names[uid], path, tuple(had)) for path, had in told if any(returns(had, w) for w in _all(had))
        ]

    def _count(self, uid: str, entry: dict[str, Any]) -> None:
        who = entry["manager"]
        key = uid, who, entry.get("subresource", ""), entry.get("operation", "")
        if self._seen.get(key) != entry.get("time", ""):
            self._seen[key] = entry.get("time", "")
            self.versions[who] += 1


def _all(told: list[frozenset[str]]) -> set[str]:
    return {who for owners in told for who in owners}


def returns(told: list[frozenset[str]], who: str) -> bool:
    """Whether somebody had it, lost it, and has it again."""
    had = [who in owners for owners in told]
    last = len(had) - had[::-1].index(True)
    return not all(had[had.index(True) : last])


@contextlib.asynccontextmanager
async def kept(kubeconfig: Path, *paths: str) -> AsyncIterator[Ledger]:
    """A ledger of everything that happens to these kinds."""
    api, ledger = Api(from_file(kubeconfig), len(paths) + 2), Ledger()
    listeners = [Listener(api, path, Written, ledger.put, ledger.drop, lambda: None) for path in paths]
    tasks = [asyncio.create_task(listener.follow()) for listener in listeners]
    try:
        yield ledger
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        api.close()
