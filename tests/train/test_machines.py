"""Agents of several machines, each with its own members and memory, that talk to each other over the network alone.
They are on one box here, and share nothing but its loopback.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.train.stage import LIMIT_S, Run, descendants
from tests.train.support import claim
from tests.train.test_faults import check_samples, same_on_all
from tutti.train.agent import lines
from tutti.train.agent.beats import Beats
from tutti.train.agent.exits import Exit
from tutti.train.agent.far import Far, FarWatch
from tutti.train.agent.posts import VERSION, Past, Posts, belongs, newest_life
from tutti.train.agent.seat import Seat

LOOP = {"samples": 100, "batch": 12}


@pytest.fixture
def cluster(launch):
    """Starts the same line on every machine."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    heads: list[Run] = []

    def start(node, *options, machines=2, workers=2, loop=None, env=None, **named):
        where = ("--nnodes", machines, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port)
        home = {"home": heads[0].home} if heads else {}
        out = {"OUT": str(heads[0].out)} if node and heads else {}
        run = launch(
            *where, "--workers", workers, *options, loop={**LOOP, **(loop or {})}, env={**(env or {}), **out},
            **home, **named,
        )  # fmt: skip
        heads.append(run)
        return run

    return start


def lose(run, node):
    """A machine at once: its agent, its members, all that came from them, its memory."""
    for pid in [run.pid, *descendants(run.pid)]:
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(run.home / (f"r.n{node}" if node else "r"))


def until(is_so, run):
    limit = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < limit, run.said()
        time.sleep(0.02)


def until_four_again(first):
    """All four compute after somebody was lost; then there is nothing more to wait for."""
    until(lambda: any(event["world"] == 4 for event in first.events("formed")[1:]), first)
    first.hurry()


def check(run, *others, samples=100):
    """Everyone finished, each sample once in each epoch, the same weights on all, nothing left."""
    assert run.finish() == 0, run.said()
    for other in others:
        assert other.finish() == 0, other.said()
    check_samples(run, samples=samples)
    same_on_all(run)
    assert run.leftovers() == []


