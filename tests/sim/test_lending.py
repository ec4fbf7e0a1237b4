"""Over virtual time: whoever lends its room starts when it was promised to, and nobody is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.engine.model import HOUR, SECOND
from tutti.engine.policy import Policy
from tutti.sim.experiment import Options, Outcome, play, prepare
from tutti.sim.generate import Drawn, Load
from tutti.sim.intake import read_estimates
from tutti.sim.promises import promises
from tutti.sim.task import Habits

CAN_BE_PARKED = Habits(save_every=1000 * HOUR, leave=30 * SECOND)
"""Saving costs nothing here, so that run times are what their estimates say."""


def played(seed: int, jobs: int) -> Outcome:
    """Jobs that can be parked, in a cluster of which more is asked than it has, under the eyes of the checker."""
    load = Load(jobs=jobs, devices=32, load=1.0, seed=seed, cancelled=0.0, failed=0.0)
    exact = read_estimates("exact")
    case = prepare(Drawn(load).log(), Options(habits=CAN_BE_PARKED, load=1.0, estimates=exact))
    case.checked = True
    return play(case, Policy())


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_no_promise_is_kept_late_and_nobody_is_lost(seed):
    outcome = played(seed, jobs=120)

    assert outcome.troubles == []
    assert {name: each.error for name, each in promises(outcome.record).items() if each.error > SECOND} == {}
    assert outcome.metrics.finished == 120
    assert sum(outcome.report.total.values()) == outcome.report.installed
