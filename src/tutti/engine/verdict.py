"""Why does it wait? The token, found cheaply in each cycle; the numbers behind it are in explain.py."""

import numpy as np

from .classes import Trait
from .desk import Desk, wait
from .model import Job, Kind, NodeState, Token
from .place import Need, Outlook
from .plan import Reason
from .profile import Bools, Ints, Profile
from .sizes import Sizes
from .whole import allowed, shapes_of

RESERVED_AHEAD = Reason(Token.RESERVED_AHEAD, Kind.WAIT, wakes=("capacity", "time"))
MISSING = {
    Token.NO_CAPACITY: Reason(Token.NO_CAPACITY, Kind.WAIT, wakes=("capacity",)),
    Token.USED_BY_OTHERS: Reason(Token.USED_BY_OTHERS, Kind.WAIT, wakes=("capacity",)),
    Token.NODES_LOST: Reason(Token.NODES_LOST, Kind.ASK, wakes=("capacity",)),
}


def never_fits(desk: Desk, job: Job) -> Reason | None:
    """A reason when not even an empty cluster could hold the gang, with the nearest size that would."""
    nearest: Reason | None = None
    for needs in shapes_of(desk, job):
        lacking = _lacking(desk, job, needs)
        if lacking is None:
            return None
        if nearest is None or lacking.placeable > nearest.placeable:
            nearest = lacking
    return nearest


def _lacking(desk: Desk, job: Job, needs: tuple[Need, ...]) -> Reason | None:
    """What the empty cluster lacks for the gang on these shapes."""
    facts = desk.cache.facts(desk.view)
    lows = [desk.sizes(job, role, need.shape).low for role, need in enumerate(needs)]
    needed = [(need, low) for need, low in zip(needs, lows, strict=True) if low]
    several = len(needs) > 1
    found = [_role_lacks(desk, need, low, several, facts) for need, low in needed or [(need, 1) for need in needs]]
    # Where nobody needs the others, one role that fits is enough.
    lacking = next(filter(None, found), None) if needed or all(found) else None
    return lacking or (_lacking_together(desk, needs, lows) if several else None)


def _role_lacks(desk: Desk, need: Need, low: int, several: bool, facts: dict[object, int]) -> Reason | None:
    if need.missing:
        return wait(Token.NEVER_FITS, f"no node has any {need.missing!r}", "capacity", "owner", kind=Kind.CHANGE)
    room = _empty_room(desk, need, facts)
    if room >= low:
        return None
    whose = f"role {need.role.name!r}: " if several else ""
    detail = f"{whose}at most {room} of {low} members would fit on the empty cluster"
    return Reason(Token.NEVER_FITS, Kind.CHANGE, detail, low, room, wakes=("capacity", "owner"))


def _lacking_together(desk: Desk, needs: tuple[Need, ...], lows: list[int]) -> Reason | None:
    """A resource of which all nodes together have less than all roles together ask for."""
    asked = dict.fromkeys(desk.view.resources.values(), 0)
    for need, low in zip(needs, lows, strict=True):
        for resource, amount in need.ask:
            asked[resource] += low * amount
    for name, resource in desk.view.resources.items():
        have = desk.view.total[resource]
        if asked[resource] > have:
            detail = f"its roles ask for {asked[resource]} {name} together, and all nodes together have {have}"
            return wait(Token.NEVER_FITS, detail, "capacity", "owner", kind=Kind.CHANGE)
    return None


def _empty_room(desk: Desk, need: Need, facts: dict[object, int]) -> int:
    known = facts.get(need.alike)
    if known is None:
        known = facts[need.alike] = _room(need, empty(desk), _tagged(desk, need))
    return known


def _room(need: Need, profile: Profile, mask: Bools) -> int:
    return Outlook(profile, need, 0, 1, mask).capacity()


def _tagged(desk: Desk, need: Need) -> Bools:
    view = desk.view
    return view.topology.eligible(*need.key)[view.class_kind] & (view.class_weight > 0)


