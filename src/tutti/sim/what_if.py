"""What starts when, before and after a change: the same futures on a view as it is and as it would be."""

import gzip
import tomllib
from pathlib import Path

import msgspec

from tutti.engine.edit import AnyEdit, RemoveNodes, SetQueue, Submit, Value, edited, nodes_like
from tutti.engine.forecast import roll
from tutti.engine.model import DAY, Data, Gang
from tutti.engine.policy import Policy
from tutti.engine.record import replay
from tutti.engine.view import View
from tutti.errors import Misused, NotFound
from tutti.jobs.counted import counted
from tutti.jobs.understand import understand_text

from .scenes import GangEntry, task_of

GZIP = b"\x1f\x8b"
HORIZON = 30 * DAY


class Changes(Data, frozen=True):
    """What is asked on the command line."""

    add_nodes: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    submit: tuple[str, ...] = ()


class Start(Data, frozen=True):
    """When a gang that waits would start, from now; None means not within the horizon, or not there at all."""

    gang: str
    before: int | None
    after: int | None
    is_new: bool = False
    """Whether it is there only after the change."""


class Answer(Data, frozen=True):
    """The starts of every gang that waits, and what the answer rests on."""

    starts: tuple[Start, ...]
    assumes: str
    cut: bool


def ask(path: Path, changes: Changes) -> Answer:
    """Answer for a recorded snapshot."""
    try:
        view, now, policy = replay(_bytes(path))
    except FileNotFoundError:
        raise NotFound(f"there is no snapshot {path}") from None
    except OSError as problem:
        raise Misused(f"cannot read {path}: {problem.strerror}", hint="`tutti snapshot` writes one") from None
    return compare(view, now, policy, edits_of(view, changes, now))


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    if not data.startswith(GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError) as problem:
        raise Misused(f"the snapshot cannot be unpacked: {problem}", str(path)) from None


def compare(view: View, now: int, policy: Policy, edits: list[AnyEdit]) -> Answer:
    """Roll both views forward and put the starts beside each other."""
    changed = edited(view, edits)
    before = roll(view, now, {}, now + HORIZON, policy)
    after = roll(changed, now, {}, now + HORIZON, policy)
    known = [view.held(slot).gang.name for slot in view.queued]
    names = [changed.held(slot).gang.name for slot in changed.queued]
    names += [name for name in known if name not in names]
    starts = [
        Start(name, _from(before.at.get(name), now), _from(after.at.get(name), now), name not in known)
        for name in names
    ]
    return Answer(
        tuple(starts),
        "running gangs end by the middle of their estimates, and nothing else is submitted",
        before.cut or after.cut,
    )


def _from(at: int | None, now: int) -> int | None:
    return None if at is None else max(at - now, 0)


def edits_of(view: View, changes: Changes, now: int) -> list[AnyEdit]:
    """The changes as edits of the view; raises an error that says which one cannot be read."""
    return [
        *(nodes_like(view, spec) for spec in changes.add_nodes),
        *(_removal(spec) for spec in changes.remove),
        *(_queue_change(spec) for spec in changes.queue),
        *(Submit(msgspec.structs.replace(read_gang(Path(spec), view), submitted=now)) for spec in changes.submit),
    ]


def _removal(spec: str) -> RemoveNodes:
    """'node=n3', 'rack=b' or any other level with a domain, or a tag of the nodes."""
    key, found, value = spec.partition("=")
    if not found or not value:
        raise Misused(f"cannot read {spec!r} as nodes to remove", hint="node=n3, rack=b, or a tag such as kind=a100")
    if key == "node":
        return RemoveNodes(names=(value,))
    return RemoveNodes(tag=spec, domain="" if key == "kind" else value)


def _queue_change(spec: str) -> SetQueue:
    """'research.weight=2': a queue, one of its fields, the new value."""
    where, found, value = spec.partition("=")
    queue, dot, field = where.rpartition(".")
    if not found or not dot:
        raise Misused(f"cannot read {spec!r} as a change of a queue", hint="research.weight=2")
    return SetQueue(queue, {field: _value(field, value)})


def _value(field: str, text: str) -> Value:
    """Numbers as numbers, yes and no as such, `none` for a bound that is gone; amounts are written 'gpu:8'."""
    if field == "bounds":
        raise Misused(
            "bounds of users are more than one value", hint="research.max_running=2, research.user_limit=gpu:8"
        )
    if field == "max_running" and text == "none":
        return None
    if field in {"guarantee", "limit", "user_limit"}:
        name, _, amount = text.rpartition(":")
        if not amount.isdigit():
            raise Misused(f"{text!r} is no amount", hint="gpu:8")
        return {name or "gpu": int(amount)}
    if text in {"true", "false"}:
        return text == "true"
    if text.startswith("-"):
        raise Misused(f"{field} = {text}: nothing of a queue is below 0", hint="research.weight=2")
    return int(text) if text.isdigit() else text


def read_gang(path: Path, view: View) -> Gang:
    """A gang from a small TOML file (name, workers, gpus, runs ...), or from any job file, batch script or manifest."""
    try:
        said = tomllib.loads(path.read_text()) if path.suffix == ".toml" else {"command": ""}
        if "command" in said:
            return counted(understand_text(path.read_text(), path.name).gang, view.resources)
        return task_of(msgspec.convert(said, GangEntry)).gang
    except FileNotFoundError:
        raise NotFound(f"there is no job file {path}") from None
    except OSError as problem:
        raise Misused(f"cannot read {path}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as problem:
        raise Misused(f"{path.name} is not a job: {problem}", hint='name = "new", workers = 8, runs = "2h"') from None
