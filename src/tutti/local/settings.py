"""The configuration of one box: one TOML file, every key of it optional, checked before it is used."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from tutti.engine.bounds import wrong
from tutti.engine.model import DAY, Bound, Data, Queue
from tutti.engine.policy import Policy
from tutti.engine.read_policy import BadPolicy, duration, read_policy
from tutti.errors import Misused
from tutti.jobs.amounts import memory
from tutti.jobs.file import Lines, toml_lines
from tutti.jobs.problems import BadJob, Misread, Problem, nearest
from tutti.views.queue import known_columns


class QueueSettings(Data, frozen=True, kw_only=True):
    """A queue: who may use how much of the box."""

    parent: str = ""
    """The queue it is part of."""
    weight: int = 1
    """Its part of what nobody is guaranteed."""
    guarantee: dict[str, int] = {}
    """What it gets back whenever it needs it: { gpu = 4 }."""
    limit: dict[str, int] = {}
    """What it may never exceed."""
    user_limit: dict[str, int] = {}
    """What one user may never exceed in it."""
    max_running: int | Literal["any"] = "any"
    """The most jobs that run at once, in it and its parts."""
    bounds: tuple[Bound, ...] = ()
    """What users and groups may have that are named: { users = ["ann"], max_running = 2, limit = { gpu = 4 } }."""
    closed: bool = False
    """Nothing new starts."""
    strict: bool = False
    """Nobody passes the first that cannot start."""
    max_wait: int | str = 0
    """After so long a job of this queue gets a promise; 0 takes what the policy says."""
    min_run: int | str = 0
    """Once started, its jobs are not interrupted for so long; 0 takes what the policy says."""
    default_estimate: int | str = 0
    """How long its jobs are taken to run where nobody knows."""
    slice: int | str = 0
    """Gangs take turns of this length."""
    hooks: dict[str, str] = {}
    """A command or an address for each of submitted, started, finished, failed ..."""

    def queue(self, name: str) -> Queue:
        """As the engine sees it."""
        return Queue(
            name=name,
            parent=self.parent,
            guarantee=self.guarantee,
            limit=self.limit,
            user_limit=self.user_limit,
            weight=self.weight,
            closed=self.closed,
            strict=self.strict,
            max_wait=duration(self.max_wait),
            min_run=duration(self.min_run),
            default_estimate=duration(self.default_estimate),
            slice=duration(self.slice),
            max_running=None if self.max_running == "any" else self.max_running,
            bounds=self.bounds,
        )


class DeviceSettings(Data, frozen=True, kw_only=True):
    """Which devices there are."""

    made_up: int | str = ""
    """Made-up ones instead of real ones: '8', '4x8' (nodes x devices), '2x4x8:h100' (racks x nodes x devices)."""
    exclude: tuple[int, ...] = ()
    """Devices that are never used."""
    cpu_slots: int = 0
    """Without GPUs: how many slots; 0 means one for each core."""
    health: str = ""
    """A command that is run before a start, with the devices in its environment; when it fails, they are drained."""


class LogSettings(Data, frozen=True, kw_only=True):
    """What members write."""

    bytes: int | str = "64MiB"
    """Most of one rank's log; as much again is kept in the rotated file."""
    keep: int | str = "30d"
    """How long logs of ended jobs are kept."""
    total: int | str = "10GiB"
    """Most of all logs together; the oldest go first."""


class HistorySettings(Data, frozen=True, kw_only=True):
    """What is remembered of ended jobs."""

    keep: int | str = "365d"
    """How long ended jobs, and who did what, are remembered."""
    jobs: int = 100_000
    """Most ended jobs that are kept."""
    audit: int = 1_000_000
    """Most entries of who did what that are kept."""


class Settings(Data, frozen=True, kw_only=True):
    """All of it."""

    policy: dict[str, object] = {}
    """The keys of a policy file; see the page on policies."""
    queues: dict[str, QueueSettings] = {}
    devices: DeviceSettings = DeviceSettings()
    logs: LogSettings = LogSettings()
    history: HistorySettings = HistorySettings()
    hooks: dict[str, str] = {}
    """Hooks of every job."""
    admins: tuple[str, ...] = ()
    """Users who may change the jobs of others, beside root and the owner of the daemon."""
    columns: dict[str, str] = {}
    """Sets of columns by name: with `mine = "name,why,eta"` here, `tutti queue --columns mine` shows those."""

    def engine_policy(self) -> Policy:
        """The policy as the engine reads it."""
        return read_policy(_toml(self.policy), "[policy]")

    def engine_queues(self) -> tuple[Queue, ...]:
        """The queues, with the one that jobs use that name none."""
        named = {"default": QueueSettings(), **self.queues}
        return tuple(settings.queue(name) for name, settings in named.items())

    @property
    def log_bytes(self) -> int:
        return memory(self.logs.bytes)

    @property
    def keep_logs(self) -> int:
        return duration(self.logs.keep) or DAY


