"""A long line is not looked through one by one where nobody in it could get anything; nobody who could is missed."""

import pytest

from tests.clusters import drawn, gang, seat, submit
from tutti.engine import decide as deciding
from tutti.engine.decide import decide
from tutti.engine.model import SECOND, Shape
from tutti.engine.plan import Start
from tutti.engine.policy import Policy
from tutti.engine.slow import decide_slow
from tutti.engine.world import World

NOW = 60 * SECOND
MANY = 300
AWAY = Shape({"gpu": 1}, avoid=("zone=z",))


def line(*others) -> World:
    """Somebody has all but one card and nobody knows until when; many wait for two, and then others."""
    world = seat(drawn("4 4"), gang("runs", 7), "n0*4 n1*3")
    return submit(world, *(gang(f"g{at}", 2, run_s=600, submitted=at) for at in range(MANY)), *others)


@pytest.fixture
def looked_at(monkeypatch):
    names: list[str] = []
    consider = deciding.consider

    def watched(desk, job, *rest):
        names.append(job.gang.name)
        return consider(desk, job, *rest)

    monkeypatch.setattr(deciding, "consider", watched)
    return names


def test_where_nobody_knows_a_start_the_line_is_looked_over_once(looked_at):
    plan = decide(line().view(), NOW, Policy())
    assert plan.actions == ()
    assert len(looked_at) == 1


def test_where_the_first_is_promised_a_start_so_it_is(looked_at):
    world = seat(drawn("4 4"), gang("runs", 7, run_s=900), "n0*4 n1*3")
    submit(world, *(gang(f"g{at}", 2, run_s=3600, submitted=at) for at in range(MANY)))
    decide(world.view(), NOW, Policy())
    assert len(looked_at) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(gang("other", 1, run_s=7200, submitted=MANY), id="smaller"),
        pytest.param(gang("other", 1, submitted=MANY), id="nobody knows how long"),
        pytest.param(gang("other", run_s=60, submitted=MANY, shapes=(AWAY,)), id="another kind"),
    ],
)
def test_whoever_finds_room_behind_them_starts(other, looked_at):
    view = line(other).view()
    plan = decide(view, NOW, Policy())
    (action,) = plan.actions
    assert isinstance(action, Start)
    assert action.gang == "other"
    assert [each.gang for each in decide_slow(view, NOW, Policy()).actions] == ["other"]
    assert len(looked_at) <= 3
