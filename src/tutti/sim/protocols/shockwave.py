"""The jobs of the Shockwave study (NSDI 2023): batches grow and shrink as Accordion and GNS have them, in rounds of two
minutes on equal GPUs, under the policies that study compares with.

Its 120-job trace was made with rates that are not public beside it; but each job says how long it would take, so they
are read from the jobs themselves. What no job tells is taken from the table of another cluster, in proportion.
"""

import json
import math
import re
from pathlib import Path
from typing import NamedTuple

from tutti.errors import Misused, NotFound

from .fair_rounds import POLICIES, Learner, Rounds

GPUS = 32
TYPE = re.compile(r"(.+) \(batch size (\d+)\)")
DATASET = {"ResNet-18": 50_000, "ResNet-50": 100_000, "Transformer": 10_000, "LM": 59_675, "Recommendation": 117_907}
"""Samples of an epoch."""
LARGEST = {"ResNet-18": 256, "ResNet-50": 128, "LM": 80, "Recommendation": 8192}
"""The largest batch that was measured, of models whose batch may change."""
DOUBLES_AT: dict[tuple[str, int, int], tuple[int, ...]] = {
    ("ResNet-18", 16, 1): (31, 41, 51, 71),
    ("ResNet-18", 32, 1): (21, 31, 51),
    ("ResNet-18", 64, 1): (11, 31),
    ("ResNet-18", 128, 1): (11,),
    ("ResNet-18", 16, 2): (21, 31, 91, 111),
    ("ResNet-18", 32, 2): (11, 21, 41),
    ("ResNet-18", 64, 2): (21, 41),
    ("ResNet-18", 128, 2): (41,),
    ("ResNet-18", 16, 4): (11, 21, 81, 91),
    ("ResNet-18", 32, 4): (21, 31, 61),
    ("ResNet-18", 64, 4): (11, 61),
    ("ResNet-18", 128, 4): (11,),
    ("ResNet-50", 64, 1): (101,),
    ("ResNet-50", 32, 2): (101, 111),
    ("ResNet-50", 64, 2): (81,),
    ("ResNet-50", 32, 4): (131, 221),
    ("ResNet-50", 64, 4): (191,),
    ("LM", 5, 1): (31, 41, 61, 71),
    ("LM", 10, 1): (11, 21, 41),
    ("LM", 20, 1): (11, 41),
    ("LM", 40, 1): (11,),
    ("LM", 5, 2): (31, 51, 61, 71),
    ("LM", 10, 2): (11, 31, 41),
    ("LM", 20, 2): (31, 41),
    ("LM", 40, 2): (11,),
    ("LM", 5, 4): (11, 31, 71, 91),
    ("LM", 10, 4): (11, 31, 61),
    ("LM", 20, 4): (11, 61),
    ("LM", 40, 4): (61,),
    ("Recommendation", 512, 1): (21, 41, 71, 91),
    ("Recommendation", 1024, 1): (21, 51, 91),
    ("Recommendation", 2048, 1): (21, 41),
    ("Recommendation", 4096, 1): (41,),
}
"""Epochs at which gradient noise lets the batch double, by model, first batch and width."""


class Result(NamedTuple):
    """What came of a trace, in seconds."""

    makespan_s: float
    mean_completion_s: float


class Rates:
    """Steps in a second by model, batch and width."""

    def __init__(self, told: dict[tuple[str, int, int], float], table: dict[tuple[str, int, int], float]) -> None:
        self.told = told
        self.table = table

    def of(self, model: str, batch: int, width: int) -> float | None:
        """The rate, or None where nobody measured any."""
        key = (model, batch, width)
        if key in self.told or key not in self.table:
            return self.told.get(key)
        ratios = [rate / self.table[k] for k, rate in self.told.items() if k[0] == model and self.table.get(k)]
        return self.table[key] * (math.fsum(ratios) / len(ratios) if ratios else 1.0)


def results(trace: Path, table: Path, policy: str, gpus: int = GPUS) -> Result:
    """The trace under one policy."""
    if policy not in POLICIES:
        raise Misused(f"this protocol has no policy {policy!r}", hint=f"one of {', '.join(POLICIES)}")
    jobs, rates = read(trace, table)
    rounds = Rounds(jobs, gpus, POLICIES[policy]())
    rounds.play(lambda job: wanted_batch(job, rates), lambda job, batch: rescale(job, batch, rates))
    times = [(job.ended or 0.0) - job.arrived for job in jobs]
    return Result(rounds.now, math.fsum(times) / len(times))


