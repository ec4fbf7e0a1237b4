"""Jobs that change their size while they run, tell of themselves, or are set aside."""

import sys

from tests.local.stage import box, until
from tutti.api.client import job_path
from tutti.local.keeper.locks import is_held

ELASTIC = """
import os, sys, time
from tutti.train.agent.channel import Accepted, Done, Progress, Released
from tutti.train.agent.client import Client
rank = int(os.environ["RANK"])
if rank:
    time.sleep(600)
client, step, size = Client(os.environ["TUTTI_CHANNEL"], "r"), 0, int(os.environ["WORLD_SIZE"])
while True:
    for asked in client.requests():
        client.answer(Accepted(asked.id, step))
        grows, size = asked.target > size, asked.target
        print("size", size, flush=True)
        gone = tuple(os.environ.get("GONE", ",".join(getattr(asked, "members", ()))).split(","))
        client.answer(Done(asked.id, step) if grows else Released(asked.id, step, gone))
    step += 1
    client.report(Progress(step, rate=10.0, world=size, legal=(1, 2, 3, 4, 5, 6, 7, 8)))
    time.sleep(0.05)
"""


def test_a_launcher_of_its_own_members_is_one_process_that_changes_its_size():
    config = '[policy.grow]\ncool_down = "0s"\n[policy.reclaim]\nmin_run = "0s"\ngrace = "5s"\n'
    with box("4", config) as made:
        led = made.submit(sys.executable, "-c", ELASTIC, workers="1:4", name="led", framework="train")
        until(lambda: made.row("led")["elastic"] == "live", "the job's first word")
        assert [rank["pid"] > 0 for rank in made.client.get(job_path("led"))["ranks"]] == [True, False, False, False]
        assert made.submit("true", workers=2, name="other").wait() == 0
        until(lambda: "size 2" in made.log("led"), "shrinking")
        until(lambda: made.row("led")["members"] == 4, "growing again")
        held = [path.name for path in made.home.locks.iterdir() if is_held(str(path))]
        assert len(held) == 4
        led.cancel()
        led.wait()


TALKS = """
import os, time
from tutti.train.agent.channel import Told
from tutti.train.agent.client import Client
client = Client(os.environ["TUTTI_CHANNEL"], "r")
client.tell(Told("lost", "m2 is gone: " + "x" * 1000))
for at in range(300):
    client.tell(Told("formed", f"it goes on, {at}"))
"""


def test_what_happens_inside_a_job_is_in_its_story_within_reason():
    with box("1") as made:
        assert made.submit(sys.executable, "-c", TALKS, name="talks").wait() == 0
        told = [event["text"] for event in made.client.get(job_path("talks", "story"))["events"]]
    inside = [text for text in told if text.startswith(("m2 is gone", "it goes on"))]
    assert (inside[0], len(inside)) == (("m2 is gone: " + "x" * 1000)[:300], 200)


def test_an_elastic_job_goes_on_without_the_devices_that_are_cleared():
    with box("2x2", '[policy.grow]\ncool_down = "0s"\n') as made:
        elastic = made.submit(sys.executable, "-c", ELASTIC, workers="1:4", name="elastic")
        until(lambda: made.row("elastic")["elastic"] == "live", "the job's first word")
        first = {rank["rank"]: rank["pid"] for rank in made.client.get(job_path("elastic"))["ranks"]}
        made.client.post("/v1/devices/n0:1/drain", {"by_s": 60})
        until(lambda: made.row("elastic")["members"] == 3, "shrinking")
        made.client.post("/v1/devices/n1/drain", {"by_s": 60})
        until(lambda: made.row("elastic")["members"] == 1, "shrinking again")
        cells = [cell for node in made.client.get("/v1/nodes")["nodes"] for cell in node["devices"]]
        assert [cell["state"] for cell in cells] == ["busy", "drained", "drained", "drained"]
        made.client.post("/v1/devices/n1/undrain")
        until(lambda: made.row("elastic")["members"] == 3, "growing")
        ranks = made.client.get(job_path("elastic"))["ranks"]
        assert next(rank["pid"] for rank in ranks if rank["rank"] == 0) == first[0], "it never began again"
        assert made.row("elastic")["restarts"] == 0
        elastic.cancel()
        elastic.wait()


