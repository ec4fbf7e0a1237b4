"""What may be remembered between two decisions. It only ever saves time: with an empty one the plan is the same."""

from collections.abc import Callable, Mapping, Sequence

from .bounds import Caps
from .estimate import run_time
from .head_count import HeadCount
from .lineup import Lineup
from .model import NEVER, Coupling, Gang, Job, Queue
from .order import Standing
from .place import Need
from .plan import Reason
from .policy import Policy
from .sizes import Sizes, job_sizes
from .view import View

MOST_KINDS = 2000
SOME_CARDS = 1000
"""So many more cards than gangs are kept before those of gangs that are gone are dropped."""
UNKNOWN = object()
"""Nobody has found out yet."""


class Kin:
    """What gangs share that have equal roles and no wishes of their own: it is found out once for all."""

    __slots__ = ("_displaces", "_low", "alike", "flaw", "free", "gang", "ground", "needs", "plain", "simple", "sizes")

    def __init__(self, view: View, gang: Gang, numbers: dict[object, int]) -> None:
        self.gang = gang
        self.ground = view.ground
        self.plain = _is_plain(gang)
        roles = gang.roles
        self.needs = tuple(tuple(Need(view, gang, role, s) for s in range(len(role.shapes))) for role in roles)
        self.flaw: Reason | object | None = UNKNOWN
        """Why they can never start as they are, if so."""
        self.simple = _is_simple(gang, self.needs)
        """One role on one shape with no company to mind: what failed for one of the kind fails for a larger one."""
        self.free = self.simple and _is_free(gang, self.needs[0][0])
        """Nothing but room in sum decides whether they can sit."""
        same = self.simple and (self.needs[0][0].alike, self.free)
        self.alike: object = numbers.setdefault(same, len(numbers)) if same else gang.name
        """Gangs with the same entry here find room in the same places, and leave as much of it when they sit down.

        A number, because it is looked up often.
        """
        self.sizes: dict[tuple[int, int], Sizes] = {}
        self._displaces: dict[object, int] = {}
        self._low = -1

    def low(self, job: Job) -> int:
        """The fewest members that the first role of one of them may have."""
        if has_own_sizes(job):
            return sizes_in({}, job, 0, 0).low
        if self._low < 0:
            self._low = sizes_in(self.sizes, job, 0, 0).low
        return self._low

    def is_sound(self, found: Callable[[], bool]) -> bool:
        """Whether nothing is wrong with them; asked once for all where nobody knows yet."""
        if self.flaw is UNKNOWN and found():
            self.flaw = None
        return self.flaw is None

    def displaces(self, other: "Kin") -> int:
        """How many members of another kind find no seat for each member of this one, at least, wherever it sits."""
        known = self._displaces.get(other.alike)
        if known is None:
            both = self.free and other.free
            known = self._displaces[other.alike] = self.needs[0][0].displaces(other.needs[0][0]) if both else 0
        return known

    def holds(self, view: View, gang: Gang) -> bool:
        """Whether all of this is true of a gang as well."""
        mine = self.gang
        return self.ground == view.ground and (
            mine is gang or (self.plain and mine.roles == gang.roles and _is_plain(gang))
        )


def _is_simple(gang: Gang, needs: tuple[tuple[Need, ...], ...]) -> bool:
    if len(needs) != 1 or len(needs[0]) != 1 or gang.domain_ask:
        return False
    role = gang.roles[0]
    return not (role.repels or role.needs or role.marks)


def _is_free(gang: Gang, need: Need) -> bool:
    low, want, _ = need.sizes()
    if need.missing or need.level or need.share or need.per_node or need.unit > 1 or need.one_node or gang.speed.points:
        return False
    return low == want and need.role.coupling is Coupling.GANG


def _is_plain(gang: Gang) -> bool:
    """Nothing but roles, a queue, a priority and an estimate."""
    if gang.within or gang.near or gang.after or gang.domain_ask or gang.unsupported or gang.speed.points:
        return False
    times = gang.submitted >= 0 and gang.estimate.limit > 0 and gang.estimate.p50 >= 0 and gang.estimate.p90 >= 0
    times = times and gang.begin == 0 and gang.max_wait >= 0 and gang.min_run >= 0
    return times and gang.deadline == NEVER and bool(gang.name)


def _sketch(gang: Gang) -> object:
    """The roles in a few strokes: gangs with different sketches have different roles."""
    return tuple([(role.min, role.within, *role.shapes[0].ask.items()) if role.shapes else () for role in gang.roles])


class Card:
    """What is known of a gang before anybody looks for seats."""

    __slots__ = ("job", "kin", "least", "length", "low", "queue", "sizes")

    def __init__(self, job: Job, kin: Kin, queue: Queue | None, percent: int) -> None:
        self.job = job
        self.kin = kin
        self.queue = queue
        self.sizes: dict[tuple[int, int], Sizes] = {} if has_own_sizes(job) else kin.sizes
        self.length = run_time(job, queue, percent)
        self.low = self.size(0, 0).low
        self.least: list[int] | None = None

    @property
    def needs(self) -> tuple[tuple[Need, ...], ...]:
        """The gang's roles as the profile understands them: for each role, one entry for each shape."""
        return self.kin.needs

    def size(self, role: int, shape: int) -> Sizes:
        """The sizes a role of the gang may have now."""
        return sizes_in(self.sizes, self.job, role, shape)


