"""One service for several users: members run as whoever submitted them. Needs root, as the service does."""

import base64
import json
import os
import pwd
import resource
from pathlib import Path

import pytest

from tests.local.stage import Box, until
from tutti.api.client import Client, job_path
from tutti.errors import TuttiError
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
