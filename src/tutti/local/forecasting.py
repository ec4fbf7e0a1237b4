"""When will it start, why does it wait, what would help: answers that take longer, worked out beside the loop."""

import asyncio
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from tutti.api import types as t
from tutti.drive.calibration import ForecastBook, Outcome
from tutti.drive.estimates import Errors
from tutti.drive.forecasts import Budget, Forecast, Forecaster
from tutti.drive.foretold import forecast_json, forecast_text
from tutti.drive.loop import Driver
from tutti.engine.delays import MOST as DELAYS
from tutti.engine.delays import with_delays
from tutti.engine.explain import explain
from tutti.engine.model import QUEUED, SECOND
from tutti.engine.record import record
from tutti.engine.remedy import affordable, remedies
from tutti.errors import Misused
from tutti.views.moments import clock
from tutti.views.why import why_json, why_lines

from .fault import now_us, steady_us

MOST = 50
"""Waiting gangs that get a forecast without being asked about."""
AGAIN = 10 * SECOND
REST = 20
"""So many times as long as forecasts took nothing is foretold again without being asked."""
STALE = 120 * SECOND
QUICK = Budget(draws=20, steps=120)


class Forecasting:
    """Forecasts, kept with what came of them."""

    def __init__(self, driver: Driver, errors: Errors) -> None:
        self._driver = driver
        self._forecaster = Forecaster(0, QUICK, errors)
        self.book = ForecastBook()
        self._latest: dict[str, Forecast] = {}
        self._next = 0
        self._version = -1
        self._busy = False

    def of(self, name: str) -> Forecast | None:
        """The latest forecast of a gang."""
        found = self._latest.get(name)
        return found if found is not None and found.made > now_us() - STALE else None

    async def refresh(self) -> None:
        """Foretell the starts of the first few that wait, when something has changed and not too often."""
        world, now = self._driver.world, steady_us()
        if self._busy or not world.queued or now < self._next or world.version == self._version:
            return
        self._version, self._busy = world.version, True
        names = [world.job_in(slot).gang.name for slot in list(world.queued)[:MOST]]
        try:
            found = await self._foretold(names)
        finally:
            self._busy = False
            self._next = now + max(AGAIN, min((steady_us() - now) * REST, STALE // 2))
        self._latest = found
        self.book.made([one for one in found.values() if one.gang not in self.book.open])

    async def _foretold(self, names: Collection[str]) -> dict[str, Forecast]:
        view, now, policy = self._driver.world.view(), now_us(), self._driver.policy
        self._forecaster.stretch = self.book.stretch()
        return await asyncio.to_thread(self._forecaster.forecast, view, now, policy, names)

    async def why(self, name: str, effort: int, out_of_use: str = "") -> t.Why:
        """Everything there is to say about a gang that waits, or the little about one that does not."""
        view, now, policy = self._driver.world.view(), now_us(), self._driver.policy
        effort = affordable(view, effort)
        found = await asyncio.to_thread(explain, view, now, policy, name)
        found = await asyncio.to_thread(with_delays, view, now, policy, found, min(effort, DELAYS))
        helps = await asyncio.to_thread(remedies, view, now, policy, name, effort) if found.state in QUEUED else []
        told = (await self._foretold([name])).get(name) if found.state in QUEUED and found.token else None
        if told is not None:
            self._latest[name] = told
            self.book.made([told])
        lines = why_lines(found, helps, forecast_text(told, now), lambda moment: _clock(moment, now), out_of_use)
        return t.Why(
            job=name,
            state=found.state.value,
            token=found.token.value if found.token else "",
            lines=lines,
            explanation=why_json(found, helps),
            forecast=forecast_json(told),
        )

    def accuracy(self) -> t.Forecasts:
        """How true forecasts were."""
        found = [
            t.ForecastRow(
                horizon=one.horizon,
                forecasts=one.forecasts,
                covered=one.covered_ppm / 1e6,
                median_error_s=one.median_error / SECOND,
            )
            for one in self.book.accuracy()
        ]
        return t.Forecasts(forecasts=found, open=sum(map(len, self.book.open.values())))

    def dump(self) -> str:
        """Forecasts with their outcomes, to be stored."""
        return msgspec.json.encode(self.book.outcomes[-1000:]).decode()

    def load(self, text: str) -> None:
        """Forecasts that an earlier daemon made."""
        if text:
            self.book.outcomes = msgspec.json.decode(text, type=list[Outcome])

    async def what_if(self, asked: t.WhatIf) -> dict[str, Any]:
        """The same as `tutti what-if` on a snapshot of now, in a process of its own."""
        view = self._driver.world.view()
        snapshot = record(view, now_us(), self._driver.policy)
        del view
        with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
            file = Path(folder) / "now.json"
            file.write_bytes(snapshot)
            words = [f"--add-nodes={one}" for one in asked.add_nodes] + [f"--remove={one}" for one in asked.remove]
            words += [f"--queue={one}" for one in asked.queue]
            for number, job in enumerate(asked.submit):
                more = Path(folder) / f"{number}.toml"
                more.write_text(
                    "\n".join(f"{key} = {msgspec.json.encode(value).decode()}" for key, value in job.items())
                )
                words.append(f"--submit={more}")
            return await _answered([sys.executable, "-m", "tutti", "what-if", str(file), "-o", "json", *words])


async def _answered(command: list[str]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    if process.returncode:
        raise Misused(err.decode(errors="replace").strip().removeprefix("error: "))
    answer: dict[str, Any] = msgspec.json.decode(out)
    return answer


def _clock(moment: int, now: int) -> str:
    return "now" if moment <= now else clock(moment, now)
