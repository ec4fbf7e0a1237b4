"""The goodput ledger: where every device-second of the cluster went.

Categories are closed: at any moment their sum is installed capacity x time, exactly, in device-microseconds. Time is
booked when something changes, so an event costs what it changes and not what the cluster holds. See
docs/explanation/goodput-ledger.md.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.engine import events as ev
from tutti.engine.estimate import pace, sizes
from tutti.engine.model import Data, Gang, Job, Life, Node, NodeState, Pledge, Promise, Seats, State, Token
from tutti.engine.plan import Reason
from tutti.engine.world import Touched, World

from .account import PHASES, Account, Counting, Rates, Spent

RECENT = 1000
"""How many ended gangs keep a sheet of their own; all of them stay in their queue's."""

CANNOT_RUN = frozenset(
    {
        Token.INVALID,
        Token.NEVER_FITS,
        Token.UNSUPPORTED,
        Token.HELD,
        Token.DEPENDENCY_WAIT,
        Token.WAITING_FOR_MEMBERS,
        Token.BACKING_OFF,
    }
)
"""Gangs that would not run whatever is free: they are no demand."""
BY_RULE = frozenset({Token.QUOTA_REACHED, Token.QUEUE_CLOSED})

NOBODY = Life()
NOTHING = (None, None, ())

Sheet = dict[str, int]
Why = Callable[[str], Reason | None]
"""Why a gang waits, in outline; None where it does not."""


class Report(Data, frozen=True):
    """The ledger as plain data: device-microseconds by category, of the cluster, of each queue and of each gang."""

    resource: str
    since: int
    at: int
    installed: int
    total: Sheet
    queues: dict[str, Sheet]
    gangs: dict[str, Sheet]
    goodput_ppm: int
    """Useful time kept, in millionths of all that was installed."""
    goodput_known_ppm: int
    """The same, leaving out the time nobody knows anything of."""


class LedgerState(msgspec.Struct, frozen=True):
    """A ledger as it is stored, to go on with after a restart."""

    resource: str
    since: int
    at: int
    installed: int
    idle: dict[Spent, int]
    accounts: tuple[Account, ...]
    closed: dict[str, dict[Spent, int]]
    recent: dict[str, Sheet]
    speeds: dict[str, Rates] = {}


class Kept(msgspec.Struct):
    """Devices kept on nodes for a gang: by its promise, its pledge, or because it was asked to take them."""

    why: tuple[Promise | None, Pledge | None, tuple[Seats, ...]]
    nodes: dict[int, int]


