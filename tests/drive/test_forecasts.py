"""Start ranges over drawn futures, and how true they turned out."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clusters import drawn, gang, lasting, seat, submit
from tutti.drive.calibration import ForecastBook
from tutti.drive.estimates import Errors
from tutti.drive.forecasts import Budget, Forecast, Forecaster
from tutti.engine import events as ev
from tutti.engine.model import DAY, HOUR, MINUTE, NEVER, SECOND, Estimate, Progress, Source
from tutti.engine.presets import PRESETS
from tutti.engine.world import Touched

EASY = PRESETS["easy"].policy


def a_world(estimate=None):
    world = seat(drawn("4"), gang("r", 4, estimate=estimate or lasting(1000, 400, 100)), "n0*4")
    return submit(world, gang("w", 4, run_s=50), gang("x", 4, run_s=50, submitted=1))


def test_a_forecast_is_a_range_that_contains_its_middle():
    found = Forecaster(7).forecast(a_world().view(), 0, EASY)
    w, x = found["w"], found["x"]
    assert 0 < w.p5 <= w.p10 <= w.p50 <= w.p90 <= w.p95 <= 1000 * SECOND
    assert w.p5 < w.p95
    assert x.p50 > w.p50
    assert w.odds_ppm == 1_000_000
    assert "nobody else" in w.assuming


def test_the_same_seed_gives_the_same_forecast_and_another_one_another():
    view = a_world().view()
    assert Forecaster(7).forecast(view, 0, EASY) == Forecaster(7).forecast(view, 0, EASY)
    assert Forecaster(7).forecast(view, 0, EASY) != Forecaster(8).forecast(view, 0, EASY)


def test_only_gangs_asked_about_get_a_forecast():
    assert list(Forecaster(7).forecast(a_world().view(), 0, EASY, ["w", "r", "nobody"])) == ["w"]
    assert Forecaster(7).forecast(drawn("4").view(), 0, EASY) == {}


def test_beyond_the_horizon_there_is_no_promise():
    budget = Budget(horizon=30 * SECOND)
    [w] = Forecaster(7, budget).forecast(a_world(lasting(1000, 900, 800)).view(), 0, EASY, ["w"]).values()
    assert not w.is_promise
    assert (w.p50, w.odds_ppm) == (NEVER, 0)


def test_behind_a_gang_without_an_estimate_there_is_no_promise_and_it_says_why():
    world = submit(seat(drawn("4"), gang("r", 4), "n0*4"), gang("w", 4, run_s=5))
    [w] = Forecaster(7).forecast(world.view(), 0, EASY).values()
    assert not w.is_promise
    assert "1 running without an estimate" in w.assuming


def test_a_jobs_own_reports_make_the_range_narrow():
    world = a_world(lasting(10_000))
    world.apply(ev.Reported(0, "r", Progress(step=0, steps=100, rate_milli=1000, at=0)))
    [w] = Forecaster(7).forecast(world.view(), 0, EASY, ["w"]).values()
    assert 85 * SECOND <= w.p5 <= w.p95 <= 250 * SECOND
    assert abs(w.p50 - 100 * SECOND) <= 15 * SECOND


@given(
    limit=st.integers(1, 10**6),
    p50=st.integers(0, 10**6),
    p90=st.integers(0, 10**6),
    ran=st.integers(0, 2 * 10**6),
    seed=st.integers(0, 99),
)
def test_a_drawn_run_is_longer_than_what_has_passed(limit, p50, p90, ran, seed):
    p90 = min(max(p50, p90), limit)
    estimate = Estimate(limit * SECOND, min(p50, p90) * SECOND, p90 * SECOND, Source.DECLARED)
    world = seat(drawn("4"), gang("r", 4, estimate=estimate), "n0*4")
    view, now = world.view(), ran * SECOND
    drawn_run = Forecaster(1).length(view, view.held(0), 0, now, Random(seed))
    assert drawn_run > now
    assert drawn_run <= max(limit * SECOND, 2 * now + SECOND)


def test_past_errors_are_drawn_once_there_are_enough_of_them():
    errors = Errors()
    estimate = lasting(100)
    for _ in range(25):
        errors.learn(estimate, 30 * SECOND)
    world = seat(drawn("4"), gang("r", 4, estimate=lasting(1000)), "n0*4")
    again = Errors.recalled(errors.dump())
    length = Forecaster(1, errors=again).length(world.view(), world.job_in(0), 0, 0, Random(0))
    assert length == 300 * SECOND


def a_forecast(name, middle, spread=MINUTE):
    return Forecast(name, 0, middle - spread, middle, middle, middle, middle + spread, 1_000_000, DAY, 20, "")


def test_forecasts_are_kept_with_their_outcomes_and_judged():
    book = ForecastBook()
    book.made([a_forecast("soon", 5 * MINUTE), a_forecast("late", 2 * HOUR), a_forecast("gone", HOUR)])
    book.watch(ev.Starting(6 * MINUTE, "soon", ()), Touched(1))
    book.watch(ev.Starting(3 * HOUR, "late", ()), Touched(2))
    book.watch(ev.Ended(1, "gone"), Touched(3))
    every, near, far = book.accuracy()
    assert (every.forecasts, every.covered_ppm) == (2, 500_000)
    assert (near.horizon, near.covered_ppm, near.median_error) == ("under 10 min", 1_000_000, MINUTE)
    assert (far.horizon, far.covered_ppm, far.median_error) == ("1 to 6 h", 0, HOUR)
    assert book.open == {}


def test_a_forecast_without_a_number_is_counted_apart():
    book = ForecastBook()
    book.made([Forecast("a", 0, NEVER, NEVER, NEVER, NEVER, NEVER, 0, DAY, 20, "")])
    book.started("a", 5)
    assert (book.unpromised, book.accuracy()) == (1, [])


def test_only_so_many_outcomes_are_kept():
    book = ForecastBook(keep=3)
    for i in range(9):
        book.made([a_forecast(f"g{i}", HOUR)])
        book.started(f"g{i}", HOUR)
    assert [outcome.forecast.gang for outcome in book.outcomes] == ["g6", "g7", "g8"]


@pytest.mark.slow
def test_nine_in_ten_starts_lie_inside_the_range_when_runs_are_like_their_estimates():
    book, chance = ForecastBook(), Random(3)
    for i in range(60):
        p50 = chance.randrange(60, 4000)
        world = seat(drawn("4"), gang("r", 4, estimate=lasting(8 * p50, 2 * p50, p50)), "n0*4")
        submit(world, gang(f"w{i}", 4, run_s=60))
        view = world.view()
        real = Forecaster(0).length(view, view.held(0), 0, 0, chance)
        book.made(list(Forecaster(i, Budget(draws=20)).forecast(view, 0, EASY).values()))
        book.started(f"w{i}", real)
    assert 800_000 <= book.accuracy()[0].covered_ppm <= 990_000


def test_forecasts_that_came_too_early_are_stretched_until_starts_lie_inside():
    book = ForecastBook()
    view = a_world().view()
    plain = Forecaster(7).forecast(view, 0, EASY)["w"]
    assert book.stretch() == (1000,) * 5
    for number in range(40):
        book.made([plain])
        book.started("w", plain.p50 * 2 + number * SECOND)
    stretched = Forecaster(7, stretch=book.stretch()).forecast(view, 0, EASY)["w"]
    assert stretched.drawn == plain.drawn == (plain.p5, plain.p10, plain.p50, plain.p90, plain.p95)
    assert stretched.p5 <= plain.p50 * 2 + 2 * SECOND
    assert stretched.p95 >= plain.p50 * 2 + 37 * SECOND
    assert stretched.p5 <= stretched.p10 <= stretched.p50 <= stretched.p90 <= stretched.p95


def a_long_line(gangs=400):
    world = seat(drawn("4 4"), gang("r", 8, estimate=lasting(100, 90, 80)), "n0*4 n1*4")
    waiting = [gang(f"w{at:03}", 1 + at % 4, run_s=60, submitted=at) for at in range(gangs)]
    return submit(world, *waiting, gang("last", 8, estimate=lasting(900, 800, 700), submitted=gangs))


def test_far_down_a_long_line_the_work_ahead_is_counted_and_near_the_front_it_is_played():
    view = a_long_line().view()
    found = Forecaster(7, Budget(horizon=30 * DAY)).forecast(view, 0, EASY, ["w000", "w020", "w200", "w399"])
    assert found["w000"].p50 <= found["w020"].p50 < found["w200"].p50 < found["w399"].p50
    ahead = sum(1 + at % 4 for at in range(399)) * 60 * SECOND // 8
    assert 0.5 * ahead < found["w399"].p50 < 1.2 * ahead


def test_what_is_counted_agrees_with_what_is_played(monkeypatch):
    view, budget = a_long_line(140).view(), Budget(horizon=30 * DAY, steps=2000, draws=3)
    counted = Forecaster(7, budget).forecast(view, 0, EASY, ["w103"])["w103"]
    monkeypatch.setattr("tutti.drive.line.KEPT", 10_000)
    played = Forecaster(7, budget).forecast(view, 0, EASY, ["w103"])["w103"]
    assert abs(counted.p50 - played.p50) < 0.25 * played.p50


def test_gangs_without_an_estimate_far_ahead_are_named():
    world = seat(drawn("4"), gang("r", 4, run_s=9), "n0*4")
    submit(world, *(gang(f"w{at:03}", 4, submitted=at) for at in range(200)))
    [found] = Forecaster(7).forecast(world.view(), 0, EASY, ["w150"]).values()
    assert not found.is_promise
    assert "150 ahead without an estimate" in found.assuming
