"""What is told of a gang that runs? How many members it may have, how long, and who has come that is unlike all."""

from collections.abc import Mapping

from msgspec.structs import replace

from tutti.engine.model import Coupling, Estimate, Gang, Resizing, Role
from tutti.jobs.kube.gang import Kin, Translated

from .gangs import GangSeen, Where


def beside(gang: GangSeen, present: Mapping[Kin, int]) -> frozenset[tuple[str, str]]:
    """Kin that a gang which has seats did not need for its start: who came late, and who was more than it needed."""
    if not gang.is_seated or gang.gang is None:
        return frozenset()
    roles = zip(gang.kin, gang.gang.roles, strict=True)
    needed = {kin.alike for kin, role in roles if role.coupling is Coupling.GANG}
    return frozenset(kin.alike for kin in present if kin.alike not in needed)


def retold(gang: GangSeen, found: Translated) -> Gang:
    """A seated gang as the engine should know it from now on."""
    assert gang.gang is not None
    roles = _with_newcomers(gang, gang.gang.roles, found)
    new = dict(zip((kin.alike for kin in found.kin), found.gang.roles, strict=True))
    there = {kin.alike: count for kin, count in gang.present().items()}
    resizing, resized = found.gang.resizing, []
    for kin, role, where in zip(gang.kin, roles, gang.desired, strict=True):
        fresh = _resized(role, new.get(kin.alike), where, there.get(kin.alike, 0))
        # A minimum above what runs takes nothing away; whoever comes joins, and then it holds.
        resizing = Resizing.LIVE if kin.alike in new and fresh.min < new[kin.alike].min else resizing
        resized.append(fresh)
    said = found.gang
    return replace(
        gang.gang,
        roles=tuple(resized),
        priority=said.priority,
        queue=said.queue,
        user=said.user,
        groups=said.groups,
        counts_as=said.counts_as,
        resizing=resizing,
        preemptible=said.preemptible,
        keeps_surplus=said.keeps_surplus,
        preempts=said.preempts,
        min_run=said.min_run,
        # Who has lost the members that said it runs as long as was said before.
        estimate=gang.gang.estimate if said.estimate == Estimate() else said.estimate,
    )


def _resized(role: Role, said: Role | None, where: Where, there: int) -> Role:
    """A role of a gang that has seats, with as many members as it may have now."""
    if said is None and role.coupling is Coupling.LOOSE:
        return replace(role, want=0, max=0)
    if said is None or said.coupling is not role.coupling:
        return role
    least = min(said.min, max(role.min, sum(count for _, count in where)))
    most = max(least, there)
    sizes = {"want": most, "max": most} if least < said.min else {"want": said.want, "max": said.max}
    return replace(role, min=least, marks=said.marks, **sizes)


def _with_newcomers(gang: GangSeen, roles: tuple[Role, ...], found: Translated) -> tuple[Role, ...]:
    """The roles of a gang that has seats, and one for each kin that has come since; nobody waits for these.

    Where what they ask for cannot be had, they wait until the gang starts anew, as all of it would.
    """
    known = {kin.alike for kin in gang.kin}
    fresh = [(kin, role) for kin, role in zip(found.kin, found.gang.roles, strict=True) if kin.alike not in known]
    gang.barred = found.gang.unsupported if fresh else ""
    if gang.barred:
        return roles
    for kin, role in fresh:
        gang.kin = (*gang.kin, kin)
        gang.desired.append([])
        gang.shapes = gang.shapes and (*gang.shapes, 0)
        roles = (*roles, replace(role, name=_name(kin, roles)))
    return roles


def _name(kin: Kin, roles: tuple[Role, ...]) -> str:
    """A name that no other role has."""
    names = {role.name for role in roles}
    if kin.part and kin.part not in names:
        return kin.part
    base = f"{kin.part or 'member'}-late"
    return next(name for at in range(len(names) + 1) if (name := f"{base}-{at}" if at else base) not in names)
