"""A cluster in virtual time: carries out what the scheduler decides, and says what happens as time passes."""

from collections.abc import Callable
from functools import partial

import msgspec

from tutti.drive.account import Spent
from tutti.engine import events as ev
from tutti.engine.estimate import pace
from tutti.engine.model import NEVER, Gang, Progress, Seats, State
from tutti.engine.plan import (
    AnyAction,
    Evict,
    Fail,
    Grow,
    How,
    Migrate,
    Repair,
    Reserve,
    Restart,
    Resume,
    Shrink,
    Start,
)
from tutti.engine.seats import without

from .agenda import Agenda, Rank
from .predict import Predictor
from .record import Record, Where
from .task import PLAIN, Task

News = list[ev.AnyEvent]
Charge = Callable[[str, Spent, int, int], None]
"""Told of a cost that only the job knows: whose, for what, how long, when."""


def nobody(name: str, what: Spent, length: int, at: int) -> None:
    """Nobody keeps the books."""


class Run(msgspec.Struct):
    """One task as it is now: how much of its work is done, at what speed, and which happenings still count."""

    task: Task
    row: int
    done: int = 0
    """Work done when the clock last read `since`."""
    saved: int = 0
    """Work that survives a loss."""
    since: int = -1
    """When it began to compute at the present speed; -1 while it does not compute."""
    pace: tuple[int, int] = (1, 1)
    seats: tuple[Seats, ...] = ()
    spell: int = -1
    turn: int = 0
    """Raised by every change, so that what was arranged before it no longer happens."""
    begun_with: int = 0
    """Work it had when the present run began."""
    awaited: bool = True
    """Whether the scheduler waits to hear that all members are up."""
    stalled: int = 0
    """Time spent on snapshots since the scheduler last heard of it."""

    @property
    def starts_at_once(self) -> bool:
        """Whether it computes as soon as it has seats."""
        return self.task.habits is PLAIN and not self.task.part_of


class Parts(msgspec.Struct):
    """A gang whose members come one by one: those that are up wait for the rest."""

    row: int
    left: int
    """Members that have not ended."""
    up: list[Run] = []


