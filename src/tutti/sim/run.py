"""Play a workload through the driver: happenings in, decisions out, until nothing is left to happen."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from tutti.drive.account import Spent
from tutti.drive.estimates import History
from tutti.drive.ledger import Ledger
from tutti.drive.loop import PATIENCE, Driver, Keyed, Watch
from tutti.drive.notice import Tell, silent
from tutti.engine import events as ev
from tutti.engine.check import Violation, check
from tutti.engine.model import NEVER, Gang, Listing
from tutti.engine.plan import Plan
from tutti.engine.policy import Break, Policy
from tutti.engine.view import View
from tutti.engine.world import World

from .agenda import Agenda, Rank
from .backend import Cluster, News, devices, nobody
from .interrupts import Interrupts, held_back
from .predict import Predictor
from .record import Record
from .task import Task, Workload

Progress = Callable[[int, int], None]
"""Told now and then: tasks that have ended, tasks in all."""
TELL_EVERY = 256
NEW_OBJECTS = 100_000
"""How many objects more than before there are when cycles are looked for."""


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Look for cycles of objects seldom: records, events and plans have none, and there are millions of them."""
    usual = gc.get_threshold()
    gc.set_threshold(max(usual[0], NEW_OBJECTS) if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def trusting(view: View, plan: Plan, policy: Policy, now: int | None = None) -> list[Violation]:  # noqa: ARG001
    """Nothing is ever found."""
    return []


def settled(policy: Policy) -> Policy:
    """The same, but that nobody who was promised a start is looked at for a better one."""
    breaks = tuple(each for each in policy.reserve.breaks if each is not Break.BETTER_START)
    return replace(policy, reserve=replace(policy.reserve, breaks=breaks))


def _are_submissions(found: News) -> bool:
    return bool(found) and all(type(event) is ev.Submitted for event in found)


class Simulation:
    """One workload on one cluster under one policy."""

    def __init__(  # noqa: PLR0913 - the last ones are rarely given
        self,
        workload: Workload,
        listing: Listing,
        policy: Policy,
        resource: str,
        *,
        ledger: Ledger | None = None,
        history: History | None = None,
        predictor: Predictor | None = None,
        one_by_one: bool = False,
        keep_nodes: bool = False,
        checked: bool = True,
        tell: Tell = silent,
        watch: Sequence[Watch] = (),
    ) -> None:
        """`one_by_one` lets each happening be decided on alone, submissions before ends, and nothing be decided at
        other moments or for a job that cannot start as things are: as some studies do. Where many are promised a start,
        promises get better only when something ends, and what ends as expected does so before submissions.
        `checked` lets the independent checker look at every plan, as a live cluster does; the plans are the same
        without it, and come sooner."""
        self.record = Record(keep_nodes)
        self.agenda = Agenda()
        world = World.load(listing, policy.order.half_life)
        self.driver = Driver(
            policy,
            world,
            history=history,
            ledger=ledger,
            tell=tell,
            check=check if checked else trusting,
            watch=watch,
            at_once=self._is_up_at_once,
            keeps_views=False,
        )
        self.cluster = Cluster(
            self.agenda, self.record, resource, nobody if ledger is None else self._charge, predictor
        )
        self.size = len(workload)
        self.now = listing.at
        self._tasks: Iterator[Task] = iter(workload)
        self._one_by_one = one_by_one
        self._promises_many = policy.reserve.depth not in {0, 1}
        self.cluster.due_first = one_by_one and self._promises_many
        self._policies = (policy, settled(policy)) if self.cluster.due_first else None
        """What decides when something ends, and when something is submitted."""
        self._arrival = Rank.EARLY_ARRIVAL if one_by_one else Rank.ARRIVAL
        self._late: News = []
        self._looks: list[Callable[[int], None]] = []
        self._fruitless = 0
        self._all_here = False
        self._size = sum(node.capacity.get(resource, 0) for node in listing.nodes)

    def run(self, progress: Progress | None = None, until: int = NEVER) -> Record:
        """Go on until nothing more can happen, or until a moment in virtual time. Interrupts come between steps."""
        self._next_arrival(self.now)
        with rarely_collecting(), held_back() as interrupts:
            self._play(progress, until, interrupts)
        if self.driver.ledger is not None:
            self.settle()
        return self.record

    def _play(self, progress: Progress | None, until: int, interrupts: Interrupts) -> None:
        runs, steps = self.cluster.runs, 0
        while (runs or not self._all_here) and (moment := self._next_moment()) <= until and moment < NEVER:
            if interrupts.came:
                raise KeyboardInterrupt
            self.now = moment
            self._step(moment)
            steps += 1
            if progress is not None and not steps % TELL_EVERY:
                progress(len(self.record) - len(runs), self.size)

    @property
    def has_more(self) -> bool:
        """Whether anything is still to happen or to be decided; who looked in vain for long waits for a happening."""
        wakes = self._fruitless < PATIENCE and self.driver.wake_at < NEVER
        return bool(self.agenda) or (wakes and bool(self.cluster.runs))

    @property
    def stuck(self) -> list[str]:
        """Tasks that were submitted and never ended."""
        return list(self.cluster.runs)

    def _next_moment(self) -> int:
        """The next happening, or the moment the driver wants to look again; nobody looks at a cluster without jobs."""
        at = self.agenda.next_at
        if not self._one_by_one and self._fruitless < PATIENCE and self.cluster.runs:
            wake_at = self.driver.wake_at
            if wake_at < at:
                at = min(at, max(wake_at, self.now + 1))
        return at

    def look(self, what: Callable[[int], None]) -> News:
        """Look at the books once everything that happens at this moment is known and decided on.

        In the midst of it a gang that ends now would look as if it ran over, and looking would change the plan."""
        self._looks.append(what)
        return []

    def _step(self, now: int) -> None:
        self._decide(now)
        while self._looks:
            self._looks.pop(0)(now)

    def _decide(self, now: int) -> None:
        found = self._happened(now)
        if self._one_by_one and all(self._is_hopeless(event) for event in found):
            self._late += found
            return
        events, self._late = self._late + found, []
        if self._policies is not None:
            # Nothing that was cached depends on what may move a promise.
            self.driver.policy = self._policies[_are_submissions(found)]
        if not events and self.driver.wake_at > now:
            return
        todo = self.driver.step(events, now)
        self._fruitless = 0 if events or todo else self._fruitless + 1
        self._carry_out(todo, now)

    def _happened(self, now: int) -> News:
        """What happens at this moment: all of it, or the first thing where each is decided on alone."""
        found: News = []
        agenda = self.agenda
        while agenda.next_at <= now:
            found += agenda.pop()(now)
            if self._one_by_one and not agenda.has_due(now):
                break
        return found

    def _carry_out(self, todo: list[Keyed], now: int) -> None:
        while todo:
            news: News = []
            for _, action in todo:
                news += self.cluster.do(action, now)
            todo = self.driver.step(news, now) if news else []

    def _is_hopeless(self, event: ev.AnyEvent) -> bool:
        """A submission that there is no room for changes nothing until something else does."""
        if type(event) is not ev.Submitted or self._promises_many:
            return False
        width = devices(event.gang, self.cluster.resource)
        return width > self._size - self.cluster.held

    def _is_up_at_once(self, gang: Gang) -> bool:
        """Whether a gang that is given seats computes right away, and nobody has to tell."""
        run = self.cluster.runs.get(gang.name)
        return run is not None and run.starts_at_once

    def _charge(self, name: str, what: Spent, length: int, at: int) -> None:
        if self.driver.ledger is not None:
            self.driver.ledger.charge(self.driver.world, name, what, length, at)

    def settle(self) -> None:
        """Tell the driver what it was to learn at the next step, so that its books are up to date."""
        late, self._late = self._late, []
        self._carry_out(self.driver.step(late, self.now), self.now)

    def _next_arrival(self, now: int) -> None:
        task = next(self._tasks, None)
        if task is None:
            self._all_here = True
        else:
            self.agenda.add(max(task.gang.submitted, now), self._arrival, partial(self._arrive, task))

    def _arrive(self, task: Task, at: int) -> News:
        news = self.cluster.arrive(task, at)
        self._next_arrival(at)
        return news
