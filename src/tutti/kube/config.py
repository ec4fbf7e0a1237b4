"""What an administrator may set: a TOML file (or the ConfigMap `tutti`), and the queues in it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from tutti.engine.bounds import wrong
from tutti.engine.model import DAY, Data, Queue
from tutti.engine.policy import Growth, Order, Policy, Reclaim, Reservation, Term
from tutti.engine.read_policy import read_policy
from tutti.errors import Misused
from tutti.jobs.durations import duration
from tutti.jobs.kube.resources import read as amounts
from tutti.jobs.problems import Misread

from .kinds import DIALECT_OF

DEFAULT = Policy(
    name="kube",
    order=Order(terms=(Term.PRIORITY, Term.SLACK, Term.AGE)),
    reserve=Reservation(depth=4, backfill=Term.AGE, max_wait=1 * DAY),
    reclaim=Reclaim(min_run=0, lowest_first=True),
    grow=Growth(cool_down=0),
)
"""As people there expect: who came first goes first, whatever its length, and the first few have a promise; a
preemptor does not wait until its victim has run for a while, surplus is bound at once, and the lowest priority goes
first."""


NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LEVEL = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LONGEST_NAME = 63
DIALECTS = frozenset({"native", "yunikorn", *DIALECT_OF.values()})
MONTH = 30 * 86_400
TIMES = ("max_wait", "min_run", "default_estimate", "slice")
RANGES = {
    "start_within": (1, MONTH),
    "up_within": (1, MONTH),
    "evict_within": (1, MONTH),
    "resync": (1, MONTH),
    "connections": (1, 1000),
    "lease_seconds": (1, 3600),
}
"""Of each setting that is a number, the least and the most."""


class Config(Data, frozen=True):
    """The settings of `tutti kube run`."""

    scheduler_name: str = "tutti"
    namespace: str = "tutti-system"
    levels: tuple[str, ...] = ()
    """Labels of nodes that are levels of the topology, beside those that pods and groups name."""
    dialects: tuple[str, ...] = ()
    """Dialects whose objects are read beside the native ones; all that the cluster serves where none is named."""
    policy: Policy = DEFAULT
    queues: tuple[Queue, ...] = ()
    start_within: int = 120
    """Seconds a gang has from its first bind until it is whole; then it is finished or undone."""
    up_within: int = 1800
    """Seconds a bound gang has until all its members run."""
    evict_within: int = 600
    """Seconds after which a gang that disruption budgets keep is asked to leave no more, and spared as long."""
    resync: int = 600
    """Seconds between two comparisons of everything that is known with a full listing and with the engine's books."""
    connections: int = 24
    lease_seconds: int = 15
    """How long a leader that is not heard of stays the leader."""


def read(path: str | None) -> Config:
    """The file named, or the defaults."""
    if path is None:
        return Config()
    try:
        return parse(Path(path).read_text(), path)
    except OSError as problem:
        raise Misused(f"cannot read {path!r}: {problem.strerror}") from None


def parse(text: str, source: str) -> Config:
    """Settings from TOML; what is wrong is said with its place."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise Misused(f"not TOML: {problem}", where=source) from None
    policy = _policy(data.pop("policy", None), source)
    queues = _queues(data.pop("queues", {}), source)
    if unknown := sorted(set(data) - set(Config.__struct_fields__)):
        known = ", ".join(Config.__struct_fields__)
        raise Misused(f"there is no setting {unknown[0]!r}", where=source, hint=f"one of {known}")
    try:
        settings = msgspec.convert(data, Config)
    except msgspec.ValidationError as problem:
        known = ", ".join(name for name in Config.__struct_fields__)
        raise Misused(str(problem), where=source, hint=f"one of {known}") from None
    return checked(msgspec.structs.replace(settings, policy=policy, queues=queues), source)


def checked(settings: Config, source: str | None = None) -> Config:
    """The same, where it makes sense; what does not is said."""
    for key, (least, most) in RANGES.items():
        if not least <= getattr(settings, key) <= most:
            hint = f"a whole number from {least} to {most}"
            raise Misused(f"{key} is {getattr(settings, key)}", where=source, hint=hint)
    named(settings.scheduler_name.replace(".", "-"), "scheduler_name", source)
    named(settings.namespace, "namespace", source)
    if odd := sorted(set(settings.dialects) - DIALECTS):
        raise Misused(f"there is no dialect {odd[0]!r}", where=source, hint=f"one of {', '.join(sorted(DIALECTS))}")
    if odd := [level for level in settings.levels if not LEVEL.fullmatch(level)]:
        hint = "the key of a label of nodes, as topology.kubernetes.io/zone"
        raise Misused(f"levels: {odd[0]!r} is no key of a label", where=source, hint=hint)
    return settings


def named(name: str, what: str, source: str | None = None) -> str:
    """The same name, where an object of Kubernetes may have it."""
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        hint = f"a name of at most {LONGEST_NAME} small letters, digits and dashes, as tutti-system"
        raise Misused(f"{what} is {name[:80]!r}", where=source, hint=hint)
    return name


def _policy(written: Any, source: str) -> Policy:
    if written is None:
        return DEFAULT
    if not isinstance(written, str):
        raise Misused("policy is not a text", where=source, hint="a preset's name, or the text of a policy file")
    return read_policy(written if "=" in written else f'preset = "{written}"', source)


def _queues(written: Any, source: str) -> tuple[Queue, ...]:
    if not isinstance(written, dict):
        raise Misused("queues is not a table", where=source, hint="[queues.research]")
    return tuple(queue(name, entry, source) for name, entry in written.items())


def queue(name: str, entry: dict[str, Any], source: str) -> Queue:
    """One queue: amounts are written as Kubernetes writes them, times as everywhere: 90, 30m, 2h30m."""
    try:
        said = dict(entry)
        for field in ("guarantee", "limit", "user_limit"):
            if field in said:
                said[field] = amounts(said[field])
        said |= {field: duration(said[field]) for field in TIMES if field in said}
        said["bounds"] = [_bound(bound) for bound in said.get("bounds", ())]
        found = msgspec.convert({"name": name, **said}, Queue)
        if problem := wrong(found):
            raise ValueError(problem)
        return found
    except (msgspec.ValidationError, Misread, ValueError, TypeError, AttributeError) as problem:
        known = ", ".join(field for field in Queue.__struct_fields__ if field != "name")
        raise Misused(f"queue {name!r}: {problem}", where=source, hint=f"fields: {known}") from None


def _bound(written: dict[str, Any]) -> dict[str, Any]:
    """What users may have, its amounts read."""
    return {**written, "limit": amounts(written.get("limit") or {})}
