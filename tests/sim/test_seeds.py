"""Draws, warm-up, and a load fitted to a trace."""

import json
import math
import sqlite3
from pathlib import Path

import msgspec
import pytest

from tutti.cli.main import run
from tutti.engine.model import DAY, SECOND, Estimate, Gang, Role, Shape, Source
from tutti.errors import Misused
from tutti.sim.experiment import Options, play, prepare
from tutti.sim.fit import as_text, fitted
from tutti.sim.generate import Drawn, Load
from tutti.sim.policies import find_policy
from tutti.sim.seeds import drawn_anew, interval
from tutti.sim.traces.read import read_trace

LOAD = Load(jobs=120, devices=32, each=8, load=0.9, seed=5)


def file(folder: Path, load: Load) -> Path:
    path = folder / "load.toml"
    path.write_text(as_text(load, "nothing"))
    return path


def test_other_draws_of_a_trace_keep_its_days_together() -> None:
    log = Drawn(msgspec.structs.replace(LOAD, jobs=400, load=0.2)).log()
    other = drawn_anew(log, None, 1)
    assert drawn_anew(log, None, 0) is log
    assert sorted(row.name for row in other.rows) == sorted(row.name for row in log.rows)
    assert [row.at for row in other.rows] == sorted(row.at for row in other.rows)
    assert [row.name for row in other.rows] != [row.name for row in log.rows]
    before = {row.name: row.at for row in log.rows}
    assert all((row.at - before[row.name]) % DAY == 0 for row in other.rows)


def test_an_interval_is_wider_the_less_is_known() -> None:
    assert interval([3.0]).half == math.inf
    assert interval([2.0, 2.0, 2.0]).half == 0
    two, four = interval([1.0, 3.0]), interval([1.0, 3.0, 1.0, 3.0])
    assert two.mean == four.mean == 2
    assert two.half == pytest.approx(12.71, rel=1e-3)
    assert four.half < two.half


def test_seeds_are_told_as_a_table_and_as_json(tmp_path, capsys) -> None:
    path = str(file(tmp_path, LOAD))
    assert run(["simulate", path, "--policy", "easy", "--seeds", "2", "--jobs", "60"]) == 0
    assert "over 2 seeds" in capsys.readouterr().out
    assert run(["simulate", path, "--policy", "easy", "--seeds", "2", "--jobs", "60", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seeds"] == 2
    sheet = found["intervals"][0]
    assert sheet["policy"] == "easy"
    assert sheet["wait mean"]["half"] >= 0


def test_jobs_of_the_warm_up_are_played_and_not_measured() -> None:
    log = Drawn(LOAD).log()
    whole = play(prepare(log, Options()), find_policy("easy")).metrics
    case = prepare(Drawn(LOAD).log(), Options(warm_up=0.25))
    cut = play(case, find_policy("easy")).metrics
    assert cut.jobs == whole.jobs == 120
    assert cut.finished < whole.finished
    assert cut.makespan_s == whole.makespan_s
    assert any("warm the cluster up" in note for note in case.log.notes)


def test_a_fit_says_again_what_it_was_fitted_to(tmp_path, capsys) -> None:
    path = file(tmp_path, msgspec.structs.replace(LOAD, jobs=600))
    case = prepare(read_trace(path), Options())
    again = fitted(case)
    assert (again.jobs, again.devices, again.each) == (600, 32, 8)
    assert {width for width, _ in again.widths} == {row.width for row in case.log.rows}
    drawn = list(Drawn(again).rows())
    means = [sum(row.width for row in rows) / len(rows) for rows in (case.log.rows, drawn)]
    assert means[1] == pytest.approx(means[0], rel=0.25)
    assert run(["simulate", str(path), "--fit"]) == 0
    out, err = capsys.readouterr()
    (tmp_path / "fit.toml").write_text(out)
    assert len(read_trace(tmp_path / "fit.toml").rows) == 600
    assert "mean width" in err


@pytest.mark.parametrize(
    ("line", "says"),
    [("hours = [1, 2]", "24 numbers"), ("widths = [[0, 5]]", "widths"), ("weekend = 9.0", "weekend")],
)
def test_what_cannot_be_generated_is_said(tmp_path, line: str, says: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"[generate]\njobs = 10\n{line}\n")
    with pytest.raises(Misused) as caught:
        read_trace(path)
    assert says in str(caught.value)


def journal(path: Path) -> Path:
    """A journal as the local runtime writes it, with three jobs."""
    from tutti.local.schema import FIRST

    with sqlite3.connect(path) as base:
        base.executescript(FIRST)
        gang = Gang(
            "a", (Role(shapes=(Shape({"gpu": 1}),)),), estimate=Estimate(limit=90 * SECOND, source=Source.DECLARED)
        )
        start = 20_000 * DAY + 7 * SECOND
        rows = [("a", 0, 5, 65, "finished", 4), ("b", 10, 20, 50, "failed", 1), ("c", 30, 0, 0, "waiting", 2)]
        for name, at, begun, ended, state, devices in rows:
            times = [
                start + at * SECOND,
                (start + begun * SECOND) * bool(begun),
                (start + ended * SECOND) * bool(ended),
            ]
            base.execute(
                "INSERT INTO jobs (name, user, queue, submitted, started, ended, state, devices,"
                " job, context, gang, life) VALUES (?, 'ann', 'default', ?, ?, ?, ?, ?, '', '', ?, '')",
                (name, *times, state, devices, msgspec.json.encode(gang)),
            )
    base.close()
    return path


def test_our_own_journal_is_a_trace(tmp_path) -> None:
    log = read_trace(journal(tmp_path / "journal.db"))
    assert [(row.name, row.at, row.run, row.width, row.limit) for row in log.rows] == [
        ("a.1", 7 * SECOND, 60 * SECOND, 4, 90 * SECOND),
        ("b.2", 17 * SECOND, 30 * SECOND, 1, 90 * SECOND),
    ]
    assert [bad.what for bad in log.left_out] == ["c is waiting and has not run to an end"]
    outcome = play(prepare(log, Options(cluster="1x4")), find_policy("easy"))
    assert outcome.metrics.finished == 2


def test_another_sqlite_file_is_refused(tmp_path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE pets (name TEXT)")
    base.close()
    with pytest.raises(Misused) as caught:
        read_trace(path)
    assert "not a journal of Tutti" in str(caught.value)
