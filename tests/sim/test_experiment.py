"""A trace on a cluster under policies: what is prepared, played, measured and written."""

import csv
import json
import sys

import pytest

from tutti.cli.main import run
from tutti.engine.model import HOUR, SECOND
from tutti.errors import Misused, NotFound, Refused
from tutti.sim.cluster import devices, read_cluster
from tutti.sim.experiment import Options, offered_load, play, prepare
from tutti.sim.faults import FaultEntry, FaultFile, drawn_up
from tutti.sim.intake import Cut, Estimates, read_estimates
from tutti.sim.policies import find_policy
from tutti.sim.promises import Alike, Promised, alike, promises
from tutti.sim.report import series
from tutti.sim.report.write import write_report
from tutti.sim.traces.log import Log, Machine, Row


def log(*jobs, nodes=2, each=4):
    """Jobs as (submit, run, width) in seconds."""
    rows = [Row(f"{i:03d}", s * SECOND, r * SECOND, w, limit=r * SECOND) for i, (s, r, w) in enumerate(jobs)]
    return Log("made", "made up", rows, "gpu", Machine(nodes, each))


SMALL = [(i * 60, 600 + 37 * (i % 5), 1 << (i % 4)) for i in range(40)]


def test_every_job_ends_and_the_ledger_closes():
    case = prepare(log(*SMALL), Options())
    case.checked = True
    outcome = play(case, find_policy("balanced"))
    assert outcome.troubles == []
    assert outcome.metrics.finished == len(SMALL)
    assert sum(outcome.report.total.values()) == outcome.report.installed


def test_the_same_case_gives_the_same_figures():
    case = prepare(log(*SMALL), Options())
    once, again = (play(case, find_policy("easy")).metrics.as_json() for _ in range(2))
    del once["jobs_per_s"], again["jobs_per_s"]
    assert once == again


def test_nobody_holds_more_than_there_is():
    case = prepare(log(*SMALL), Options(keep_nodes=True))
    spells = play(case, find_policy("easy")).record.spells
    moments = sorted({*spells.begun, *spells.ended})
    for at in moments:
        held = sum(d for b, e, d in zip(spells.begun, spells.ended, spells.devices, strict=True) if b <= at < e)
        assert held <= case.devices


def test_a_job_wider_than_the_cluster_is_named_or_left_out():
    with pytest.raises(Misused, match="16 wide"):
        prepare(log((0, 10, 1), (5, 10, 16)), Options())
    case = prepare(log((0, 10, 1), (5, 10, 16)), Options(skip_bad=True))
    assert len(case.log.rows) == 1
    assert "16 wide" in case.log.left_out[0].what


def test_the_load_can_be_set():
    case = prepare(log(*SMALL), Options(load=0.5))
    assert abs(offered_load(case.log.rows, case.devices) - 0.5) < 0.01


def test_a_trace_without_a_machine_gets_one_it_keeps_busy():
    case = prepare(log(*SMALL, nodes=0), Options())
    assert case.devices % 8 == 0
    assert "--cluster" in case.log.notes[0]


def test_a_trace_that_comes_all_at_once_gets_a_cluster_of_the_size_of_its_work():
    case = prepare(log(*((0, 1000, 4) for _ in range(60)), nodes=0), Options())
    assert case.devices == 304
    assert any("longest run" in note for note in case.log.notes)


