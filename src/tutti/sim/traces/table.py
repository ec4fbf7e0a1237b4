"""Traces that are tables with a header: Philly, Tiresias, openb, and the workloads of Pollux and Sia."""

import csv
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from tutti.engine.model import SECOND, Speed
from tutti.errors import Misused
from tutti.sim.profiles import Profile, compact
from tutti.sim.speed import measured

from .log import Entries, Line, Log, Machine, Row, at_least, number, whole

Fields = dict[str, str]
Reader = Callable[[Fields, int], Row | None]

PHILLY = ("timestamp", "duration", "num_gpus")
TIRESIAS = ("job_id", "num_gpu", "submit_time", "duration")
OPENB = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
WORKLOAD = ("name", "time", "application", "num_replicas", "batch_size")
NOT_TRACES = {
    ("runtime",): "a list of run times",
    ("duration",): "a list of run times",
    ("sn", "cpu_milli", "memory_mib", "gpu", "model"): "a list of nodes; give it to --cluster",
    ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name"): "a list of nodes; give it to --cluster",
    ("num_switch", "num_node_p_switch", "num_gpu_p_node"): "the shape of a cluster; give it to --cluster",
}


def columns(first: list[str]) -> tuple[str, ...]:
    """The names in the header."""
    return tuple(name.strip().strip('"') for name in first[0].lstrip("\ufeff").split(",")) if first else ()


def holds(first: list[str], wanted: tuple[str, ...]) -> bool:
    """Whether the header names all of these columns."""
    return set(wanted) <= set(columns(first))


def looks_like(first: list[str]) -> bool:
    """Whether these are the first lines of a table we know."""
    known = (PHILLY, TIRESIAS, OPENB, WORKLOAD, *NOT_TRACES)
    return any(holds(first, wanted) and len(columns(first)) >= len(wanted) for wanted in known if _fits(first, wanted))


def lacks(first: list[str]) -> str:
    """What is missing from a header that has most columns of a table we know; empty where it has not."""
    kinds = {"Philly": PHILLY, "Tiresias": TIRESIAS, "openb": OPENB, "Pollux or Sia": WORKLOAD}
    here = set(columns(first))
    missing = {kind: [name for name in wanted if name not in here] for kind, wanted in kinds.items()}
    kind = min(missing, key=lambda each: len(missing[each]) / len(kinds[each]))
    if 2 * len(missing[kind]) >= len(kinds[kind]):
        return ""
    return f"it looks like a trace of {kind}, but has no column {', '.join(map(repr, missing[kind]))}"


def _fits(first: list[str], wanted: tuple[str, ...]) -> bool:
    return len(wanted) > 1 or columns(first) == wanted


def read(lines: list[Line], source: str, skip_bad: bool, path: Path | None = None) -> Log:
    """The trace in a table."""
    first = [text for _, text in lines[:1]]
    entries = Entries(source, skip_bad)
    if holds(first, PHILLY):
        return _philly(lines, entries)
    if holds(first, TIRESIAS):
        return _tiresias(lines, entries)
    if holds(first, OPENB):
        return _openb(lines, entries)
    if holds(first, WORKLOAD):
        return _workload(lines, entries, path)
    what = next(says for wanted, says in NOT_TRACES.items() if holds(first, wanted))
    hint = "docs/reference/traces.md lists the formats and their first lines"
    raise Misused(f"{source} is not a trace of jobs but {what}.", where=f"{source}, line 1", hint=hint)


def rows_of(lines: list[Line], entries: Entries, parse: Reader) -> None:
    """Parse every line below the header by the names of its columns."""
    names = columns([lines[0][1]])

    def one(text: str, line: int) -> Row | None:
        if not text.strip():
            return None
        values = next(csv.reader([text]))
        if len(values) < len(names) or any(values[len(names) :]):
            many = f"{len(values)} column{'s' if len(values) > 1 else ''}"
            raise ValueError(f"{many} where the header names {len(names)}")
        return parse(dict(zip(names, values, strict=False)), line)

    entries.read(lines[1:], one)


def _name(line: int, total: int, text: str) -> str:
    return f"{line:0{len(str(total))}d}-{text}" if text else f"{line:0{len(str(total))}d}"


def _seconds(fields: Fields, name: str, least: float = 0) -> int:
    return round(at_least(number(fields[name], name), least, name) * SECOND)


def _width(fields: Fields, name: str, least: int = 1) -> int:
    return whole(at_least(number(fields[name], name), least, name), name)