def read(trace: Path, table: Path) -> tuple[list[Learner], Rates]:
    """The jobs of a trace, and the rates they go by."""
    rows = [line.split("\t") for line in _text(trace).splitlines() if line.strip()]
    keys = [(*_type(row[0]), int(row[6])) for row in rows]
    told: dict[tuple[str, int, int], list[float]] = {}
    for key, row in zip(keys, rows, strict=True):
        told.setdefault(key, []).append(int(row[5]) / float(row[10]))
    rates = Rates({key: max(values) for key, values in told.items()}, _measured(table))
    jobs = [
        Learner(f"{at:04d}", model, width, row[7], batch, batch, int(row[5]), float(row[11]), rates.told[key])
        for at, (row, key) in enumerate(zip(rows, keys, strict=True))
        for model, batch, width in [key]
    ]
    return jobs, rates


def _type(text: str) -> tuple[str, int]:
    found = TYPE.fullmatch(text)
    if found is None or found[1] not in DATASET:
        raise Misused(f"{text!r} is no job of this study", hint=f"one of {', '.join(DATASET)}, with its batch size")
    return found[1], int(found[2])


def _measured(path: Path) -> dict[tuple[str, int, int], float]:
    found: dict[tuple[str, int, int], float] = {}
    for text, rates in json.loads(_text(path))["v100"].items():
        kind, _, width = text.strip("()").rpartition(",")
        known = TYPE.fullmatch(kind.strip().strip("'"))
        if known and rates["null"]:
            found[known[1], int(known[2]), int(width)] = float(rates["null"])
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", hint="is TUTTI_TRACES the folder of traces?") from None


def epoch_steps(model: str, batch: int) -> int:
    """Steps of an epoch."""
    return math.ceil(DATASET[model] / batch)


def wanted_batch(job: Learner, rates: Rates) -> int:
    """The batch the job asks for after a round; 0 where it is content."""
    largest = LARGEST.get(job.model)
    if largest is None or job.first_batch == largest or job.mode == "static":
        return 0
    epoch = math.ceil(job.done / epoch_steps(job.model, job.batch))
    wanted = _by_noise(job, epoch) if job.mode == "gns" else _by_regime(job, epoch, largest)
    return wanted if wanted and rates.of(job.model, wanted, job.width) else 0


def _by_noise(job: Learner, epoch: int) -> int:
    doublings = sum(1 for at in DOUBLES_AT.get((job.model, job.first_batch, job.width), ()) if at <= epoch + 1)
    allowed = min(job.first_batch * 2**doublings, LARGEST[job.model])
    return 2 * job.batch if allowed > job.batch else 0


def _by_regime(job: Learner, epoch: int, largest: int) -> int:
    critical = _is_critical(job, epoch)
    if job.batch == job.first_batch:
        return 0 if critical else largest
    return job.first_batch if critical else 0


def _is_critical(job: Learner, epoch: int) -> bool:
    """Whether gradients still change so much that Accordion keeps the batch small."""
    match job.model:
        case "ResNet-18":
            return epoch < 10 or epoch in range(150, 160) or epoch in range(250, 260)
        case "ResNet-50":
            return epoch % 30 < 10
        case "Recommendation":
            return epoch < {512: 30, 1024: 30, 2048: 40}.get(job.first_batch, 10)
        case _:
            return epoch < 10


def rescale(job: Learner, batch: int, rates: Rates) -> None:
    """Go on with another batch: as many epochs as before, those begun counted as done."""
    rate = rates.of(job.model, batch, job.width)
    assert rate is not None
    old, new = epoch_steps(job.model, job.batch), epoch_steps(job.model, batch)
    epochs = math.ceil(job.steps / old)
    scaled = math.ceil(job.steps * job.batch / batch)
    job.steps = scaled if math.ceil(scaled / new) == epochs else new * epochs
    job.done = math.ceil(job.done / old) * new
    job.batch, job.rate = batch, rate