def test_costs_of_a_cluster_file_are_played_and_the_level_is_said(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text('[pools.main]\nnodes = 1\neach = 4\n[costs]\nstart_up = "20s"\nsource = "our own in May"\n')
    plain, dear = prepare(log((0, 100, 4)), Options()), prepare(log((0, 100, 4)), Options(cluster=str(path)))
    assert (plain.fidelity.level, dear.fidelity.level) == (1, 2)
    assert "our own in May" in str(dear.fidelity)
    found = [play(case, find_policy("easy")).metrics.completion_s.mean for case in (plain, dear)]
    assert found == [100, 120]
    path.write_text('[pools.main]\nnodes = 1\neach = 4\n[costs]\nstart_up = "soon"\n')
    with pytest.raises(Misused, match="not a duration"):
        prepare(log((0, 100, 4)), Options(cluster=str(path)))


@pytest.mark.parametrize("source", ["declared", "exact", "history", "none", "scaled:2.5"])
def test_every_source_of_estimates_plays_to_the_end(source):
    case = prepare(log(*SMALL), Options(estimates=read_estimates(source)))
    assert play(case, find_policy("easy")).metrics.stuck == 0


def test_what_is_told_depends_on_the_source():
    row = Row("a", 0, 100 * SECOND, 1, limit=300 * SECOND)
    told = [read_estimates(source).of(row).limit for source in ("declared", "exact", "scaled:2.5")]
    assert told == [300 * SECOND, 100 * SECOND, 250 * SECOND]
    assert str(Estimates.of(read_estimates("none"), row).source) == "none"


@pytest.mark.parametrize("text", ["maybe", "scaled", "scaled:x", "exact:2", "scaled:-1", "scaled:inf", "scaled:nan"])
def test_a_source_that_there_is_not(text):
    with pytest.raises(Misused):
        read_estimates(text)


def test_wide_jobs_take_whole_nodes_where_that_comes_out_even():
    cut = Cut("gpu", 8)
    asked = [(role.min, role.shapes[0].ask["gpu"]) for width in (4, 16, 12) for role in cut.roles(width)]
    assert asked == [(1, 4), (2, 8), (12, 1)]
    assert cut.roles(16) is cut.roles(16)


@pytest.mark.parametrize(("spec", "nodes", "total"), [("4x8", 4, 32), ("16x4:t4,2x8:a100", 18, 80), ("1x1", 1, 1)])
def test_clusters_in_shorthand(spec, nodes, total):
    cluster = read_cluster(spec, "gpu")
    assert (len(cluster.nodes), devices(cluster, "gpu")) == (nodes, total)


def test_a_cluster_from_a_file_has_racks_and_kinds(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[pools.big]\nnodes = 8\neach = 8\nkind = 'h100'\nper_domain = {rack = 4}\n")
    cluster = read_cluster(str(path), "gpu")
    assert {node.place for node in cluster.nodes} == {("rack-0",), ("rack-1",)}
    assert cluster.nodes[0].tags == ("kind=h100",)


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,P100\nb,1,1,0,\n", 2),
        ("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,4,8,1,1", 64),
        ("0\tseth\t120\t2\t1\t1048576\n", 240),
    ],
)
def test_lists_of_nodes_that_come_with_traces_are_clusters(tmp_path, text, total):
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    assert devices(read_cluster(str(path), "gpu"), "gpu") == total


@pytest.mark.parametrize("spec", ["4x", "0x8", "x", "nothing.toml"])
def test_a_cluster_that_cannot_be_read(spec):
    with pytest.raises((Misused, NotFound)):
        read_cluster(spec, "gpu")


def test_an_unknown_policy_is_answered_with_the_nearest():
    with pytest.raises(Misused, match="balanced"):
        find_policy("balansed")


def test_faults_by_name_by_domain_and_flapping(tmp_path):
    cluster = read_cluster("4x2", "gpu")
    file = FaultFile((FaultEntry("1h", node="n1", lasts="10m", flaps=2),))
    found = drawn_up(file, cluster, 10 * HOUR, 0)
    assert [fault.at for fault in found] == [HOUR, HOUR + 20 * 60 * SECOND]
    with pytest.raises(Misused, match="no node"):
        drawn_up(FaultFile((FaultEntry("1h", node="n9"),)), cluster, HOUR, 0)


