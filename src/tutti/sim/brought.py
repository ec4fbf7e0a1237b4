"""A job somebody has, played on a cluster that is made up: does it fit, where would it sit, how long would it wait?"""

import tomllib
from pathlib import Path

import msgspec

from tutti.engine.explain import explain
from tutti.engine.model import NEVER, SECOND, Gang
from tutti.errors import Misused
from tutti.jobs.counted import counted
from tutti.jobs.explain import role_row
from tutti.jobs.recognise import FILES, is_batch_script
from tutti.jobs.understand import understand
from tutti.jobs.understood import Understood
from tutti.views.why import why_lines

from .cluster import SHORTHAND, PoolFile, read_file
from .play import Played
from .scenes import DEVICE, GangEntry, QueueEntry, Scene, Variant, looks_like

DEFAULT_CLUSTER = "4x8"
DEFAULT_RUN_S = 3600
LONGEST = 2
"""How many times the run time of all jobs together one waits for the last of them."""


def is_job(path: Path) -> bool:
    """Whether a file is a job rather than a scene or a trace: a manifest, a batch script, a job file."""
    if path.suffix in FILES or is_batch_script(str(path)):
        return path.is_file()
    if path.suffix != ".toml" or not path.is_file():
        return False
    text = path.read_text(errors="replace")
    try:
        keys = tomllib.loads(text).keys()
    except tomllib.TOMLDecodeError:
        return False
    return not looks_like(text.splitlines()) and bool(keys & {"command", "roles", "workers"})


def scene_of(path: Path, cluster: str, policies: tuple[str, ...]) -> Scene:
    """Every gang of a file as a scene of its own."""
    found = understand([str(path)])
    every = (found, *found.others)
    if asks := [ask for one in every for ask in one.asks]:
        raise Misused("\n  ".join(["something has to be said first", *asks]))
    entries = tuple(_entry(path, one, which) for which, one in enumerate(every))
    pool = _with_room(_pool(cluster or DEFAULT_CLUSTER), [one.gang for one in every])
    return Scene(
        title=f"{path.name} on {_size(pool)}" + ("" if cluster else " (--cluster says another)"),
        story=". ".join(_story(one, entry) for one, entry in zip(every, entries, strict=True)) + ".",
        moral="",
        cluster=pool,
        variants={name: Variant(name, "on a cluster that is otherwise empty") for name in policies},
        gang=entries,
        queue=tuple(QueueEntry(name) for name in sorted({one.gang.queue for one in every})),
        until=LONGEST * sum(int(entry.runs) for entry in entries),
        name=path.stem,
    )


def _entry(path: Path, found: Understood, which: int) -> GangEntry:
    limit = found.gang.estimate.limit
    runs_s = max(limit // SECOND, 1) if 0 < limit < NEVER else DEFAULT_RUN_S
    return GangEntry(found.gang.name, runs_s, file=str(path), which=which)


def _story(found: Understood, entry: GangEntry) -> str:
    rows = [role_row(role) for role in found.gang.roles]
    roles = "; ".join(
        f"{name} {size} x {ask}{', loose' if coupling == 'loose' else ''}" for name, size, ask, coupling in rows
    )
    known = 0 < found.gang.estimate.limit < NEVER
    runs = f"its limit of {int(entry.runs) / 60:.0f} min" if known else f"{DEFAULT_RUN_S // 60} min, as it has no limit"
    return f"{entry.name} is {found.what}: {roles}; it runs for {runs}"


def _with_room(pool: PoolFile, gangs: list[Gang]) -> PoolFile:
    """Devices are what is counted; of the rest the nodes have enough, unless the cluster's file says how much."""
    asked: dict[str, int] = {}
    for gang in gangs:
        for role in counted(gang, (DEVICE,)).roles:
            for name, amount in role.shapes[0].ask.items():
                asked[name] = asked.get(name, 0) + amount * max(role.max, role.want, role.min)
    asked.pop(DEVICE, None)
    return msgspec.structs.replace(pool, capacity={**asked, **pool.capacity})


def _size(pool: PoolFile) -> str:
    return f"{pool.nodes} {'node' if pool.nodes == 1 else 'nodes'} of {pool.each} {pool.kind or 'devices'}"


def _pool(spec: str) -> PoolFile:
    if match := SHORTHAND.fullmatch(spec):
        return PoolFile(int(match[1]), int(match[2]), match[3] or "")
    if "," in spec or not Path(spec).is_file():
        raise Misused(f"{spec!r} is not a cluster of one pool", hint="4x8, 16x8:h100, or a file with one pool")
    pools = read_file(Path(spec)).pools
    if len(pools) != 1:
        raise Misused(f"{spec} has {len(pools)} pools", hint="a job is played on one")
    return next(iter(pools.values()))


def never_started(played: Played) -> list[str]:
    """Why gangs that wait at the end do so."""
    view = played.simulation.driver.world.view()
    jobs = {name: view.job(name) for name in played.unfinished}
    waiting = [name for name, job in jobs.items() if job is not None and not job.life.seats]
    return [line for name in waiting for line in why_lines(explain(view, played.simulation.now, played.policy, name))]
