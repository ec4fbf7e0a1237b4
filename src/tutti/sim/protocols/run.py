"""A log, a protocol, some policies: the results."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec

from tutti.engine.model import Data
from tutti.engine.policy import Policy
from tutti.errors import Misused
from tutti.sim.cluster import SHORTHAND
from tutti.sim.policies import find_policies
from tutti.sim.traces.log import Bad

from . import pyss, rlscheduler
from .log import Size
from .result import Played, Result


class Rules(Data, frozen=True):
    """Which protocol, and what may be chosen inside it."""

    protocol: str
    backfill: bool = False
    cluster: str = ""
    estimates: str = ""
    skip_bad: bool = False


def played(
    path: Path, policies: Iterable[str], rules: Rules, told: Callable[[str, int, int], None] | None = None
) -> Played:
    """One result for each policy, and what was left out."""
    if rules.backfill and rules.protocol != "rlscheduler":
        raise Misused(f"--backfill cannot be applied to --protocol {rules.protocol}", hint="--policy easy backfills")
    exact = _is_exact(rules.estimates)
    size = _size(rules.cluster)
    if rules.protocol == "rlscheduler":
        study = rlscheduler.prepare(path, size, exact, rules.skip_bad)
        found = _each((partial(study.result, policy, rules.backfill) for policy in policies), study.left_out)
        return msgspec.structs.replace(found, notes=study.notes)
    chosen = find_policies(policies)
    log = pyss.prepare(path, size, exact, rules.skip_bad)
    return _each((partial(_heard, log, each, told) for each in chosen), log.left_out)


def _heard(log: pyss.Study, policy: Policy, told: Callable[[str, int, int], None] | None) -> Result:
    """One policy over the whole log, with word of how far it is, and that it is over."""
    result = log.result(policy, progress=partial(told, policy.name) if told else None)
    if told is not None:
        told(policy.name, result.jobs, result.jobs)
    return result


def _each(ways: Iterable[Callable[[], Result]], left_out: list[Bad]) -> Played:
    """Policy after policy; interrupted from the keyboard, those that were played."""
    found: list[Result] = []
    try:
        for way in ways:
            found.append(way())  # noqa: PERF401 - what was played stays when the next one is interrupted
    except KeyboardInterrupt:
        if not found:
            raise
        return Played(found, left_out, interrupted=True)
    return Played(found, left_out)


def _is_exact(estimates: str) -> bool:
    if estimates not in {"", "declared", "exact"}:
        raise Misused(f"a protocol knows no estimates {estimates!r}", hint="declared or exact")
    return estimates == "exact"


def _size(spec: str) -> Size | None:
    if not spec:
        return None
    found = SHORTHAND.fullmatch(spec if "x" in spec else f"{spec}x1")
    if found is None or not int(found[1]) * int(found[2]):
        raise Misused(f"{spec!r} is no machine for a protocol", hint="256x1 is 256 nodes of one processor")
    return Size(int(found[1]), int(found[1]) * int(found[2]))
