"""Traces of Gavel and Shockwave: one job per line, fields separated by tabs, lengths in training steps.

Command templates in these files are data: they name the kind of job and are never run.
"""

import json
import os
from pathlib import Path

from tutti.engine.model import SECOND
from tutti.errors import Misused

from .log import Entries, Line, Log, Row, at_least, number, whole

MSR, PHYSICAL, SHOCKWAVE = 7, 10, 12
"""Numbers of columns of the three layouts."""
TYPE, STEPS, WIDTH, ARRIVAL = "type", "steps", "width", "arrival"
LAYOUTS = {
    MSR: {TYPE: 0, STEPS: 4, ARRIVAL: 5, WIDTH: 6},
    PHYSICAL: {TYPE: 0, STEPS: 5, WIDTH: 6, ARRIVAL: 9},
    SHOCKWAVE: {TYPE: 0, STEPS: 5, WIDTH: 6, ARRIVAL: 11},
}
EXPECTED_DURATION = 10
TABLE = "simulation_throughputs.json"
DEVICE = "v100"


def looks_like(first: list[str]) -> bool:
    """Whether these are the first lines of such a trace."""
    body = next((line for line in first if line.strip()), "")
    words = body.split("\t")
    return len(words) in LAYOUTS and "(batch size" in words[0]


def read(lines: list[Line], source: str, skip_bad: bool, path: Path | None = None) -> Log:
    """The trace. A job of Shockwave says how long it takes; for Gavel's the table of throughputs does."""
    entries = Entries(source, skip_bad)
    layout = len(next(text for _, text in lines if text.strip()).split("\t"))
    rates = {} if layout == SHOCKWAVE else throughputs(path)
    digits = len(str(len(lines)))
    entries.read(lines, lambda text, line: _parse(text, line, layout, rates, digits))
    kind = "shockwave" if layout == SHOCKWAVE else "gavel"
    log = Log(kind, source, entries.sorted_rows(), left_out=entries.bad, notes=entries.notes)
    if layout != SHOCKWAVE:
        log.notes.append(f"run times are steps over the measured rate on a {DEVICE}")
    return log


def _parse(text: str, line: int, layout: int, rates: dict[tuple[str, int], float], digits: int) -> Row | None:
    if not text.strip():
        return None
    words = text.split("\t")
    if len(words) != layout:
        raise ValueError(f"{len(words)} columns where the first line has {layout}")
    field = {name: words[at] for name, at in LAYOUTS[layout].items()}
    width = whole(at_least(number(field[WIDTH], "the width"), 1, "the width"), "the width")
    at = at_least(number(field[ARRIVAL], "the arrival"), 0, "the arrival")
    steps = at_least(number(field[STEPS], "the number of steps"), 0, "the number of steps")
    if layout == SHOCKWAVE:
        run = at_least(number(words[EXPECTED_DURATION], "the expected duration"), 0, "the expected duration")
    else:
        run = steps / _rate(rates, field[TYPE], width)
    return Row(f"{line:0{digits}d}", round(at * SECOND), round(run * SECOND), width, command=field[TYPE])


def _rate(rates: dict[tuple[str, int], float], kind: str, width: int) -> float:
    rate = rates.get((kind, width)) or rates.get((kind, 1), 0.0) * width
    if not rate:
        raise ValueError(f"the table of throughputs has no {kind!r} of width {width}")
    return rate


def throughputs(path: Path | None) -> dict[tuple[str, int], float]:
    """Steps per second of a job alone, by kind and width."""
    beside = [parent / TABLE for parent in path.resolve().parents][:3] if path is not None else []
    if traces := os.environ.get("TUTTI_TRACES", ""):
        beside.append(Path(traces) / "gavel" / TABLE)
    found = next((file for file in beside if file.is_file()), None)
    if found is None:
        raise Misused(
            "a trace of Gavel counts in steps and needs the table of throughputs.",
            where=str(path or ""),
            hint=f"keep {TABLE} beside it, or set TUTTI_TRACES to the folder of traces",
        )
    table = json.loads(found.read_text())[DEVICE]
    return {_key(kind): float(alone["null"]) for kind, alone in table.items() if alone.get("null")}


def _key(text: str) -> tuple[str, int]:
    """('ResNet-18 (batch size 16)', 2) from its spelling in the table."""
    kind, _, width = text.strip("()").rpartition(",")
    return kind.strip().strip("'"), int(width)
