"""Generated load: the same for the same seed, at the load that was asked for, shaped like real load."""

from collections import Counter

import pytest

from tutti.engine.model import DAY, HOUR, NEVER, State
from tutti.errors import Misused
from tutti.sim.experiment import offered_load
from tutti.sim.generate import Drawn, Load, intensity
from tutti.sim.traces.read import read_trace


def test_the_same_seed_draws_the_same_jobs():
    assert Drawn(Load(jobs=200, seed=3)).log().rows == Drawn(Load(jobs=200, seed=3)).log().rows
    assert Drawn(Load(jobs=200, seed=3)).log().rows != Drawn(Load(jobs=200, seed=4)).log().rows


@pytest.mark.parametrize("style", ["gpu", "batch"])
def test_the_offered_load_is_what_was_asked_for(style):
    load = Load(jobs=20_000, devices=128, load=0.9, seed=1, style=style)
    assert abs(offered_load(Drawn(load).log().rows, load.devices) - 0.9) < 0.15


def test_most_jobs_are_small_and_wide_ones_hold_most_of_the_time():
    rows = Drawn(Load(jobs=20_000, seed=2)).log().rows
    widths = Counter(row.width for row in rows)
    assert widths[1] / len(rows) > 0.75
    area = sum(row.width * row.run for row in rows)
    assert sum(row.width * row.run for row in rows if row.width >= 8) / area > 0.5


def test_the_day_is_busier_than_the_night_and_the_week_than_its_end():
    assert intensity(14 * HOUR) > 3 * intensity(4 * HOUR)
    assert intensity(14 * HOUR) > 2 * intensity(5 * DAY + 14 * HOUR)
    week = [intensity(hour * HOUR) for hour in range(7 * 24)]
    assert abs(sum(week) / len(week) - 1) < 1e-9


def test_requests_are_round_and_never_below_the_run():
    rows = [row for row in Drawn(Load(jobs=2_000)).log().rows if row.limit]
    assert all(row.limit >= row.run for row in rows)
    assert 0.85 < len(rows) / 2_000 < 0.95


def test_some_fail_and_some_are_given_up():
    tasks = list(Drawn(Load(jobs=2_000)))
    assert 0.02 < sum(task.outcome is State.FAILED for task in tasks) / 2_000 < 0.09
    assert 0.04 < sum(task.gives_up_after < NEVER for task in tasks) / 2_000 < 0.13


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("load = -1.0", "load = -1.0: it must be above 0"),
        ("load = nan", "load = "),
        ("jobs = 0", "jobs = 0"),
        ("jobs = 'x'", "`jobs`"),
        ("devices = 4", "each = 8"),
        ("style = 'x'", 'style = "x": it must be gpu or batch'),
        ("users = 0", "users = 0"),
        ("cancelled = 2.0", "cancelled = 2.0: it must be a part"),
        ("widths = [[0, 1]]", r"widths = \[\[0,1\]\]"),
        ("widths = [[2000, 1]]", "widths.*somebody fits"),
        ("runs_s = [-5.0]", "runs_s"),
        ("hours = [1.0]", "hours"),
        ("weekend = 9.0", "weekend"),
        ("stile = 'gpu'", "stile"),
    ],
)
def test_a_file_that_asks_for_nonsense_is_refused_by_its_field(tmp_path, said, named):
    path = tmp_path / "load.toml"
    path.write_text(f"[generate]\n{said}\n")
    with pytest.raises(Misused, match=named):
        read_trace(path)


def test_a_file_that_says_what_to_generate_is_a_trace(tmp_path):
    path = tmp_path / "load.toml"
    path.write_text("[generate]\njobs = 50\ndevices = 64\n")
    log = read_trace(path)
    assert (log.kind, len(log.rows), log.machine.nodes, log.machine.each) == ("generated", 50, 8, 8)
