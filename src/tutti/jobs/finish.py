"""From everything that was said to the job, its gang and its legal sizes; or to everything that is wrong."""

from typing import Any

from tutti.engine.model import Coupling, Gang, Resizing, Role

from .amounts import workers
from .delivery import DELIVERIES, delivered
from .draft import Draft
from .file import from_data
from .gang import to_gang
from .job import Job
from .problems import BadJob, Misread, Problem, nearest
from .size_rule import spelled
from .understood import Understood
from .world_size import in_members

MOST_SIZES = 1000
PLAIN = ("name", "workers", "gpus", "cpus", "mem", "time", "queue", "priority")
TENTATIVE = ("torch", "python")
OTHERS = {"python", "nemo", "spark", "srun", "slurm", "pbs", "lsf", "flux"}
"""Names beside those that something is delivered for."""


def finish(draft: Draft) -> Understood:
    """What was understood. Raises BadJob with every problem."""
    framework = _framework(draft)
    if draft.problems:
        raise BadJob(draft.problems, draft.file or draft.origin)
    _sizes(draft)
    for field in PLAIN:
        draft.sources.setdefault(field, "default")
    if draft.said.get("roles"):
        _beside_roles(draft)
    said: dict[str, Any] = dict(draft.said)
    said.setdefault("framework", draft.launcher or framework)
    job = from_data(said, draft.file or draft.origin)
    gang = to_gang(job)
    _legal(draft, gang)
    if draft.problems:
        raise BadJob(draft.problems, draft.file or draft.origin)
    return Understood(
        job=job,
        gang=gang,
        what=draft.what,
        framework=framework,
        launcher=draft.launcher,
        manager=draft.manager,
        elastic_class=elastic_class(gang),
        elastic_level=draft.level,
        ranks_per_member=draft.ranks or 1,
        nodes=draft.nodes,
        world=draft.world,
        tensor_group=draft.tensor,
        legal_sizes=legal_sizes(gang),
        sources={field: draft.sources[field] for field in sorted(draft.sources)},
        ignored=tuple(draft.ignored),
        warnings=tuple(draft.warnings),
        asks=tuple(draft.asks),
        delivers=delivered("" if draft.manager else job.framework, draft.manager, job.array != ""),
        files=tuple(name for name, text in draft.files.read.items() if text is not None),
        output=draft.output,
    )


def of_gang(gang: Gang, what: str, **rest: Any) -> Understood:
    """The same for a gang that was translated directly, from a manifest."""
    first = gang.roles[0] if gang.roles else Role()
    job = Job(name=gang.name, workers=first.min if first.max <= first.min else f"{first.min}:{first.max}")
    return Understood(
        job=job, gang=gang, what=what, elastic_class=elastic_class(gang), legal_sizes=legal_sizes(gang), **rest
    )


def elastic_class(gang: Gang) -> str:
    """Whether its size is fixed, chosen at the start, or may change."""
    if not any(role.coupling is Coupling.GANG and bounds(role)[2] > bounds(role)[0] for role in gang.roles):
        return "rigid"
    return "moldable" if gang.resizing is Resizing.NONE else "malleable"


def elastic_role(gang: Gang) -> Role | None:
    """The role whose size may vary, else the largest one."""
    ranges = [role for role in gang.roles if role.coupling is Coupling.GANG and bounds(role)[2] > bounds(role)[0]]
    return ranges[0] if ranges else max(gang.roles, key=lambda role: bounds(role)[2], default=None)


def bounds(role: Role) -> tuple[int, int, int]:
    """Least, wanted and most members."""
    want = role.want or role.min
    return role.min, want, max(role.max, want)


def legal_sizes(gang: Gang) -> tuple[int, ...]:
    """The legal sizes of the elastic role, in members; a long list is cut."""
    from tutti.engine.sizes import legal_sizes as legal  # noqa: PLC0415 - numpy comes with it
    from tutti.engine.sizes import role_rule  # noqa: PLC0415

    role = elastic_role(gang)
    if role is None:
        return ()
    low, _, high = bounds(role)
    return tuple(legal(role_rule(role), low, high)[:MOST_SIZES])


def _framework(draft: Draft) -> str:
    """The most specific framework; two at once are a question."""
    if draft.has("framework"):
        _known(draft)
        return str(draft.said["framework"])
    specific = {name: source for name, source in draft.frameworks.items() if name not in TENTATIVE}
    if len(specific) > 1:
        both = " and ".join(f"{name} ({source})" for name, source in sorted(specific.items()))
        draft.ask(f"{both}: which one starts the ranks? say it with --framework")
        return ""
    name = next(iter(specific), "") or next((name for name in TENTATIVE if name in draft.frameworks), "")
    if name:
        draft.sources.setdefault("framework", draft.frameworks[name])
    return name


def _known(draft: Draft) -> None:
    """A framework that is named must be one of those there are."""
    name, known = str(draft.said["framework"]), {*DELIVERIES, *OTHERS}
    if name not in known:
        what = f"{draft.sources.get('framework', 'framework')}: there is no framework {name!r}"
        draft.problems.append(Problem(what, hint=nearest(name, known)))


def _beside_roles(draft: Draft) -> None:
    """Where there are roles, what is said of members beside them says nothing."""
    for field in ("workers", "want", "gpus", "cpus", "mem", "kind", "size_rule", "group", "per_node", "coupling"):
        if field in draft.said and not draft.sources.get(field, "default").startswith("default"):
            draft.ignore(f"{field} = {draft.said[field]} ({draft.sources[field]})", "each role says it for itself")


def _sizes(draft: Draft) -> None:
    """The rule about ranks, as a rule about members."""
    if draft.has("size_rule") or draft.has("roles") or draft.world == type(draft.world)():
        return
    try:
        low, high = workers(draft.said.get("workers", 1))
    except Misread:
        return
    per_member = draft.ranks or draft.said.get("gpus") or 1
    rule = in_members(draft.world, per_member, low, high)
    if high > low and spelled(rule):
        draft.say("size_rule", spelled(rule), draft.world.why)


def _legal(draft: Draft, gang: Gang) -> None:
    """A fixed size that the framework itself would refuse is refused here, before anybody waits for it."""
    if len(gang.roles) != 1 or draft.has("size_rule"):
        return
    members = bounds(gang.roles[0])[1]
    world = members * (draft.ranks or draft.said.get("gpus") or 1)
    if not draft.has("workers") and not draft.ranks and not draft.has("gpus"):
        if broken := draft.world.broken(world):
            near = draft.world.nearest(world)
            draft.ask(f"{broken} ({draft.world.why}); say how many with --workers" + (f": {near[-1]}" if near else ""))
        return
    if broken := draft.world.broken(world):
        counts = " and ".join(map(str, draft.world.nearest(world)))
        hint = f"nearest legal worlds are {counts}" if counts else "no world is legal"
        draft.problems.append(Problem(f"{broken} ({draft.world.why})", hint=hint, file=draft.file, line=draft.line))
