"""Sums over what happened: the ledger, device time by user, the timeline, figures for Prometheus."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tutti.api import types as t
from tutti.drive.ledger import Report
from tutti.drive.loop import Driver
from tutti.drive.notice import Trouble
from tutti.engine.decay import decayed, remembered, steps_between
from tutti.engine.model import ENDED, NEVER, QUEUED, SECOND
from tutti.engine.use import QueueUse
from tutti.jobs.job import DEVICE

from .held import Held
from .journal import Journal
from .shelf import read_members

if TYPE_CHECKING:
    from .backend import LocalBackend
    from .watching import Watching

DAY = 86_400 * SECOND


class Tallies:
    """Answers from the ledger and the journal."""

    def __init__(self, driver: Driver, journal: Journal, held: Mapping[str, Held]) -> None:
        self._driver, self._journal, self._held = driver, journal, held

    def ledger(self, now: int) -> Report:
        """The ledger up to now."""
        assert self._driver.ledger is not None
        return self._driver.ledger.report(self._driver.world, max(now, self._driver.world.at))

    def report(self, now: int) -> t.Report:
        """The ledger in device-seconds."""
        found = self.ledger(now)
        total = _seconds(found.total)
        return t.Report(
            resource=found.resource,
            since_us=found.since,
            at_us=found.at,
            installed_s=found.installed / SECOND,
            total=total,
            queues={name: _seconds(sheet) for name, sheet in found.queues.items()},
            users=self._users(now),
            goodput=found.goodput_ppm / 1e6,
            goodput_known=found.goodput_known_ppm / 1e6,
            closes=abs(sum(found.total.values()) - found.installed) < SECOND,
        )

    def _users(self, now: int) -> dict[str, float]:
        """Device-hours by user: what has ended, and what runs."""
        hours: Counter[str] = Counter()
        for row in self._journal.rows("SELECT user, sum(device_us) AS used FROM jobs WHERE ended > 0 GROUP BY user"):
            hours[row["user"]] += row["used"] or 0
        for held in self._held.values():
            hours[held.origin.user] += held.course.device_us + (held.run.device_time(now) if held.run else 0)
        return {user: used / SECOND / 3600 for user, used in sorted(hours.items()) if used}

    def sheet(self, name: str) -> dict[str, float]:
        """One job's part of the ledger."""
        ledger = self._driver.ledger
        if ledger is None:
            return {}
        account = ledger.accounts.get(name)
        if account is not None:
            return _seconds({what.value: amount for what, amount in account.amounts.items() if amount})
        return _seconds(ledger.recent.get(name, {}))

    def speed(self, name: str) -> list[t.Speed]:
        """The best rate of a job at each size it has had."""
        ledger = self._driver.ledger
        rates = ledger.speeds(name) if ledger else []
        return [t.Speed(members=members, rate=rate / 1000, samples=seen) for members, rate, seen in rates]

    def used(self, now: int) -> dict[str, float]:
        """Decayed use of each queue, with what its gangs hold until this moment."""
        world, half_life = self._driver.world, self._driver.policy.order.half_life
        at = world.resources.get(DEVICE, -1)
        return {name: _until(use, at, now, half_life) for name, use in world.use.items() if 0 <= at < len(use.past)}

    def timeline(self, since: int, until: int, limit: int, backend: "LocalBackend", now: int) -> t.Timeline:
        """Who held which device when, and who is promised how many."""
        since = since or now - DAY
        until = until or now
        found = self._journal.rows(
            "SELECT r.made, r.ended, r.members, j.name, j.queue, j.state FROM runs r JOIN jobs j ON j.id = r.job"
            " WHERE r.made <= ? AND (r.ended = 0 OR r.ended >= ?) AND r.phase != 'ready' ORDER BY r.made DESC LIMIT ?",
            until, since, limit + 1,
        )  # fmt: skip
        bars = [bar for row in found[:limit] for bar in self._bars(row, backend)]
        return t.Timeline(now_us=now, bars=[*bars, *self._promised(backend)], cut=len(found) > limit)

    def _bars(self, row: Any, backend: "LocalBackend") -> list[t.Bar]:
        by_node: dict[int, list[int]] = {}
        for one in read_members(row["members"]).values():
            known = [backend.booking.by_id[device] for device in one.devices if device in backend.booking.by_id]
            by_node.setdefault(one.node, []).extend(device.index for device in known)
        nodes = backend.booking.box.nodes
        return [
            t.Bar(
                job=row["name"], queue=row["queue"], node=nodes[node].name if node < len(nodes) else "?",
                devices=sorted(set(devices)), count=len(set(devices)), begun_us=row["made"], ended_us=row["ended"],
                state=row["state"],
            )
            for node, devices in by_node.items()
        ]  # fmt: skip

    def _promised(self, backend: "LocalBackend") -> list[t.Bar]:
        bars = []
        nodes = backend.booking.box.nodes
        for job in filter(None, self._driver.world.jobs):
            promise = job.life.promise
            if promise is None or promise.start >= NEVER:
                continue
            for role, held in zip(job.gang.roles, promise.seats, strict=False):
                each = role.shapes[held.shape].ask.get(DEVICE, 0)
                bars += [
                    t.Bar(
                        job=job.gang.name, queue=job.gang.queue, node=nodes[node].name, devices=[], count=count * each,
                        begun_us=promise.start, ended_us=promise.end if promise.end < NEVER else 0, promised=True,
                        state=job.life.state.value,
                    )
                    for node, count in zip(held.nodes, held.counts, strict=True)
                ]  # fmt: skip
        return bars

    def figures(
        self, backend: "LocalBackend", watching: "Watching", now: int
    ) -> dict[str, dict[tuple[str, ...], float]]:
        """Every metric with its values by label."""
        world = self._driver.world
        jobs: Counter[tuple[str, ...]] = Counter()
        reasons: Counter[tuple[str, ...]] = Counter()
        for job in filter(None, world.jobs):
            jobs[(job.gang.queue, job.life.state.value)] += 1
            if job.life.state in QUEUED and (reason := watching.reason(job.gang.name)) is not None:
                reasons[(reason.token.value,)] += 1
        booking = backend.booking
        free = sum(1 for device in booking.by_id if booking.is_free(device))
        rows = self._journal.rows("SELECT state, count(*) AS n FROM jobs WHERE ended > 0 GROUP BY state")
        over = {row["state"]: row["n"] for row in rows}
        counts = self._driver.counts
        return {
            "tutti_jobs": dict(jobs),
            "tutti_waiting_jobs": dict(reasons),
            # A counter that is not there before it counts has no first increase.
            "tutti_ended_jobs_total": {(state.value,): float(over.get(state.value, 0)) for state in sorted(ENDED)},
            "tutti_devices": {
                ("busy",): len(booking.owner),
                ("free",): free,
                ("out",): len(booking.by_id) - free - len(booking.owner),
            },
            "tutti_device_seconds_total": {(what,): amount / SECOND for what, amount in self.ledger(now).total.items()},
            "tutti_decisions_total": {(): float(watching.plans)},
            "tutti_decision_seconds_total": {(): watching.spent_us / SECOND},
            "tutti_trouble_total": {(word.value,): float(counts.get(word, 0)) for word in Trouble},
        }


def _seconds(sheet: dict[Any, int]) -> dict[str, float]:
    return {str(getattr(what, "value", what)): amount / SECOND for what, amount in sheet.items()}


def _until(use: QueueUse, resource: int, now: int, half_life: int) -> float:
    past, held = use.past[resource], use.total[resource]
    if half_life <= 0 or now <= use.at:
        return past + held * max(now - use.at, 0) / SECOND
    steps, counts = steps_between(use.at, now, half_life), remembered(use.at, now, half_life)
    return decayed(past, steps) + held * counts / SECOND
