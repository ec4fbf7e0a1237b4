"""A run looks for cycles of objects seldom, and leaves the collector as it was."""

import gc

import pytest

from tutti.engine.presets import PRESETS
from tutti.sim import run
from tutti.sim.cluster import plain
from tutti.sim.generate import Drawn, Load
from tutti.sim.run import Simulation


class Enough(Exception):
    """Somebody has seen enough."""


def stopped(seen):
    """A run that somebody ends when it first tells how far it is."""

    def look(_done, _total):
        seen.append(gc.get_threshold()[0])
        raise Enough

    simulation = Simulation(
        Drawn(Load(jobs=300, devices=16)), plain(2, 8, "gpu"), PRESETS["easy"].policy, "gpu", checked=False
    )
    with pytest.raises(Enough):
        simulation.run(look)


def test_the_collector_is_as_before_also_after_a_run_that_was_stopped():
    before = gc.get_threshold()
    seen: list[int] = []

    stopped(seen)

    assert seen == [max(before[0], run.NEW_OBJECTS)]
    assert gc.get_threshold() == before


def test_a_collector_that_was_turned_off_stays_off():
    before = gc.get_threshold()
    seen: list[int] = []
    gc.set_threshold(0, *before[1:])
    try:
        stopped(seen)
    finally:
        gc.set_threshold(*before)

    assert seen == [0]
