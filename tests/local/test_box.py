"""One box: jobs as real processes through the daemon's API."""

import os
import signal
import sys
import time

import pytest

from tests.local.stage import until
from tutti.api.client import job_path
from tutti.errors import Misused, NotFound, Refused


def test_a_gang_runs_with_its_variables(shared):
    job = shared.submit(
        "sh", "-c", 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK $CUDA_VISIBLE_DEVICES $MASTER_ADDR"', workers=4
    )
    assert job.wait() == 0
    lines = [shared.log(job.name, rank).split() for rank in range(4)]
    assert [line[0] for line in lines] == ["0/4", "1/4", "2/4", "3/4"]
    assert len({line[2] for line in lines}) == 4
    assert {line[3] for line in lines} == {"127.0.0.1"}


def test_one_member_may_see_several_devices(shared):
    job = shared.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES", gpus=3)
    assert job.wait() == 0
    assert shared.log(job.name) == "0,1,2\n"


def test_the_exit_code_is_the_first_failing_ranks(shared):
    job = shared.submit("sh", "-c", "test $RANK = 2 && exit 9; exec sleep 600", workers=3)
    assert job.wait() == 9
    row = shared.row(job.name)
    assert (row["state"], row["why"]) == ("failed", "rank 2 ended with exit code 9")
    assert shared.client.get(job_path(job.name, "wait"))["first"] == 2


def test_a_job_runs_where_it_was_submitted_with_what_it_was_given(shared):
    job = shared.submit("sh", "-c", "pwd; echo $MINE; echo ${SLURM_PROCID-none}", env={"MINE": "yes"})
    assert job.wait() == 0
    assert shared.log(job.name).splitlines() == [str(shared.path), "yes", "none"]


def test_who_waits_is_told_why_and_starts_when_there_is_room(shared):
    first = shared.submit("sleep", "600", workers=8, name="first", time="1h")
    shared.becomes("first", "running")
    second = shared.submit("true", workers=8, name="second", time="1m")
    row = until(lambda: (found := shared.row("second"))["reason"] and found, "a reason")
    assert (row["state"], row["reason"]) == ("waiting", "NoCapacity")
    assert row["eta_us"] > time.time() * 1e6
    why = shared.client.get(job_path("second", "why"))
    assert why["token"] == "NoCapacity"
    assert why["forecast"]["draws"] > 0
    first.cancel()
    assert first.wait() == 143
    assert second.wait() == 0
    story = shared.client.get(job_path("second", "story"))
    assert [event["kind"] for event in story["events"]][-1] == "finished"
    assert any(
        "waited mostly for NoCapacity" in event["text"] or "started" in event["text"] for event in story["events"]
    )


def test_short_jobs_backfill_without_delaying_the_promise(shared):
    """Six of eight devices are busy; a wide gang is promised, a short one runs in the gap, a long one must not."""
    holder = shared.submit("sleep", "600", workers=6, name="holder", time="10m")
    shared.becomes("holder", "running")
    wide = shared.submit("true", workers=8, name="wide", time="5m")
    until(lambda: shared.row("wide")["eta_us"], "the promise")
    long = shared.submit("sleep", "600", workers=2, name="long", time="2h")
    short = shared.submit("true", workers=2, name="short", time="1m")
    assert short.wait() == 0
    assert shared.state("long") == "waiting"
    long.cancel()
    holder.cancel()
    assert wide.wait() == 0


def test_an_array_runs_its_tasks_as_there_is_room(shared):
    job = shared.submit("sh", "-c", "echo task $TUTTI_TASK of $TUTTI_TASKS", array=20, name="array")
    assert job.wait() == 0
    assert shared.log("array", 19) == "task 19 of 20\n"
    row = shared.row("array")
    assert (row["state"], row["tasks_done"], row["tasks"]) == ("finished", 20, 20)


def test_an_array_fails_when_a_task_does_and_runs_the_others(shared):
    job = shared.submit("sh", "-c", "test $TUTTI_TASK != 3 || exit 5", array="0-5", name="array-bad")
    assert job.wait() == 5
    assert "3" in shared.row("array-bad")["why"]


def test_a_lost_task_is_tried_again(shared):
    script = "test -e $TUTTI_JOB.$TUTTI_TASK && exit 0; touch $TUTTI_JOB.$TUTTI_TASK; kill -9 $$"
    job = shared.submit("sh", "-c", script, array=3, name="array-lost")
    assert job.wait() == 0


