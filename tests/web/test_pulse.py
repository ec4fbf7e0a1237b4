"""Changes are told together, once each, and silence is broken now and then."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

from tutti.api.types import News
from tutti.engine.model import Token
from tutti.web.pulse import MOST_JOBS, pulse
from tutti.web.words import REASONS


async def after(*news: News) -> AsyncIterator[News]:
    for one in news:
        yield one
    await asyncio.Event().wait()


async def heard(news: AsyncIterator[News], number: int, **paces: float) -> list[str]:
    """The first pieces after the greeting."""
    found: list[str] = []
    async with asyncio.timeout(20):
        async for piece in pulse(news, **paces):
            found.append(piece.decode())
            if len(found) > number:
                break
    return found[1:]


def data(piece: str):
    return json.loads(piece.partition("data: ")[2])


def test_what_happens_together_is_told_together():
    many = [News(id=at, kind="job", job=f"j{at % 3}") for at in range(1, 1001)]
    [piece] = asyncio.run(heard(after(*many, News(id=1001, kind="nodes")), 1))
    assert piece.startswith("id: 1001\nevent: changes\n")
    assert data(piece) == {"id": 1001, "kinds": ["job", "nodes"], "jobs": ["j1", "j2", "j0"], "many": False}


def test_more_jobs_than_are_named_are_said_to_be_more():
    many = [News(id=at, kind="job", job=f"j{at}") for at in range(MOST_JOBS + 1)]
    [piece] = asyncio.run(heard(after(*many), 1))
    assert data(piece)["many"]
    assert len(data(piece)["jobs"]) == MOST_JOBS


def test_silence_is_broken():
    assert asyncio.run(heard(after(), 2, beat_s=0.01)) == [": nothing new\n\n"] * 2


def test_a_stream_that_is_closed_stops_listening():
    listening = []

    async def news() -> AsyncIterator[News]:
        listening.append("began")
        try:
            yield News(id=1, kind="nodes")
            await asyncio.Event().wait()
        finally:
            listening.append("ended")

    async def play() -> None:
        stream = pulse(news())
        await anext(stream)
        await anext(stream)
        await stream.aclose()
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(play())
    assert listening == ["began", "ended"]


def test_the_stream_goes_through_the_port(port):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port.number, timeout=30)
    connection.request("GET", "/page/changes")
    answer = connection.getresponse()
    assert answer.getheader("content-type") == "text/event-stream"
    assert answer.readline() == b"retry: 1000\n"
    name = port.box.submit("true").name
    told: list[dict] = []
    while not told or name not in told[-1]["jobs"]:
        line = answer.readline().decode()
        if line.startswith("data: "):
            told.append(json.loads(line[6:]))
    connection.close()
    assert told[-1]["kinds"]


def test_every_reason_has_its_sentence():
    text = (Path(__file__).parents[2] / "docs/reference/reasons.md").read_text()
    assert list(REASONS) == [str(token) for token in Token]
    for token, sentence in REASONS.items():
        assert f"[`{token}`](#{token.lower()})" in text
        assert f"| {sentence} |" in text
