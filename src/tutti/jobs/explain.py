"""What was understood, for people and for machines."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tutti.engine.model import NEVER, SECOND, Coupling, Role

from .amounts import spelled_memory
from .durations import DATE, duration, spelled
from .finish import bounds
from .job import CPU, MEMORY
from .size_rule import spelled as spelled_rule
from .understood import Understood

SHOWN_SIZES = 16
FAMILY = 5
"""From how many variables of one prefix on only the prefix is shown."""
KEYS = {"limit_s": "time", "gpu": "gpus", "cpu_milli": "cpus", "memory_bytes": "mem"} | dict.fromkeys(
    ("min", "want", "max"), "workers"
)
LEVELS = {
    "L0": "restarts from the job's own checkpoint",
    "L1": "restarts from memory",
    "L2": "resizes while it runs (replicated state)",
    "L3": "resizes while it runs (sharded state)",
    "L4": "changes its slicing at a restart",
}


def as_json(understood: Understood) -> dict[str, Any]:
    """The stable form: `tutti/v1`; keys are only ever added."""
    gang = understood.gang
    return {
        "schema": "tutti/v1",
        "gang": {
            "name": gang.name,
            "roles": [_role(role) for role in gang.roles],
            "legal_sizes": list(understood.legal_sizes),
            "size_rule": next((rule for role in gang.roles if (rule := spelled_rule(role.rule))), ""),
            "elastic_level": understood.elastic_level,
            "elastic_class": understood.elastic_class,
            "expect_s": gang.estimate.p50 // SECOND or None,
            "limit_s": None if gang.estimate.limit >= NEVER else gang.estimate.limit // SECOND,
            "queue": gang.queue,
            "priority": gang.priority,
            "framework": understood.framework,
            "launcher": understood.launcher,
            "batch_system": understood.manager,
            "ranks_per_member": understood.ranks_per_member,
            "nvlink_group": understood.tensor_group,
            "on_loss": gang.on_loss.value,
            "after": list(gang.after),
            **({"begin": understood.job.begin} if gang.begin else {}),
            **({"topology": {"within": gang.within, "near": gang.near}} if gang.within or gang.near else {}),
        },
        "what": understood.what,
        "sources": {**understood.sources, **_by_key(understood)},
        "ignored": [{"text": entry.text, "why": entry.why} for entry in understood.ignored],
        "warnings": list(understood.warnings),
        "asks": list(understood.asks),
        "delivers": list(understood.delivers),
        "files": list(understood.files),
        "others": [as_json(other) for other in understood.others],
    }


def _by_key(understood: Understood) -> dict[str, str]:
    """Sources under the keys of the answer, where the author's word for the field is another."""
    sources, members = understood.sources, understood.sources.get("workers", "default")
    return {
        "roles": sources.get("roles", sources.get("array", members)),
        "legal_sizes": sources.get("size_rule") or understood.world.why or sources.get("resize", members),
        "elastic_level": sources.get("elastic_level", "default"),
        "framework": sources.get("framework", "default"),
        **{key: sources.get(key, sources.get(field, "default")) for key, field in KEYS.items()},
    }


def _role(role: Role) -> dict[str, Any]:
    low, want, high = bounds(role)
    found: dict[str, Any] = {
        "name": role.name,
        "min": low,
        "want": want,
        "max": high,
        "coupling": role.coupling.value,
        "ask": ask(role),
    }
    if role.within or role.near or role.segment:
        segment = {"members": role.segment.members, "level": role.segment.level} if role.segment else None
        found["topology"] = {"within": role.within, "near": role.near, "group": segment}
    if len(role.shapes) > 1 or (role.shapes and role.shapes[0].tags):
        found["shapes"] = [
            {"ask": dict(shape.ask), "tags": [list(tags) for tags in shape.tags]} for shape in role.shapes
        ]
    return found


def ask(role: Role) -> dict[str, int]:
    """What one member asks for, by the names of the stable form."""
    asked = role.shapes[0].ask if role.shapes else {}
    devices = sum(amount for name, amount in asked.items() if name == "gpu" or name.endswith("/gpu"))
    found = {"gpu": devices, "cpu_milli": asked.get(CPU, 0), "memory_bytes": asked.get(MEMORY, 0)}
    known = {CPU, MEMORY, "pods"}
    return found | {n: a for n, a in asked.items() if n not in known and n != "gpu" and not n.endswith("/gpu")}


def lines(understood: Understood) -> Iterator[str]:
    """For people: what it is, what it becomes, from where each part comes, and what was left out."""
    gang = understood.gang
    yield f"{understood.what or 'a job'} -> gang {gang.name!r}" + _by(understood)
    yield ""
    rows = [("role", "members", "each asks for", "coupling"), *map(role_row, gang.roles)]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    facts = list(_facts(understood))
    width = max(len(name) for name, _, _ in facts)
    for name, value, source in facts:
        yield f"  {name.ljust(width)}  {value}" + (f"   ({source})" if source else "")
    yield from _listed("ignored", [f"{entry.text}: {entry.why}" for entry in understood.ignored])
    yield from _listed("note", list(understood.warnings))
    yield from _listed("to be answered", list(understood.asks))
    for other in understood.others:
        yield ""
        yield from lines(other)


