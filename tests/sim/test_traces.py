"""Traces are recognised from what is in them; what cannot be used is said with its line."""

import gzip
import json

import pytest

from tutti.engine.model import SECOND, State
from tutti.errors import Misused, NotFound
from tutti.sim.experiment import Options, prepare
from tutti.sim.traces.log import split_name
from tutti.sim.traces.read import read_trace

SWF = """; MaxProcs: 8
; Note: a small log
1 0 5 100 4 -1 -1 4 200 -1 1 7 1 3 1 1 -1 -1
2 10 5 50 -1 -1 -1 2 60 -1 0 8 1 3 1 1 -1 -1
3 20 0 30 1 -1 -1 1 -1 -1 5 7 1 3 1 1 -1 -1
"""
PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,aa
2017-10-09 06:13:03,2951.0,8,23608.0,bb

"""
TIRESIAS = """job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,1,vgg11,147,23
"""
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,V100|P100,LS,Running,0,100,0
p1,6000,12288,0,0,,LS,Running,5,90,5
"""
SHOCKWAVE = "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t134583\t2\tgns\t1\t-1.0\t1418\t55\n"
GAVEL = "LM (batch size 10)\tcd %s && python3 x.py\t-step\t1\t1000\t6.0\t2\n"
TABLE = {"v100": {"('LM (batch size 10)', 2)": {"null": 10.0}, "('LM (batch size 10)', 1)": {"null": 6.0}}}


def read(tmp_path, text, name="trace.txt", skip_bad=False):
    path = tmp_path / name
    path.write_text(text)
    return read_trace(path, skip_bad)


def test_swf_with_its_machine_users_estimates_and_outcomes(tmp_path):
    log = read(tmp_path, SWF)
    assert (log.kind, log.resource, log.machine.nodes) == ("swf", "slot", 8)
    assert [row.width for row in log.rows] == [4, 2, 1]
    assert [row.limit for row in log.rows] == [200 * SECOND, 60 * SECOND, 0]
    assert [row.outcome for row in log.rows] == [State.FINISHED, State.FAILED, State.CANCELLED]
    assert [row.user for row in log.rows] == ["7", "8", "7"]


def test_a_job_is_called_what_its_trace_calls_it(tmp_path):
    log = read(tmp_path, SWF)
    assert [split_name(log, row.name) for row in log.rows] == [("3", "1"), ("4", "2"), ("5", "3")]
    nameless = read(tmp_path, PHILLY)
    assert [split_name(nameless, row.name) for row in nameless.rows] == [("3", "3"), ("2", "2")]


def test_swf_compressed_is_read_as_it_is(tmp_path):
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(SWF.encode()))
    assert len(read_trace(path).rows) == 3


def test_a_compressed_log_cut_short_says_so_and_can_be_used_as_far_as_it_goes(tmp_path):
    path = tmp_path / "log.swf.gz"
    many = SWF + "".join(f"{i} {i} 0 {i} 1 -1 -1 1 60 -1 1 7 1 3 1 1 -1 -1\n" for i in range(4, 3000))
    path.write_bytes(gzip.compress(many.encode())[:-500])
    with pytest.raises(Misused, match="cut short"):
        read_trace(path)
    log = read_trace(path, skip_bad=True)
    assert 3 < len(log.rows) < 3000
    assert "the rest of the file is lost" in log.left_out[-1].what


def test_swf_in_the_wrong_order_is_sorted_by_submission(tmp_path):
    lines = SWF.splitlines()
    log = read(tmp_path, "\n".join([*lines[:2], lines[4], lines[2], lines[3]]))
    assert [row.at for row in log.rows] == [0, 10 * SECOND, 20 * SECOND]
    assert log.notes == ["entries are not in the order of submission, first at line 4; they were sorted"]


def test_swf_without_a_header_takes_the_widest_job_for_the_machine(tmp_path):
    log = read(tmp_path, "\n".join(SWF.splitlines()[2:]))
    case = prepare(log, Options())
    assert case.devices == 4
    assert "names no size" in log.notes[0]