def sizes_in(known: dict[tuple[int, int], Sizes], job: Job, role: int, shape: int) -> Sizes:
    """The sizes a role of a gang may have, as they are known or else found out."""
    found = known.get((role, shape))
    if found is None:
        found = known[role, shape] = _sizes(job, role, shape)
    return found


def has_own_sizes(job: Job) -> bool:
    """Whether the sizes a gang may have depend on how far it is."""
    return job.life.progress is not None or bool(job.life.done)


def _sizes(job: Job, role: int, shape: int) -> Sizes:
    if role >= len(job.gang.roles):
        return Sizes(0, 0, 0, ())
    found = job_sizes(job, role, shape)
    if job.life.done and job.gang.roles[role].coupling is Coupling.LOOSE:
        left = max(found.want - job.life.done[role], 0)
        return Sizes(min(found.low, left), left, max(found.high - job.life.done[role], left), range(left + 1))
    return found


class Rules:
    """What the queues ask for, so that nobody looks for what no queue has."""

    __slots__ = ("caps", "guaranteed", "limited", "sliced", "strict")

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        every = tuple(queues.values())
        self.caps = Caps(queues)
        self.limited = self.caps.limited
        self.guaranteed = any(queue.guarantee for queue in every)
        self.sliced = any(queue.slice for queue in every)
        self.strict = any(queue.strict for queue in every)


class Cache:
    """Facts about gangs and about the empty cluster that hold until a gang or a node changes."""

    def __init__(self) -> None:
        self.standing = Standing()
        self.behind = Standing()
        """The same gangs in the order in which those behind the promises are tried, where that is another."""
        self.lineup = Lineup()
        self.head_count = HeadCount()
        self._cards: dict[str, Card] = {}
        self._kin: dict[object, Kin] = {}
        self._kin_by_roles: dict[int, Kin] = {}
        """The same for gangs that share the very record of their roles."""
        self._most_cards = SOME_CARDS
        self._numbers: dict[object, int] = {}
        self._ground = -1
        self._facts: dict[object, int] = {}
        self._rules_at = -1
        self._rules = Rules({})

    def rules(self, view: View) -> Rules:
        """What the queues ask for."""
        if self._rules_at != view.rules:
            self._rules_at, self._rules = view.rules, Rules(view.queues)
        return self._rules

    def only_line(self, view: View, now: int, policy: Policy) -> Sequence[int] | None:
        """The waiting gangs as they stand in line; None where there are several lines."""
        if len(view.queued) == 1:
            return tuple(view.queued)
        self.standing.update(view, now, policy)
        return self.standing.only_line()

    def card(self, view: View, job: Job, percent: int) -> Card:
        """The gang's card, written anew when the gang, its queue or the nodes changed."""
        gang = job.gang
        card = self._cards.get(gang.name)
        queue = view.queues.get(gang.queue)
        if card is None or card.job is not job or card.kin.ground != view.ground or card.queue is not queue:
            kin = card.kin if card is not None and card.kin.holds(view, gang) else self.kin(view, gang)
            card = self._cards[gang.name] = Card(job, kin, queue, percent)
            if len(self._cards) > self._most_cards:
                self._forget(view)
        return card

    def kin(self, view: View, gang: Gang) -> Kin:
        """What is known of all gangs of this kind."""
        kin = self._kin_by_roles.get(id(gang.roles))
        if kin is None or kin.gang.roles is not gang.roles or not kin.holds(view, gang):
            if len(self._kin_by_roles) >= MOST_KINDS:
                self._kin_by_roles.clear()
            kin = self._kin_by_roles[id(gang.roles)] = self._kin_like(view, gang)
        return kin

    def _kin_like(self, view: View, gang: Gang) -> Kin:
        sketch = _sketch(gang)
        kin = self._kin.get(sketch)
        if kin is None or not kin.holds(view, gang):
            kin = Kin(view, gang, self._numbers)
            if kin.plain:
                if len(self._kin) >= MOST_KINDS:
                    self._kin.clear()
                self._kin[sketch] = kin
        return kin

    def facts(self, view: View) -> dict[object, int]:
        """Room on the cluster with nobody on it, by what is asked; emptied when nodes change."""
        if self._ground != view.ground:
            self._ground = view.ground
            self._facts = {}
        return self._facts

    def _forget(self, view: View) -> None:
        """Drop the cards of gangs that are gone."""
        here = {job.gang.name for job in view.jobs if job is not None}
        self._cards = {name: card for name, card in self._cards.items() if name in here}
        self._kin = {_sketch(card.kin.gang): card.kin for card in self._cards.values() if card.kin.plain}
        self._kin_by_roles = {}
        self._most_cards = 2 * len(self._cards) + SOME_CARDS