class Cluster:
    """Nodes and jobs in virtual time. `do` carries out an action; the agenda brings what comes of it later."""

    def __init__(
        self,
        agenda: Agenda,
        record: Record,
        resource: str,
        charge: Charge = nobody,
        predictor: Predictor | None = None,
    ) -> None:
        self.agenda = agenda
        self.record = record
        self.resource = resource
        self.charge = charge
        self.predictor = predictor
        self.due_first = False
        """Whether what ends just when it was expected to does so before others of that moment are submitted."""
        self.held = 0
        """Devices that are held by anybody."""
        self.runs: dict[str, Run] = {}
        self.parts: dict[str, Parts] = {}
        """Gangs whose members are placed one by one."""

    # -- arrivals

    def arrive(self, task: Task, at: int) -> News:
        """A task is submitted."""
        run = self.runs[task.gang.name] = Run(task, self._row(task))
        if task.gives_up_after < NEVER:
            self.agenda.add(task.gang.submitted + task.gives_up_after, Rank.ENDS, partial(self._give_up, run))
        gang = task.gang
        if self.predictor is not None:
            gang = msgspec.structs.replace(gang, estimate=self.predictor.estimate(task))
        return [ev.Submitted(at, gang)]

    def _row(self, task: Task) -> int:
        width = devices(task.gang, self.resource)
        if not task.part_of:
            return self.record.arrive(task, width)
        part = self.parts.get(task.part_of)
        if part is None:
            row = self.record.arrive(task, width)
            self.record.names[row] = task.part_of
            self.parts[task.part_of] = Parts(row, task.parts)
            return row
        return self.record.join(part.row, width)

    def _give_up(self, run: Run, at: int) -> News:
        return self._over(run, at, State.CANCELLED) if run.task.gang.name in self.runs else []

    # -- actions

    def do(self, action: AnyAction, now: int) -> News:  # noqa: PLR0911 - one for each action
        """Carry out one action and return what happens at once."""
        run = self.runs.get(action.gang)
        if run is None:
            return []
        match action:
            case Start() | Resume():
                return self._start(run, action.seats, now)
            case Grow() | Shrink() | Repair() | Migrate():
                return self._resize(run, action.seats, now)
            case Evict():
                return self._evict(run, action, now)
            case Restart():
                return self._stop(run, now, kept=run.saved)
            case Fail():
                return self._over(run, now, State.FAILED)
        self._note(run, action, now)
        return []

    def _note(self, run: Run, action: AnyAction, now: int) -> None:
        if isinstance(action, Reserve) and action.promise is not None and action.promise.start < NEVER:
            self.record.promise(run.row, action.promise.start, now)

    def _start(self, run: Run, seats: tuple[Seats, ...], now: int) -> News:
        run.turn += 1
        run.seats, run.begun_with, run.since, run.awaited = seats, run.done, -1, not run.starts_at_once
        self._open_spell(run, now)
        if run.task.part_of:
            return self._join(run, now)
        self.record.start(run.row, now)
        habits = run.task.habits
        wait = 0 if habits is PLAIN else habits.start_up + (habits.restart if self.record.runs[run.row] > 1 else 0)
        if wait:
            self._later(run, now + wait, self._up)
            return []
        return self._up(run, now)

    def _join(self, run: Run, now: int) -> News:
        """A member that was placed alone holds its seat; when it is the last one, all of them begin to compute."""
        part = self.parts[run.task.part_of]
        part.up.append(run)
        if len(part.up) < run.task.parts:
            return []
        self.record.start(run.row, now)
        return [event for member in part.up for event in self._up(member, now)]

    def _up(self, run: Run, now: int) -> News:
        """All members are there: the work begins, or goes on."""
        gang = run.task.gang
        if gang.speed.points:
            run.pace = pace(gang, run.seats)
        run.since = now
        self.record.spells.up[run.spell] = now
        self._plan_end(run, now)
        if not run.awaited:
            return []
        run.awaited = False
        return [ev.Running(now, gang.name), *self._report(run, now)]

    def _report(self, run: Run, now: int) -> News:
        """What a job that saves its work says of itself, so that interruptions can be weighed."""
        habits = run.task.habits
        if habits is PLAIN or (not habits.save_cost and not habits.restart):
            return []
        told = Progress(at=now, save_cost=habits.save_cost, restart_cost=habits.restart + habits.start_up)
        return [ev.Reported(now, run.task.gang.name, told)]

    def _plan_end(self, run: Run, now: int) -> None:
        run.turn += 1
        left = max(run.task.work - run.done, 0)
        have, want = run.pace
        took = left if have == want else -(-left * want // have)
        rank = Rank.DUE if self.due_first and took == run.task.gang.estimate.limit else Rank.ENDS
        end = now + took if run.task.habits is PLAIN else now + took + self._stalls(run, took)
        self._later(run, end, self._finish, rank)

    def _stalls(self, run: Run, length: int) -> int:
        """Time spent on snapshots while so much time is computed."""
        habits = run.task.habits
        return habits.save_cost * (length // habits.save_every) if habits.save_every else 0

    def _finish(self, run: Run, at: int) -> News:
        return self._over(run, at, run.task.outcome)

    def _over(self, run: Run, at: int, state: State) -> News:
        task, name = run.task, run.task.gang.name
        self.progress(run, at)
        if run.stalled:
            self._book_stalls(run, at)
        run.turn += 1
        self._close_spell(run, at)
        part = self.parts[task.part_of] if task.part_of else None
        if part is not None:
            part.left -= 1
        if part is None or not part.left:
            self.record.end(run.row, at, state)
        del self.runs[name]
        if self.predictor is not None:
            self.predictor.learn(task, run.done)
        return [ev.Ended(at, name, state)]

    # -- interruptions

    def _evict(self, run: Run, action: Evict, now: int) -> News:
        if action.how is How.CANCEL:
            return self._over(run, now, State.CANCELLED)
        run.turn += 1
        habits = run.task.habits
        leave = min(now + habits.leave, max(action.by, now))
        kept_whole = action.how is How.PARK or (habits.save_every and now + habits.save_cost <= leave)
        after = partial(self._gone, parked=action.how is How.PARK, whole=bool(kept_whole))
        if leave > now:
            self._later(run, leave, after)
            return []
        return after(run, now)

    def _gone(self, run: Run, at: int, parked: bool, whole: bool) -> News:
        self.progress(run, at)
        return self._stop(run, at, kept=run.done if whole else run.saved, parked=parked)

    def _stop(self, run: Run, at: int, kept: int, parked: bool = False) -> News:
        """The run is over, the task is not: it has what it kept, and waits again."""
        self.progress(run, at)
        if run.stalled:
            self._book_stalls(run, at)
        run.turn += 1
        lost = max(run.done - kept, 0)
        self.record.lost[run.row] += lost * self.record.width[run.row]
        self.record.interruptions[run.row] += 1
        self._close_spell(run, at)
        more = max(kept - run.begun_with, 0)
        run.done = run.saved = kept
        run.since, run.seats = -1, ()
        return [ev.Evicted(at, run.task.gang.name, parked, more)]

    def lose_node(self, node: int, at: int) -> None:
        """A node is gone. Gangs with members on it hold their other seats and compute nothing until they are mended."""
        for run in self.runs.values():
            if any(node in held.nodes for held in run.seats):
                self._halt(run, node, at)

    def _halt(self, run: Run, node: int, at: int) -> None:
        self.progress(run, at)
        run.turn += 1
        if lost := max(run.done - run.saved, 0):
            have, want = run.pace
            # Who is mended goes on from what was saved, and the scheduler never hears of the rest.
            self.charge(run.task.gang.name, Spent.LATER_LOST, lost * want // have, at)
            self.record.lost[run.row] += lost * self.record.width[run.row]
        run.done, run.since, run.awaited = run.saved, -1, True
        self._close_spell(run, at)
        run.seats = tuple(without(held, {node: sum(held.counts)})[0] for held in run.seats)
        if any(held.nodes for held in run.seats):
            self._open_spell(run, at)

    def progress(self, run: Run, now: int) -> None:
        """Bring the work done up to now."""
        if run.since < 0:
            return
        habits = run.task.habits
        elapsed = now - run.since
        if habits.save_every:
            rounds, rest = divmod(elapsed, habits.save_every + habits.save_cost)
            worked = rounds * habits.save_every + min(rest, habits.save_every)
            run.stalled += elapsed - worked
            if rounds:
                run.saved = run.done + _scaled(rounds * habits.save_every, run.pace)
        else:
            worked = elapsed
        run.done += _scaled(worked, run.pace)
        run.since = now

    def _book_stalls(self, run: Run, at: int) -> None:
        self.charge(run.task.gang.name, Spent.STALL, run.stalled, at)
        run.stalled = 0

    # -- changes of size

    def _resize(self, run: Run, seats: tuple[Seats, ...], now: int) -> News:
        self.progress(run, now)
        self._close_spell(run, now)
        run.seats, run.since = seats, -1
        self._open_spell(run, now)
        run.turn += 1
        news: News = [ev.Resized(now, run.task.gang.name, seats)]
        if run.task.habits.resize:
            self._later(run, now + run.task.habits.resize, self._resized)
            return news
        return news + self._up(run, now)

    def _resized(self, run: Run, now: int) -> News:
        if not run.awaited:
            # A gang that runs on while its size changes is not known to stand still: say so.
            self.charge(run.task.gang.name, Spent.RESIZE, run.task.habits.resize, now)
        return self._up(run, now)

    # -- what is arranged

    def _later(self, run: Run, at: int, what: Callable[[Run, int], News], rank: Rank = Rank.ENDS) -> None:
        self.agenda.add(at, rank, partial(_if_still, run, run.turn, what))

    def _open_spell(self, run: Run, at: int) -> None:
        held, spells, roles = 0, self.record.spells, run.task.gang.roles
        for at_role, each in enumerate(run.seats):
            if each.nodes:
                held += sum(each.counts) * roles[at_role].shapes[each.shape].ask.get(self.resource, 0)
        run.spell = spells.begin(run.row, at, held, () if spells.where is None else self._where(run))
        self.held += held

    def _where(self, run: Run) -> Where:
        """Devices that a run holds on each node."""
        where: dict[int, int] = {}
        for role, each in zip(run.task.gang.roles, run.seats, strict=True):
            for node, count in zip(each.nodes, each.counts, strict=True):
                ask = role.shapes[each.shape].ask.get(self.resource, 0)
                where[node] = where.get(node, 0) + count * ask
        return tuple(where.items())

    def _close_spell(self, run: Run, at: int) -> None:
        if run.spell >= 0:
            self.record.spells.end(run.spell, at)
            self.held -= self.record.spells.devices[run.spell]
            run.spell = -1


def _if_still(run: Run, turn: int, what: Callable[[Run, int], News], at: int) -> News:
    return what(run, at) if run.turn == turn else []


def _scaled(time: int, speed: tuple[int, int]) -> int:
    have, want = speed
    return time if have == want else time * have // want


def devices(gang: Gang, resource: str) -> int:
    """Devices the gang holds at its wanted size."""
    many = 0
    for role in gang.roles:
        if role.shapes:
            shape = role.shapes[0]
            many += max(shape.want or role.want, shape.min or role.min) * shape.ask.get(resource, 0)
    return many
