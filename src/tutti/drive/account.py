"""One gang's part of the ledger: what the devices it holds were spent on, loss booked where it was earned.

A gang that reports steps earns useful time by them; one that says nothing is unknown. Useful time stays at risk until
a snapshot covers it: if the work is lost, the time that went into it moves to `useful-later-lost`.
"""

from enum import StrEnum

import msgspec

from tutti.engine.model import SECOND, Progress, State


class Spent(StrEnum):
    """What device time was spent on. The list is closed: together the parts are installed capacity x time."""

    USEFUL = "useful-kept"
    LATER_LOST = "useful-later-lost"
    START_UP = "start-up"
    STALL = "snapshot-stall"
    RESIZE = "resize"
    DEGRADED = "degraded"
    STARTING = "held-starting"
    RESERVED = "reserved-idle"
    FRAGMENTED = "fragmented-idle"
    QUOTA = "quota-idle"
    NO_DEMAND = "no-demand"
    BROKEN = "broken"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


class Counting(StrEnum):
    """What makes running time useful: reported steps, or (where progress is known, as in a simulation) running."""

    STEPS = "steps"
    RUN_TIME = "run-time"


PHASES = {State.STARTING: Spent.STARTING, State.DEGRADED: Spent.DEGRADED, State.REPAIRING: Spent.RESIZE}
"""What a gang's devices are spent on while it does not compute. In every other state it runs."""


Rates = list[tuple[int, int, int]]
"""Members, best rate in steps per thousand seconds, number of reports."""