def test_jobs_wait_for_others(shared):
    shared.submit("sh", "-c", "sleep 0.2; exit 0", name="before")
    after = shared.submit("true", name="after", after=["before"])
    shared.submit("false", name="fails")
    never = shared.submit("true", name="never", after=["fails"])
    rescue = shared.submit("true", name="rescue", after=["failed:fails"])
    assert after.wait() == 0
    assert rescue.wait() == 0
    assert shared.row("never")["reason"] == "DependencyWait"
    never.cancel()
    assert never.wait() == 130


def test_hold_and_release(shared):
    held = shared.submit("true", name="held", held=True)
    until(lambda: shared.state("held") == "held", "the hold")
    assert shared.row("held")["reason"] == "Held"
    shared.client.post(job_path("held", "release"))
    assert held.wait() == 0
    with pytest.raises(Refused, match="is over"):
        shared.client.post(job_path("held", "hold"))


def test_the_time_limit_ends_a_job(shared):
    job = shared.submit("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done", time="1s", grace="1s")
    assert job.wait() == 124
    assert "time" in shared.row(job.name)["why"]


def test_the_time_limit_is_no_loss(shared):
    """Members that are ended because the time is over were not lost, and nothing begins again."""
    job = shared.submit("sleep", "600", time="1s", grace="0s", workers=4, name="over-time")
    assert job.wait() == 124
    kinds = [moment["kind"] for moment in shared.client.get(job_path("over-time", "story"))["events"]]
    assert "limit" in kinds
    assert not {"lost", "restart"} & set(kinds)
    assert shared.client.get(job_path("over-time"))["runs"] == 1


HANGS = """
import os, time
from tutti.train.agent.channel import Progress
from tutti.train.agent.client import Client
client = Client(os.environ["TUTTI_CHANNEL"], "r0")
while not client.report(Progress(1, rate=1.0, world=1)):
    time.sleep(0.02)
if os.environ["TUTTI_ATTEMPT"] == "0":
    print("hangs", flush=True)
    time.sleep(600)
"""


def test_a_job_that_reported_progress_and_then_hangs_begins_again(shared):
    job = shared.submit(sys.executable, "-c", HANGS, hang="1s", grace="0s", name="hangs")
    assert job.wait() == 0
    moments = shared.client.get(job_path("hangs", "story"))["events"]
    assert [one["text"] for one in moments if one["kind"] == "restart"] == [
        "it reported no progress for too long; it begins again (loss 1)"
    ]


def test_a_job_that_never_reports_cannot_hang(shared):
    job = shared.submit("sleep", "1.5", hang="1s", name="silent")
    assert job.wait() == 0
    assert shared.client.get(job_path("silent"))["runs"] == 1


def test_a_job_that_is_over_cannot_be_cancelled_once_more(shared):
    for number in range(5):
        name = f"twice-{number}"
        shared.submit("sleep", "600", name=name, grace="0s")
        shared.client.post(job_path(name, "cancel"))
        until(lambda: not shared.client.get("/v1/jobs")["jobs"], "its end")
        with pytest.raises(Refused, match=f"{name} is over: cancelled"):
            shared.client.post(job_path(name, "cancel"))


def test_nobody_is_charged_for_more_than_there_is(shared):
    """Each task of an array is charged for as long as it had its device, and no longer."""
    job = shared.submit("sleep", "0.1", array="0-39", name="charged")
    assert job.wait() == 0
    row = shared.row("charged")
    import sqlite3

    with sqlite3.connect(shared.home.journal) as base:
        used = base.execute("SELECT device_us FROM jobs WHERE name = 'charged'").fetchone()[0]
    assert 40 * 100_000 <= used <= 8 * (row["ended_us"] - row["submitted_us"])


def test_a_changed_limit_counts_at_once(shared):
    job = shared.submit("sleep", "600", time="1h", grace="0s", name="limited")
    shared.becomes("limited", "running")
    shared.client.post(job_path("limited", "update"), {"set": {"time": "1s"}})
    assert job.wait() == 124
    with pytest.raises(Refused, match="is over"):
        shared.client.post(job_path("limited", "update"), {"set": {"time": "2s"}})


