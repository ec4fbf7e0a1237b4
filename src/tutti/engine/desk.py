"""The working papers of one decision: what is left after the actions so far, and what was found out on the way."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from .bounds import Crowd, Key
from .cache import Cache, Card
from .estimate import run_time
from .loans import Loans
from .model import NEVER, Job, Kind, Queue, Seats, State, Token
from .place import Need, Seating, seats_of
from .plan import AnyAction, Reason
from .policy import Policy
from .profile import Bools, Ints, Profile
from .quota import Shares
from .rooms import Rooms
from .sizes import Sizes
from .spoken_for import Decided, SpokenFor
from .use import held
from .view import View

Stay = tuple[int, int, Job, tuple[Seats, ...], list[int]]
"""From, to, who, where, and the receipts for what was taken."""


class SeatRoles(Protocol):
    """How several roles are seated together."""

    def __call__(
        self, desk: "Desk", job: Job, needs: tuple[Need, ...], sizes: list[Sizes], start: int, end: int
    ) -> list[Seating] | None: ...


class Takes(Protocol):
    """Seats that are to be taken for a while."""

    job: Job
    start: int
    end: int
    seats: tuple[Seats, ...]
    """Empty while they are not chosen."""

    def take(self, desk: "Desk") -> None: ...


class Desk:
    """Everything a step of the cycle may read and write. It is thrown away when the plan is made."""

    def __init__(self, view: View, now: int, policy: Policy, cache: Cache, seat_roles: SeatRoles) -> None:
        self.seat_roles = seat_roles
        self.view = view
        self.now = now
        self.policy = policy
        self.cache = cache
        self.rules = cache.rules(view)
        self.is_strict = self.rules.strict or policy.order.strict
        self._shares: Shares | None = None
        self._uncharged: list[tuple[Job, tuple[Seats, ...]]] = []
        self.usable, well_again = usable(view, now, policy)
        self._profile = Profile(view, now, policy.reserve.quantile, self.usable, policy.reclaim.grace)
        self._untaken: list[Takes] = []
        self.actions: list[AnyAction] = []
        self.noted: dict[str, Reason] = {}
        """Answers that are known without asking further."""
        self.started: set[str] = set()
        self.spent: list[str] = []
        self.blocked: list[Job] = []
        """Gangs that could not sit, in queues where gangs take turns."""
        self._stays: dict[str, Stay] = {}
        self.unkept: dict[str, Job] = {}
        """Gangs whose standing promise is not taken out of the profile yet."""
        self.unseen: set[str] = set()
        """Gangs with a standing promise or pledge whose turn has not come yet."""
        self.disturbed: set[str] = set()
        """Running gangs that this plan already asks to do something."""
        self.grown: dict[str, tuple[Seats, ...]] = {}  # running gangs that are to grow, and to which seats
        self.promised = 0
        self.promised_anew: set[str] = set()
        """Gangs that this plan already tells of a promise without a time."""
        self.steps = policy.effort.search_steps
        self.rooms = Rooms(self)
        self.spoken_for = SpokenFor(self)
        self.crowded: dict[Key, tuple[Crowd, Reason]] = {}
        """Bounds on running gangs that are reached, and what is said to those who wait for them."""
        self.earliest: dict[object, list[tuple[int, int, int]]] = {}
        """Starts found in this pass: by what was asked, (members, length, start)."""
        self.endless: list[tuple[object, int, int]] = []
        """Requests for which no start is known: what was asked, members, length."""
        self.loans = Loans(view)
        self.strict_queues: dict[str, str] = {}
        """Queues (and '' for all) that nobody may pass in, and the gang at their head."""
        self.highest_served = -(1 << 62)
        self._highest: int | None = None
        self._slots: dict[str, int] = {}
        self._asked: Job | None = None
        self._card: Card
        """The card of the gang that was last asked about."""
        self._wake = well_again
        self._masks: dict[object, tuple[int, Bools]] = {}

    @property
    def shares(self) -> Shares:
        """Quota and fair share, as they are after everything decided so far."""
        if self._shares is None:
            self._shares = Shares(self.view, self.now, self.policy, self.cache.standing.demand, self.rules.caps)
            for job, seats in self._uncharged:
                self.charge(job, seats)
        return self._shares

    def charge(self, job: Job, seats: tuple[Seats, ...]) -> None:
        """Count seats towards the shares of the gang's queue and user, as soon as anybody asks about shares."""
        if self._shares is None:
            self._uncharged.append((job, seats))
        else:
            self._shares.enter(job.gang, *self.amounts(job, seats))

    def act(self, action: AnyAction) -> int:
        """Add an action to the plan; its position is returned."""
        self.actions.append(action)
        return len(self.actions) - 1

    def serve(self, job: Job) -> None:
        """The gang comes to room that it did not have; promises of lower priority may have to move for it."""
        self.highest_served = max(self.highest_served, job.gang.priority)

    def answer(self, job: Job, reason: Reason) -> None:
        """Say why a gang waits."""
        self.noted[job.gang.name] = reason

    def wake(self, moment: int) -> None:
        """Time alone changes the answer at this moment."""
        if self.now < moment < self._wake:
            self._wake = moment

    @property
    def wake_at(self) -> int:
        """When time alone changes the answer."""
        return self._wake

    @property
    def profile(self) -> Profile:
        """What is free over time, with everything that was decided so far taken out."""
        if self._untaken:
            self._take(len(self._untaken))
        return self._profile

    def until(self, end: int) -> Profile:
        """The same, for those who look no further than a moment: what begins then or later may not be in it yet."""
        untaken = self._untaken
        if untaken:
            self._take(max((at for at, sitting in enumerate(untaken, 1) if sitting.start < end), default=0))
        return self._profile

    def take(self, sitting: "Takes") -> None:
        """Take seats out of the profile, before anybody next looks at it."""
        # A stay that is over before another begins does not disturb it, so it need not wait for that one's seats.
        untaken = self._untaken
        at = next((at for at, other in enumerate(untaken) if other.start >= sitting.end), len(untaken))
        untaken.insert(at, sitting)

    def _take(self, first: int) -> None:
        waiting, later = self._untaken[:first], self._untaken[first:]
        self._untaken = []
        for sitting in waiting:
            sitting.take(self)
        self._untaken = later

    @property
    def stays(self) -> dict[str, Stay]:
        """Stays decided in this pass: from, to, who, where, and the receipts for what was taken."""
        self._take(len(self._untaken))
        return self._stays

    def seated(self, job: Job, start: int, end: int, seats: tuple[Seats, ...], receipts: list[int]) -> None:
        """Note a stay whose seats were taken."""
        self._stays[job.gang.name] = (start, end, job, seats, receipts)

    def kept(self, job: Job) -> Stay | None:
        """The stay of a gang whose seats were taken in this pass."""
        return self._stays.get(job.gang.name)

    def decided(self) -> Iterator[Decided]:
        """Stays decided in this pass, whether their seats are taken yet or not."""
        yield from (stay[:4] for stay in self._stays.values())
        yield from ((sitting.start, sitting.end, sitting.job, sitting.seats) for sitting in self._untaken)

    def first_promised(self) -> int:
        """The first start that is decided and lies ahead."""
        starts = [stay[0] for stay in self._stays.values()] + [sitting.start for sitting in self._untaken]
        return min((start for start in starts if start > self.now), default=NEVER)

    def next_moment(self) -> int:
        """The next moment at which something is expected to end, or is decided to begin or to end."""
        decided = (moment for sitting in self._untaken for moment in (sitting.start, sitting.end) if moment > self.now)
        return min(min(decided, default=NEVER), self._profile.next_moment())

    def unseat(self, job: Job) -> None:
        """Give back the seats of a stay noted earlier, if there is one."""
        stay = self._stays.pop(job.gang.name, None)
        for receipt in stay[4] if stay else ():
            self.profile.give(receipt)
            self.forget_failures()

    def forget_failures(self) -> None:
        """Something was or will be given back: who failed before may succeed now."""
        self.rooms.forget()
        self.earliest.clear()
        self.endless.clear()
        self.loans.failed.clear()

    def ends(self) -> Ints:
        """When each running gang is expected to end, by slot."""
        return self._profile.releases.ends

    def end_of(self, slot: int) -> int:
        """When a running gang is expected to end."""
        return int(self.ends()[slot])

    def ends_by_itself(self, slot: int) -> int:
        """The same where nobody asks it to leave the room that it is lent."""
        return int(self._profile.releases.by_themselves[slot])

    def gone_by(self) -> int:
        """When whoever is asked to leave now is taken to be gone: never this very moment."""
        return self.now + max(self.policy.reclaim.grace, 1)

    def slot(self, job: Job) -> int:
        """The slot of a running gang."""
        if not self._slots:
            self._slots = {self.view.held(slot).gang.name: slot for slot in self.view.seated}
        return self._slots[job.gang.name]

    def by_end(self, gangs: Sequence[str]) -> list[str]:
        """Gangs in the order in which they are expected to end; those that only start now come last."""
        ends = {self.view.held(slot).gang.name: self.end_of(slot) for slot in self.view.seated}
        return sorted(gangs, key=lambda name: (ends.get(name, NEVER), name))

    def spend(self, job: Job, steps: int = 1) -> bool:
        """Use up some of the effort one decision may take; False when it is used up, and the plan will say so."""
        self.steps -= steps
        if self.steps < 0 and job.gang.name not in self.spent:
            self.spent.append(job.gang.name)
        return self.steps >= 0

    def highest_unpromised(self) -> int:
        """The highest priority among gangs that wait without a promise."""
        if self._highest is None:
            jobs = (self.view.held(slot) for slot in self.view.queued)
            free = [j.gang.priority for j in jobs if j.life.promise is None and j.life.state is not State.HELD]
            self._highest = max(free, default=-(1 << 62))
        return self._highest

    def card(self, job: Job) -> Card:
        """What is known of a gang."""
        if job is not self._asked:
            self._asked, self._card = job, self.cache.card(self.view, job, self.policy.reserve.quantile)
        return self._card

    def needs(self, job: Job) -> tuple[tuple[Need, ...], ...]:
        """The gang's roles as the profile understands them: for each role, one entry for each shape."""
        return self.card(job).needs

    def sizes(self, job: Job, role: int, shape: int = 0) -> Sizes:
        """The sizes a role of the gang may have now."""
        return self.card(job).size(role, shape)

    def coming(self, moment: int) -> list[Card]:
        """Who is to begin at a moment and has not been given seats yet."""
        return [self.card(sitting.job) for sitting in self._untaken if sitting.start == moment]

    def not_before(self, card: Card) -> int:
        """No start before this moment: a request for no more and no longer was told so in this pass."""
        latest, low, length = self.now, card.low, card.length
        for members, run, at in self.earliest.get(card.kin.alike, ()) if card.kin.simple else ():
            if at > latest and members <= low and run <= length:
                latest = at
        return latest

    def note_earliest(self, card: Card, moment: int) -> None:
        """Remember the earliest start of a request: within a pass room only gets less."""
        if card.kin.simple and card.low:
            if moment >= NEVER > self.not_before(card):
                self.endless.append((card.kin.alike, card.low, card.length))
            known = self.earliest.setdefault(card.kin.alike, [])
            low, length = card.low, card.length
            known[:] = [entry for entry in known if entry[0] < low or entry[1] < length or entry[2] > moment]
            known.append((low, length, moment))

    def least_amounts(self, job: Job) -> list[int]:
        """What the gang holds of each resource at its minimum, on the shapes it likes best."""
        card = self.card(job)
        if card.least is None or len(card.least) != len(self.view.resources):
            card.least = [0] * len(self.view.resources)
            for role, needs in enumerate(card.needs):
                for resource, amount in needs[0].ask:
                    card.least[resource] += card.size(role, 0).low * amount
        return card.least

    def is_bounded(self, job: Job) -> bool:
        """Whether more than room decides: its queue, or one above, bounds what runs there."""
        return self.rules.limited and bool(self.rules.caps.of(job.gang))

    def queue(self, job: Job) -> Queue | None:
        """The queue a gang stands in."""
        return self.view.queues.get(job.gang.queue)

    def length(self, job: Job, seats: tuple[Seats, ...] = ()) -> int:
        """How long a gang is taken to run, at the percentile promises are made with."""
        if not seats or not job.gang.speed.points:
            return self.card(job).length
        return run_time(job, self.queue(job), self.policy.reserve.quantile, seats)

    def mask(self, need: Need, looked_at: Profile | None = None) -> Bools:
        """Columns whose nodes take members of this need, as far as tags, taints and health go."""
        profile = looked_at or self.profile
        known = self._masks.get(need.key)
        if known is None or known[0] != profile.count:
            eligible = self.view.topology.eligible(*need.key)
            mask = profile.usable[: profile.count] & eligible[profile.kind[: profile.count]]
            known = self._masks[need.key] = (profile.count, mask)
        return known[1]

    def seats(self, need: Need, seating: Seating) -> Seats:
        """A seating as nodes in rank order, which is the order of the line."""
        return seats_of(self.view, need, seating)

    def are_there(self, seats: Sequence[Seats]) -> bool:
        """Whether every node these seats name still exists."""
        nodes = self.view.nodes
        return all(nodes[node] is not None for held in seats for node in held.nodes)

    def seating(self, seats: Seats) -> Seating:
        """The other way round: positions in line."""
        return Seating(self.view.line[list(seats.nodes)].astype(np.intp), np.array(seats.counts, np.int64))

    def amounts(self, job: Job, seats: Sequence[Seats]) -> tuple[list[int], list[int]]:
        """What seats hold of each resource, and the part up to the gang's minimum."""
        return held(self.view.resources, job.gang, seats)


def usable(view: View, now: int, policy: Policy) -> tuple[Bools, int]:
    """Classes whose nodes take new members: ready, and not known to fail again and again; and when that changes."""
    lemons = _lemons(view, now, policy) if view.faulty else {}
    if not lemons:
        return view.class_ready, NEVER
    ready = view.class_ready.copy()
    ready[list(lemons)] = False
    return ready, min(lemons.values())


def _lemons(view: View, now: int, policy: Policy) -> dict[int, int]:
    """Classes of nodes with too many faults of late, and when enough of them will be forgotten."""
    most, window = policy.repair.lemon_after, policy.repair.lemon_window
    faulty = ((number, sorted(trait.faults)) for number, trait in enumerate(view.traits) if trait and trait.faults)
    until = {number: faults[-most] + window for number, faults in faulty if 0 < most <= len(faults)}
    return {number: moment for number, moment in until.items() if moment > now}


def wait(token: Token, detail: str = "", *wakes: str, kind: Kind = Kind.WAIT, **more: object) -> Reason:
    """A reason to wait."""
    return Reason(token, kind, detail, wakes=wakes, **more)  # type: ignore[arg-type]
