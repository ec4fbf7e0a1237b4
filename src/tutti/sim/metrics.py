"""What a planner wants to know of one run: waits, slowdowns, completion, use, goodput, fairness, kept promises."""

import numpy as np

from tutti.engine.model import SECOND, Data

from .record import Column, Record

THRESHOLD_S = 10
Times = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class Spread(Data, frozen=True):
    """Mean, median and 99th percentile."""

    mean: float = 0.0
    p50: float = 0.0
    p99: float = 0.0


class Metrics(Data, frozen=True):
    """The figures of one policy. Times are seconds."""

    policy: str
    jobs: int
    finished: int
    stuck: int
    wait_s: Spread
    completion_s: Spread
    slowdown: Spread
    utilization: float
    goodput: float
    interruptions: int
    fairness: float
    """Jain's index over the mean slowdowns of users: 1 is even, 1/n is all to one."""
    promised: int
    promise_error_s: float
    """Mean distance of the first promised start from the real one, whichever was earlier."""
    promise_error_part: float
    """The same distances over how far ahead the promises looked: 0.3 is half an hour off in a hundred minutes."""
    promises_late: float
    """Part of the promised jobs that started later than first promised, by more than a second."""
    makespan_s: float
    jobs_per_s: float

    def as_json(self) -> dict[str, object]:
        """The figures for machines, with the names that protocols use as well."""
        return {
            "policy": self.policy,
            "jobs": self.jobs,
            "avg_wait_s": self.wait_s.mean,
            "avg_flow_s": self.completion_s.mean,
            "avg_bounded_slowdown": self.slowdown.mean,
            "utilization": self.utilization,
            "makespan_s": self.makespan_s,
            "jobs_per_s": self.jobs_per_s,
            "finished": self.finished,
            "stuck": self.stuck,
            **_spread("wait", self.wait_s, "_s"),
            **_spread("completion", self.completion_s, "_s"),
            **_spread("bounded_slowdown", self.slowdown, ""),
            "goodput": self.goodput,
            "interruptions": self.interruptions,
            "fairness": self.fairness,
            "promised": self.promised,
            "avg_promise_error_s": self.promise_error_s,
            "promise_error_part": self.promise_error_part,
            "promises_late": self.promises_late,
        }


def _spread(name: str, spread: Spread, unit: str) -> dict[str, float]:
    return {f"p50_{name}{unit}": spread.p50, f"p99_{name}{unit}": spread.p99}


class Window(Data, frozen=True):
    """The part of a run in which use is measured: after the warm-up, and while jobs keep coming."""

    since: int
    until: int


def window_of(submitted: Column, since: int = 0) -> Window:
    """From a moment on (or the first submission) until the last submission."""
    if not len(submitted):
        return Window(since, since)
    return Window(max(since, int(submitted.min())), int(submitted.max()))


def steady(window: Window, record: Record, devices: int, end: int) -> Window:
    """The window, or all the time after the warm-up where there is work for more than twice as long as jobs come.

    It depends on the jobs and not on what came of them, so that policies on the same jobs are measured alike.
    """
    lasts = window.until - window.since
    counted = record.column("submitted") >= window.since
    asked = int((record.column("work") * record.column("width"))[counted].sum())
    return window if lasts > 0 and asked <= 2 * lasts * devices else Window(window.since, end)


def measure(
    record: Record, policy: str, devices: int, goodput: float, took_s: float, since: int = 0, until: int = 0
) -> Metrics:
    """The figures of a run on so many devices, played in so many seconds of processor time.

    Jobs submitted before `since` count only for how long it all took, and for what they held later. Where some never
    end, `until` is when nobody looked any longer.
    """
    submitted, started, ended = (record.column(name) for name in ("submitted", "started", "ended"))
    counted = submitted >= since
    over = (ended >= 0) & (started >= 0) & counted
    flow = (ended - submitted)[over] / SECOND
    run = record.column("work")[over] / SECOND
    slowdown = np.maximum(flow / np.maximum(run, THRESHOLD_S), 1.0)
    errors, ahead = _promise_errors(record, started, counted)
    over_at = max(int(ended.max(initial=0)), int(submitted.max(initial=0)), until)
    window = steady(window_of(submitted, since), record, devices, over_at)
    return Metrics(
        policy=policy,
        jobs=len(record),
        finished=int(over.sum()),
        stuck=int((ended < 0).sum()),
        wait_s=spread_of((started - submitted)[(started >= 0) & counted] / SECOND),
        completion_s=spread_of(flow),
        slowdown=spread_of(slowdown),
        utilization=_held(record, window) / max(devices * (window.until - window.since), 1),
        goodput=goodput,
        interruptions=int(record.column("interruptions").sum()),
        fairness=fairness(record, slowdown, over),
        promised=len(errors),
        promise_error_s=float(np.abs(errors).mean()) if len(errors) else 0.0,
        promise_error_part=float(np.abs(errors).sum() / max(ahead.sum(), 1.0)),
        promises_late=float((errors > 1).mean()) if len(errors) else 0.0,
        makespan_s=_span(submitted, ended),
        jobs_per_s=len(record) / max(took_s, 1e-9),
    )


def spread_of(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Spread:
    """Mean and percentiles of some values; zeros where there are none."""
    if not len(values):
        return Spread()
    p50, p99 = np.percentile(values, [50, 99])
    return Spread(float(values.mean()), float(p50), float(p99))


def _span(submitted: Column, ended: Column) -> float:
    return float(max(ended.max(), submitted.max()) - submitted.min()) / SECOND if len(submitted) else 0.0


def _held(record: Record, window: Window) -> int:
    """Device-time held by anybody inside the window."""
    spells = record.spells
    end = np.array(spells.ended, np.int64)
    end = np.where(end < 0, window.until, end).clip(window.since, window.until)
    begun = np.array(spells.begun, np.int64).clip(window.since, window.until)
    return int(((end - begun).clip(min=0) * np.array(spells.devices, np.int64)).sum())


def _promise_errors(
    record: Record, started: Column, counted: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
) -> tuple[Times, Times]:
    """How much later than first promised each start was, and how far ahead the promise looked."""
    promised, told = record.column("promised"), record.column("told")
    known = (promised >= 0) & (started >= 0) & counted
    return (started - promised)[known] / SECOND, (promised - told)[known] / SECOND


def fairness(
    record: Record,
    slowdown: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    over: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
) -> float:
    """Jain's index over the users' mean slowdowns."""
    users = np.array([user for user, is_over in zip(record.users, over.tolist(), strict=True) if is_over])
    if not len(users):
        return 1.0
    _, which = np.unique(users, return_inverse=True)
    means = np.bincount(which, slowdown) / np.bincount(which)
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))
