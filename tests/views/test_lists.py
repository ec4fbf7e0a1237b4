"""Tables for people: the queue, the nodes, the report, a story, figures for Prometheus."""

import pytest

from tutti.errors import Misused
from tutti.views.job import job_lines, speed_lines
from tutti.views.metrics import METRICS, exposition
from tutti.views.moments import clock_text, coming, iso, span
from tutti.views.nodes import node_lines, topology_lines
from tutti.views.queue import queue_lines, short
from tutti.views.report import forecast_lines, report_lines, throughput_lines, user_lines
from tutti.views.story import story_lines
from tutti.views.trace import PROMISED, trace

JOB = {
    "name": "a", "id": 1, "user": "u", "queue": "q", "state": "running", "members": 4, "min": 2, "max": 8,
    "devices": 8, "priority": 0, "placed": "n0x4", "reason": "", "eta": "", "waited_s": 5.0, "ran_s": 65.0,
    "limit_s": 0.0, "code": None, "why": "", "elastic": "live", "step": 0, "steps": 0, "rate": 0.0, "command": "train",
    "tasks": 0, "tasks_done": 0, "ended_us": 0, "started_us": 1,
}  # fmt: skip
WAITS = {**JOB, "name": "b", "state": "waiting", "reason": "NoCapacity", "eta": "in 5 min", "min": 4, "max": 4}


def test_the_last_column_is_what_matters_now():
    assert queue_lines([JOB, WAITS], 200, wide=False) == [
        "NAME  STATE    SIZE       TIME   WHAT",
        "a     running  4 (2:8)x2  1m05s  n0x4",
        "b     waiting  4x2        5s     NoCapacity, starts in 5 min",
    ]


def test_columns_appear_when_they_say_something():
    assert "PRIORITY" in queue_lines([{**JOB, "priority": 3}], 200, wide=False)[0]
    assert "USER" in queue_lines([JOB, {**WAITS, "user": "v"}], 200, wide=False)[0]
    assert "step 7/9, 2/s" in queue_lines([{**JOB, "step": 7, "steps": 9, "rate": 2.0}], 200, wide=False)[1]
    assert "3/5 tasks" in queue_lines([{**JOB, "tasks": 5, "tasks_done": 3}], 200, wide=False)[1]
    assert queue_lines([JOB], 12, wide=True)[1].endswith("…")
    assert queue_lines([], 80, wide=False) == ["no jobs"]
    assert queue_lines([JOB], 80, False, ["name", "devices"]) == ["NAME  DEVICES", "a     8"]
    with pytest.raises(Misused, match="no column 'colour'"):
        queue_lines([JOB], 80, False, ["colour"])


def test_how_it_ended_is_said_for_what_is_over():
    over = {**JOB, "state": "failed", "ended_us": 5, "code": 3, "why": "rank 1 ended with exit code 3"}
    assert queue_lines([over], 200, wide=False)[1].endswith("rank 1 ended with exit code 3")


def test_lengths_of_time_in_few_letters():
    assert [short(seconds) for seconds in (5, 65, 3700, 200_000)] == ["5s", "1m05s", "1h01m", "2d7h"]
    assert [span(length) for length in (1000, 5_000_000, 90_000_000, 7_200_000_000)] == [
        "1 ms",
        "5 s",
        "2 min",
        "2.0 h",
    ]
    assert clock_text(10_000_000, 5_000_000).startswith("in 5 s (")
    assert iso(1_000_000) == "1970-01-01T00:00:01.000+00:00"
    assert iso(0) == ""


def cell(job="", state="free", **more):
    return {"id": "d", "job": job, "state": state, "note": "", **more}


def test_nodes_are_rows_of_letters():
    devices = [cell("alpha", "busy"), cell("beta", "starting"), cell(), cell(state="drained", note="fan")]
    node = {"name": "n0", "place": ["r0"], "kind": "h100", "devices": devices, "free": 1}
    lines = node_lines({"nodes": [node], "largest": 1, "notes": ["a note"]}, coloured=False)
    assert lines[0] == "  n0  Ab·x  1 free of 4 h100"
    assert lines[1] == "  A alpha (1), B beta (1)"
    assert lines[2] == "  d drained: fan"
    assert lines[-1] == "note: a note"
    assert "\x1b[" in node_lines({"nodes": [node], "largest": 1, "notes": []}, coloured=True)[0]
    assert "no daemon" in node_lines({"nodes": [], "largest": 0, "notes": []}, coloured=False)[0]


def test_a_topology_is_domains_inside_domains():
    def node(name, *place, free=2, state="ready"):
        return {"name": name, "place": list(place), "devices": [cell()] * 4, "free": free, "state": state}

    nodes = [node("n0", "a", "a1"), node("n1", "a", "a1", state="lost"), node("n2", "a", "a2"), node("n3", "b", free=4)]
    assert topology_lines({"nodes": nodes, "levels": ["row", "rack"], "largest": 1, "notes": []}) == [
        "row a: 3 nodes, 6 of 12 devices free, 1 not ready",
        "  rack a1: 2 nodes, 4 of 8 devices free, 1 not ready",
        "    n0: 2 of 4 devices free",
        "    n1: 2 of 4 devices free, 1 not ready",
        "  rack a2: 1 node, 2 of 4 devices free",
        "    n2: 2 of 4 devices free",
        "row b: 1 node, 4 of 4 devices free",
        "  n3: 4 of 4 devices free",
    ]


