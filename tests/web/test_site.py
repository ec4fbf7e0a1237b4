"""What the port answers beside the API: the page's own routes, the text pages, files, figures."""

import os
from pathlib import Path

import pytest

from tests.local.stage import box, until
from tutti.errors import Refused
from tutti.views.metrics import METRICS


@pytest.fixture(scope="module")
def ended(port):
    """Three jobs that are over."""
    for name in ("alpha", "beta", "alphabet"):
        assert port.box.submit("sh", "-c", f"echo {name} '<b>'", name=name).wait() == 0
    return port


def test_hello_says_what_a_page_must_know(port):
    looks = port.ask("GET", "/page/hello").data
    assert (looks["may_change"], looks["queues"]) == (False, ["default"])
    assert looks["means"]["useful-kept"]
    assert port.ask("GET", "/page/hello", token=True).data["may_change"] is True


def test_a_job_from_the_page_runs_in_the_daemons_environment(port):
    job = {"command": "echo at $PWD for $TUTTI_HOME with $PATH", "name": "from-page"}
    row = port.ask("POST", "/page/jobs", {"job": job, "cwd": "/tmp"}, token=True).data["jobs"][0]
    assert row["name"] == "from-page"
    assert port.box.client.job("from-page").wait() == 0
    assert port.box.log("from-page").strip() == f"at /tmp for with {os.environ['PATH']}"


def test_a_dry_run_leaves_nothing(port):
    answer = port.ask("POST", "/page/jobs", {"job": {"command": "true", "name": "dry"}, "plan": True}, token=True)
    assert answer.data["fits"]
    assert port.ask("GET", "/v1/jobs/dry").status == 404


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"job": {"command": "true", "wrokers": 2}}, "workers"),
        ({"job": {"command": "true", "workers": 99}}, "can never hold it"),
        ({"job": {"command": "true"}, "cwd": "/nowhere"}, "there is no folder"),
        ({"job": {"name": "<script>alert(1)</script>", "command": "true"}}, "no name for a job"),
        ({"job": {}}, "no command"),
        ("nonsense", "not what this route takes"),
    ],
)
def test_a_job_that_cannot_be_is_a_clear_error(port, sent, says):
    answer = port.ask("POST", "/page/jobs", sent, token=True)
    assert answer.status in {400, 409}
    assert says in answer.text


def test_jobs_are_found_by_a_part_of_their_name(ended):
    def found(match: str) -> list[str]:
        return [row["name"] for row in ended.ask("GET", f"/v1/jobs?which=ended&match={match}").data["jobs"]]

    assert found("ALPHA") == ["alphabet", "alpha"]
    assert found("eta") == ["beta"]
    assert found("%25") == []
    page = ended.ask("GET", "/v1/jobs?which=ended&match=alpha&limit=1&offset=1").data
    assert ([row["name"] for row in page["jobs"]], page["total"], page["next"]) == (["alpha"], 2, 0)


def test_the_text_pages_say_what_the_commands_do(ended):
    text = ended.ask("GET", "/plain").text
    assert '<a href="/plain/alphabet">alphabet</a>' in text
    assert "largest" in text or "n0" in text
    assert "no-demand" in text
    job = ended.ask("GET", "/plain/alpha").text
    assert "alpha &lt;b&gt;" in job
    assert "submitted to queue default" in job
    assert ended.ask("GET", "/plain/nobody").status == 404
    assert ended.ask("POST", "/plain", {}, token=True).status == 404


def test_the_text_pages_are_data(port):
    assert port.ask("GET", "/plain", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 403


def test_figures_for_prometheus(ended):
    text = ended.ask("GET", "/metrics").text
    kinds = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    assert kinds == {name: metric.kind for name, metric in METRICS.items()}
    values = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(float(line.rsplit(" ", 1)[1]) >= 0 for line in values)
    assert 'tutti_ended_jobs_total{state="finished"}' in text
    for name in ("alpha", "root", "n0"):
        assert f'"{name}"' not in text


def test_too_many_connections_do_not_stop_the_daemon(port):
    import http.client

    open_ones = [http.client.HTTPConnection("127.0.0.1", port.number, timeout=30) for _ in range(220)]
    for one in open_ones:
        one.connect()
    assert port.box.client.get("/v1/status")["version"]
    for one in open_ones:
        one.close()
    until(lambda: port.ask_or_none("GET", "/page/hello"), "an answer")


def test_those_who_wait_are_listed_as_they_stand_in_line(port):
    port.box.submit("sleep", "60", name="runs", workers=16, time="5m")
    port.box.becomes("runs", "running")
    for name, priority in (("last", 0), ("first", 5), ("second", 1)):
        port.box.submit("sleep", "1", name=name, workers=16, priority=priority, time="1m")
    port.box.submit("sleep", "1", name="aside", held=True)
    until(lambda: port.box.state("aside") == "held", "the hold")
    rows = port.ask("GET", "/v1/jobs").data["jobs"]
    places = [(row["name"], row["position"]) for row in rows]
    assert places == [("runs", 0), ("first", 1), ("second", 2), ("last", 3), ("aside", 0)]
    assert port.ask("GET", "/v1/jobs/second").data["job"]["position"] == 2
    for row in rows:
        port.box.client.post(f"/v1/jobs/{row['name']}/cancel", {"grace_s": 0})


def test_streams_that_were_left_leave_nothing_behind(port):
    import socket

    folder = Path(f"/proc/{port.box.daemons[-1].pid}/fd")
    port.ask("GET", "/v1/jobs")
    before = len(list(folder.iterdir()))
    streams = [socket.create_connection(("127.0.0.1", port.number)) for _ in range(40)]
    for stream in streams:
        stream.sendall(b"GET /page/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stream.recv(100).startswith(b"HTTP/1.1 200")
        stream.close()

    def gone() -> bool:
        port.box.submit("true").wait()
        return len(list(folder.iterdir())) <= before + 5

    until(gone, "the end of the streams")


def test_a_token_that_cannot_be_written_is_a_clear_error():
    with box("1") as made:
        made.home.token.mkdir()
        with pytest.raises(Refused, match="the token cannot be written"):
            made.client.post("/v1/serve", {})
        assert made.client.get("/v1/status")["page"] == ""
        made.home.token.rmdir()
        assert made.client.post("/v1/serve", {})["said"].startswith("http://127.0.0.1:")