def test_a_running_job_cannot_change_what_it_is(shared):
    job = shared.submit("sleep", "600", name="fixed")
    shared.becomes("fixed", "running")
    with pytest.raises(Refused, match="only change while it waits"):
        shared.client.post(job_path("fixed", "update"), {"set": {"gpus": 2}})
    job.cancel()
    job.wait()


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ({"gpus": 99}, "each asks for 99 devices, and a node has 8 devices"),
        ({"mem": "900T"}, "each asks for 900T of memory"),
        ({"workers": 9}, "needs 9 members at once, and 8 fit"),
        ({"after": ["nobody"]}, "no job 'nobody' to wait for"),
        ({"queue": "nowhere"}, "no queue 'nowhere'"),
        ({"kind": ["h100"]}, "at most 0 of 1 members would fit when it is empty"),
        ({"workers": 4, "per_node": 2}, "at most 2 of 4 members would fit when it is empty"),
    ],
)
def test_what_can_never_run_is_refused_with_the_reason(shared, job, told):
    with pytest.raises(Refused, match=told):
        shared.submit("true", name="never-here", **job)
    assert "never-here" not in {row["name"] for row in shared.client.get("/v1/jobs", which="all")["jobs"]}


def test_an_elastic_job_may_get_other_bounds_while_it_runs(shared):
    job = shared.submit("sleep", "600", workers="1:2", name="bounds", grace="0s")
    now = shared.becomes("bounds", "running")["members"]
    tried = shared.client.post(job_path("bounds", "update"), {"set": {"workers": "1:4"}, "dry_run": True})
    assert (tried["said"], shared.row("bounds")["max"]) == ("bounds: workers would change", 2)
    shared.client.post(job_path("bounds", "update"), {"set": {"workers": "1:4"}})
    until(lambda: shared.row("bounds")["max"] == 4, "the new bounds")
    with pytest.raises(Refused, match=f"has {now} members now"):
        shared.client.post(job_path("bounds", "update"), {"set": {"workers": "5:6"}})
    with pytest.raises(Refused, match="does not say that it can change its size"):
        shared.client.post(job_path("bounds", "update"), {"set": {"workers": "1"}})
    job.cancel()
    job.wait()


def test_a_job_that_resizes_by_starting_again_does_so_when_it_is_made_smaller(shared):
    job = shared.submit("sleep", "600", workers="1:2", name="anew", resize="restart", grace="0s")
    assert shared.becomes("anew", "running")["members"] == 2
    done = shared.client.post(job_path("anew", "update"), {"set": {"workers": "1"}})
    assert "starts again" in done["said"]
    until(lambda: (shared.row("anew")["state"], shared.row("anew")["members"]) == ("running", 1), "its new size")
    job.cancel()
    job.wait()


def test_a_deadline_that_cannot_be_met_is_said_at_once(shared):
    def notes(name: str, deadline: str) -> list[str]:
        job = {"command": ["true"], "name": name, "workers": 1, "time": "2h", "deadline": deadline, "held": True}
        context = {"cwd": str(shared.home.path), "env": {}, "umask": 0o22}
        found: list[str] = shared.client.post("/v1/jobs", {"jobs": [{"job": job, "context": context}]})["notes"]
        shared.client.post(job_path(name, "cancel"))
        return found

    assert notes("in-time", "3h") == []
    assert notes("too-late", "30m") == [
        "too-late misses its deadline by 1.5 h: even if it starts now, it may run 2.0 h"
    ]


def test_an_over_job_can_be_tried_again(shared):
    job = shared.submit("sh", "-c", "test -e again || { touch again; exit 4; }", name="again")
    assert job.wait() == 4
    shared.client.post(job_path("again", "retry"))
    assert job.wait() == 0


def test_a_rank_that_finished_keeps_its_place_while_another_is_replaced(shared):
    """It does not run a second time, and the one that is replaced is told of a gang as large as before."""
    script = "echo $RANK of $WORLD_SIZE as $$ >> early; test $RANK = 2 || while ! test -e late; do sleep 0.02; done"
    job = shared.submit("sh", "-c", script, workers=3, on_loss="repair", name="early", grace="0s")
    path = shared.path / "early"

    def pids():
        return dict(line.split(" as ") for line in path.read_text().splitlines()) if path.exists() else {}

    until(lambda: len(pids()) == 3 and shared.client.get(job_path("early"))["ranks"][2]["code"] == 0, "its end")
    first = pids()
    os.kill(int(first["0 of 3"]), signal.SIGKILL)
    until(lambda: pids()["0 of 3"] != first["0 of 3"], "the replacement")
    shared.becomes("early", "running")
    assert pids() == {**first, "0 of 3": pids()["0 of 3"]}
    assert shared.row("early")["devices"] == 3
    (shared.path / "late").touch()
    assert job.wait() == 0
    assert shared.client.get("/v1/status")["trouble"] == []


