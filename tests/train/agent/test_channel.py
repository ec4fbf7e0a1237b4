import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.train.agent import lines
from tutti.train.agent.channel import (
    Accepted,
    Done,
    Goodbye,
    Hello,
    Leave,
    Progress,
    Refused,
    Released,
    Resize,
    Snapshot,
    Unknown,
    Welcome,
    from_message,
    to_message,
)
from tutti.train.agent.client import Client
from tutti.train.agent.server import Server

WORDS = [
    Hello("r", 1),
    Welcome(),
    Goodbye("no"),
    Progress(7, rate=1.5, legal=(1, 2), stragglers={"m1": 2.0}),
    Resize("a", 3, 10.0, ("m1",)),
    Snapshot("b", 1.0),
    Leave("c", 2.0),
    Accepted("a", 8),
    Refused("a", "why", (1, 2)),
    Released("a", 9, ("m1",)),
    Done("a", 9, 0.1),
    Unknown("x"),
]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def server(tmp_path):
    server = Server(str(tmp_path / "s"))
    yield server
    server.close()


def talk(server, client, turns=6):
    """Both sides take turns; what each heard."""
    heard, asked = [], []
    for _ in range(turns):
        asked += client.requests()
        heard += server.turn(0.01)
    return heard, asked


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.say)
def test_every_word_survives_the_wire(word):
    assert from_message(lines.decode(lines.encode(to_message(word)).rstrip(b"\n"))) == word


def test_fields_from_a_newer_version_are_ignored():
    assert from_message({"say": "welcome", "channel": 1, "colour": "red"}) == Welcome(1)
    assert from_message({"say": "sing"}) == Unknown("sing")


@given(st.binary(max_size=200).filter(lambda data: b"\n" not in data))
def test_noise_is_refused_and_never_half_understood(data):
    try:
        message = lines.decode(data)
    except lines.BadLine:
        return
    assert isinstance(message["say"], str)


@given(st.lists(st.integers(1, 7), min_size=1), st.integers(1, 5))
def test_messages_cut_anywhere_arrive_whole(cuts, count):
    ours, theirs = socket.socketpair()
    data = b"".join(lines.encode({"say": "x", "number": number}) for number in range(count))
    line, heard = lines.Lines(theirs), []
    while data:
        cut = cuts.pop(0) if cuts else len(data)
        ours.sendall(data[:cut])
        data = data[cut:]
        heard += line.receive()
    assert [message["number"] for message in heard] == list(range(count))
    ours.close()
    theirs.close()


def test_a_line_too_long_closes_and_is_not_kept():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    line = lines.Lines(theirs)

    def flood():
        for _ in range(40):
            ours.send(b"x" * 8192)
            line.receive()

    with pytest.raises(lines.BadLine, match="more than 65536"):
        flood()
    ours.close()
    theirs.close()


def test_progress_out_request_in_answer_out(server):
    client = Client(f"unix:{server.path}", "run")
    talk(server, client)
    client.report(Progress(5, legal=(1, 2)))
    talk(server, client)
    assert server.talks["run"].progress == Progress(5, legal=(1, 2))
    assert server.ask("run", Resize("a", 2, 10.0))
    _, asked = talk(server, client)
    assert asked == [Resize("a", 2, 10.0)]
    client.answer(Accepted("a", 6))
    client.answer(Released("a", 7, ("m2",)))
    heard, _ = talk(server, client)
    assert [word for _, word in heard] == [Accepted("a", 6), Released("a", 7, ("m2",))]
    assert server.talks["run"].pending == {}
    client.close()


def test_a_repeated_request_is_answered_again_and_not_done_again(server):
    client = Client(f"unix:{server.path}", "run")
    talk(server, client)
    server.ask("run", Snapshot("a", 1.0))
    _, first = talk(server, client)
    client.answer(Done("a", 3))
    talk(server, client)
    server.ask("run", Snapshot("a", 1.0))
    heard, again = talk(server, client)
    assert (first, again) == ([Snapshot("a", 1.0)], [])
    assert Done("a", 3) in [word for _, word in heard]
    client.close()


def test_what_was_not_answered_is_asked_again_after_a_lost_connection(server):
    clock = Clock()
    first = Client(f"unix:{server.path}", "run", clock)
    talk(server, first)
    first.close()
    talk(server, Client(f"unix:{server.path}x", "other", clock))
    assert not server.talks["run"].is_here
    server.ask("run", Leave("a", 5.0))
    second = Client(f"unix:{server.path}", "run", clock)
    _, asked = talk(server, second)
    assert asked == [Leave("a", 5.0)]
    second.close()


def test_a_job_without_a_scheduler_goes_on_and_tries_less_and_less_often(tmp_path):
    clock = Clock()
    client = Client(f"unix:{tmp_path}/nobody", "run", clock)
    assert not client.report(Progress(1))
    waits = []
    for _ in range(8):
        before = client._next_try
        clock.now = before
        client.requests()
        waits.append(round(client._next_try - before, 3))
    assert waits == sorted(waits)
    assert waits[-1] == 5.0


def test_a_request_the_job_cannot_do_is_not_sent(server):
    line = lines.connect(server.path)
    line.send(to_message(Hello("small", 1, can=("snapshot",))))
    server.turn(0.1)
    server.turn(0.1)
    assert not server.ask("small", Leave("a", 1.0))
    assert server.ask("small", Snapshot("b", 1.0))
    line.close()


def test_an_address_that_is_no_socket_is_explained():
    with pytest.raises(ValueError, match="unix:/path"):
        Client("tcp:1.2.3.4:5", "run")


def test_a_scheduler_that_does_not_listen_never_holds_the_job_up():
    ours, theirs = socket.socketpair()
    line = lines.Lines(ours)
    sent = 0
    while line.send({"say": "progress", "step": sent}) and sent < 10**6:
        sent += 1
    assert not line.is_open
    assert sent > 1000
    ours.close()
    theirs.close()


def test_what_was_not_taken_at_once_arrives_later_and_in_order():
    ours, theirs = socket.socketpair()
    sender, receiver = lines.Lines(ours), lines.Lines(theirs)
    for number in range(20_000):
        assert sender.send({"say": "x", "number": number})
    heard: list[dict] = []
    while len(heard) < 20_000:
        sender.receive()
        heard += receiver.receive()
    assert [message["number"] for message in heard] == list(range(20_000))
    ours.close()
    theirs.close()