def test_nothing_is_said_of_a_size_that_is_not_used(tmp_path):
    log = read(tmp_path, "\n".join(SWF.splitlines()[2:]))
    assert prepare(log, Options(cluster="16x1")).devices == 16
    assert not any("names no size" in note for note in log.notes)


@pytest.mark.parametrize(
    ("said", "nodes"),
    [("1,024", 1024), ("128.0", 128), ("unknown", 4), ("-1", 4), ("0", 4)],
)
def test_swf_whose_header_says_the_size_oddly_or_not(tmp_path, said, nodes):
    log = read(tmp_path, SWF.replace("; MaxProcs: 8", f"; MaxProcs: {said}"))
    assert prepare(log, Options()).devices == nodes
    assert any("names no size" in note for note in log.notes) is (nodes == 4)


def test_a_width_that_is_no_whole_number_is_an_error(tmp_path):
    with pytest.raises(Misused, match=r"processors is 2\.5, and must be a whole number"):
        read(tmp_path, SWF.replace(" 4 ", " 2.5 "))


@pytest.mark.parametrize(("magic", "name"), [(b"BZh9", "bzip2"), (b"\xfd7zXZ\x00", "xz"), (b"PK\x03\x04", "zip")])
def test_other_compressed_files_are_called_by_their_name(tmp_path, magic, name):
    path = tmp_path / "log"
    path.write_bytes(magic + b"rest")
    with pytest.raises(Misused, match=f"compressed with {name}"):
        read_trace(path)