def _philly(lines: list[Line], entries: Entries) -> Log:
    def parse(fields: Fields, line: int) -> Row:
        at = round(_moment(fields["timestamp"]) * SECOND)
        cluster = fields.get("cluster", "") or "default"
        width = _width(fields, "num_gpus")
        return Row(_name(line, len(lines), ""), at, _seconds(fields, "duration"), width, user=cluster)

    rows_of(lines, entries, parse)
    log = Log("philly", entries.source, _from_zero(entries.sorted_rows()), left_out=entries.bad, notes=entries.notes)
    if holds([lines[0][1]], ("cluster",)):
        log.notes.append("the trace names no users; the virtual cluster stands for one")
    return log


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise ValueError(f"timestamp is {text.strip()[:40]!r}, not a time like 2017-10-09 07:01:55") from None


def _from_zero(rows: list[Row]) -> list[Row]:
    """The same rows with the first submission at zero."""
    if not rows:
        return rows
    first = rows[0].at
    return [_moved(row, first) for row in rows]


def _moved(row: Row, by: int) -> Row:
    return Row(row.name, row.at - by, row.run, row.width, row.limit, row.user, row.queue, row.command, row.outcome)


def _tiresias(lines: list[Line], entries: Entries) -> Log:
    def parse(fields: Fields, line: int) -> Row:
        return Row(
            _name(line, len(lines), fields["job_id"]),
            _seconds(fields, "submit_time"),
            _seconds(fields, "duration"),
            _width(fields, "num_gpu"),
            command=fields.get("model_name", ""),
        )

    rows_of(lines, entries, parse)
    return Log("tiresias", entries.source, entries.sorted_rows(), left_out=entries.bad, notes=entries.notes)


def _openb(lines: list[Line], entries: Entries) -> Log:
    timed = holds([lines[0][1]], ("creation_time", "deletion_time"))
    skipped: list[int] = []

    def parse(fields: Fields, line: int) -> Row | None:
        gpus = _width(fields, "num_gpu", 0)
        if not gpus:
            skipped.append(line)
            return None
        at = _seconds(fields, "creation_time") if timed else line * SECOND
        end = _seconds(fields, "deletion_time") if timed else at + 3600 * SECOND
        if end < at:
            raise ValueError("deletion_time lies before creation_time")
        kinds = tuple(kind for kind in fields.get("gpu_spec", "").split("|") if kind)
        return Row(_name(line, len(lines), fields["name"]), at, end - at, gpus, kinds=kinds)

    rows_of(lines, entries, parse)
    log = Log("openb", entries.source, entries.sorted_rows(), left_out=entries.bad, notes=entries.notes)
    if skipped:
        log.notes.append(f"{len(skipped)} pods that ask for no GPU are not simulated")
    log.notes.append("shares of a GPU count as whole ones")
    if not timed:
        log.notes.append("the table has no times: pods arrive a second apart and run for an hour")
    return log


def profiles_beside(path: Path | None) -> Path:
    """The folder of measured profiles that belongs to a workload."""
    beside = [parent / "profiles" for parent in path.resolve().parents][:3] if path is not None else []
    traces = os.environ.get("TUTTI_TRACES", "")
    if traces:
        beside.append(Path(traces) / "pollux" / "profiles")
    found = next((folder for folder in beside if folder.is_dir()), None)
    if found is None:
        raise Misused(
            "a workload of Pollux or Sia needs the measured profiles of its applications.",
            where=str(path or ""),
            hint="keep the folder `profiles` beside it, or set TUTTI_TRACES to the folder of traces",
        )
    return found


def _workload(lines: list[Line], entries: Entries, path: Path | None) -> Log:
    folder = profiles_beside(path)
    known: dict[str, Profile] = {}

    def parse(fields: Fields, line: int) -> Row:
        application = fields["application"]
        if application not in known:
            if not (folder / application).is_dir():
                raise ValueError(f"there is no profile of {application!r}")
            known[application] = Profile(folder / application)
        return _trained(fields, known[application], _name(line, len(lines), fields["name"]))

    rows_of(lines, entries, parse)
    return Log("workload", entries.source, entries.sorted_rows(), "gpu", Machine(16, 4), entries.bad, entries.notes)


def _trained(fields: Fields, profile: Profile, name: str) -> Row:
    width, batch = _width(fields, "num_replicas"), _width(fields, "batch_size")
    run = profile.run_time(batch, compact(width))
    most = min(max(batch // profile.least_local, width), 64)
    return Row(
        name,
        _seconds(fields, "time"),
        round(run * SECOND),
        width,
        command=profile.name,
        speed=_speed(profile, batch, most),
        most=most,
    )


def _speed(profile: Profile, batch: int, most: int) -> Speed:
    sizes = [size for size in _sizes(most) if batch // size >= 1]
    return measured({size: 1 / profile.run_time(batch, compact(size)) for size in sizes})


def _sizes(most: int) -> Iterator[int]:
    yield from (size for size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if size <= most)