class Ledger:
    """Books device time as events pass through it."""

    def __init__(self, resource: str = "", main: str = "cpu", counting: Counting = Counting.STEPS) -> None:
        """Without a resource, 'gpu' counts if a node has any when time begins to pass, else `main`."""
        self.resource = resource
        self.at = self.since = -1
        self.installed = 0
        self.idle: dict[Spent, int] = {}
        self.accounts: dict[str, Account] = {}
        self.closed: dict[str, dict[Spent, int]] = {}
        self.recent: OrderedDict[str, Sheet] = OrderedDict()
        self._speeds: dict[str, Rates] = {}
        """How fast the recent gangs were that reported it."""
        self._main = main
        self._counting = counting
        self._held = 0
        self._foreign: dict[int, tuple[int, int]] = {}
        self._foreign_in_use = 0
        self._foreign_broken = 0
        self._kept: dict[str, Kept] = {}
        self._kept_columns: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._wanting: list[tuple[str, int, bool]] = []
        """Gangs that wait for devices: name, how many at least, and whether only a rule keeps them from running."""
        self._rates: dict[Spent, int] | None = None
        self._ended: Mapping[str, State] = {}

    # -- what is fed to it

    def open(self, world: World, now: int) -> None:
        """Begin, or begin again after a full listing: everything is read from the world."""
        if self.since < 0:
            self.since = self.at = now
        self._read(world)

    def through(self, world: World, event: ev.Event) -> Touched:
        """Enter an event in the world and book what it changes."""
        if event.at > self.at:
            self.advance(world, event.at)
        names = _concerned(world, event)
        node = _node_of(world, event)
        touched = world.apply(event)
        if touched.note:
            return touched
        self._rates = None
        if touched.nodes:
            self._note_node(world, _node_of(world, event) if node is None else node)
        for name in names:
            self._follow(world, name, event)
        return touched

    def answered(self, world: World, why: Why, now: int) -> None:
        """Why gangs wait from now on; this tells idle devices that nobody wants from those that nobody can use."""
        if now > self.at:
            self.advance(world, now)
        self._wanting = list(self._wanters(world, why))
        self._rates = None

    def charge(self, world: World, name: str, what: Spent, run_time: int, now: int) -> None:
        """Book some of a gang's running time as a cost only its keeper knows: start-up, a snapshot, a resize."""
        self.advance(world, now)
        account = self.accounts.get(name)
        if account is not None:
            account.settle(self.at)
            account.charge(what, run_time)

    def advance(self, world: World, now: int) -> None:
        """Let time pass with nothing changing in the world."""
        if self.since < 0:
            self.open(world, now)
        elapsed = now - self.at
        if elapsed <= 0:
            return
        if not self.resource and not self._choose(world):
            self.at = self.since = now
            return
        if self._rates is None:
            self._rates = self._measured(world)
        for what, devices in self._rates.items():
            self.idle[what] = self.idle.get(what, 0) + devices * elapsed
            self.installed += devices * elapsed
        self.installed += self._held * elapsed
        self.at = now

    def report(self, world: World, now: int) -> Report:
        """Everything up to now."""
        self.advance(world, now)
        queues = {name: dict(amounts) for name, amounts in self.closed.items()}
        gangs = dict(self.recent)
        for name, account in self.accounts.items():
            account.settle(self.at)
            gangs[name] = _sheet(account.amounts)
            _add_all(queues.setdefault(account.queue, {}), account.amounts)
        total = dict(self.idle)
        for amounts in queues.values():
            _add_all(total, amounts)
        return self._reported(total, queues, gangs)

    def speeds(self, gang: str) -> Rates:
        """How fast a gang is, or was if it ended of late, at each size it has had."""
        account = self.accounts.get(gang)
        return account.rates() if account is not None else self._speeds.get(gang, [])

    def state(self) -> LedgerState:
        """Everything booked so far, as plain data."""
        accounts = tuple(self.accounts.values())
        return LedgerState(
            self.resource, self.since, self.at, self.installed, self.idle, accounts, self.closed, self.recent,
            self._speeds,
        )  # fmt: skip

    def restore(self, state: LedgerState, ended: Mapping[str, State] | None = None) -> None:
        """Go on from a stored state. The time in between is booked by the world that is opened next.

        `ended` says how gangs ended of which that world will not know any more; the others are taken for lost.
        """
        self._ended = ended or {}
        self.resource, self.since, self.at, self.installed = state.resource, state.since, state.at, state.installed
        self.idle, self.closed, self._speeds = state.idle, state.closed, state.speeds
        self.recent = OrderedDict(state.recent)
        self.accounts = {account.name: account for account in state.accounts}
        self._held = sum(account.devices + account.spares for account in state.accounts)

    def _reported(
        self, total: dict[Spent, int], queues: dict[str, dict[Spent, int]], gangs: dict[str, Sheet]
    ) -> Report:
        useful = total.get(Spent.USEFUL, 0)
        known = self.installed - total.get(Spent.UNKNOWN, 0)
        return Report(
            resource=self.resource or self._main,
            since=max(self.since, 0),
            at=max(self.at, 0),
            installed=self.installed,
            total={what.value: total.get(what, 0) for what in Spent},
            queues={name: _sheet(amounts) for name, amounts in sorted(queues.items())},
            gangs=dict(sorted(gangs.items())),
            goodput_ppm=useful * 1_000_000 // max(self.installed, 1),
            goodput_known_ppm=useful * 1_000_000 // max(known, 1),
        )

    # -- idle devices

    def _measured(self, world: World) -> dict[Spent, int]:
        """How many devices nobody of ours holds, by what they are spent on."""
        row = world.resources.get(self.resource)
        if row is None:
            return {}
        classes = world.classes
        free, weight = classes.free[row, : classes.count], classes.weight[: classes.count]
        spare = np.maximum(free, 0)
        unheld = int(spare @ weight)
        ready = int(spare @ (weight * classes.ready[: classes.count]))
        short = unheld - int(free @ weight)
        reserved = self._reserved(world, row)
        return {
            Spent.FOREIGN: max(self._foreign_in_use - short, 0),
            Spent.BROKEN: unheld - ready + self._foreign_broken,
            Spent.RESERVED: reserved,
            **self._wanted(world, ready - reserved, reserved),
        }

    def _reserved(self, world: World, row: int) -> int:
        """Free devices that a promise or a pledge keeps."""
        if not self._kept:
            return 0
        if self._kept_columns is None:
            nodes: dict[int, int] = {}
            for kept in self._kept.values():
                for node, amount in kept.nodes.items():
                    nodes[node] = nodes.get(node, 0) + amount
            self._kept_columns = np.array(list(nodes), np.int64), np.array(list(nodes.values()), np.int64)
        where, amounts = self._kept_columns
        classes = world.classes
        column = classes.of[where]
        free = np.where((column >= 0) & classes.ready[column], classes.free[row][column], 0)
        return int(np.minimum(np.maximum(free, 0), amounts).sum())

    def _wanted(self, world: World, idle: int, reserved: int) -> dict[Spent, int]:
        """Split free devices by whether a gang that waits could use them."""
        fragmented = self._demand(world, idle + reserved, by_rule=False) - reserved
        fragmented = max(fragmented, 0)
        by_rule = self._demand(world, idle - fragmented, by_rule=True)
        return {
            Spent.FRAGMENTED: fragmented,
            Spent.QUOTA: by_rule,
            Spent.NO_DEMAND: idle - fragmented - by_rule,
        }

    def _demand(self, world: World, most: int, by_rule: bool) -> int:
        """Devices that waiting gangs want, as far as it matters."""
        wanted = 0
        for name, least, only_by_rule in self._wanting:
            if wanted >= most:
                return most
            if only_by_rule is by_rule and world.slots.get(name, -1) in world.queued:
                wanted += least
        return min(wanted, most)

    def _wanters(self, world: World, why: Why) -> Iterator[tuple[str, int, bool]]:
        """As many of the waiting gangs as could want every device that is free: until the next answers no more are."""
        if not self.resource:
            self._choose(world)
        most, wanted = self._ready(world), 0
        if not most:
            return
        for slot in world.queued:
            job = world.job_in(slot)
            # Jobs on hold are many at times, and nobody has to be asked about them.
            reason = why(job.gang.name) if job.life.state is not State.HELD else None
            if reason is not None and reason.token not in CANNOT_RUN:
                by_rule = reason.token in BY_RULE
                least = _least(job.gang, self.resource)
                yield job.gang.name, least, by_rule
                wanted += 0 if by_rule else least
                if wanted >= most:
                    return

    def _ready(self, world: World) -> int:
        """Free devices on nodes that take gangs."""
        row = world.resources.get(self.resource)
        if row is None:
            return 0
        classes = world.classes
        free, weight = classes.free[row, : classes.count], classes.weight[: classes.count]
        return int(np.maximum(free, 0) @ (weight * classes.ready[: classes.count]))

    # -- gangs

    def _follow(self, world: World, name: str, event: ev.Event) -> None:
        """Bring a gang's account in line with what the event made of it."""
        slot = world.slots.get(name, -1)
        job = world.jobs[slot] if slot >= 0 else None
        self._keep(name, job)
        account = self.accounts.get(name)
        if job is None:
            if account is not None:
                state = event.state if isinstance(event, ev.Ended) else State.LOST
                self._close(account, state)
            return
        if account is None:
            if not job.life.seats:
                return
            account = self.accounts[name] = Account(name, job.gang.queue, self._counting, self.at)
        self._tell(account, event)
        self._read_gang(account, job)

    def _tell(self, account: Account, event: ev.Event) -> None:
        match event:
            case ev.Starting():
                account.begin(self.at)
            case ev.Reported():
                account.hear(event.progress, self.at)
            case ev.Evicted():
                account.evict(self.at, event.parked, event.kept)
            case ev.Refused():
                account.evict(self.at, parked=False, kept=0)
            case ev.Resized():
                account.resized = True

    def _read_gang(self, account: Account, job: Job) -> None:
        """Time so far is booked; from here on the account has the gang's present state and seats."""
        life = job.life
        account.settle(self.at)
        account.queue = job.gang.queue
        if life.state is not State.DRAINING:
            account.phase = PHASES.get(life.state)
        self._held -= account.devices + account.spares
        account.devices, account.spares = _devices(job.gang, life.seats, self.resource)
        self._held += account.devices + account.spares
        account.members = _computing(job.gang, life.seats)
        account.pace = pace(job.gang, life.seats) if life.seats and job.gang.speed.points else (1, 1)

    def _close(self, account: Account, state: State) -> None:
        self._held -= account.devices + account.spares
        account.end(self.at, state)
        del self.accounts[account.name]
        _add_all(self.closed.setdefault(account.queue, {}), account.amounts)
        self.recent.pop(account.name, None)
        self.recent[account.name] = _sheet(account.amounts)
        if account.best:
            self._speeds[account.name] = account.rates()
        if len(self.recent) > RECENT:
            oldest, _ = self.recent.popitem(last=False)
            self._speeds.pop(oldest, None)

    def _keep(self, name: str, job: Job | None) -> None:
        """Know which devices a promise or pledge keeps."""
        life = job.life if job else NOBODY
        why = (life.promise, life.pledge, life.target)
        known = self._kept.get(name)
        if why == (known.why if known else NOTHING):
            return
        self._kept_columns = None
        self._kept.pop(name, None)
        if job is not None and why != NOTHING:
            given = [each.seats for each in (life.promise, life.pledge) if each is not None]
            asked = _more(life.seats, life.target)
            self._kept[name] = Kept(why, _on_nodes(job.gang, [*given, asked], self.resource))

    # -- nodes

    def _note_node(self, world: World, at: int | None) -> None:
        if at is not None:
            self._foreign_is(at, world.nodes[at])

    def _foreign_is(self, at: int, node: Node | None) -> None:
        in_use, broken = self._foreign.pop(at, (0, 0))
        self._foreign_in_use -= in_use
        self._foreign_broken -= broken
        amount = node.foreign.get(self.resource, 0) if node is not None else 0
        if node is not None and amount:
            lost = node.state is NodeState.LOST
            in_use, broken = self._foreign[at] = (0, amount) if lost else (amount, 0)
            self._foreign_in_use += in_use
            self._foreign_broken += broken

    def _read_foreign(self, nodes: Iterable[Node | None]) -> None:
        self._foreign = {}
        self._foreign_in_use = self._foreign_broken = 0
        for at, node in enumerate(nodes):
            self._foreign_is(at, node)

    # -- the whole world

    def _choose(self, world: World) -> bool:
        """Settle which resource counts, once the world has any nodes."""
        if not world.node_index:
            return False
        has = any("gpu" in node.capacity for node in world.nodes if node is not None)
        self.resource = "gpu" if has else self._main
        self._read(world)
        return True

    def _read(self, world: World) -> None:
        self._rates = None
        self._kept, self._kept_columns = {}, None
        self._read_foreign(world.nodes)
        for name in [name for name in self.accounts if name not in world.slots]:
            self._close(self.accounts[name], self._ended.get(name, State.LOST))
        for name, slot in world.slots.items():
            job = world.job_in(slot)
            self._keep(name, job)
            if job.life.seats and name not in self.accounts:
                self.accounts[name] = Account(name, job.gang.queue, self._counting, self.at, reported_at=self.at)
            if name in self.accounts:
                self._read_gang(self.accounts[name], job)