def read_settings(path: Path) -> Settings:
    """The configuration in a file; the defaults where there is none. Raises Misused, with what is wrong."""
    if not path.exists():
        return Settings()
    try:
        return checked(path.read_text(), str(path))
    except OSError as problem:
        raise Misused(f"the configuration cannot be read: {problem.strerror}", str(path)) from None


def checked(text: str, source: str) -> Settings:
    """The configuration in a text, after everything in it was tried."""
    try:
        data = tomllib.loads(text)
        if problems := list(_problems(data, text, source)):
            raise BadJob(problems, source)
        settings = msgspec.convert(data, Settings)
        settings.engine_policy()
        for queue in settings.engine_queues():
            if problem := wrong(queue):
                raise ValueError(f"queues.{queue.name}: {problem}")
        for names in settings.columns.values():
            known_columns(names.split(","))
        memory(settings.logs.bytes), memory(settings.logs.total)
        duration(settings.logs.keep), duration(settings.history.keep)
    except tomllib.TOMLDecodeError as problem:
        found = re.search(r" \(at line (\d+).*", str(problem))
        line = found[1] if found else str(len(text.rstrip().splitlines()))
        what = str(problem).replace(found[0] if found else "(at end of document)", "" if found else "where it ends")
        raise Misused(f"the configuration is not TOML: {what}", f"{source}, line {line}") from None
    except msgspec.ValidationError as problem:
        raise Misused(f"the configuration is wrong: {problem}", source) from None
    except (ValueError, Misread) as problem:
        raise Misused(f"the configuration is wrong: {problem}", source) from None
    unknown = [
        entry.parent for entry in settings.queues.values() if entry.parent and entry.parent not in settings.queues
    ]
    if unknown:
        raise Misused(f"a queue is part of {unknown[0]!r}, and there is no such queue", source)
    return settings


def _problems(data: dict[str, Any], text: str, source: str) -> Iterator[Problem]:
    """Keys that nobody knows and values of the wrong kind, all of them, each with its line."""
    line_of = toml_lines(text)
    for path, found, kind in _tables(data):
        known = {key: value for key, value in found.items() if key in kind.__struct_fields__}
        for key in found.keys() - known.keys():
            here = (*path, key)
            hint = nearest(key, kind.__struct_fields__)
            yield Problem(f"unknown key {'.'.join(here)!r}", "", hint, source, line_of(*here))
        for key, value in known.items() if path else ():
            try:
                msgspec.convert({key: value}, kind)
            except msgspec.ValidationError as problem:
                here = (*path, key)
                what = str(problem).partition(" - at ")[0].replace("`", "").lower()
                yield Problem(f"{'.'.join(here)}: {what}", "", "", source, line_of(*here))
    yield from _of_policy(data.get("policy"), line_of, source)


def _of_policy(written: object, line_of: Lines, source: str) -> Iterator[Problem]:
    """What the engine says of the policy, with the lines that it has here."""
    try:
        read_policy(_toml(written if isinstance(written, dict) else {}))
    except BadPolicy as wrong:
        for one in wrong.problems:
            here = ("policy", *filter(None, one.where.split(".")))
            yield Problem(f"{'.'.join(here)}: {one.what}", "", one.hint, source, line_of(*here))


def _tables(data: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, Any], type[Data]]]:
    """Every table of the configuration, with where it stands and what may be in it."""
    yield (), data, Settings
    for name, kind in (("devices", DeviceSettings), ("logs", LogSettings), ("history", HistorySettings)):
        if isinstance(found := data.get(name), dict):
            yield (name,), found, kind
    queues = data.get("queues")
    for name, found in queues.items() if isinstance(queues, dict) else ():
        if isinstance(found, dict):
            yield ("queues", name), found, QueueSettings


def _toml(data: dict[str, object]) -> str:
    """Plain data as TOML, as far as a policy needs it."""
    plain = [f"{key} = {_value(value)}" for key, value in data.items() if not isinstance(value, dict)]
    tables = [f"[{key}]\n{_toml(value)}" for key, value in data.items() if isinstance(value, dict)]
    return "\n".join([*plain, *tables])


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return msgspec.json.encode(value).decode()