@pytest.mark.slow
def test_two_machines_compute_as_one_and_members_know_where_they_are(cluster):
    first, second = cluster(0), cluster(1)
    check(first, second)
    places = sorted((result["rank"], result["machine"]) for result in first.results())
    assert places == [(0, [0, 2, 0]), (1, [0, 2, 1]), (2, [1, 2, 0]), (3, [1, 2, 1])]
    assert first.events("formed")[0]["world"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_a_lost_machine_loses_no_committed_step(cluster, wrap):
    loop = {"wrap": wrap, "faults": {"m2": {"5": "machine"}}}
    first, second = cluster(0, "--max-restarts", 0, loop=loop), cluster(1, "--max-restarts", 0, loop=loop)
    assert second.finish() == -signal.SIGKILL
    check(first)
    assert len(first.events("machine lost")) == 1
    assert {event["member"] for event in first.events("lost")} == {"m2", "m3"}
    after = next(event for event in first.events("formed") if event["at"] > first.events("machine lost")[0]["at"])
    # The fault strikes inside step 6: five are committed.
    assert (after["step"], after["world"]) == (5, 2)
    if wrap == "fsdp":
        assert after["source"] == "memory"
    claim(wrap, "L3" if wrap == "fsdp" else "L2")


@pytest.mark.slow
def test_of_three_machines_one_is_lost_and_its_shards_come_from_the_next(cluster):
    loop = {"wrap": "fsdp", "faults": {"m1": {"5": "machine"}}}
    first, *others = [cluster(node, machines=3, workers=1, loop=loop) for node in range(3)]
    assert others[0].finish() == -signal.SIGKILL
    check(first, others[1])
    after = next(event for event in first.events("formed") if event["at"] > first.events("machine lost")[0]["at"])
    assert (after["step"], after["world"], after["source"]) == (5, 2, "memory")
    assert first.counts()["filled"]


@pytest.mark.slow
@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_when_the_first_machine_is_lost_the_state_waits_elsewhere_for_another(cluster, wrap):
    """With ddp the last snapshot is much older than the last step: who is left keeps what it has before it goes."""
    every = 0 if wrap == "fsdp" else 100
    options = ("--snapshot-every", every)
    loop = {"wrap": wrap, "faults": {"m0": {"5": "machine"}}}
    first, second = cluster(0, *options, loop=loop), cluster(1, *options, loop=loop)
    assert first.finish() == -signal.SIGKILL
    until(lambda: second.counts()["headless"], second)
    assert second.is_running()
    again = cluster(0, *options, loop={"wrap": wrap}, folder="again", env={"OUT": str(first.out)})
    again.out = first.out
    check(again, second)
    begun = again.events("formed")[0]
    assert (begun["source"], begun["step"], begun["world"]) == ("memory", 5, 4)
    assert again.events("generation")[0]["generation"] > 1, "numbers go on"
    assert not {"m0", "m1", "m2", "m3"} & {event["member"] for event in again.events("started")}, "so do names"


@pytest.mark.slow
def test_a_machine_that_comes_back_is_given_members_again(cluster):
    loop = {"samples": 600, "sleep": 0.2}
    first, second = cluster(0, loop=loop), cluster(1, loop=loop)
    first.wait_step(3)
    lose(second, 1)
    first.wait_for("machine lost")
    another = cluster(1, loop=loop)
    until_four_again(first)
    check(first, another, samples=600)
    worlds = [event["world"] for event in first.events("formed")]
    assert (worlds[:2], worlds[-1]) == ([4, 2], 4)
    assert first.counts()["lost"] == 2


@pytest.mark.slow
def test_below_the_least_number_of_machines_it_waits_for_another_with_its_state_in_memory(cluster):
    loop = {"wrap": "fsdp", "faults": {"m2": {"5": "machine"}}}
    first, second = [cluster(node, machines="2:2", loop=loop) for node in range(2)]
    assert second.finish() == -signal.SIGKILL
    first.wait_for("parked")
    another = cluster(1, machines="2:2", loop={"wrap": "fsdp"})
    check(first, another)
    assert [event["world"] for event in first.events("formed")] == [4, 4]
    assert [event["step"] for event in first.events("formed")] == [0, 5]


@pytest.mark.slow
def test_a_program_that_never_joins_starts_again_with_the_machines_that_are_left(cluster):
    loop = {"steps": 60, "sleep": 0.05}
    first, second = [cluster(node, loop=loop, script="unaware.py") for node in range(2)]
    until((first.out / "saved").exists, first)
    lose(second, 1)
    assert first.finish() == 0, first.said()
    results = first.results()
    assert [(result["world"], result["attempt"]) for result in results] == [(2, 1), (2, 1)]
    assert min(result["first"] for result in results) > 0, "from its own checkpoint"
    assert first.leftovers() == []


@pytest.mark.slow
def test_a_machine_that_is_asked_to_go_goes_and_the_others_go_on(cluster):
    loop = {"samples": 600, "sleep": 0.1, "wrap": "fsdp"}
    first, second = cluster(0, loop=loop), cluster(1, loop=loop)
    first.wait_step(5)
    second.signal(signal.SIGTERM)
    assert second.finish() == Exit.RELEASED, second.said()
    first.hurry()
    check(first, samples=600)
    assert first.counts()["lost"] == first.counts()["machine lost"] == 0
    assert [event["world"] for event in first.events("formed")] == [4, 2]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_a_lost_member_is_replaced_on_its_own_machine(cluster, fault):
    loop = {"samples": 600, "sleep": 0.2, "faults": {"m3": {"5": fault}}}
    first, second = cluster(0, loop=loop), cluster(1, loop=loop)
    until_four_again(first)
    check(first, second, samples=600)
    assert [event["member"] for event in first.events("lost")] == ["m3"]
    machines = [result["machine"] for result in first.results()]
    assert machines.count([1, 2, 1]) == 1, "the place on its machine that the lost one had"
    if fault == "stop":
        assert [event["member"] for event in first.events("fenced")] == ["m3"]


@pytest.mark.slow
def test_a_machine_that_falls_silent_is_lost_and_may_come_back(cluster):
    loop = {"samples": 600, "sleep": 0.3}
    env = {"TUTTI_TRAIN_LEASE": "3"}
    first, second = cluster(0, loop=loop, env=env), cluster(1, loop=loop, env=env)
    first.wait_step(3)
    os.kill(second.pid, signal.SIGSTOP)
    try:
        first.wait_for("machine lost")
    finally:
        os.kill(second.pid, signal.SIGCONT)
    until_four_again(first)
    check(first, second, samples=600)


@pytest.mark.slow
def test_the_status_is_the_same_on_every_machine(cluster, monkeypatch, capsys):
    from tutti.train.status import sentence, show

    loop = {"samples": 300, "sleep": 0.1, "wrap": "fsdp"}
    first, second = cluster(0, loop=loop), cluster(1, loop=loop)
    first.wait_step(10)
    monkeypatch.setenv("TUTTI_TRAIN_HOME", str(first.home))
    assert show([], as_json=True) == 0
    one, other = json.loads(capsys.readouterr().out)["runs"]
    assert one["domains"] == other["domains"] == {"n0": 2, "n1": 2}
    assert [one["run"], other["run"], one["replicas"]] == ["r", "r.n1", 4]
    assert "go on: --run-id r, and the --node-rank of this machine" in sentence({**other, "is_running": False})
    first.hurry()
    check(first, second, samples=300)


class Storm:
    """Machines that are lost, asked to go and started again, and members that are killed or frozen on any of them."""

    def __init__(self, cluster, draw, loop):
        self.draw = draw
        self.start = lambda node, **named: cluster(
            node, "--max-restarts", 10**6, "--wait", 120, machines=3, loop=loop, **named
        )
        self.machines = [self.start(node) for node in range(3)]
        self.out = self.machines[0].out

    @property
    def first(self):
        return self.machines[0]

    def until_whole(self):
        """All six compute, and a step was committed since."""
        until(lambda: self.is_over() or self.status().get("world") == 6, self.first)
        step = self.status()["step"]
        until(lambda: self.is_over() or self.status()["step"] > step, self.first)

    def status(self):
        # What a first machine that was lost said last is not what the next one says.
        return self.first.status() if self.first.events("formed") else {"step": -1}

    def is_over(self):
        return not self.first.is_running()

    def strike(self):
        kind, node = self.draw.choice(["kill", "stop", "lose", "lose", "leave"]), self.draw.randrange(3)
        if kind in ("kill", "stop"):
            pids = self.first.pids()
            if pids:
                number = signal.SIGKILL if kind == "kill" else signal.SIGSTOP
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.draw.choice(sorted(pids.values())), number)
        elif kind == "leave" and node:
            self.machines[node].signal(signal.SIGTERM)
            assert self.machines[node].finish() in (0, Exit.RELEASED), self.machines[node].said()
            self.replace(node)
        else:
            lose(self.machines[node], node)
            self.replace(node)

    def replace(self, node):
        self.machines[node].finish()
        if node == 0:
            self.machines[0] = self.start(0, env={"OUT": str(self.out)})
            self.machines[0].out = self.out
        elif not self.is_over():
            self.machines[node] = self.start(node)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_a_storm_over_machines_leaves_no_trace(cluster, wrap):
    seed = int(os.environ.get("TUTTI_STORM_SEED", "1"))
    blows = max(3, int(os.environ.get("TUTTI_STORM", "30")) // 10)
    samples = 12 * 20 * blows
    loop = {"samples": samples, "sleep": 0.5, "wrap": wrap, "epochs": 1}
    storm = Storm(cluster, random.Random(seed), loop)
    for _ in range(blows):
        storm.until_whole()
        if storm.is_over():
            break
        storm.strike()
    storm.until_whole()
    storm.first.hurry()
    assert storm.first.finish_within(LIMIT_S + 20 * blows) == 0, f"seed {seed}:\n{storm.first.said()}"
    for run in storm.machines:
        run.finish()
    check_samples(storm.first, epochs=1, samples=samples)
    same_on_all(storm.first)
    assert storm.first.leftovers() == []


# without processes


def test_who_was_away_while_the_run_went_on_brings_nothing_of_its_own():
    newest = newest_life([Past(1, 0, 9), Past(2, 7, 8)])
    assert newest.life == 2
    assert [belongs(past, newest) for past in (Past(2, 7, 8), Past(1, 0, 7), Past(1, 0, 9))] == [True, True, False]


@pytest.fixture
def posts():
    listener = lines.listen_at("127.0.0.1", 0)
    posts = Posts(listener, "r", 3)
    yield posts, listener.getsockname()[1]
    posts.close()


def greet(posts, port, **changes):
    line = lines.connect_to("127.0.0.1", port)
    line.send({"say": "greet", "version": VERSION, "run": "r", "node": 1, "room": 2, "past": [0, 0, 0, -1], **changes})
    said = []
    for _ in range(100):
        posts.hear(0.01)
        said = line.receive(0.01)
        if said or not line.is_open:
            break
    return line, said


def test_signs_of_life_of_a_machine_that_runs_longer_than_this_one_are_understood(tmp_path):
    """Its clock says more than ours; a member that never beat or waited has no age at all."""
    seat, beats = Seat("m1", 3, FarWatch(lambda _: None, "m1"), "n1"), Beats(tmp_path / "beats")
    agent: Any = SimpleNamespace(seats={"m1": seat}, beats=beats)
    posts: Any = SimpleNamespace(here={"n1": SimpleNamespace()})
    far = Far(agent, posts, 1)
    ages = 1 << 62
    for facts, seen in (
        ([ages, 2, 7, ages, 5, ages, 1.5, True], [1, 2, 7, 1, 5, 1]),
        ([-1, 0, 0, -1, 0, -1, 0.0, False], [0, 0, 0, 0, 0, 0]),
    ):
        far._pulse("n1", {"memory": 1, "replicas": 0, "beats": {"m1": facts, "unknown": facts}})
        assert list(vars(beats.read(3)).values()) == seen
        assert (seat.watch.cpu_s(), seat.watch.is_stopped()) == (facts[6], facts[7])


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"run": "other"}, "same --run-id"), ({"node": 3}, "--node-rank 3"), ({"version": 99}, "version 99"),
     ({"past": ["x"]}, "x"), ({"room": None}, "int")],
)  # fmt: skip
def test_whoever_does_not_belong_is_told_why(posts, changes, words):
    line, said = greet(*posts, **changes)
    line.close()
    assert said[0]["say"] == "refused"
    assert words in said[0]["why"]
    assert not posts[0].here