def empty(desk: Desk) -> Profile:
    """The cluster with nobody on it and every node well."""
    view = desk.view
    profile = Profile(view, desk.now, desk.profile.percent, np.ones(len(view.class_weight), np.bool_))
    profile.lanes = [row.reshape(1, -1) for row in _capacity(desk)]
    return profile


def _capacity(desk: Desk) -> Ints:
    kinds = desk.view.topology.kinds
    by_kind = np.array([[kind.capacity.get(name, 0) for kind in kinds] for name in desk.view.resources], np.int64)
    return by_kind.reshape(len(desk.view.resources), -1)[:, desk.view.class_kind]


class Verdict:
    """How much of one kind of request there is room for at the end of the pass, under different assumptions."""

    def __init__(self, desk: Desk, needs: tuple[Need, ...]) -> None:
        self._desk = desk
        self._needs = needs
        self._outlooks = [Outlook(desk.profile, need, 0, 1, desk.mask(need)) for need in needs]
        self._free_now = [outlook.capacity() for outlook in self._outlooks]
        self._counted: dict[tuple[int, str], int] = {}

    def reason(self, job: Job) -> Reason:
        """Why a gang that asks like this found no seats: what is wrong with the first role that does not fit."""
        for role, free in enumerate(self._free_now):
            low = self._low(job, role)
            if free < low:
                return self._short(role, low)
        return RESERVED_AHEAD if self._fit_together(job) else MISSING[Token.NO_CAPACITY]

    def fits_singly(self, job: Job) -> bool:
        """Whether each role would find room if it were alone."""
        return all(free >= self._low(job, role) for role, free in enumerate(self._free_now))

    def _low(self, job: Job, role: int) -> int:
        return self._desk.sizes(job, role, self._needs[role].shape).low

    def _fit_together(self, job: Job) -> bool:
        """Whether all roles find room, with the company there is and beside each other, if only this moment counted."""
        desk = self._desk
        if len(self._needs) == 1:
            need = self._needs[0]
            mask = allowed(desk, job, need, desk.now, desk.now + 1)
            return mask is desk.mask(need) or Outlook(desk.profile, need, 0, 1, mask).capacity() >= self._low(job, 0)
        lows = [self._low(job, role) for role in range(len(self._needs))]
        sizes = [Sizes(low, low, low, (low,)) for low in lows]
        return desk.seat_roles(desk, job, self._needs, sizes, desk.now, desk.now + 1) is not None

    def _short(self, role: int, low: int) -> Reason:
        outlook = self._outlooks[role]
        level = outlook.need.level
        if level and outlook.total(outlook.fits) >= low:
            return Reason(Token.NO_DOMAIN, Kind.WAIT, level, wakes=("capacity",))
        if self._with(role, "foreign") >= low:
            return MISSING[Token.USED_BY_OTHERS]
        if self._with(role, "lost") >= low:
            return MISSING[Token.NODES_LOST]
        return MISSING[Token.NO_CAPACITY]

    def _with(self, role: int, what: str) -> int:
        """The room there would be for a role if others' use (or the loss of nodes) were undone."""
        if (role, what) not in self._counted:
            self._counted[role, what] = self._recount(role, what)
        return self._counted[role, what]

    def _recount(self, role: int, what: str) -> int:
        view, desk = self._desk.view, self._desk
        touched = [n for n, trait in enumerate(view.traits) if trait is not None and _hit(trait, what)]
        if not touched:
            return self._free_now[role]
        profile = Profile(view, desk.now, desk.profile.percent, desk.usable)
        mask = desk.usable | (view.class_weight > 0) if what == "lost" else desk.usable
        if what == "foreign":
            lanes = view.class_free.copy()
            for number in touched:
                trait = view.traits[number]
                for name, amount in trait.foreign.items() if trait else ():
                    lanes[view.resources[name], number] += amount
            profile.lanes = [row.reshape(1, -1) for row in lanes]
        return _room(self._needs[role], profile, mask & _tagged(desk, self._needs[role]))


def _hit(trait: Trait, what: str) -> bool:
    return bool(trait.foreign) if what == "foreign" else trait.state is not NodeState.READY