def _concerned(world: World, event: ev.Event) -> list[str]:
    """The gangs an event is about; for a node that fails, those with members on it."""
    if isinstance(event, ev.NodeTurned | ev.NodeGone):
        at = world.node_index.get(event.node)
        load = world.classes.load(at) if at is not None else ()
        return list(dict.fromkeys(world.job_in(slot).gang.name for slot, _, _ in load))
    gang = getattr(event, "gang", None)
    return [gang.name if isinstance(gang, Gang) else gang] if gang is not None else []


def _node_of(world: World, event: ev.Event) -> int | None:
    """The number of the node an event is about."""
    if isinstance(event, ev.NodeSeen):
        return world.node_index.get(event.node.name)
    return world.node_index.get(event.node) if isinstance(event, ev.NodeTurned | ev.NodeGone) else None


def _devices(gang: Gang, seats: tuple[Seats, ...], resource: str) -> tuple[int, int]:
    """Devices of members that compute, and of those that only stand by."""
    found = [0, 0]
    for role, held in zip(gang.roles, seats, strict=False):
        if held.nodes:
            found[bool(role.spare_for)] += held.members * role.shapes[held.shape].ask.get(resource, 0)
    return found[0], found[1]


def _computing(gang: Gang, seats: tuple[Seats, ...]) -> int:
    """Members that do not only stand by."""
    return sum(held.members for role, held in zip(gang.roles, seats, strict=False) if not role.spare_for)


