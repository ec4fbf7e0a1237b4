"""The whole table, by dialect, and the rows by which something is refused."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from tutti.jobs.kube.objects import Meta, Thing

from . import coscheduling, kai, koordinator, kueue, native, volcano, yunikorn
from .row import Row, Verdict

TABLE: dict[str, tuple[Row, ...]] = {
    "native": native.ROWS,
    "coscheduling": coscheduling.ROWS,
    "volcano": volcano.ROWS,
    "koordinator": koordinator.ROWS,
    "kueue": kueue.ROWS,
    "kai": kai.ROWS,
    "yunikorn": yunikorn.ROWS,
    "kubeflow": yunikorn.KUBEFLOW_ROWS,
    "kube-batch": volcano.OLD_ROWS,
}
"""Dialects, and what becomes of each of their keys."""
POD, GROUP = "Pod", "PodGroup"


def _refusing(*on: str) -> dict[str, Row]:
    """Rows by the annotation or label whose presence is refused."""
    rows = (row for rows in TABLE.values() for row in rows if row.on in on and not row.by_code)
    return {row.name: row for row in rows if row.verdict is Verdict.REFUSED and row.key != row.name}


ON_PODS, ON_GROUPS = _refusing(POD), _refusing(GROUP)


def refused_by(meta: Meta, rows: dict[str, Row]) -> str:
    """The first annotation or label of an object that cannot be honoured; nothing where there is none."""
    for found in (meta.annotations, meta.labels):
        if found and not rows.keys().isdisjoint(found):
            hit = next((rows[key] for key in found if key in rows and rows[key].refuses(found[key])), None)
            if hit is not None:
                return hit.key + (f": {found[hit.name]}" if hit.only else "")
    return ""


def _names() -> dict[str, frozenset[str]]:
    """Labels and annotations that are known, by the domain they are under."""
    found: dict[str, set[str]] = {OURS: set(OUR_NAMES)}
    for row in (row for rows in TABLE.values() for row in rows if row.key != row.name and "/" in row.name):
        domain, _, name = row.name.partition("[]")[0].partition("/")
        found.setdefault(domain, set()).add(name)
    return {domain: frozenset(names) for domain, names in found.items() if domain not in SHARED}


OURS, OUR_NAMES = "tutti.dev", ("time", "queue", "movable", "role")
SHARED = frozenset({"scheduling.k8s.io", "training.kubeflow.org"})
"""Domains of which others have many more names than are known here."""
CLOSE = 0.85
NAMES = _names()


def strange(meta: Meta) -> list[str]:
    """Labels and annotations that nobody knows and that look like one of those that are known: typing errors."""
    keys = (key for found in (meta.annotations, meta.labels) for key in found or () if "/" in key)
    return [f"{key} is not known; write {known}" for key in keys if (known := _meant(key))]


@lru_cache(maxsize=4096)
def _meant(key: str) -> str:
    """The known key that an unknown one was probably meant to be; nothing where there is none."""
    domain, _, name = key.partition("/")
    names = NAMES.get(domain)
    if names is None or name in names:
        return ""
    if domain == OURS:
        close = get_close_matches(name, sorted(names), 1) or sorted(names)
        return " or ".join(f"{domain}/{one}" for one in close)
    return next((f"{domain}/{close}" for close in get_close_matches(name, sorted(names), 1, CLOSE)), "")


def unknown_fields(dialect: str, thing: Thing) -> list[str]:
    """Fields of a group that are on no row of the table."""
    known = _fields(dialect)
    return [f"spec.{field[:80]} is not known and not read" for field in thing.spec or {} if field not in known]


@lru_cache
def _fields(dialect: str) -> frozenset[str]:
    rows = (row for row in TABLE[dialect] if row.key.startswith("spec."))
    return frozenset(row.key.split(".")[1].removesuffix("[]") for row in rows)


def unread(dialect: str, on: str, thing: Thing) -> Iterator[str]:
    """What an object says that is not read, with the reason, one sentence each."""
    for row in TABLE[dialect]:
        if row.on == on and row.refuses(_found(thing, row)):
            yield f"{row.key} is not read: {row.does}"


def _found(thing: Thing, row: Row) -> object:
    word, _, name = row.key.rpartition(" ")
    if word:
        return ((thing.metadata.labels if word == "label" else thing.metadata.annotations) or {}).get(name)
    return at_path({"spec": thing.spec, "status": thing.status}, row.key)


def at_path(found: Any, path: str) -> object:
    """What is at a path of plain data; None where there is nothing."""
    for name in path.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found
