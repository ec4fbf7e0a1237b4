"""One service for several users: members run as whoever submitted them. Needs root, as the service does."""

import base64
import io
import json
import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.stage import Box, until
from tests.web.visit import Answer, Port
from tutti.api import client, home
from tutti.api.client import Client, job_path
from tutti.cli import setup
from tutti.cli.output import empty_without_daemon
from tutti.errors import NoDaemon, TuttiError
from tutti.local.keeper.turn import TURN
from tutti.train.agent import lines

NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.fixture(scope="module")
def service():
    if os.getuid() != 0:
        pytest.skip("only root can run members as somebody else")
    made = Box("4")
    made.system = True
    try:
        made.start()
        yield made
    finally:
        made.close()


def as_nobody(made: Box, work):
    """Do something as another user, in a fork; what it gives back must be plain data."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(pwd.getpwuid(NOBODY).pw_gid)
            os.setuid(NOBODY)
            try:
                answer = work(Client(made.home))
            except TuttiError as problem:
                answer = {"problem": str(problem), "code": problem.exit_code}
            os.write(writer, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = json.loads(file.read() or b"null")
    os.waitpid(pid, 0)
    return answer


def submit(*command: str, **job):
    sent = {"job": {**job, "command": list(command)}, "context": {"cwd": "/", "env": {"PATH": os.environ["PATH"]}}}
    return lambda client: client.post("/v1/jobs", {"jobs": [sent]})["jobs"][0]


def test_members_run_as_the_submitter_and_their_logs_are_theirs(service):
    row = as_nobody(service, submit("sh", "-c", "id -u; id -g", name="theirs"))
    assert row["user"] == "nobody"
    assert service.client.job("theirs").wait() == 0
    assert service.log("theirs").split() == [str(NOBODY), str(pwd.getpwuid(NOBODY).pw_gid)]
    log = service.home.logs / str(row["id"]) / "rank-0.log"
    assert log.stat().st_uid == NOBODY
    assert log.stat().st_mode & 0o077 == 0
    assert as_nobody(service, lambda client: log.read_text()).startswith(str(NOBODY))


def test_members_have_the_limits_of_whoever_submitted_them(service):
    def limited(client):
        resource.setrlimit(resource.RLIMIT_NOFILE, (123, 124))
        return submit("sh", "-c", "ulimit -Sn; ulimit -Hn", name="limits")(client)

    as_nobody(service, limited)
    assert service.client.job("limits").wait() == 0
    assert service.log("limits").split() == ["123", "124"]


def test_a_member_reaches_its_channel(service):
    line = 'p=${TUTTI_CHANNEL#unix:}; test -w "$p" && echo reachable'
    as_nobody(service, submit("sh", "-c", line, name="channel"))
    assert service.client.job("channel").wait() == 0
    assert service.log("channel") == "reachable\n"


@pytest.mark.parametrize("has_unit", [True, False])
def test_a_service_that_is_down_is_not_replaced_by_a_daemon_of_ones_own(tmp_path, monkeypatch, has_unit):
    """While it is stopped or restarted its users wait for it, and are told; once its unit is gone it counts no more."""
    monkeypatch.delenv("TUTTI_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    monkeypatch.setattr(home, "SHARED", tmp_path / "shared")
    monkeypatch.setattr(home, "UNIT", tmp_path / "unit")
    monkeypatch.setattr(client, "SERVICE_S", 0.0)
    (tmp_path / "shared").mkdir()
    if not has_unit:
        assert home.home().path == tmp_path / "mine" / "tutti"
        return
    (tmp_path / "unit").touch()
    with pytest.raises(NoDaemon, match="the service that all users of this machine share is not running") as refused:
        Client().start()
    assert "systemctl start tutti" in str(refused.value)
    with pytest.raises(NoDaemon):
        empty_without_daemon(lambda: Client().get("/v1/jobs"), {"jobs": []})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared", "unit"]
    assert not any((tmp_path / "shared").iterdir())


def test_systemd_takes_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / "tutti.service"
    unit.write_text(setup.TEXT.format(home="/var/lib/tutti", python=sys.executable))
    found = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.skipif(os.getuid() != 0, reason="only root removes a service")
def test_nothing_is_left_of_a_service_that_is_removed(tmp_path, monkeypatch):
    shared, unit, locks = tmp_path / "shared", tmp_path / "unit", tmp_path / "locks"
    monkeypatch.setattr(setup, "SHARED", shared)
    monkeypatch.setattr(setup, "UNIT", unit)
    monkeypatch.setattr(home, "SHARED", shared)
    monkeypatch.setenv("TUTTI_LOCKS", str(locks))
    # Nobody is starting it again.
    monkeypatch.setattr(client, "SERVICE_S", 0.0)
    locks.mkdir()
    for path in (unit, locks / "port-1"):
        path.touch()
    home.Home(shared).make(shared=True)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    setup.setup(["--system", "--remove"], standalone_mode=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["locks", "shared"]
    setup.setup(["--system", "--remove", "--yes"], standalone_mode=False)
    assert not list(tmp_path.iterdir())


def beside(folder, *messages):
    """Connect to the keeper of a run and say something; all that it says until it hangs up."""
    line = lines.connect(str(folder / "s"))
    for message in messages:
        line.send(message)
    heard: list[dict[str, object]] = []

    def is_told() -> bool:
        heard.extend(line.receive(0.1))
        return any(one["say"] in {"gone", "unknown"} for one in heard)

    until(is_told, "its word")
    line.close()
    return heard


def test_the_owner_may_have_a_shell_beside_a_rank_and_nothing_else(service):
    as_nobody(service, submit("sleep", "600", name="mine", grace="0s"))
    service.becomes("mine", "running")
    channel = service.client.get(job_path("mine"))["variables"]["TUTTI_CHANNEL"]
    folder = Path(channel.removeprefix("unix:")).parent

    heard = as_nobody(service, lambda _: beside(folder, {"say": "attach", "rank": 0, "argv": ["id", "-u"]}))
    screen = b"".join(base64.b64decode(one["data"]) for one in heard if one["say"] == "screen")
    assert screen.split() == [str(NOBODY).encode()]
    heard = as_nobody(service, lambda _: beside(folder, {"say": "stop", "grace_s": 0, "why": "x"}))
    assert [one["of"] for one in heard if one["say"] == "unknown"] == ["stop"]
    assert service.state("mine") == "running"
    assert as_nobody(service, lambda client: client.post(job_path("mine", "cancel")))["done"]
    service.client.job("mine").wait()


def test_nobody_else_reaches_a_gang(service):
    service.submit("sleep", "600", name="roots-own", grace="0s")
    service.becomes("roots-own", "running")
    channel = service.client.get(job_path("roots-own"))["variables"]["TUTTI_CHANNEL"]
    socket = Path(channel.removeprefix("unix:")).parent / "s"
    assert not as_nobody(service, lambda _: os.access(socket, os.W_OK))
    service.client.job("roots-own").cancel()
    service.client.job("roots-own").wait()


def test_only_owner_and_administrator_end_a_job(service):
    service.submit("sleep", "600", name="roots")
    service.becomes("roots", "running")
    refused = as_nobody(service, lambda client: client.post(job_path("roots", "cancel")))
    assert refused["code"] == 4
    assert "belongs to root" in refused["problem"]
    as_nobody(service, submit("sleep", "600", name="nobodys"))
    service.becomes("nobodys", "running")
    assert as_nobody(service, lambda client: client.post(job_path("nobodys", "cancel")))["done"]
    service.client.post(job_path("roots", "cancel"))
    until(lambda: not service.client.get("/v1/jobs")["jobs"], "both ends")


@pytest.mark.parametrize("path", ["/v1/stop", "/v1/config/reload", "/v1/devices/0/drain", "/v1/backup"])
def test_the_service_belongs_to_its_owner(service, path):
    refused = as_nobody(service, lambda client: client.post(path))
    assert refused["code"] == 4
    assert "administrator" in refused["problem"]


def test_what_others_have_is_out_of_reach(service):
    for path in (service.home.journal, service.home.runs, service.home.logs):
        assert not as_nobody(service, lambda client, path=path: os.access(path, os.R_OK))


# -- what people may know of each other's jobs


def test_output_variables_and_deeds_are_their_owners(service):
    service.submit("sh", "-c", "echo $KEY", name="private", env={"KEY": "secret"})
    assert service.client.job("private").wait() == 0
    refused = as_nobody(service, lambda client: client.get(job_path("private", "logs")))
    assert (refused["code"], "belongs to root" in refused["problem"]) == (4, True)
    page = as_nobody(service, lambda client: client.get(job_path("private")))
    assert page["job"]["state"] == "finished"
    assert "secret" not in json.dumps(page)
    assert "secret" not in json.dumps(as_nobody(service, lambda client: client.get("/v1/audit")))
    service.home.config.write_text('hooks = {"end" = "http://127.0.0.1:1/secret"}')
    assert as_nobody(service, lambda client: client.get("/v1/config"))["text"] == ""
    service.home.config.unlink()


# -- the page


def asked(port: Port, method: str, path: str, token: str, body: object = None) -> Answer:
    return port.ask(method, path, body, Authorization=f"Bearer {token}")


@pytest.fixture
def page(service):
    made = Port(service)
    yield made
    service.client.post("/v1/serve", {"close": True})


def test_only_an_administrator_opens_moves_and_closes_the_page(service):
    assert as_nobody(service, lambda client: client.post("/v1/serve"))["code"] == 4
    port = Port(service)
    for order in ({"close": True}, {"host": "0.0.0.0"}, {"port": 1234}, {"names": ["evil"]}):
        refused = as_nobody(service, lambda client, order=order: client.post("/v1/serve", order))
        assert "administrator" in refused["problem"]
    assert port.ask("GET", "/").status == 200
    service.client.post("/v1/serve", {"close": True})


def test_everybody_has_a_token_of_their_own_and_is_themselves_on_the_page(service, page):
    opened = as_nobody(service, lambda client: client.post("/v1/serve"))
    token = opened["token"]
    assert (opened["said"], token == page.token) == (page.address, False)
    file = service.path / "tokens" / str(NOBODY)
    assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, 0)
    hello = asked(page, "GET", "/page/hello", token).data
    assert (hello["user"], hello["may_change"], hello["cwd"]) == ("nobody", True, pwd.getpwuid(NOBODY).pw_dir)

    sent = {"job": {"name": "of-page", "command": 'echo "$(id -u) $HOME ${TUTTI_HOME:-none}"'}, "cwd": "/"}
    assert asked(page, "POST", "/page/jobs", token, sent).status == 200
    assert service.client.job("of-page").wait() == 0
    assert asked(page, "GET", "/v1/jobs/of-page/logs", token).data["text"].split() == [
        str(NOBODY), pwd.getpwuid(NOBODY).pw_dir, "none",
    ]  # fmt: skip


def test_on_the_page_too_only_the_owner_reads_and_ends(service, page):
    token = as_nobody(service, lambda client: client.post("/v1/serve"))["token"]
    service.submit("sleep", "600", name="of-root")
    service.becomes("of-root", "running")
    for path in ("/v1/jobs/of-root/cancel", "/v1/stop", "/v1/devices/0/drain", "/v1/serve"):
        body = {"close": True} if path == "/v1/serve" else {}
        assert asked(page, "POST", path, token, body).status == 409, path
    assert asked(page, "GET", "/v1/jobs/of-root/logs", token).status == 409
    assert "belongs to root" in asked(page, "GET", "/plain/of-root", token).text
    assert asked(page, "POST", "/v1/jobs/of-root/cancel", page.token, {"grace_s": 0}).status == 200
    service.client.job("of-root").wait()


def test_tokens_outlive_the_daemon_and_a_new_one_ends_the_old_one_alone(service, page):
    token = as_nobody(service, lambda client: client.post("/v1/serve"))["token"]
    service.kill()
    service.start()
    until(lambda: page.ask_or_none("GET", "/metrics"), "the page")
    assert asked(page, "GET", "/page/hello", token).data["user"] == "nobody"
    fresh = as_nobody(service, lambda client: client.post("/v1/serve", {"fresh": True}))["token"]
    assert asked(page, "POST", "/v1/plan", token, {}).status == 401
    assert asked(page, "GET", "/page/hello", fresh).data["user"] == "nobody"
    assert asked(page, "GET", "/page/hello", page.token).data["user"] == "root"


def test_only_its_owner_may_submit_a_job_once_more(service):
    """Anybody else would get what is in the owner's environment, or run the owner's command with their own rights."""
    job = service.submit("true", name="secretive")
    job.wait()
    refused = as_nobody(service, lambda client: client.post(job_path("secretive", "retry")))
    assert refused["code"] == 4
    assert "secretive belongs to root" in refused["problem"]
    as_nobody(service, submit("true", name="humble"))
    service.client.job("humble").wait()
    with pytest.raises(TuttiError, match="humble belongs to nobody"):
        service.client.post(job_path("humble", "retry"))
    assert as_nobody(service, lambda client: client.post(job_path("humble", "retry")))["done"]
    service.client.job("humble").wait()


def test_the_job_of_another_user_goes_in_the_place_of_one_that_has_finished_without_asking():
    if os.getuid() != 0:
        pytest.skip("only root can run members as somebody else")
    made = Box("1")
    made.system = True
    try:
        made.start()
        made.submit("sh", "-c", "while ! test -e go; do sleep 0.02; done", name="first")
        made.becomes("first", "running")
        as_nobody(made, submit("sh", "-c", "id -u; sleep 0.2", name="theirs"))
        until(lambda: [run for run in made.home.runs.iterdir() if (run / TURN).exists()], "an heir")
        os.kill(made.daemons[-1].pid, signal.SIGSTOP)
        try:
            (made.path / "go").touch()
            log = made.home.logs / "2" / "rank-0.log"
            until(lambda: log.exists() and log.read_text() == f"{NOBODY}\n", "its first word")
        finally:
            os.kill(made.daemons[-1].pid, signal.SIGCONT)
        assert [made.client.job(name).wait() for name in ("first", "theirs")] == [0, 0]
    finally:
        made.close()