@pytest.mark.parametrize(("policy", "killed"), [("restart", 1), ("repair", 1), ("repair", 3)])
def test_killed_ranks_are_replaced_by_policy(shared, policy, killed):
    """Several are lost one soon after the other: each while the one before is being replaced."""
    name = f"loss-{policy}-{killed}"
    script = f"echo $RANK $TUTTI_ATTEMPT $$ >> {name}; exec sleep 600"
    job = shared.submit("sh", "-c", script, workers=killed + 1, on_loss=policy, name=name, grace="0s")
    shared.becomes(name, "running")
    path = shared.path / name
    until(lambda: path.exists() and path.read_text().count("\n") > killed, "all members")
    for line in path.read_text().splitlines():
        if not line.startswith("0 "):
            os.kill(int(line.split()[2]), signal.SIGKILL)
            time.sleep(0.03)
    expected = 4 if policy == "restart" else 2 * killed + 1
    until(lambda: len(path.read_text().splitlines()) == expected, "the replacement")
    until(lambda: (row := shared.row(name))["state"] == "running" and row["members"] > killed, "the whole gang")
    assert shared.client.get("/v1/status")["trouble"] == []
    last = path.read_text().splitlines()[-1].split()
    assert last[1] == ("1" if policy == "restart" else "0")
    told = "\n".join(shared.client.get(job_path(name, "story"))["lines"])
    assert ("is back: all members are up" in told) == (policy == "repair")
    job.cancel()
    job.wait()


def test_a_killed_rank_fails_a_job_that_says_so(shared):
    job = shared.submit(
        "sh", "-c", "test $RANK = 1 && kill -9 $$; exec sleep 600", workers=2, on_loss="fail", grace="0s"
    )
    assert job.wait() == 137
    assert shared.row(job.name)["state"] == "failed"


def test_losses_have_a_limit(shared):
    job = shared.submit("sh", "-c", "kill -9 $$", retries=1, name="hopeless")
    assert job.wait() == 137
    assert "restarted once" in shared.row("hopeless")["why"]


def test_drained_devices_get_nothing_new(shared):
    shared.client.post("/v1/devices/0/drain", {"why": "fan"})
    try:
        cells = shared.client.get("/v1/nodes")["nodes"][0]["devices"]
        assert (cells[0]["state"], cells[0]["note"]) == ("drained", "fan")
        job = shared.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES", workers=7)
        assert job.wait() == 0
        assert {shared.log(job.name, rank).strip() for rank in range(7)} == {str(at) for at in range(1, 8)}
        waits = shared.submit("true", workers=8, name="too-wide")
        until(lambda: shared.row("too-wide")["reason"], "a reason")
        told = shared.client.get(job_path("too-wide", "why"))["lines"]
        assert any(line.split() == ["out", "of", "use", f"{cells[0]['id']}", "(fan)"] for line in told), told
    finally:
        shared.client.post("/v1/devices/0/undrain")
    assert waits.wait() == 0


def test_a_device_can_be_cleared_in_time(shared):
    job = shared.submit("sleep", "600", name="moved", on_loss="restart")
    row = shared.becomes("moved", "running")
    device = shared.client.get(job_path("moved"))["ranks"][0]["devices"][0]
    shared.client.post(f"/v1/devices/{device}/drain", {"by_s": 0.1})
    try:
        until(
            lambda: (
                (ranks := shared.client.get(job_path("moved"))["ranks"])
                and shared.state("moved") == "running"
                and ranks[0]["devices"] != [device]
            ),
            "the move",
        )
    finally:
        shared.client.post(f"/v1/devices/{device}/undrain")
    assert row["name"] == "moved"
    job.cancel()
    job.wait()