def test_random_faults_come_from_the_seed_and_cost_work(tmp_path):
    path = tmp_path / "faults.toml"
    path.write_text('[random]\nmean_between = "6h"\nlasts = "30m"\n')
    jobs = [(i * 600, 7200, 4) for i in range(20)]
    calm = play(prepare(log(*jobs), Options()), find_policy("easy"))
    case = prepare(log(*jobs), Options(faults=str(path), seed=1))
    stormy = play(case, find_policy("easy"))
    assert case.faults == prepare(log(*jobs), Options(faults=str(path), seed=1)).faults
    assert stormy.metrics.interruptions > 0 == calm.metrics.interruptions
    assert stormy.metrics.goodput < calm.metrics.goodput
    assert sum(stormy.report.total.values()) == stormy.report.installed


def test_interrupted_from_the_keyboard_there_is_a_partial_result():
    def stop(policy, done, total):
        raise KeyboardInterrupt

    outcome = play(prepare(log(*[(i, 1, 1) for i in range(2000)]), Options()), find_policy("easy"), stop)
    assert outcome.interrupted
    assert 0 < outcome.metrics.jobs < 2000


def swf(tmp_path):
    path = tmp_path / "log.swf"
    lines = [f"{i} {i * 60} -1 {r} {w} -1 -1 {w} {r} -1 1 1 1 1 1 1 -1 -1" for i, (_, r, w) in enumerate(SMALL)]
    path.write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    return path


def test_the_command_prints_policies_side_by_side_with_the_bound(capsys, tmp_path):
    code = run(["simulate", str(swf(tmp_path)), "--policy", "fcfs", "--policy", "easy"])
    out, _ = capsys.readouterr()
    assert code == 0
    assert "fcfs" in out.splitlines()[2]
    assert "bound" in out.splitlines()[2]
    assert "promise error" in out


@pytest.mark.parametrize("protocol", [(), ("--protocol", "pyss"), ("--protocol", "rlscheduler", "--backfill", "easy")])
def test_json_has_the_fields_scripts_rely_on(capsys, tmp_path, protocol):
    code = run(["simulate", str(swf(tmp_path)), "--policy", "fcfs", "-o", "json", *protocol])
    out, _ = capsys.readouterr()
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "tutti/v1"
    fields = {"jobs", "avg_wait_s", "avg_flow_s", "avg_bounded_slowdown", "utilization", "makespan_s", "jobs_per_s"}
    assert fields <= set(found["results"][0])


