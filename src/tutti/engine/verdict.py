"""Why does it wait? The token, found cheaply in each cycle; the numbers behind it are in explain.py."""

import numpy as np

from .classes import Trait
from .desk import Desk, wait
from .model import Job, Kind, NodeState, Token
from .place import Need, Outlook
from .plan import Reason
from .profile import Bools, Ints, Profile
from .whole import shapes_of

RESERVED_AHEAD = Reason(Token.RESERVED_AHEAD, Kind.WAIT, wakes=("capacity", "time"))
MISSING = {
    Token.NO_CAPACITY: Reason(Token.NO_CAPACITY, Kind.WAIT, wakes=("capacity",)),
    Token.USED_BY_OTHERS: Reason(Token.USED_BY_OTHERS, Kind.WAIT, wakes=("capacity",)),
    Token.NODES_LOST: Reason(Token.NODES_LOST, Kind.ASK, wakes=("capacity",)),
}


def never_fits(desk: Desk, job: Job) -> Reason | None:
    """A reason when not even an empty cluster could hold the gang, with the nearest size that would."""
    facts = desk.cache.facts(desk.view)
    best = 0
    for needs in shapes_of(desk, job):
        missing = next((need.missing for need in needs if need.missing), "")
        if missing:
            return wait(Token.NEVER_FITS, f"no node has any {missing!r}", "capacity", kind=Kind.CHANGE)
        rooms = [_empty_room(desk, need, facts) for need in needs]
        lows = [desk.sizes(job, role, need.shape).low for role, need in enumerate(needs)]
        if all(room >= low for room, low in zip(rooms, lows, strict=True)):
            return None
        best = max(best, min(rooms))
    asked = desk.sizes(job, 0).low
    detail = f"at most {best} of {asked} members would fit on the empty cluster"
    return Reason(Token.NEVER_FITS, Kind.CHANGE, detail, asked, best, wakes=("capacity", "owner"))


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
        self._need = needs[0]
        self._several = len(needs) > 1
        outlook = Outlook(desk.profile, self._need, 0, 1, desk.mask(self._need))
        self.free_now = outlook.capacity()
        self.level = outlook.level()
        self.in_sum = outlook.total(outlook.fits) if self.level else self.free_now
        self._counted: dict[str, int] = {}

    def reason(self, job: Job) -> Reason:
        """Why a gang that asks like this found no seats."""
        low = self._desk.sizes(job, 0, self._need.shape).low
        if self.free_now >= low and not self._several:
            return RESERVED_AHEAD
        if self.level and self.in_sum >= low:
            return Reason(Token.NO_DOMAIN, Kind.WAIT, self.level, wakes=("capacity",))
        return MISSING[self._missing(low)]

    def _missing(self, low: int) -> Token:
        if self._with("foreign") >= low:
            return Token.USED_BY_OTHERS
        if self._with("lost") >= low:
            return Token.NODES_LOST
        return Token.NO_CAPACITY

    def _with(self, what: str) -> int:
        """The room there would be if others' use (or the loss of nodes) were undone."""
        if what not in self._counted:
            self._counted[what] = self._recount(what)
        return self._counted[what]

    def _recount(self, what: str) -> int:
        view, desk = self._desk.view, self._desk
        touched = [n for n, trait in enumerate(view.traits) if trait is not None and _hit(trait, what)]
        if not touched:
            return self.free_now
        profile = Profile(view, desk.now, desk.profile.percent, desk.usable)
        mask = desk.usable | (view.class_weight > 0) if what == "lost" else desk.usable
        if what == "foreign":
            lanes = view.class_free.copy()
            for number in touched:
                trait = view.traits[number]
                for name, amount in trait.foreign.items() if trait else ():
                    lanes[view.resources[name], number] += amount
            profile.lanes = [row.reshape(1, -1) for row in lanes]
        return _room(self._need, profile, mask & _tagged(desk, self._need))


def _hit(trait: Trait, what: str) -> bool:
    return bool(trait.foreign) if what == "foreign" else trait.state is not NodeState.READY
