"""All that is known, and how it is entered: integer columns for nodes, records for gangs and queues."""

import weakref
from collections.abc import Callable
from math import gcd
from typing import TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from . import events as ev
from .booked import Booked
from .classes import Classes
from .estimate import ends_alike, expected_ends, is_flexible
from .late import Late
from .model import DAY, NEVER, QUEUED, Domain, Gang, Job, Node, Queue, Seats, State, Window
from .seats import walk
from .topology import Topology
from .use import QueueUse
from .view import View, frozen

HALF_LIFE = 7 * DAY
MOST_TOUCHES = 100_000
HELD, DRAINING = State.HELD, State.DRAINING


class Touched(msgspec.Struct, frozen=True):
    """What an event changed. `note` says why a stale or impossible event changed nothing."""

    version: int
    slot: int = -1
    freed: bool = False
    nodes: bool = False
    note: str = ""


class Books:
    """The columns and records, and the entries that keep them consistent with each other."""

    def __init__(self, half_life: int = HALF_LIFE) -> None:
        self.version = 0
        self.ground, self.rules = 0, 0
        """Count changes of nodes, pools and domains, and changes of queues."""
        self.faulty = 0
        """Nodes that have failed at least once."""
        self.at, self.half_life = 0, half_life
        self.resources: dict[str, int] = {}
        self.topology = Topology()
        self.nodes: list[Node | None] = []
        self.node_index: dict[str, int] = {}
        self.versions: list[int] = []
        self.late = Late()
        self.jobs: list[Job | None] = []
        self.slots: dict[str, int] = {}
        self.queued: dict[int, None] = {}
        self.seated: dict[int, None] = {}
        self.on_hold: dict[int, None] = {}
        self.priorities: dict[int, int] = {}
        """How many waiting gangs there are of each priority."""
        self.followers: dict[int, None] = {}
        """Waiting gangs that others must end before."""
        self.touches: list[int] = []
        """Slots in the order in which what is known of them changed; only added to, and at times begun anew."""
        self.promised: dict[int, None] = {}
        """Waiting gangs that hold a promise or a pledge."""
        self.leaving: dict[int, None] = {}
        self.watched: dict[int, None] = {}
        """Seated gangs that a decision may have to do something about: broken, asked to change, loose, elastic, in lent
        room."""
        self.ends: NDArray[np.int64] = np.full((16, 3), NEVER, np.int64)
        self.begun: list[int] = []
        self.queues: dict[str, Queue] = {}
        self.use: dict[str, QueueUse] = {}
        self.windows: dict[str, Window] = {}
        self.domains: dict[int, Domain] = {}
        self.domain_free: dict[int, dict[str, int]] = {}
        self.draining: dict[int, int] = {}
        self.spare_slots: list[int] = []
        self.units: list[int] = []
        """Every amount of a resource is a multiple of its unit."""
        self.total: list[int] = []
        """What all nodes together have of each resource, in whatever state they are."""
        self.most: list[int] = []
        """The largest amount of each resource on one node."""
        self.booked = Booked()
        self._nodes_are_shown = False
        self._line: tuple[NDArray[np.int64], NDArray[np.int64], bool] | None = None
        self._last_view: weakref.ref[View] | None = None
        self._shown_ends, self._celled, self._cells = frozen(self.ends), self.ends, self.ends.reshape(-1).data
        """As views see them; and cells, through which single numbers take half the time."""

    @property
    def classes(self) -> Classes:
        """Which nodes are interchangeable right now."""
        return self.late.settled()

    def line(self) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
        """Position of each node along the topology (neighbours in the tree are neighbours in the line), and back.

        The last entry says whether nodes are numbered along the line.
        Nodes that are gone have a position but are not in the line.
        """
        if self._line is None:
            here = [i for i, node in enumerate(self.nodes) if node is not None]
            gone = [i for i, node in enumerate(self.nodes) if node is None]
            order = sorted(here, key=lambda i: walk(cast("Node", self.nodes[i])))
            line = np.empty(len(self.nodes), np.int64)
            line[order + gone] = np.arange(len(self.nodes))
            self._line = frozen(line), frozen(np.array(order, np.int64)), order == list(range(len(order)))
        return self._line

    def shown_ends(self) -> NDArray[np.int64]:
        """Expected ends as a view sees them: the same numbers, but nobody can write to them."""
        if self._shown_ends.base is not self.ends:
            self._shown_ends = frozen(self.ends)
        return self._shown_ends

    def forget_line(self) -> None:
        """Nodes came, went or moved: the line is drawn anew when it is next asked for."""
        self._line = None

    def let_go(self) -> None:
        """Before anything changes: leave the columns to whoever is looking at them."""
        shown = self._last_view() if self._last_view is not None else None
        if shown is not None:
            shown.look()
            self.classes.detach()
            self.versions, self.ends, self.begun = self.versions.copy(), self.ends.copy(), self.begun.copy()
            self.resources = self.resources.copy()
            self._nodes_are_shown = True
            self.jobs, self.queued, self.seated = self.jobs.copy(), self.queued.copy(), self.seated.copy()
            self.leaving, self.watched = self.leaving.copy(), self.watched.copy()
            self.promised, self.on_hold = self.promised.copy(), self.on_hold.copy()
            self.followers = self.followers.copy()
            self.priorities = self.priorities.copy()
            self.units, self.most = self.units.copy(), self.most.copy()
            self.total = self.total.copy()
            self.queues, self.windows, self.draining = self.queues.copy(), self.windows.copy(), self.draining.copy()
            self.use = {name: use.copy() for name, use in self.use.items()}
            self.domains = self.domains.copy()
            self.domain_free = {domain: free.copy() for domain, free in self.domain_free.items()}
        self._last_view = None

    def own_nodes(self) -> None:
        """Before nodes change: leave the lists to whoever is looking at them."""
        if self._nodes_are_shown:
            self._nodes_are_shown = False
            self.nodes, self.node_index = self.nodes.copy(), self.node_index.copy()

    def nothing(self, note: str) -> Touched:
        self.version -= 1
        return Touched(self.version, note=note)

    def job_in(self, slot: int) -> Job:
        job = self.jobs[slot]
        assert job is not None
        return job

    def slot_of(self, name: str, states: "frozenset[State] | set[State]") -> int:
        slot = self.slots.get(name, -1)
        job = self.jobs[slot] if slot >= 0 else None
        return slot if job is not None and job.life.state in states else -1

    def new_slot(self) -> int:
        self.jobs.append(None)
        self.begun.append(0)
        if len(self.jobs) > len(self.ends):
            self.ends = np.concatenate([self.ends, np.full((len(self.ends), 3), NEVER, np.int64)])
        return len(self.jobs) - 1

    def put(self, slot: int, job: Job) -> None:
        """Enter what is now known of a gang."""
        if slot in self.queued:
            self._take_out_of_line(slot)
        before, self.jobs[slot] = self.jobs[slot], job
        self.touches.append(slot)
        life = job.life
        state = life.state
        if state in QUEUED:
            self._put_in_line(slot, job)
            return
        if state is DRAINING:
            self.leaving[slot] = None
        if life.lost or life.target or life.lent:
            self.watched[slot] = None
        if slot in self.seated and before is not None and ends_alike(before, job):
            return
        self.seated[slot] = None
        if is_flexible(job.gang):
            self.watched[slot] = None
        self.begun[slot] = life.started
        self._expect(slot, *expected_ends(job, self.queues.get(job.gang.queue)))

    def _expect(self, slot: int, soon: int, late: int, last: int) -> None:
        if self._celled is not self.ends:
            self._celled, self._cells = self.ends, self.ends.reshape(-1).data
        cells, at = self._cells, 3 * slot
        cells[at], cells[at + 1], cells[at + 2] = soon, late, last

    def _put_in_line(self, slot: int, job: Job) -> None:
        life, priority = job.life, job.gang.priority
        self.queued[slot] = None
        self.priorities[priority] = self.priorities.get(priority, 0) + 1
        if slot in self.seated:
            self.take_off_seats(slot)
        if life.promise is not None or life.pledge is not None:
            self.promised[slot] = None
        if life.state is HELD:
            self.on_hold[slot] = None
        if job.gang.after:
            self.followers[slot] = None

    def _take_out_of_line(self, slot: int) -> None:
        priority = self.job_in(slot).gang.priority
        many = self.priorities.pop(priority) - 1
        if many:
            self.priorities[priority] = many
        del self.queued[slot]
        if slot in self.promised:
            del self.promised[slot]
        if slot in self.on_hold:
            del self.on_hold[slot]
        if slot in self.followers:
            del self.followers[slot]

    def take_off_seats(self, slot: int) -> None:
        """The gang in the slot is no longer among those with seats."""
        del self.seated[slot]
        if slot in self.leaving:
            del self.leaving[slot]
        if slot in self.watched:
            del self.watched[slot]
        self._expect(slot, NEVER, NEVER, NEVER)

    def forget(self, slot: int) -> None:
        """Nothing is known of the gang in the slot any more."""
        if slot in self.queued:
            self._take_out_of_line(slot)
        self.jobs[slot] = None
        self.touches.append(slot)
        if slot in self.seated:
            self.take_off_seats(slot)

    def seat(self, slot: int, job: Job, seats: tuple[Seats, ...], sign: int, decided: int = 0) -> None:
        if not seats:
            return
        if sign > 0:
            self._get_to_know(job.gang, seats)
        stamp, versions = decided or self.version, self.versions
        asks, total, floor = self.booked.amounts(slot, job.gang, seats, sign, self.resources)
        for role, given in enumerate(seats):
            nodes = given.nodes
            if nodes:
                self.late.shift(nodes, given.counts, slot, role, sign, asks[role])
                for node in nodes:
                    versions[node] = stamp
        self._use(job.gang, total, floor, sign)
        if job.gang.domain_ask:
            self._book_domains(job.gang, seats, sign)

    def _get_to_know(self, gang: Gang, seats: tuple[Seats, ...]) -> None:
        """Somebody may hold what no node has, or has any more: that is entered all the same."""
        for role, given in zip(gang.roles, seats, strict=True):
            if given.nodes:
                for name in role.shapes[given.shape].ask:
                    if name not in self.resources:
                        self.resource(name)

    def book(self, slot: int, job: Job, seats: tuple[Seats, ...], sign: int) -> None:
        """Add what the gang in the slot holds on these seats to the use of its queue, or take it away."""
        if seats:
            _, total, floor = self.booked.amounts(slot, job.gang, seats, sign, self.resources)
            self._use(job.gang, total, floor, sign)

    def _use(self, gang: Gang, total: list[int], floor: list[int], sign: int) -> None:
        use = self.use.get(gang.queue) or self.use_of(gang.queue)
        if use.at < self.at:
            use.advance(self.at, self.half_life)
        use.add(gang.user, gang.priority, total, floor, sign)

    def _book_domains(self, gang: Gang, seats: tuple[Seats, ...], sign: int) -> None:
        for level, ask in gang.domain_ask.items():
            column = self.topology.domains(level)
            classes = self.classes
            kinds = classes.kind[classes.of[[node for given in seats for node in given.nodes]]]
            for domain in set(column[kinds].tolist()):
                free = self.domain_free.setdefault(domain, {})
                for name, amount in ask.items():
                    free[name] = free.get(name, 0) - sign * amount

    def bad_seats(self, gang: Gang, seats: tuple[Seats, ...]) -> str:
        if len(seats) != len(gang.roles):
            return f"seats for {len(seats)} roles of {len(gang.roles)}"
        for role, given in zip(gang.roles, seats, strict=True):
            if len(given.nodes) != len(given.counts) or not 0 <= given.shape < len(role.shapes):
                return f"malformed seats of {role.name!r}"
            if not self._are_here(given.nodes):
                return f"{role.name!r} is seated on a node that is not there"
            if min(given.counts, default=1) <= 0:
                return f"{role.name!r} has a seat without a member"
        return ""

    def _are_here(self, numbers: tuple[int, ...]) -> bool:
        if not numbers:
            return True
        if min(numbers) < 0 or max(numbers) >= len(self.nodes):
            return False
        if len(self.node_index) == len(self.nodes):
            return True
        return all(self.nodes[number] is not None for number in numbers)

    def resource(self, name: str) -> int:
        at = self.resources.get(name)
        if at is None:
            at = self.resources[name] = len(self.resources)
            self.classes.add_resource()
            self.units.append(0)
            self.most.append(0)
            self.total.append(0)
            for job in filter(None, self.jobs):
                self.measure_gang(job.gang)
            for use in self.use.values():
                use.widen()
        return at

    def measure(self, amounts: dict[str, int], on_node: bool) -> None:
        """Learn amounts of known resources, so that all of them are whole numbers of units."""
        for name, amount in amounts.items():
            at = self.resources.get(name)
            if at is not None and amount:
                unit = self.units[at]
                if not unit or amount % unit:
                    self.units[at] = gcd(unit, amount)
                if on_node:
                    self.most[at] = max(self.most[at], amount)

    def count_node(self, node: Node | None, sign: int) -> None:
        """Add a node's capacity to the total, or take it away."""
        if node is None:
            return
        self.faulty += sign * bool(node.faults)
        for name, amount in node.capacity.items():
            self.total[self.resources[name]] += sign * amount

    def measure_gang(self, gang: Gang) -> None:
        """Learn the amounts a gang asks for."""
        for role in gang.roles:
            for shape in role.shapes:
                self.measure(shape.ask, on_node=False)

    def use_of(self, queue: str) -> QueueUse:
        use = self.use.get(queue)
        if use is None:
            use = self.use[queue] = QueueUse(len(self.resources), self.at)
        return use


E = TypeVar("E", bound=ev.Event)
Handler = Callable[[Books, E], Touched]
HANDLERS: dict[type[ev.Event], Callable[[Books, ev.Event], Touched]] = {}


def on(kind: type[E]) -> Callable[[Handler[E]], Handler[E]]:
    """Register how an event of this kind is entered."""

    def register(handler: Handler[E]) -> Handler[E]:
        HANDLERS[kind] = cast("Callable[[Books, ev.Event], Touched]", handler)
        return handler

    return register