def test_the_report_has_a_table_of_jobs(tmp_path):
    case = prepare(log(*SMALL), Options(keep_nodes=True))
    outcome = play(case, find_policy("easy"))
    write_report(case, [outcome], tmp_path)
    with (tmp_path / "jobs-easy.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(SMALL)
    assert (rows[0]["job"], rows[0]["line"], rows[0]["state"]) == ("000", "", "finished")


def test_without_the_extra_the_table_is_written_and_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tutti.sim.report.images", None)
    case = prepare(log(*SMALL), Options(keep_nodes=True))
    with pytest.raises(Refused) as caught:
        write_report(case, [play(case, find_policy("easy"))], tmp_path)
    assert "tutti-scheduler[report]" in str(caught.value)
    assert (tmp_path / "jobs-easy.csv").exists()


@pytest.mark.slow
def test_the_page_stands_alone_and_every_picture_is_drawn(tmp_path):
    case = prepare(log(*SMALL), Options(keep_nodes=True))
    outcomes = [play(case, find_policy(name)) for name in ("easy", "balanced")]
    written = write_report(case, outcomes, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert 'src="http' not in page
    assert "Where device time went" in page
    assert len([path for path in written if path.suffix == ".png"]) == 7
    assert all(path.stat().st_size > 5_000 for path in written if path.suffix == ".png")


def test_devices_of_a_cluster_file_are_called_as_the_trace_calls_them(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text('[pools.a]\nnodes = 2\neach = 4\nkind = "h100"\n[pools.b]\nnodes = 1\neach = 8\n')
    for resource in ("slot", "gpu"):
        assert devices(read_cluster(str(path), resource), resource) == 16
    path.write_text('resource = "card"\n' + path.read_text())
    assert devices(read_cluster(str(path), "gpu"), "card") == 16


def test_a_policy_from_a_file_has_a_name_of_its_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('preset = "easy"\n[reserve]\ndepth = 2\n')
    assert find_policy(str(path)).name == "mine"
    path.write_text('name = "ours"\n' + path.read_text())
    assert find_policy(str(path)).name == "ours"


def test_policies_on_the_same_jobs_are_measured_over_the_same_time():
    # Under one the last start comes far later than under the other; the time in which jobs come is the same for both.
    jobs = [(0, 2000, 8), (100, 450, 4), (200, 100, 8), (1200, 10, 1)]
    found = [play(prepare(log(*jobs), Options()), find_policy(name)).metrics for name in ("fcfs", "sjf")]
    assert [metrics.utilization for metrics in found] == [1.0, 1.0]
    assert [metrics.goodput for metrics in found] == [1.0, 1.0]
    few = [(0, 100, 8), (1000, 100, 8)]
    assert play(prepare(log(*few), Options()), find_policy("fcfs")).metrics.utilization == pytest.approx(0.1)


@pytest.mark.parametrize(("policy", "second"), [("wfp3", 3), ("uni", 2), ("f1", 2)])
def test_published_orders_weigh_a_job_by_its_devices(policy, second):
    """Of two who ask for part of a node and have no room there together, the wide one is not taken for a narrow one."""
    jobs = [(0, 600, 4), (10, 600, 4), (60, 100, 2), (60, 100, 3)]
    started = play(prepare(log(*jobs, nodes=1), Options()), find_policy(policy)).record.started
    assert min((2, 3), key=lambda at: started[at]) == second


@pytest.mark.parametrize(("nodes", "heights"), [(300, [100, 200]), (30, [1] * 30)], ids=["many nodes", "few nodes"])
def test_of_many_nodes_neighbours_that_a_job_takes_are_one_bar(nodes, heights):
    """A picture with a bar for each of thousands of nodes takes minutes to draw, and a page of it cannot be opened."""
    jobs = [(0, 600, nodes // 3), (0, 900, nodes - nodes // 3)]
    case = prepare(log(*jobs, nodes=nodes, each=1), Options(keep_nodes=True))
    outcome = play(case, find_policy("easy"))
    bars = series.gantt(outcome.record, outcome.report.at, case.node_sizes, (0, 1))
    assert [bar.height for bar in bars] == heights
    assert [bar.devices for bar in bars] == heights
    assert min(bar.at - bar.height / 2 for bar in bars) == 0


def test_looking_at_a_run_does_not_change_it():
    """A sample may fall on the very moment a gang ends: it must not be taken for one that runs over."""
    jobs = [(0, 10, 3), (0, 126, 5), (1, 3, 6), (1, 7, 5), (1, 110, 4), (1, 30, 1), (1, 120, 2)]
    plain, watched = (
        play(prepare(log(*jobs, nodes=8, each=1), Options(keep_nodes=keep)), find_policy("conservative")).record.started
        for keep in (False, True)
    )
    assert plain == watched


def test_promises_are_set_side_by_side_for_the_same_jobs_at_the_same_horizon():
    minute = 60 * SECOND
    one = {"a": Promised(120 * minute, -30 * minute), "b": Promised(5 * minute, 0), "c": Promised(minute, minute)}
    other = {"a": Promised(240 * minute, 0), "b": Promised(90 * minute, 9 * minute), "d": Promised(minute, minute)}
    found = alike(one, other)
    assert found == Alike(1, (1800.0, 0.0), (0.25, 0.0), (0.0, 0.0)), "b looked minutes ahead here and hours there"
    assert alike(one, {}).jobs == 0
    assert alike(other, {"d": Promised(2 * minute, 0)}).late == (1.0, 0.0)
    case = prepare(log(*SMALL), Options())
    record = play(case, find_policy("easy")).record
    told = promises(record)
    assert set(told) == {record.names[row] for row in range(len(record)) if record.promised[row] >= 0}
    assert all(each.lead >= 0 for each in told.values())
    assert promises(record, since=10**18) == {}
