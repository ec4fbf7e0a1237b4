"""What a cluster can take, and what breaks in it: a job that could never start is named, a fault never forgotten."""

import pytest

from tutti.engine.model import HOUR, SECOND
from tutti.errors import Misused
from tutti.sim.cluster import read_cluster
from tutti.sim.experiment import Options, play, prepare
from tutti.sim.play import outcome_of
from tutti.sim.play import play as play_scene
from tutti.sim.policies import find_policy
from tutti.sim.report import series
from tutti.sim.report.frame import finding
from tutti.sim.results import side_by_side
from tutti.sim.scenes import find_scene
from tutti.sim.traces.log import Log, Row


def log(*jobs):
    """Jobs as (submit, run, width, and the kinds that will do), times in seconds."""
    rows = [
        Row(f"{i}", at * SECOND, run * SECOND, width, kinds=tuple(kinds))
        for i, (at, run, width, *kinds) in enumerate(jobs)
    ]
    return Log("made", "made up", rows, "gpu")


def members(case):
    """Of each job how many members it has, and of how many devices."""
    return [(role.min, role.shapes[0].ask["gpu"]) for task in case.tasks(elastic=False) for role in task.gang.roles]


def test_a_job_takes_whole_nodes_of_a_size_of_which_there_are_enough():
    case = prepare(log((0, 60, 8), (1, 60, 16), (2, 60, 12), (3, 60, 10)), Options(cluster="16x4,1x8"))
    assert members(case) == [(1, 8), (4, 4), (3, 4), (10, 1)]
    assert play(case, find_policy("easy")).metrics.stuck == 0


def test_members_are_as_large_as_the_nodes_of_the_kinds_that_will_do():
    case = prepare(log((0, 60, 8, "t4"), (0, 60, 8, "a100")), Options(cluster="4x4:t4,2x8:a100"))
    assert members(case) == [(2, 4), (1, 8)]
    assert play(case, find_policy("easy")).metrics.stuck == 0


def test_a_job_of_a_kind_of_which_there_are_too_few_is_named_or_left_out():
    jobs = log((0, 60, 1), (1, 60, 2, "h100", "h200"), (2, 60, 12, "t4"))
    with pytest.raises(Misused, match="job 1 is 2 wide, and the cluster has 0 devices of h100 or h200"):
        prepare(jobs, Options(cluster="2x4:t4"))
    case = prepare(jobs, Options(cluster="2x4:t4", skip_bad=True))
    assert len(case.log.rows) == 1
    assert [bad.what for bad in case.log.left_out][1] == "job 2 is 12 wide, and the cluster has 8 devices of t4"


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ([(0, 60, 64), (86400, 60, 1)], "8x8 just holds the widest job"),
        ([(0, 600, 8), (600, 600, 8)], "3x8 keeps the offered load at about 0.8 or below"),
        ([(0, 60, 8), (0, 60, 8)], "3x8 could be done in little more than the longest run"),
    ],
)
def test_a_cluster_that_was_chosen_is_told_with_the_reason(jobs, why):
    assert any(why in note for note in prepare(log(*jobs), Options()).log.notes)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("c.toml", "[pools.a]\nnodes = 2\neach = 8\nper_domain = {rack = 0}", "a rack of 0 nodes"),
        ("c.toml", "[pools.a]\nnodes = 2\neach = 8\n[[queues]]\nname = 'q'\n[[queues]]\nname = 'q'", "two queues 'q'"),
        ("c.toml", "[pools.a]\nnodes = 2\neach = 8\n[[queues]]\nname = 'q'\nweight = -1", "a weight of -1"),
        ("n.csv", "sn,gpu,model\na,many,V100\n", "invalid literal"),
        ("n.csv", "sn,cpu\na,4\n", "without a column 'gpu'"),
        ("n.csv", "sn,gpu,model\na,0,V100\n", "no node that has devices"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_said(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(Misused, match=says):
        read_cluster(str(tmp_path / name), "gpu")


def with_faults(tmp_path, text, *jobs):
    path = tmp_path / "faults.toml"
    path.write_text(text)
    return prepare(log(*jobs), Options(cluster="2x4", faults=str(path)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[fault]]\nat = '1h'", "names neither a node nor a domain"),
        ("[[fault]]\nat = '1h'\nnode = 'n0'\ndomain = 'rack-0'", "names both"),
        ("[[fault]]\nat = '1h'\nnode = 'n0'\nflaps = 2", "does not say how long"),
        ("[[fault]]\nat = '1h'\nnode = 'n0'\nflaps = 0", "at least once"),
        ("[random]\nmean_between = '1m'", "an hour or more"),
    ],
)
def test_a_fault_that_cannot_be_meant_is_refused(tmp_path, text, says):
    with pytest.raises(Misused, match=says):
        with_faults(tmp_path, text, (0, 60, 1))


def test_a_fault_from_before_the_first_job_keeps_what_is_left_of_it(tmp_path):
    text = "[[fault]]\nat = 0\nnode = 'n0'\nlasts = '3h'\n[[fault]]\nat = 0\nnode = 'n1'\nlasts = '1h'\n"
    case = with_faults(tmp_path, text, (7200, 60, 1))
    assert [(fault.at, fault.lasts, fault.nodes) for fault in case.faults] == [(2 * HOUR, HOUR, ("n0",))]
    assert any("of 2: the others lie before or after it" in note for note in case.log.notes)


def test_work_since_the_last_snapshot_is_lost_with_a_node_and_drawn_when_it_was_done():
    outcome = outcome_of(play_scene(find_scene("node-loss"))[0])
    kept, lost = (outcome.report.total[what] / SECOND for what in ("useful-kept", "useful-later-lost"))
    assert kept == 2 * 4 * 3 * 3600, "what two gangs of four have to do in three hours, and no more"
    assert lost == sum(outcome.record.lost) / SECOND
    drawn = series.areas(outcome.samples, 12, outcome.record)
    parts = drawn.parts["useful-later-lost"]
    before, after = (parts[drawn.hours <= 95 / 60], parts[drawn.hours > 96 / 60])
    assert before.min() > 0.3
    assert after.max() == 0


def test_a_policy_that_was_interrupted_is_called_so_and_is_never_the_best():
    case = prepare(log(*[(i, 5, 1) for i in range(600)]), Options(cluster="1x4"))

    def stop(policy, done, total):
        raise KeyboardInterrupt

    found = [play(case, find_policy("easy"), stop), play(case, find_policy("fcfs"))]
    assert found[0].interrupted
    assert "easy, interrupted" in side_by_side(found, None)[0]
    assert finding(case, found).startswith("Under fcfs a job waits")


def test_a_short_run_does_not_say_which_part_of_a_long_one_is_shown(monkeypatch):
    case = prepare(log(*[(i, 5, 1) for i in range(600)]), Options(cluster="1x4"))
    long, short = play(case, find_policy("easy")), play(prepare(log((0, 5, 1)), Options()), find_policy("easy"))
    monkeypatch.setattr(series, "MOST_BARS", 100)
    runs = [(each.record, each.report.at) for each in (long, short)]
    assert series.common_window(runs) == series.window(*runs[0])
