"""A gang as a job file of our own."""

import json
from typing import Any

from tutti.engine.model import NEVER, Coupling, Gang, Resizing, Role
from tutti.jobs.durations import spelled
from tutti.jobs.finish import bounds
from tutti.jobs.job import CPU, MEMORY
from tutti.jobs.size_rule import spelled as spelled_rule
from tutti.jobs.understood import Understood


def job_file(found: Understood) -> str:
    """TOML. What the job says beyond its gang (command, folder, variables) stays as it was."""
    gang, job = found.gang, found.job
    table: dict[str, Any] = {"name": gang.name.partition("@")[0].replace("/", ".")}
    if job.command:
        table["command"] = job.command if isinstance(job.command, str) else list(job.command)
    table |= _gang(gang)
    table |= {field: getattr(job, field) for field in ("cwd", "signal", "begin", "deadline") if getattr(job, field)}
    if job.array != "":
        table |= {"array": job.array} | _ask(gang.roles[0])
        return _toml(table)
    if len(gang.roles) == 1:
        return _toml(table | _part(gang.roles[0])) + _env(job.env)
    parts = [f"\n[roles.{json.dumps(role.name)}]\n{_toml(_part(role))}" for role in gang.roles]
    return _toml(table) + "".join(parts) + _env(job.env)


def _gang(gang: Gang) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if gang.queue != "default":
        found["queue"] = gang.queue
    if gang.priority:
        found["priority"] = gang.priority
    if gang.estimate.limit < NEVER:
        found["time"] = spelled(gang.estimate.limit)
    if gang.estimate.p50:
        found["expect"] = spelled(gang.estimate.p50)
    if gang.after:
        found["after"] = list(gang.after)
    if gang.resizing is not Resizing.NONE:
        found["resize"] = gang.resizing.value
    if gang.max_wait:
        found["max_wait"] = spelled(gang.max_wait)
    found |= {field: getattr(gang, field) for field in ("within", "near") if getattr(gang, field)}
    found |= {} if gang.preemptible else {"preemptible": False}
    found |= {"parkable": True} if gang.parkable else {}
    return found | {"on_loss": gang.on_loss.value}


def _part(role: Role) -> dict[str, Any]:
    low, want, high = bounds(role)
    loose = role.coupling is Coupling.LOOSE
    found: dict[str, Any] = {"workers": low if low == high and not loose else f"{max(low, 1)}:{high}"}
    found |= {"want": want} if want != high else {}
    found |= _ask(role)
    found |= {"coupling": "loose"} if loose else {}
    if rule := spelled_rule(role.rule):
        found["size_rule"] = rule
    found |= {field: getattr(role, field) for field in ("within", "near", "spare_for") if getattr(role, field)}
    if role.segment:
        found["group"] = f"{role.segment.members}@{role.segment.level}"
    on_a_node = [cap.members for cap in role.caps if cap.level == "node"]
    return found | ({"per_node": min(on_a_node)} if on_a_node else {})


def _ask(role: Role) -> dict[str, Any]:
    asked = role.shapes[0].ask if role.shapes else {}
    found: dict[str, Any] = {"gpus": sum(n for name, n in asked.items() if name == "gpu" or name.endswith("/gpu"))}
    if asked.get(CPU):
        found["cpus"] = f"{asked[CPU]}m" if asked[CPU] % 1000 else asked[CPU] // 1000
    if asked.get(MEMORY):
        found["mem"] = asked[MEMORY]
    kinds = [tag.removeprefix("kind=") for tags in (role.shapes[0].tags if role.shapes else ()) for tag in tags]
    return found | ({"kind": kinds} if kinds and role.shapes[0].tags[0][0].startswith("kind=") else {})


def _env(env: dict[str, str]) -> str:
    return "\n[env]\n" + _toml({json.dumps(name): value for name, value in env.items()}) if env else ""


def _toml(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items())