def test_a_launcher_goes_on_without_the_member_on_a_device_that_is_cleared():
    with box("3", '[policy.grow]\ncool_down = "1h"\n') as made:
        led = made.submit(sys.executable, "-c", ELASTIC, workers="1:3", name="led", framework="train")
        until(lambda: made.row("led")["elastic"] == "live", "the job's first word")
        made.client.post("/v1/devices/1/drain", {"by_s": 60})
        until(lambda: made.row("led")["members"] == 2, "shrinking")
        (node,) = made.client.get("/v1/nodes")["nodes"]
        assert [cell["state"] for cell in node["devices"]] == ["busy", "drained", "busy"]
        assert made.row("led")["restarts"] == 0
        led.cancel()
        led.wait()


def test_a_launcher_that_lets_another_member_go_keeps_the_device_until_it_leaves():
    with box("3", '[policy.grow]\ncool_down = "1h"\n') as made:
        led = made.submit(
            sys.executable, "-c", ELASTIC, workers="1:3", name="led", framework="train", env={"GONE": "m2"}
        )
        until(lambda: made.row("led")["elastic"] == "live", "the job's first word")
        made.client.post("/v1/devices/1/drain", {"by_s": 600})
        until(lambda: "others left than those" in "\n".join(made.client.get(job_path("led", "story"))["lines"]), "it")
        (node,) = made.client.get("/v1/nodes")["nodes"]
        assert [cell["state"] for cell in node["devices"]] == ["busy", "draining", "busy"]
        led.cancel()
        led.wait()


def test_who_said_it_can_be_set_aside_and_saves_nothing_is_not_set_aside_again():
    config = '[queues.default]\nslice = "1s"\n[policy.reclaim]\ngrace = "2s"\n'
    with box("1", config) as made:
        polite = """trap 'exit 75' TERM; while :; do sleep 0.05; done"""
        kind = {"parkable": True, "time": "1h", "min_run": "0s"}
        jobs = [made.submit("sh", "-c", polite, name=name, **kind) for name in ("saves", "saves-too")]
        until(lambda: {made.state("saves"), made.state("saves-too")} == {"parked", "running"}, "a turn")
        for job in jobs:
            job.cancel()
        careless = made.submit("sleep", "600", name="careless", **kind)
        waits = made.submit("sh", "-c", polite, name="waits", **kind)
        made.becomes("waits", "running")
        assert made.state("careless") == "waiting"
        assert "it will not be set aside again" in "\n".join(made.client.get(job_path("careless", "story"))["lines"])
        waits.cancel()
        careless.cancel()


def test_who_can_be_set_aside_runs_where_room_is_kept_until_it_is_needed():
    config = '[policy.reserve]\nlend = "1s"\n[policy.reclaim]\nmin_run = "0s"\ngrace = "2s"\n'
    with box("2", config) as made:
        polite = """trap 'exit 75' TERM; while :; do sleep 0.05; done"""
        busy = made.submit("sleep", "600", name="busy", time="20m")
        made.becomes("busy", "running")
        wide = made.submit("true", workers=2, name="wide", time="1m")
        long = made.submit("sh", "-c", polite, name="long", parkable=True, time="1h")
        made.becomes("long", "running")
        assert "in room that is kept for another" in str(made.client.get(job_path("long", "why")))
        made.kill()
        made.start()
        made.becomes("long", "running")
        assert made.state("wide") == "waiting"
        busy.cancel()
        assert wide.wait() == 0
        story = "\n".join(made.client.get(job_path("long", "story"))["lines"])
        assert "its room was lent to it, and wide needs it now" in story
        made.becomes("long", "running")
        long.cancel()


def test_an_elastic_job_grows_and_gives_back():
    config = '[policy.grow]\ncool_down = "0s"\n[policy.reclaim]\nmin_run = "0s"\ngrace = "5s"\n'
    with box("4", config) as made:
        elastic = made.submit(sys.executable, "-c", ELASTIC, workers="1:4", name="elastic")
        until(lambda: made.row("elastic")["elastic"] == "live", "the job's first word")
        other = made.submit("true", workers=2, name="other")
        assert other.wait() == 0
        until(lambda: "size 2" in made.log("elastic"), "shrinking")
        until(lambda: made.row("elastic")["members"] == 4, "growing again")
        assert made.row("elastic")["step"] > 0
        made.client.post(job_path("elastic", "update"), {"set": {"workers": "3"}})
        until(lambda: made.row("elastic")["members"] == 3, "the size its owner wants")
        assert (made.row("elastic")["min"], made.row("elastic")["max"]) == (1, 3)
        until(lambda: {3: 10.0, 4: 10.0}.items() <= made.speeds("elastic").items(), "rates at both sizes")
        elastic.cancel()
        elastic.wait()
        assert (
            made.client.get("/v1/report")["total"]["useful-kept"]
            + made.client.get("/v1/report")["total"]["useful-later-lost"]
            > 0
        )