class Account(msgspec.Struct):
    """A gang's device time, in device-microseconds. All of it is plain data and can be stored."""

    name: str
    queue: str
    counts: Counting
    at: int
    devices: int = 0
    """Those of its members that compute, or are to."""
    spares: int = 0
    """Those of members that stand by to replace a lost one: they do nothing."""
    members: int = 0
    """How many compute, or are to."""
    pace: tuple[int, int] = (1, 1)
    """Speed now and at the wanted size."""
    phase: Spent | None = Spent.STARTING
    """None while the gang runs."""
    amounts: dict[Spent, int] = {}
    open_amount: int = 0
    """Run time nobody has reported on yet, times devices; it counts as unknown so far."""
    open_time: int = 0
    reported_at: int = 0
    reports: bool = False
    """Whether the present run has reported."""
    step: int = 0
    steps: int = 0
    safe_step: int = 0
    """Where a restart would begin."""
    snapshot_at: int = 0
    best: dict[int, int] = {}
    """Best rate so far by number of members, in steps per thousand seconds."""
    seen: dict[int, int] = {}
    """How many reports of a rate there were, by number of members."""
    resized: bool = False
    run_useful: int = 0
    run_work: int = 0
    """Length of the present run at the wanted size."""
    at_risk: int = 0
    """Useful time that would be lost with the gang now."""

    def settle(self, now: int) -> None:
        """Book the time since the last look."""
        elapsed = now - self.at
        if elapsed <= 0:
            return
        self.at = now
        amount = self.devices * elapsed
        if self.spares:
            self._add(Spent.RESERVED, self.spares * elapsed)
        if self.phase is not None:
            self._add(self.phase, amount)
        elif self.counts is Counting.RUN_TIME:
            self._add(Spent.USEFUL, amount)
            self.run_useful += amount
            self.at_risk += amount
            self.run_work += elapsed * self.pace[0] // self.pace[1]
        else:
            self._add(Spent.UNKNOWN, amount)
            self.open_amount += amount
            self.open_time += elapsed

    def begin(self, now: int) -> None:
        """A run begins: seats are held from now on."""
        self.settle(now)
        self.open_amount = self.open_time = self.run_useful = self.run_work = self.at_risk = 0
        self.reported_at, self.snapshot_at, self.reports, self.resized = now, 0, False, False
        self.step = self.safe_step

    def hear(self, told: Progress, now: int) -> None:
        """The job said how far it is: judge the time since it last did."""
        self.settle(now)
        if self.counts is Counting.RUN_TIME:
            self._saved_until(told, now, self.run_useful)
            return
        useful = self._judge(told)
        self._saved_until(told, now, useful)
        self.reports, self.resized, self.reported_at = True, False, now
        self.step, self.steps = told.step, told.steps

    def end(self, now: int, state: State) -> None:
        """The gang is over. A finished one keeps all it did; otherwise what no snapshot covers is lost."""
        self.settle(now)
        if state is State.FINISHED:
            self._finish()
        else:
            self._lose(self.at_risk)
        self.at_risk = 0

    def evict(self, now: int, parked: bool, kept: int) -> None:
        """The run is over but the gang is not. `kept` is the run time not lost, where only the backend knows it."""
        self.settle(now)
        if parked:
            self.safe_step = self.step
        elif self.counts is Counting.RUN_TIME and not self.snapshot_at:
            work = max(self.run_work, 1)
            self._lose(self.run_useful * max(work - kept, 0) // work)
        else:
            self._lose(self.at_risk)
        self.at_risk = 0

    def charge(self, what: Spent, run_time: int) -> None:
        """Book some of the running time as a cost that whoever runs the gang knows of."""
        source = Spent.USEFUL if self.counts is Counting.RUN_TIME else Spent.UNKNOWN
        most = self.run_useful if source is Spent.USEFUL else self.open_amount
        amount = min(self.devices * run_time, most)
        self._move(source, what, amount)
        if source is Spent.USEFUL:
            # What was charged was no work, so it cannot be lost later.
            self.run_work -= self.run_work * amount // max(self.run_useful, 1)
            self.run_useful -= amount
            self.at_risk = min(self.at_risk, self.run_useful)
        else:
            self.open_amount -= amount
            self.open_time = max(self.open_time - run_time, 0)

    # -- judging reports

    def _judge(self, told: Progress) -> int:
        """Move the open time to where it belongs and return what of it was useful."""
        if told.step < self.step and self.reports:
            self._roll_back(self.step - told.step)
            self.step = told.step
        held, span = self.open_amount, max(self.open_time, 1)
        steps = max(told.step - self.step, 0)
        best = self._best_rate(told, steps)
        ideal = steps * 1000 * SECOND // best if best else self.open_time if steps else 0
        useful = held * min(ideal, self.open_time) // span
        stall = 0
        if told.snapshot_at > self.snapshot_at:
            stall = min(held * min(told.save_cost, span) // span, held - useful)
        rest = Spent.DEGRADED if self.reports else Spent.START_UP
        self._move(Spent.UNKNOWN, Spent.USEFUL, useful)
        self._move(Spent.UNKNOWN, Spent.STALL, stall)
        self._move(Spent.UNKNOWN, Spent.RESIZE if self.resized else rest, held - useful - stall)
        self.open_amount = self.open_time = 0
        return useful

    def _best_rate(self, told: Progress, steps: int) -> int:
        """The gang's best rate at its present size; the job's own figure where it gives one."""
        seen = told.rate_milli
        if not seen and self.reports and not self.resized and self.open_time:
            seen = steps * 1000 * SECOND // self.open_time
        best = max(self.best.get(self.members, 0), seen)
        if seen:
            self.seen[self.members] = self.seen.get(self.members, 0) + 1
        if best:
            self.best[self.members] = best
        return best

    def rates(self) -> Rates:
        """Members, best rate, and how many reports it was found in."""
        return [(members, rate, self.seen.get(members, 0)) for members, rate in sorted(self.best.items())]

    def _saved_until(self, told: Progress, now: int, useful: int) -> None:
        """What a snapshot covers is safe; what came after it is at risk. Inside an interval work is taken as even."""
        begun = self.reported_at
        if told.snapshot_at <= self.snapshot_at:
            if self.counts is Counting.STEPS:
                self.at_risk += useful
            return
        span = max(now - begun, 1)
        after = now - min(max(told.snapshot_at, begun), now)
        self.at_risk = min(self.at_risk + useful, useful * after // span)
        self.safe_step = told.step - max(told.step - self.step, 0) * after // span
        self.snapshot_at = told.snapshot_at

    def _roll_back(self, steps: int) -> None:
        """The job went back: the time those steps took is lost, as far as it was at risk."""
        best = self.best.get(self.members, 0)
        took = steps * 1000 * SECOND // best * self.devices if best else self.at_risk
        self._lose(min(took, self.at_risk))

    def _finish(self) -> None:
        """The last steps of a job that knew its length were done, though it did not live to report them."""
        best = self.best.get(self.members, 0)
        if not self.reports or not best or self.steps <= self.step:
            return
        ideal = (self.steps - self.step) * 1000 * SECOND // best
        useful = self.open_amount * min(ideal, self.open_time) // max(self.open_time, 1)
        self._move(Spent.UNKNOWN, Spent.USEFUL, useful)

    def _lose(self, amount: int) -> None:
        amount = min(amount, self.at_risk)
        self._move(Spent.USEFUL, Spent.LATER_LOST, amount)
        self.at_risk -= amount

    def _add(self, what: Spent, amount: int) -> None:
        self.amounts[what] = self.amounts.get(what, 0) + amount

    def _move(self, source: Spent, target: Spent, amount: int) -> None:
        if amount:
            self._add(source, -amount)
            self._add(target, amount)
