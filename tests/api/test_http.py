"""The HTTP of the daemon: what is well formed is answered, everything else is refused in JSON."""

import asyncio
import json
from typing import Any, cast

import msgspec
import pytest

from tutti.api import types
from tutti.api.client import Client, error_of, job_path
from tutti.api.context import recognised
from tutti.api.home import Home
from tutti.api.http import Request, answered, serve_connection
from tutti.api.routes import ROUTES, handler, matched
from tutti.errors import Misused, NoDaemon, NotFound, Refused, TuttiError


class Echo:
    """A service that answers with who asked for what, or fails as it is told."""

    async def status(self):
        return {"schema": "tutti/v1", "hello": True}

    async def job(self, name, by):
        failures = {"missing": NotFound("no job"), "no": Refused("not allowed", hint="ask"), "bug": KeyError("oops")}
        if name in failures:
            raise failures[name]
        return {"schema": "tutti/v1", "job": name}

    async def act(self, name, verb, asked, by):
        return types.Done(said=f"{by.user} {verb} {name} {asked.why}")

    def news(self, after):
        async def stream():
            for number in range(after + 1, after + 3):
                yield types.News(id=number, kind="job", job="a", state="running")

        return stream()


def exchange(*parts: bytes) -> bytes:
    """What the server answers to some bytes."""

    async def talk():
        reader, other = asyncio.StreamReader(limit=4096), Writer()
        for part in parts:
            reader.feed_data(part)
        reader.feed_eof()

        def who(request: Request) -> None:
            request.user, request.uid = "me", 7

        service: Any = Echo()
        await serve_connection(reader, cast("asyncio.StreamWriter", other), handler(service), who)
        return bytes(other.sent)

    return bytes(asyncio.run(talk()))


class Writer:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        """There is always room."""

    def close(self) -> None:
        """Nothing to close."""


def asked(line: str, body: bytes = b"") -> bytes:
    return f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def parted(answer: bytes) -> tuple[int, dict]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_two_requests_on_one_connection():
    answer = exchange(asked("GET /v1/status"), asked("GET /v1/jobs/a%2Fb"))
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b'{"schema":"tutti/v1","job":"a/b"}' in answer


def test_who_asks_is_known_from_the_transport():
    answer = exchange(asked("POST /v1/jobs/x/cancel", b'{"why": "done"}'))
    assert parted(answer)[1]["said"] == "me cancel x done"


@pytest.mark.parametrize(
    ("line", "status", "code"),
    [
        ("GET /v1/jobs/missing", 404, 3),
        ("GET /v1/jobs/no", 409, 4),
        ("GET /v1/jobs/bug", 500, 1),
        ("GET /v1/nothing", 404, 3),
        ("DELETE /v1/status", 404, 3),
        ("POST /v1/status", 404, 3),
        ("GET /../../etc/passwd", 404, 3),
    ],
)
def test_errors_are_json_with_the_exit_code_of_a_command(line, status, code):
    found, body = parted(exchange(asked(line)))
    assert (found, body["code"], body["schema"]) == (status, code, "tutti/v1")
    assert isinstance(error_of(json.dumps(body).encode()), TuttiError)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / SPDY/3\r\n\r\n", 400),
        (b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /v1/jobs HTTP/1.1\r\nContent-Length: -3\r\n\r\n", 400),
        (b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n", 413),
        (asked("POST /v1/jobs/x/cancel", b"{nonsense"), 400),
        (asked("POST /v1/jobs/x/cancel", b'{"dry_run": 7}'), 400),
    ],
)
def test_what_is_not_well_formed_is_refused(sent, status):
    assert parted(exchange(sent))[0] == status


def test_half_a_request_is_no_request():
    assert exchange(b"GET /v1/sta") == b""
    assert exchange(b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 100\r\n\r\n{") == b""


def test_events_are_a_stream_that_can_be_resumed():
    answer = exchange(b"GET /v1/events HTTP/1.1\r\nLast-Event-ID: 41\r\n\r\n")
    assert b"Content-Type: text/event-stream" in answer
    assert answer.count(b"id: 42\nevent: job\ndata: {") == 1
    assert answer.count(b"id: 43\n") == 1


def test_no_get_changes_anything_and_every_route_is_found():
    assert all(route.changes == (route.method == "POST") for route in ROUTES)
    for route in ROUTES:
        found = matched(route.method, route.path.replace("{", "").replace("}", ""))
        assert found is not None
        assert found[0].path.count("/") == route.path.count("/")
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_every_answer_carries_the_version():
    assert json.loads(answered(types.Done()).body)["schema"] == "tutti/v1"
    answers = [kind for kind in vars(types).values() if isinstance(kind, type) and issubclass(kind, types.Answer)]
    assert len(answers) > 15
    assert all(
        next(f for f in msgspec.structs.fields(kind) if f.name == "schema").default == "tutti/v1" for kind in answers
    )


def test_without_a_daemon_the_client_says_so(tmp_path):
    with pytest.raises(NoDaemon, match="no daemon is running"):
        Client(Home(tmp_path)).get("/v1/status")
    assert not Client(Home(tmp_path)).is_up()


def test_a_home_that_is_too_deep_for_sockets_is_refused(tmp_path):
    with pytest.raises(Misused, match="too long for a socket"):
        Home(tmp_path / ("x" * 100))


def test_names_are_quoted():
    assert job_path("a/b c", "why") == "/v1/jobs/a%2Fb%20c/why"


@pytest.mark.parametrize(
    ("words", "framework"),
    [
        (["torchrun", "--nproc-per-node", "4", "t.py"], "torchrun"),
        (["python", "-m", "torch.distributed.run", "t.py"], "torchrun"),
        (["python", "-m", "tutti.train", "t.py"], "train"),
        (["tutti", "train", "--", "python", "t.py"], "train"),
        (["python", "jaxy.py"], "jax"),
        (["python", "torchy.py"], "torch"),
        (["python", "plain.py"], ""),
        (["sleep", "1"], ""),
        ([], ""),
    ],
)
def test_the_framework_is_recognised(tmp_path, words, framework):
    (tmp_path / "jaxy.py").write_text("import torch\nimport jax\n")
    (tmp_path / "torchy.py").write_text("from torch import nn\n")
    (tmp_path / "plain.py").write_text("import os\n")
    assert recognised(words, str(tmp_path)) == framework