def _on_nodes(gang: Gang, given: list[tuple[Seats, ...]], resource: str) -> dict[int, int]:
    """Devices on each node that the seats would take."""
    found: dict[int, int] = {}
    for seats in given:
        for role, held in zip(gang.roles, seats, strict=False):
            each = role.shapes[held.shape].ask.get(resource, 0) if held.nodes else 0
            for node, count in zip(held.nodes, held.counts, strict=True) if each else ():
                found[node] = found.get(node, 0) + each * count
    return found


def _more(seats: tuple[Seats, ...], target: tuple[Seats, ...]) -> tuple[Seats, ...]:
    """The part of the seats a gang was asked to change to that it does not hold yet."""
    return tuple(_added(old, new) for old, new in zip(seats, target, strict=False))


def _added(old: Seats, new: Seats) -> Seats:
    more = Counter(dict.fromkeys(new.nodes, 0))
    for node, count in zip(new.nodes, new.counts, strict=True):
        more[node] += count
    for node, count in zip(old.nodes, old.counts, strict=True):
        more[node] -= count
    runs = +more
    return Seats(tuple(runs), tuple(runs.values()), new.shape)


def _least(gang: Gang, resource: str) -> int:
    """Devices the gang needs to start."""
    return sum(sizes(role)[0] * role.shapes[0].ask.get(resource, 0) for role in gang.roles if role.shapes)


def _sheet(amounts: Mapping[Spent, int]) -> Sheet:
    return {what.value: amounts[what] for what in Spent if amounts.get(what)}


def _add_all(into: dict[Spent, int], amounts: Mapping[Spent, int]) -> None:
    for what, amount in amounts.items():
        into[what] = into.get(what, 0) + amount