def test_philly_counts_from_the_first_submission(tmp_path):
    log = read(tmp_path, PHILLY)
    assert [(row.at // SECOND, row.run // SECOND, row.width) for row in log.rows] == [(0, 2951, 8), (2932, 66, 1)]


def test_tiresias(tmp_path):
    log = read(tmp_path, TIRESIAS)
    assert [(row.at // SECOND, row.run // SECOND, row.width) for row in log.rows] == [(0, 164, 1), (30, 147, 8)]


def test_openb_keeps_the_kinds_and_says_what_it_leaves_out(tmp_path):
    log = read(tmp_path, OPENB)
    assert [row.kinds for row in log.rows] == [("V100", "P100")]
    assert "1 pods that ask for no GPU" in log.notes[0]


def test_shockwave_says_how_long_its_jobs_take(tmp_path):
    log = read(tmp_path, SHOCKWAVE)
    assert [(row.at // SECOND, row.run // SECOND, row.width) for row in log.rows] == [(55, 1418, 2)]


def test_gavel_counts_steps_over_the_table_of_throughputs(tmp_path):
    (tmp_path / "simulation_throughputs.json").write_text(json.dumps(TABLE))
    log = read(tmp_path, GAVEL)
    assert [(row.at // SECOND, row.run // SECOND, row.width) for row in log.rows] == [(6, 100, 2)]


def test_gavel_without_its_table_says_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.delenv("TUTTI_TRACES", raising=False)
    with pytest.raises(Misused, match="simulation_throughputs"):
        read(tmp_path, GAVEL)


def profile(folder):
    folder.mkdir(parents=True)
    (folder / "placements.csv").write_text(
        "placement,local_bsz,step_time,sync_time\n1,8,1.0,0.0\n1,16,2.0,0.0\n2,8,1.2,0.2\n"
    )
    (folder / "scalability.csv").write_text("num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,8,8,2.0,1.0\n")
    (folder / "validation-16.csv").write_text(
        "progress,iteration,metric,grad_sqr,grad_var\n10,10,0.1,1,1\n20,20,0.2,1,1\n"
    )


def test_a_workload_of_pollux_takes_run_times_and_curves_from_its_profiles(tmp_path):
    profile(tmp_path / "profiles" / "toy")
    (tmp_path / "workloads").mkdir()
    text = "name,time,application,num_replicas,batch_size\ntoy-0,60,toy,2,16\n"
    log = read(tmp_path / "workloads", text, "w.csv")
    row = log.rows[0]
    assert (row.at, row.run, row.width, row.most) == (60 * SECOND, 24 * SECOND, 2, 2)
    assert row.speed is not None
    assert row.speed.points[0] == (1, 1000)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 0 5 100", "4 columns where there should be 18"),
        ("17", "1 column where there should be 18"),
        ("1 x 5 100 4 -1 -1 4 200 -1 1 7 1 3 1 1 -1 -1", "'x', not a number"),
        ("1 -3 5 100 4 -1 -1 4 200 -1 1 7 1 3 1 1 -1 -1", "the submission time is -3"),
        ("1 0 5 -1 4 -1 -1 4 200 -1 1 7 1 3 1 1 -1 -1", "the run time is -1"),
        ("1 0 5 10 0 -1 -1 0 200 -1 1 7 1 3 1 1 -1 -1", "the number of processors is 0"),
        ("1 0 5 nan 4 -1 -1 4 200 -1 1 7 1 3 1 1 -1 -1", "not a finite number"),
        ("1 0 5 1e30 4 -1 -1 4 200 -1 1 7 1 3 1 1 -1 -1", "nothing is that large"),
        ("\x00\x01 garbage", "columns where there should be 18"),
    ],
)
def test_a_bad_line_is_named_and_can_be_left_out(tmp_path, line, says):
    text = SWF + line + "\n"
    with pytest.raises(Misused) as caught:
        read(tmp_path, text)
    assert says in str(caught.value)
    assert "line 6" in str(caught.value)
    assert "--skip-bad" in str(caught.value)
    log = read(tmp_path, text, skip_bad=True)
    assert len(log.rows) == 3
    assert [bad.line for bad in log.left_out] == [6]


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(Misused, match="3 columns where the header names 5"):
        read(tmp_path, PHILLY.replace("2017-10-09 07:01:55,66.0,1,66.0,aa", "2017-10-09 07:01:55,66.0,1"))


def test_more_cells_than_the_header_names_are_no_job(tmp_path):
    with pytest.raises(Misused, match="6 columns where the header names 5"):
        read(tmp_path, PHILLY.replace("66.0,aa", "66.0,aa,bb"))
    assert len(read(tmp_path, PHILLY.replace("66.0,aa", "66.0,aa,,")).rows) == 2


def test_a_log_that_is_half_garbage_is_known_by_its_header_or_by_any_job(tmp_path):
    garbage = "@@ what is this\n"
    head, *jobs = SWF.splitlines(keepends=True)
    for text, first in ((head + garbage + "".join(jobs), 2), (garbage + "".join(jobs), 1)):
        with pytest.raises(Misused, match=f"line {first}"):
            read(tmp_path, text)
        log = read(tmp_path, text, skip_bad=True)
        assert [bad.line for bad in log.left_out] == [first]
        assert len(log.rows) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello\nworld\n", "not a trace in a format"),
        ("", "is empty"),
        ("duration\n121\n122\n", "a list of run times"),
        ("sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,P100\n", "give it to --cluster"),
    ],
)
def test_what_is_not_a_trace_is_said(tmp_path, text, says):
    with pytest.raises(Misused, match=says):
        read(tmp_path, text)


def test_a_log_with_no_usable_job_says_so(tmp_path):
    with pytest.raises(Misused, match="no job that can be used"):
        read(tmp_path, "; MaxProcs: 8\n")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(NotFound):
        read_trace(tmp_path / "nothing.swf")


def test_a_table_without_one_of_its_columns_is_told_which(tmp_path):
    with pytest.raises(Misused, match="trace of Philly, but has no column 'duration'"):
        read(tmp_path, "timestamp,num_gpus,cluster\n2017-10-09 07:01:55,1,x\n")
    with pytest.raises(Misused, match=r"that Tutti knows\."):
        read(tmp_path, "one,two\n1,2\n")