def test_speed_is_told_for_each_size():
    speed = [{"members": 2, "rate": 10.0, "samples": 3}, {"members": 4, "rate": 18.0, "samples": 40}]
    assert speed_lines({"speed": speed}) == [
        "members  steps/s  per member  reports",
        "2             10           5        3",
        "4             18         4.5       40",
    ]
    assert speed_lines({"speed": []}) == ["it has reported no rate"]


def test_what_was_done_is_told_with_the_waits_of_each_width():
    width = {
        "devices": "3-4",
        "jobs": 2,
        "wait_s": 40.0,
        "wait_median_s": 40.0,
        "wait_longest_s": 60.0,
        "slowdown": 3.7,
    }
    hour = 3_600_000_000
    answer = {
        "since_us": 0, "at_us": 24 * hour, "jobs": 3, "ended": {"failed": 1, "finished": 2}, "jobs_per_day": 3.0,
        "device_hours": 12.0, "useful_device_hours": 9.0, "useful_device_hours_per_day": 9.0, "utilization": 0.5,
        "goodput": 0.375, "widths": [width],
    }  # fmt: skip
    lines = throughput_lines(answer)
    assert lines[1:5] == [
        "jobs ended    3 (2 finished, 1 failed); 3.00 a day",
        "device-hours  12.00 held by them",
        "useful        9.00; 9.00 a day",
        "utilisation   50.0 %, goodput 37.5 %",
    ]
    assert lines[-1].split() == ["3-4", "2", "40", "s", "40", "s", "1.0", "min", "3.70"]
    assert throughput_lines({**answer, "widths": []}) == lines[:5]


def test_the_report_adds_up_or_says_that_it_does_not():
    answer = {
        "installed_s": 100.0, "total": {"useful-kept": 60.0, "no-demand": 40.0, "broken": 0.0}, "closes": True,
        "goodput": 0.6, "goodput_known": 0.6, "users": {"u": 1.5},
    }  # fmt: skip
    lines = report_lines(answer)
    assert lines[1].split()[:3] == ["useful-kept", "60.0", "60.0"]
    assert "it adds up" in lines[3]
    assert "DOES NOT" in report_lines({**answer, "closes": False})[3]
    assert user_lines(answer)[1].split() == ["u", "1.500"]
    assert user_lines({"users": {}}) == ["nobody has used anything yet"]


def test_forecasts_and_their_truth():
    row = {"horizon": "all", "forecasts": 10, "covered": 0.9, "median_error_s": 3.0}
    assert "90.0 %" in forecast_lines({"forecasts": [row], "open": 0})[1]
    assert "2 are open" in forecast_lines({"forecasts": [], "open": 2})[0]


class Told:
    def __init__(self, at_us: int, text: str) -> None:
        self.at_us, self.text = at_us, text


def test_a_story_tells_how_long_each_part_took():
    lines = story_lines("a", "finished", [Told(1_000_000, "submitted"), Told(61_000_000, "started")], 61_000_000)
    assert lines[0] == "a is finished"
    assert lines[2].split()[-3:] == ["+1", "min", "started"]


def test_a_job_page_in_words():
    page = {
        "job": JOB, "cwd": "/x", "runs": 2, "log_folder": "/l", "sheet": {"unknown": 3.0}, "variables": {"RANK": "0"},
        "ranks": [{"rank": 0, "role": "worker", "node": "n0", "devices": [1], "pid": 5, "code": None}],
    }  # fmt: skip
    text = "\n".join(job_lines(page, wide=True))
    assert "a (job 1)" in text
    assert "elastic: live" in text
    assert "unknown" in text
    assert "RANK=0" in text


def test_metrics_are_escaped_and_complete():
    text = exposition({"tutti_jobs": {('a"b\\', "running"): 2.0}, "tutti_decisions_total": {(): 3.0}})
    assert 'tutti_jobs{queue="a\\"b\\\\",state="running"} 2' in text
    assert "tutti_decisions_total 3" in text
    assert all(f"# TYPE {name} " in text for name in METRICS)
    forbidden = {"job", "user", "device", "name"}
    assert all(not forbidden & set(metric.labels) for metric in METRICS.values())


def test_a_timeline_as_a_trace_has_a_row_for_each_device():
    bar = {"job": "a", "queue": "q", "node": "n0", "begun_us": 5, "state": "running", "promised": False}
    bars = [
        {**bar, "devices": [0, 3], "count": 2, "ended_us": 0},
        {**bar, "job": "b", "devices": [], "count": 1, "begun_us": 20, "ended_us": 30, "promised": True},
    ]
    events = trace({"now_us": 12, "bars": bars})["traceEvents"]
    assert [(e["name"], e["ts"], e["dur"], e["pid"], e["tid"]) for e in events if e["ph"] == "X"] == [
        ("a", 5, 7, 1, 0), ("a", 5, 7, 1, 3), ("b", 20, 10, 1, PROMISED),
    ]  # fmt: skip
    named = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert named == ["n0", "device 0", "device 3", "promised"]


def test_what_is_overdue_comes_any_moment():
    assert coming(10_000_000, 12_000_000) == "any moment"
    assert coming(12_000_000, 10_000_000).startswith("in 2 s (")
