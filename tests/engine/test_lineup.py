"""A long line is not looked through one by one where nobody in it could get anything; nobody who could is missed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clusters import drawn, gang, seat, submit
from tests.promises.outcomes import carry_out
from tutti.engine import decide as deciding
from tutti.engine.decide import decide
from tutti.engine.model import SECOND, Shape
from tutti.engine.plan import Start
from tutti.engine.policy import Policy
from tutti.engine.presets import PRESETS
from tutti.engine.rooms import Rooms
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


ASKS = st.sampled_from([{"gpu": 1}, {"gpu": 2}, {"gpu": 3}, {"gpu": 4, "cpu": 1}, {"gpu": 8}, {"gpu": 1, "cpu": 4}])
WAITING = st.lists(st.tuples(st.integers(1, 4), ASKS, st.integers(0, 9)), min_size=2, max_size=8)
RUNNING = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 8), st.integers(2, 9)), max_size=6)


def enter(world: World, waits: list[tuple[int, dict[str, int], int]], at: int) -> World:
    for number, (members, ask, minutes) in enumerate(waits):
        name = f"w{at // SECOND}-{number:02}"
        submit(world, gang(name, members, run_s=60 * minutes, shapes=(Shape(ask),), submitted=at + number), at=at)
    return world


@given(RUNNING, WAITING, WAITING, st.sampled_from(["easy", "balanced", "rigid"]))
@settings(max_examples=200, deadline=None)
def test_nobody_is_passed_over_who_would_have_started(runs, waits, more, policy):
    world, free, rules = drawn("8 8 8 4 4", cpu=8), [8, 8, 8, 4, 4], PRESETS[policy].policy
    for at, (node, cards, minutes) in enumerate(runs):
        if cards <= free[node]:
            free[node] -= cards
            seat(world, gang(f"r{at}", 1, cards, run_s=60 * minutes), f"n{node}")
    carry_out(world, decide(enter(world, waits, 0).view(), 0, rules), 0, settle=True)
    view = enter(world, more, NOW).view()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "hopeless_kinds", lambda _: 0)
        patch.setattr(Rooms, "is_hopeless", lambda _, __: False)
        one_by_one = decide(view, NOW, rules)
    assert decide(view, NOW, rules).actions == one_by_one.actions