def test_what_is_no_greeting_ends_only_that_connection(posts):
    machines, port = posts
    for text in (b"GET / HTTP/1.0\r\n\r\n", b"[1]\n", b'{"say":"greet"}\n', b"\xff\xfe\n"):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(text)
            for _ in range(10):
                machines.hear(0.01)
    machines.begin(Past())
    line, said = greet(machines, port)
    assert (said[0]["say"], said[0]["keep"], list(machines.here)) == ("welcome", True, ["n1"])
    again, said = greet(machines, port)
    assert said[0]["again"], "it may be the same machine, started again"
    line.close()
    again.close()


def test_a_machine_without_a_network_to_meet_at_is_refused(tmp_path, capsys):
    from tutti.train.launch import main

    script = tmp_path / "loop.py"
    script.write_text("")
    lines_of = [
        (["--nnodes", "2"], "--master-addr"),
        (["--nnodes", "2", "--master-addr", "h"], "--node-rank"),
        (["--nnodes", "2", "--master-addr", "h", "--node-rank", "2"], "the last one has rank 1"),
        (["--nnodes", "3:2", "--master-addr", "h", "--node-rank", "0"], "is no number"),
        (["--nnodes", "x"], "'x' is not a number"),
        (["--nnodes", "2", "--master-addr", "h", "--node-rank", "0", "--domains", "2"], "failure domain"),
        (["--nnodes", "2", "--master-addr", "h", "--node-rank", "0", "--disk", str(tmp_path)], "--durable"),
    ]
    for words, expected in lines_of:
        assert main([*words, "--", "python", str(script)]) == 2
        assert expected in capsys.readouterr().err