def _by(understood: Understood) -> str:
    named = [understood.framework] if understood.framework not in {"", understood.launcher} else []
    named += [f"started by {understood.launcher}"] if understood.launcher else []
    return f" ({', '.join(named)})" if named else ""


def cores(milli: int) -> str:
    """A number of cores in words."""
    return "1 core" if milli == 1000 else f"{milli / 1000:g} cores"


def role_row(role: Role) -> tuple[str, str, str, str]:
    """Name, members, what each asks for, and coupling, as texts."""
    low, want, high = bounds(role)
    members = str(low) if low == high else f"{low} to {high}" + (f", wants {want}" if want != high else "")
    found = ask(role)
    parts = [f"{found['gpu']} gpu"] if found["gpu"] else []
    parts += [cores(found["cpu_milli"])] if found["cpu_milli"] else []
    parts += [spelled_memory(found["memory_bytes"])] if found["memory_bytes"] else []
    parts += [f"{amount} {name}" for name, amount in found.items() if name not in {"gpu", "cpu_milli", "memory_bytes"}]
    return role.name, members, ", ".join(parts) or "nothing", role.coupling.value


def _facts(understood: Understood) -> Iterator[tuple[str, str, str]]:
    gang, sources = understood.gang, understood.sources
    first = gang.roles[0] if gang.roles else Role()
    low, _, high = bounds(first)
    loose = first.coupling is Coupling.LOOSE
    words = {"rigid": "rigid: it runs at one size", "moldable": "moldable: its size is chosen at the start"}
    elastic = (
        "loose: members come and go one by one"
        if loose
        else words.get(understood.elastic_class, "malleable: its size may change")
    )
    if understood.job.array != "":
        yield "tasks", str(high), sources.get("array", "")
    elif len(gang.roles) > 1:
        yield "roles", str(len(gang.roles)), sources.get("roles", "")
    else:
        yield "members", str(low) if low == high else f"{low}:{high}", sources.get("workers", sources.get("roles", ""))
    if understood.ranks_per_member > 1:
        yield "ranks", f"{understood.ranks_per_member} on each member", ""
    if len(gang.roles) < 2:
        yield "devices", str(ask(first)["gpu"]), sources.get("gpus", "")
    yield "elastic", elastic, sources.get("resize", "")
    yield "level", f"{understood.elastic_level}: {LEVELS[understood.elastic_level]}", sources.get("elastic_level", "")
    yield "legal sizes", _some(understood.legal_sizes), sources.get("size_rule", understood.world.why)
    if wish := _topology(first, understood):
        yield "topology", wish, sources.get("group", sources.get("topology", sources.get("within", "")))
    limit = "none" if gang.estimate.limit >= NEVER else spelled(gang.estimate.limit)
    yield "time limit", limit, sources.get("time", "")
    if gang.estimate.p50:
        yield "expected", spelled(gang.estimate.p50), sources.get("expect", "")
    if gang.begin:
        yield "not before", _moment(understood.job.begin), sources.get("begin", "")
    yield "queue", f"{gang.queue}, priority {gang.priority}", sources.get("queue", "")
    if understood.output is not None:
        yield "output", understood.output.says, sources.get("output", "")
    if gang.after:
        yield "after", ", ".join(gang.after), sources.get("after", "")
    yield "delivers", _names(understood.delivers), ""


def _moment(written: int | str) -> str:
    """A date as it is, or a duration from now."""
    return str(written) if DATE.match(str(written)) else f"{spelled(duration(written))} after it is submitted"


def _names(names: tuple[str, ...]) -> str:
    """Variables by name, those of one family in short."""
    families = Counter(name.split("_")[0] for name in names if "_" in name)
    many = {family for family, count in families.items() if count > FAMILY}
    shown = [
        f"{name.split('_')[0]}_* ({families[name.split('_')[0]]})" if name.split("_")[0] in many else name
        for name in names
    ]
    return " ".join(dict.fromkeys(shown)) or "what the cluster's controllers set"


def _topology(role: Role, understood: Understood) -> str:
    size = understood.tensor_group
    parts = [f"ranks 0-{size - 1}, {size}-{2 * size - 1} ... each share an NVLink domain"] if size > 1 else []
    parts += [f"groups of {role.segment.members} on one {role.segment.level}"] if role.segment else []
    parts += [f"all within one {role.within}"] if role.within else []
    parts += [f"near each other in one {role.near}"] if role.near else []
    gang = understood.gang
    parts += [f"all {'roles ' if len(gang.roles) > 1 else ''}within one {gang.within}"] if gang.within else []
    parts += [f"near each other in one {gang.near}"] if gang.near else []
    return ", ".join(parts)


def _some(sizes: tuple[int, ...]) -> str:
    if not sizes:
        return "none"
    run = sizes == tuple(range(sizes[0], sizes[-1] + 1))
    if run and len(sizes) > 2:
        return f"{sizes[0]} to {sizes[-1]}"
    shown = ", ".join(map(str, sizes[:SHOWN_SIZES]))
    return shown if len(sizes) <= SHOWN_SIZES else f"{shown} and {len(sizes) - SHOWN_SIZES} more"


def _listed(title: str, entries: list[str]) -> Iterator[str]:
    if entries:
        yield ""
        yield f"  {title}"
        for entry in entries:
            yield f"    - {entry}"