def test_who_must_leave_a_device_may_save_its_work_first(shared):
    saves = """trap 'trap "" TERM; echo saved $TUTTI_ATTEMPT >> left; exit 0' TERM"""
    line = f"{saves}; echo begun $TUTTI_ATTEMPT >> left; sleep 600 & wait"
    job = shared.submit("sh", "-c", line, name="polite", on_loss="restart", grace="20s")
    shared.becomes("polite", "running")
    until((shared.path / "left").exists, "its first word")
    device = shared.client.get(job_path("polite"))["ranks"][0]["devices"][0]
    shared.client.post(f"/v1/devices/{device}/drain", {"by_s": 20})
    try:
        until(lambda: "begun 1" in (shared.path / "left").read_text(), "the move")
    finally:
        shared.client.post(f"/v1/devices/{device}/undrain")
    assert (shared.path / "left").read_text().split("\n")[:3] == ["begun 0", "saved 0", "begun 1"]
    assert "its devices are drained" in "\n".join(shared.client.get(job_path("polite", "story"))["lines"])
    job.cancel()
    job.wait()


def test_bad_jobs_are_refused_with_a_reason(shared):
    with pytest.raises(Refused, match="can never hold it"):
        shared.submit("true", workers=9)
    with pytest.raises(Misused, match="workers"):
        shared.submit("true", workers="many")
    with pytest.raises(Misused, match="no command"):
        shared.submit()
    with pytest.raises(Refused, match="no queue"):
        shared.submit("true", queue="nowhere")
    with pytest.raises(Misused, match="no folder"):
        shared.submit("true", cwd="/no/such/folder")
    with pytest.raises(Misused, match="'/' is a folder, not a program"):
        shared.submit("/", name="folder")
    with pytest.raises(Misused, match=r"no framework 'torchrum'\s+try: --framework torchrun"):
        shared.submit("true", framework="torchrum")
    for unheard in ("FOO@1s", "99@1s"):
        with pytest.raises(Misused, match="is no signal"):
            shared.submit("true", signal=unheard)
    with pytest.raises(NotFound, match="no job"):
        shared.client.get(job_path("nobody"))
    first = shared.submit("sleep", "600", name="twin")
    with pytest.raises(Refused, match="already here"):
        shared.submit("true", name="twin")
    first.cancel()
    first.wait()


def test_the_ledger_closes(shared):
    report = shared.client.get("/v1/report")
    assert report["closes"]
    assert abs(sum(report["total"].values()) - report["installed_s"]) < 1


def test_forecasts_are_kept_with_their_outcomes(shared):
    holder = shared.submit("sleep", "600", workers=8, name="forecast-holder", time="1h")
    shared.becomes("forecast-holder", "running")
    told = shared.submit("true", workers=8, name="foretold", time="1m")
    assert shared.client.get(job_path("foretold", "why"))["forecast"]["draws"] > 0
    holder.cancel()
    assert told.wait() == 0
    answer = shared.client.get("/v1/report/forecasts")
    assert answer["forecasts"][0]["horizon"] == "all"
    assert answer["forecasts"][0]["forecasts"] > 0


def test_who_did_what_is_kept(shared):
    job = shared.submit("true", name="audited", held=True)
    until(lambda: shared.state("audited") == "held", "the hold")
    shared.client.post(job_path("audited", "update"), {"set": {"priority": 1}})
    job.cancel()
    shared.client.post("/v1/devices/0/drain", {})
    shared.client.post("/v1/devices/0/undrain", {})
    whats = {entry["what"] for entry in shared.client.get("/v1/audit", limit=1000)["entries"]}
    assert {"submit", "cancel", "update", "drain", "undrain"} <= whats


def test_a_dry_run_changes_nothing(shared):
    sent = {"job": {"command": ["true"], "workers": 8, "name": "dry"}, "context": {"cwd": "/", "env": {}}}
    answer = shared.client.post("/v1/plan", sent)
    assert answer["fits"]
    with pytest.raises(NotFound):
        shared.row("dry")


def test_changes_are_told_as_they_happen(shared):
    news = shared.client.events()
    seen = []
    job = shared.submit("true", name="seen")
    job.wait()
    for event in news:
        seen.append((event["kind"], event["job"], event["state"]))
        if event["state"] == "finished":
            break
    news.close()
    assert seen[-1] == ("job", "seen", "finished")
    assert job.wait() == 0
