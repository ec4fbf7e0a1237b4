"""The same decision, made the obvious way: node by node, moment by moment. What the fast planner is measured against.

It understands gangs of one gang-coupled role, one shape and one size, and nothing is taken back from anybody.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

from .bounds import Cap, Caps, counted_as
from .estimate import overrun_end, run_time, sizes
from .model import NEVER, Coupling, Gang, Job, Node, NodeState, Promise, Seats, Shape, State, Token
from .order import Turns, backfilling, has_own_backfill
from .plan import AnyAction, Plan, Reason, Reserve, Resume, Start
from .policy import ALL, Break, Policy
from .quota import Shares
from .topology import NODE
from .use import held
from .validate import faults
from .view import View


class Beyond(Exception):
    """The gang, or the world, needs more than the obvious way can do."""


class Stay(NamedTuple):
    """So many amounts of a node, for a gang, for a while. Promises are not held yet."""

    node: int
    gang: str
    begin: int
    end: int
    asks: dict[str, int]
    promised: bool = False


def decide_slow(view: View, now: int, policy: Policy) -> Plan:
    """The plan that `decide` should make."""
    return _Pass(view, now, policy).plan()


class _Pass:
    """One look at every waiting gang, in turn."""

    def __init__(self, view: View, now: int, policy: Policy) -> None:
        self.view, self.now, self.policy = view, now, policy
        self.shares = Shares(view, now, policy)
        self.caps = Caps(view.queues)
        self.nodes = {at: node for at, node in enumerate(view.nodes) if node is not None}
        self.running = [stay for slot in view.seated for stay in self._running(slot)]
        self.stays = self.running.copy()
        self.turns = {stay.gang: (stay.begin, stay.end) for stay in self.stays}
        """From when to when each gang runs, or was promised to run."""
        self.seats: dict[str, tuple[Seats, ...]] = {}
        self.actions: list[AnyAction] = []
        self.answers: dict[str, Reason] = {}
        self.blocked: list[Job] = []
        self.promised = 0
        self.strict: dict[str, str] = {}
        self.unkept: list[Job] = []

    def plan(self) -> Plan:
        waiting = [self.view.held(slot) for slot in self.view.queued]
        self.unkept = [job for job in waiting if job.life.state is not State.HELD]
        for slot in self._turns():
            self._consider(self.view.held(slot))
        for job in waiting:
            if job.life.state is State.HELD:
                self.answers[job.gang.name] = Reason(self._gate(job) or Token.HELD)
        for job in self.blocked:
            self.answers[job.gang.name] = Reason(self._why(job))
        return Plan(self.view.number, self.now, tuple(self.actions), self.answers)

    # -- the cycle

    def _turns(self) -> Iterator[int]:
        """Every waiting gang once: as they stand in line until the promises are given, then as those behind them do."""
        seen = set[int]()
        for slot in Turns(self.view, self.now, self.policy, self.shares):
            yield slot
            seen.add(slot)
            if has_own_backfill(self.policy) and self.promised >= max(self.policy.reserve.depth, 1):
                break
        behind = Turns(self.view, self.now, backfilling(self.policy), self.shares)
        yield from (slot for slot in behind if slot not in seen)

    def _keep_promises(self, waiting: list[Job]) -> None:
        """Standing promises are kept at their time, wherever there is room then, unless a higher priority waits."""
        promised = [(job.life.promise, job) for job in waiting if job.life.promise is not None]
        if any(job.life.pledge is not None for job in waiting):
            raise Beyond("pledges")
        for promise, job in sorted(promised, key=lambda p: (p[0].start, p[1].gang.name)):
            if promise.start < NEVER and not self._may_be_broken(job):
                begin = max(promise.start, self.now)
                self._hold(job, promise, begin) or self._first(job, begin)

    def _keep_aside(self, job: Job) -> None:
        """Who may not start keeps its promise where there is still room, and is told where not."""
        old = job.life.promise
        if old is None or old.start >= NEVER:
            return
        self._keep_promises(self.unkept)
        self.unkept = []
        begin = max(old.start, self.now)
        if self._may_be_broken(job):
            self._hold(job, old, begin) or self._first(job, begin)
        if job.gang.name not in self.turns:
            self.actions.append(Reserve(job.gang.name, self.view.number, why=Break.OVERRUN))
        elif self.turns[job.gang.name][0] > begin:
            start, end = self.turns[job.gang.name]
            self._tell(job, Promise(start, end, self.seats[job.gang.name], self.now))

    def _hold(self, job: Job, promise: Promise, begin: int) -> bool:
        """Take the very seats that were promised, if they are still free for the whole stay."""
        seats, end = promise.seats[0], self._end(job, begin)
        counts = dict(zip(seats.nodes, seats.counts, strict=True))
        if not self._keeps_bounds(job, begin, end):
            return False
        if any(node not in self.nodes or self._fits(job.gang, node, begin, end) < n for node, n in counts.items()):
            return False
        self._note(job, counts, begin, end, promised=True)
        return True

    def _consider(self, job: Job) -> None:
        name, queue = job.gang.name, self.view.queue_of(job)
        token = self._gate(job) or (self._quota(job) and Token.QUOTA_REACHED)
        ahead = self.strict.get("") or self.strict.get(job.gang.queue)
        if token or ahead:
            self.answers[name] = Reason(token or Token.BEHIND_OTHERS)
            self._keep_aside(job)
            return
        self._keep_promises(self.unkept)
        self.unkept = []
        self.stays = [stay for stay in self.stays if stay.gang != name]
        self.turns.pop(name, None)
        if self._keeps_its_start(job):
            self.blocked.append(job)
            return
        seats = self._take(job, self.now)
        if seats is not None:
            start = Resume if job.life.state is State.PARKED else Start
            self.actions.append(start(name, self.view.number, seats=seats))
            total, floor = held(self.view.resources, job.gang, seats)
            self.shares.enter(job.gang, total, floor)
            return
        takes_turns = queue is not None and queue.slice > 0
        if not takes_turns and (self.policy.order.strict or (queue is not None and queue.strict)):
            self.strict.setdefault("" if self.policy.order.strict else job.gang.queue, name)
        self._promise(job)
        self.blocked.append(job)

    def _keeps_its_start(self, job: Job) -> bool:
        """Whether the gang has a promise that is not moved for a better one, and there is still room for it."""
        old, breaks = job.life.promise, self.policy.reserve.breaks
        if old is None or Break.BETTER_START in breaks or not self.now < old.start < NEVER:
            return False
        if self._may_be_broken(job):
            return False
        kept = self._hold(job, old, old.start) or self._take(job, old.start, promised=True) is not None
        self.promised += kept
        return kept

    def _may_be_broken(self, job: Job) -> bool:
        """Whether a gang of higher priority is waiting without a promise of its own."""
        return Break.HIGHER_PRIORITY in self.policy.reserve.breaks and job.gang.priority < self._highest()

    def _highest(self) -> int:
        """The highest priority of those who wait without a promise."""
        waiting = (self.view.held(slot) for slot in self.view.queued)
        free = (j.gang.priority for j in waiting if j.life.promise is None and j.life.state is not State.HELD)
        return max(free, default=-NEVER)

    def _gate(self, job: Job) -> Token | None:
        """The first thing that keeps a gang out of the running."""
        gang, life, queue = job.gang, job.life, self.view.queue_of(job)
        reasons = (
            (lambda: faults(gang, self.view), Token.INVALID),
            (lambda: not self._fits_empty(self._plain(gang)), Token.NEVER_FITS),
            (lambda: gang.unsupported, Token.UNSUPPORTED),
            (lambda: life.state is State.HELD or gang.begin > self.now, Token.HELD),
            (lambda: queue is None or queue.closed, Token.QUEUE_CLOSED),
            (lambda: gang.after, Token.DEPENDENCY_WAIT),
            (lambda: life.awaiting, Token.WAITING_FOR_MEMBERS),
            (lambda: life.attempt.not_before > self.now, Token.BACKING_OFF),
        )
        return next((token for holds, token in reasons if holds()), None)

    def _quota(self, job: Job) -> bool:
        least = held(self.view.resources, job.gang, (Seats((0,), (sizes(job.gang.roles[0])[0],)),))
        return self.shares.crowd(job) is not None or self.shares.blocked(job, *least) is not None

    def _promise(self, job: Job) -> None:
        """The earliest start, where the gang may have one; without a time, what is free now is kept for it."""
        old, depth = job.life.promise, self.policy.reserve.depth
        waited_out = self._waited_out(job)
        if not (depth == ALL or self.promised < depth or old or waited_out):
            return
        found = self._first(job, self.now)
        if found is not None:
            self._give(job, found)
        elif waited_out:
            self._give(job, Promise(NEVER, NEVER, self._keep_free(job), self.now))
        elif old is not None:
            self.actions.append(Reserve(job.gang.name, self.view.number, why=Break.OVERRUN))

    def _first(self, job: Job, since: int) -> Promise | None:
        """The first start from a moment on that the gang can have, taken."""
        moments = {since, *(m for s in self.stays for m in (s.begin, s.end)), *self._window_ends()}
        for start in sorted(m for m in moments if since <= m < NEVER):
            seats = self._take(job, start, promised=True)
            if seats is not None:
                return Promise(start, self._end(job, start), seats, self.now)
        return None

    def _give(self, job: Job, new: Promise) -> None:
        """Promise a start."""
        self.promised += 1
        self._tell(job, new)

    def _tell(self, job: Job, new: Promise) -> None:
        """Tell of a promise that is new or at another time."""
        old = job.life.promise
        if old is None or old.start != new.start:
            broken = old.broken + (new.start > old.start) if old else 0
            given = Promise(new.start, new.end, new.seats, old.given if old else self.now, broken)
            self.actions.append(Reserve(job.gang.name, self.view.number, promise=given))

    def _waited_out(self, job: Job) -> bool:
        queue = self.view.queue_of(job)
        most = job.gang.max_wait or (queue.max_wait if queue else 0) or self.policy.reserve.max_wait
        return bool(most) and job.gang.submitted + most <= self.now

    # -- seats

    def _take(self, job: Job, begin: int, promised: bool = False) -> tuple[Seats, ...] | None:
        """Seats for the whole gang from a moment on, taken; or None."""
        size, end = self._plain(job.gang).roles[0].min, self._end(job, begin)
        fits = {node: self._fits(job.gang, node, begin, end) for node in self.nodes}
        if self._most(job.gang, fits) < size or not self._keeps_bounds(job, begin, end):
            return None
        return self._note(job, self._choose(job.gang, fits, size, begin), begin, end, promised)

    def _keep_free(self, job: Job) -> tuple[Seats, ...]:
        """As many seats as are free now and for ever, up to what the gang wants."""
        fits = {node: self._fits(job.gang, node, self.now, NEVER) for node in self.nodes}
        size = min(self._most(job.gang, fits), job.gang.roles[0].min)
        return self._note(job, self._choose(job.gang, fits, size, self.now), self.now, NEVER, promised=True)

    def _choose(self, gang: Gang, fits: dict[int, int], size: int, begin: int) -> dict[int, int]:
        """Members by node: in the tightest domain that holds them all, the best node first."""
        among, counts, level = list(fits), dict[int, int](), gang.roles[0].within
        if level and size:
            rooms = {domain: room for domain, room in self._by_domain(fits, level).items() if room >= size}
            first = {d: min(int(self.view.line[n]) for n in fits if self._domain(n, level) == d) for d in rooms}
            tightest = min(rooms, key=lambda domain: (rooms[domain], first[domain]))
            among = [node for node in fits if self._domain(node, level) == tightest]
        while (left := size - sum(counts.values())) > 0:
            rest = {node: min(fits[node], left) for node in among if node not in counts}
            best = min(rest, key=lambda node: self._liking(gang, node, rest[node], begin))
            counts[best] = rest[best]
        return counts

    def _liking(self, gang: Gang, node: int, members: int, begin: int) -> tuple[int, int, int, int]:
        """Most members first; then, for later, where less is free now; then the least left over; then the line."""
        now = min(self._free_now(gang, node), members) if begin > self.now else 0
        name, amount = self._main(gang.roles[0].shapes[0])
        left = self._free(node, name, begin) - members * amount if name else 0
        return -members, now, left, int(self.view.line[node])

    def _free_now(self, gang: Gang, node: int) -> int:
        """Members that a node has room for as things stand, before anybody starts."""
        stays, self.stays = self.stays, self.running
        now = self._holds(gang, node, self.now, self.now + 1)
        self.stays = stays
        return now

    def _note(self, job: Job, counts: dict[int, int], begin: int, end: int, promised: bool) -> tuple[Seats, ...]:
        ask = job.gang.roles[0].shapes[0].ask
        self.turns[job.gang.name] = (begin, end)
        for node, members in counts.items():
            asks = {name: amount * members for name, amount in ask.items()}
            self.stays.append(Stay(node, job.gang.name, begin, end, asks, promised))
        nodes = sorted(counts, key=lambda node: int(self.view.line[node]))
        seats = self.seats[job.gang.name] = (Seats(tuple(nodes), tuple(counts[node] for node in nodes)),)
        return seats

    def _most(self, gang: Gang, fits: dict[int, int], anywhere: bool = False) -> int:
        """The most members that can sit together as they must."""
        level = "" if anywhere else gang.roles[0].within
        return max(self._by_domain(fits, level).values(), default=0) if level else sum(fits.values())

    def _by_domain(self, fits: dict[int, int], level: str) -> dict[object, int]:
        domains = {self._domain(node, level) for node in fits} - {None}
        return {d: sum(fits[node] for node in fits if self._domain(node, level) == d) for d in domains}

    # -- what queues bound

    def _keeps_bounds(self, job: Job, begin: int, end: int) -> bool:
        """Whether no bound of a queue is broken at any moment of a stay."""
        others = {name: turn for name, turn in self.turns.items() if turn[0] < end and begin < turn[1]}
        for moment in (begin, *(start for start, _ in others.values() if start > begin)):
            there = [self._job(name) for name, (start, over) in others.items() if start <= moment < over]
            if not all(
                self._keeps(cap, [other for other in there if self._is_under(other, cap)], job)
                for cap in self.caps.of(job.gang)
            ):
                return False
        return True

    def _keeps(self, cap: Cap, others: list[Job], job: Job) -> bool:
        """Whether a bound is kept when the gang comes to those that it is about."""
        names = {counted_as(other.gang) for other in others}
        crowded = len(names) >= cap.most and counted_as(job.gang) not in names
        sums = [sum(column) for column in zip(*map(self._amounts, (job, *others)), strict=True)]
        mine, at = self._amounts(job), self.view.resources
        return not crowded and all(sums[at[r]] <= most for r, most in cap.limit.items() if r in at and mine[at[r]])

    def _is_under(self, job: Job, cap: Cap) -> bool:
        return any(other.key == cap.key for other in self.caps.of(job.gang))

    def _amounts(self, job: Job) -> list[int]:
        """What a gang holds, or would hold."""
        seats = job.life.seats or (Seats((0,), (sizes(job.gang.roles[0])[0],)),)
        return held(self.view.resources, job.gang, seats)[0]

    def _job(self, name: str) -> Job:
        job = self.view.job(name)
        assert job is not None
        return job

    # -- what fits where, and when

    def _fits(self, gang: Gang, node: int, begin: int, end: int) -> int:
        """How many members may sit on a node through a whole stay."""
        return 0 if self._shut(gang, node, begin, end) else self._holds(gang, node, begin, end)

    def _holds(self, gang: Gang, node: int, begin: int, end: int) -> int:
        """How many members a node has room for through a whole stay, windows left aside."""
        if not self._takes(gang, self.nodes[node]):
            return 0
        moments = [begin, *(s.begin for s in self.stays if s.node == node and begin < s.begin < end)]
        asked = [(name, amount) for name, amount in gang.roles[0].shapes[0].ask.items() if amount]
        return self._capped(gang, min(self._free(node, name, at) // amount for at in moments for name, amount in asked))

    def _free(self, node: int, name: str, at: int, promises: bool = True) -> int:
        """What is free of a resource at a moment."""
        there = self.nodes[node]
        stays = [s for s in self.stays if s.node == node and s.begin <= at < s.end and (promises or not s.promised)]
        used = there.foreign.get(name, 0) + sum(stay.asks.get(name, 0) for stay in stays)
        return there.capacity.get(name, 0) - used

    def _takes(self, gang: Gang, node: Node, lost: bool = False) -> bool:
        """Whether a node takes members of the gang at all; `lost` overlooks the state it is in."""
        repair, shape, tags = self.policy.repair, gang.roles[0].shapes[0], set(node.tags)
        lemon = sum(at > self.now - repair.lemon_window for at in node.faults) >= repair.lemon_after
        ready = node.state is NodeState.READY and not lemon
        tagged = not any(tags.isdisjoint(group) for group in shape.tags) and tags.isdisjoint(shape.avoid)
        return (ready or lost) and tagged and all(t in shape.tolerate for t in tags if t.startswith("!"))

    def _shut(self, gang: Gang, node: int, begin: int, end: int) -> bool:
        mine = {f"queue:{gang.queue}", f"user:{gang.user}", f"gang:{gang.name}"}
        name = self.nodes[node].name
        open_windows = [w for w in self.view.windows.values() if w.start < end and begin < w.end]
        return any(name in window.nodes and mine.isdisjoint(window.allow) for window in open_windows)

    def _capped(self, gang: Gang, members: int) -> int:
        caps = [cap.members for cap in gang.roles[0].caps if cap.level == NODE]
        return max(min([members, *caps]), 0)

    # -- why not

    def _fits_empty(self, gang: Gang) -> bool:
        """Whether the gang would fit if nobody else were there and every node were well."""
        return self._room_if(gang, lambda node, name: node.capacity.get(name, 0), lost=True) >= gang.roles[0].min

    def _why(self, job: Job) -> Token:
        """Why there is no room now."""
        gang, low = job.gang, job.gang.roles[0].min

        def free(node: Node, name: str) -> int:
            return self._free(self.view.node_index[node.name], name, self.now, promises=False)

        def unused(node: Node, name: str) -> int:
            return free(node, name) + node.foreign.get(name, 0)

        if self._room_if(gang, free) >= low:
            return Token.RESERVED_AHEAD
        if self._room_if(gang, free, anywhere=True) >= low:
            return Token.NO_DOMAIN
        if self._room_if(gang, unused) >= low:
            return Token.USED_BY_OTHERS
        return Token.NODES_LOST if self._room_if(gang, free, lost=True) >= low else Token.NO_CAPACITY

    def _room_if(
        self, gang: Gang, amount: Callable[[Node, str], int], lost: bool = False, anywhere: bool = False
    ) -> int:
        """How many members could sit together if so much were free on each node."""
        fits = dict.fromkeys(self.nodes, 0)
        for at, node in self.nodes.items():
            if self._takes(gang, node, lost):
                ask = gang.roles[0].shapes[0].ask.items()
                fits[at] = self._capped(gang, min(amount(node, name) // each for name, each in ask if each))
        return self._most(gang, fits, anywhere)

    # -- facts

    def _plain(self, gang: Gang) -> Gang:
        role = gang.roles[0]
        low, _, high = sizes(role)
        simple = len(gang.roles) == len(role.shapes) == 1 and low == high and role.coupling is Coupling.GANG
        odd = role.segment or role.near or role.repels or role.needs or gang.within or gang.near or gang.domain_ask
        if not simple or odd or self.policy.place.one_wide_gang_per_node:
            raise Beyond(gang.name)
        return gang

    def _running(self, slot: int) -> list[Stay]:
        """What a running gang holds, until it is expected to end."""
        job, percent = self.view.held(slot), self.policy.reserve.quantile
        ends = self.view.ends[slot].tolist()
        first = 0 if percent <= 50 else 1 if percent <= 90 else 2
        later = [max(end, self.now + 1) for end in ends[first:] if end >= self.now]
        end = later[0] if later else overrun_end(int(self.view.begun[slot]), ends[2], self.now)
        if job.life.state is State.DRAINING:
            end = min(end, max(job.life.leave_by, self.now + 1))
        return [
            Stay(node, job.gang.name, 0, end, {r: amount * count for r, amount in role.shapes[held.shape].ask.items()})
            for role, held in zip(job.gang.roles, job.life.seats, strict=True)
            for node, count in zip(held.nodes, held.counts, strict=True)
        ]

    def _end(self, job: Job, start: int) -> int:
        length = run_time(job, self.view.queue_of(job), self.policy.reserve.quantile)
        return NEVER if length >= NEVER else start + length

    def _window_ends(self) -> list[int]:
        return [window.end for window in self.view.windows.values()]

    def _main(self, shape: Shape) -> tuple[str, int]:
        """The asked resource that is scarcest in proportion to all there is."""
        total = dict(zip(self.view.resources, self.view.total, strict=True))
        asked = [name for name in sorted(shape.ask) if shape.ask[name]]
        best = max(asked, key=lambda name: Fraction(shape.ask[name], max(total[name], 1)))
        return best, shape.ask[best]

    def _domain(self, node: int, level: str) -> object:
        """The path of a node's domain at a level, or None."""
        there = self.nodes[node]
        pool = self.view.topology.pools.get(there.pool)
        levels = pool.levels if pool is not None else ()
        at = levels.index(level) if level in levels else len(there.place)
        return (there.pool, *there.place[: at + 1]) if at < len(there.place) else None
