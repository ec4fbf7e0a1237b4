"""The parts of one box that need no daemon: devices, ports, variables, names, ends, settings, retention, hooks."""

import asyncio
import copy
import http.server
import json
import os
import pathlib
import resource
import socket
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.clusters import gang as gang_of
from tests.local.stage import box, until
from tutti.api.home import Home
from tutti.cli import change
from tutti.engine.model import SECOND, Bound, Gang, Node, OnLoss, Queue, Role, Seats, Shape, State
from tutti.errors import Misused, NotFound, Refused
from tutti.jobs.gang import to_gang
from tutti.jobs.job import Job
from tutti.jobs.place import Place
from tutti.jobs.understand import understand
from tutti.local import devices, retention
from tutti.local.booking import Booking
from tutti.local.ends import Fate, Verdict, verdict
from tutti.local.held import Course, Held, Origin, Placed, Run, Tasks
from tutti.local.hooks import Hooks
from tutti.local.journal import Journal
from tutti.local.keeper import cgroup, records
from tutti.local.layout import NoRoom, entering, leaving, seats_of
from tutti.local.limits import limits_of
from tutti.local.memory_bill import billed, explained
from tutti.local.names import made_up, stem_of
from tutti.local.ports import Ports
from tutti.local.recover import keep_waiting, nothing_left
from tutti.local.remains import Remains, has_begun
from tutti.local.retention import Retention
from tutti.local.room import check_limits
from tutti.local.settings import Settings, checked
from tutti.local.signals import number_of
from tutti.local.spread import spread
from tutti.local.variables import Gathering, cleaned, variables

# -- devices


@pytest.mark.parametrize(
    ("spec", "nodes", "found"), [("8", 1, 8), ("4x8", 4, 32), ("2x3x4:h100", 6, 24)], ids=["one", "nodes", "racks"]
)
def test_made_up_devices(tmp_path, spec, nodes, found):
    made = devices.made_up(spec, tmp_path)
    assert (len(made.nodes), len(made.devices)) == (nodes, found)
    assert len({device.lock for device in made.devices}) == found


@pytest.mark.parametrize("spec", ["0", "x", "4x", "100000", "-1", "2x2x2x2"])
def test_impossible_devices_are_refused(tmp_path, spec):
    with pytest.raises(Misused, match="no number of devices"):
        devices.made_up(spec, tmp_path)


class Nvml:
    """A double of NVIDIA's library: two cards, a stranger on the second."""

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return f"GPU-{handle}".encode()

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return "NVIDIA H100 80GB"

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        return [SimpleNamespace(pid=os.getpid())] if handle else []


@pytest.mark.parametrize("words", [("time=3h", "priority=-1"), ("--time", "3h", "--priority=-1")])
def test_changes_are_written_as_keys_or_as_options(words):
    assert change._keys(words) == {"time": "3h", "priority": -1}


@pytest.mark.parametrize("words", [("time",), ("--time",), ("=3h",)])
def test_what_is_no_change_is_told(words):
    with pytest.raises(Misused, match="is no change"):
        change._keys(words)


def test_limits_of_a_process_are_read_from_the_kernel():
    found = limits_of(os.getpid())
    assert found["RLIMIT_NOFILE"] == resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits_of(0) == limits_of(1 << 30) == {}


def test_a_service_goes_into_a_group_of_its_own_so_that_gangs_can_have_theirs(tmp_path):
    """A folder stands in for the kernel's: here it cannot be had."""
    assert cgroup.nest(str(tmp_path))
    assert (tmp_path / cgroup.DAEMON / "cgroup.procs").read_text() == str(os.getpid())
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert not cgroup.nest(str(tmp_path / cgroup.DAEMON / "cgroup.procs"))


def test_a_gang_cannot_use_up_the_numbers_of_processes(tmp_path):
    group = cgroup.Cgroup(str(tmp_path))
    group.limit_processes()
    assert not any(tmp_path.iterdir()), "the kernel does not count them in this group"
    (tmp_path / "pids.max").write_text("max")
    group.limit_processes()
    assert 2 * int((tmp_path / "pids.max").read_text()) <= int(pathlib.Path("/proc/sys/kernel/pid_max").read_text())


def test_cards_by_nvml_and_strangers_on_them(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_LOCKS", str(tmp_path))
    found = devices.by_nvml((), Nvml())
    assert found is not None
    assert [device.id for device in found.devices] == ["gpu0", "gpu1"]
    assert found.nodes[0].capacity["gpu"] == 2
    assert found.nodes[0].tags == ("kind=nvidia-h100-80gb",)
    strangers = devices.foreigners(found, lambda pid: False, Nvml())
    assert list(strangers) == ["gpu1"]
    assert f"process {os.getpid()}" in strangers["gpu1"]
    assert devices.foreigners(found, lambda pid: True, Nvml()) == {}
    booking = Booking(found)
    assert booking.strangers(strangers)[0].foreign == {"gpu": 1}
    assert booking.chooser("a")(0, 2) is None
    assert booking.chooser("a")(0, 1) == ("gpu0",)
    assert devices.by_nvml((0, 1), Nvml()) is None


def test_processor_slots_where_there_is_no_card(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_LOCKS", str(tmp_path))
    found = devices.by_cpus(0, ())
    assert len(found.devices) == len(os.sched_getaffinity(0))
    assert "no GPU was found" in found.notes[0]
    assert len(devices.by_cpus(3, (0,)).devices) == 2


def test_a_device_that_another_scheduler_holds_is_not_ours(tmp_path, monkeypatch):
    from tutti.local.keeper.locks import Locks

    monkeypatch.setenv("TUTTI_LOCKS", str(tmp_path))
    found = devices.by_cpus(2, ())
    other = Locks()
    other.take([found.devices[1].lock])
    assert devices.locked_elsewhere(found, {}) == {found.devices[1].id: "held by another scheduler"}
    other.give_all()


def test_a_drained_device_makes_its_node_smaller(tmp_path):
    booking = Booking(devices.made_up("2x2", tmp_path))
    assert [node.foreign for node in booking.drain("n1", "fan")] == [{"gpu": 2}]
    assert booking.drain("n1:0", "fan") == []
    assert booking.chooser("a")(0, 2) == ("n0:0", "n0:1")
    assert booking.drain("0", "held by a, so it still counts") == []
    assert [node.foreign for node in booking.give_all("a")] == [{"gpu": 1}]
    with pytest.raises(NotFound):
        booking.named("gpu9")


# -- who sits where


def gang(**more) -> Gang:
    return Gang("g", (Role("worker", 1, 4, 4, (Shape({"gpu": 1}),), **more),))


def test_members_take_free_ids_and_leave_from_the_end(tmp_path):
    choose = Booking(devices.made_up("2x4", tmp_path)).chooser("g")
    first = entering(gang(), (), (Seats((0, 1), (2, 1)),), choose, None)
    assert [(one.id, one.node) for one in first] == [(0, 0), (1, 0), (2, 1)]
    out = leaving(first, (Seats((0,), (1,)),))
    assert [one.id for one in out] == [1, 2]
    again = entering(gang(), [first[0], first[2]], (Seats((0, 1), (2, 1)),), choose, None)
    assert [(one.id, one.node) for one in again] == [(1, 0)]
    assert seats_of(gang(), first) == (Seats((0, 1), (2, 1)),)
    with pytest.raises(NoRoom):
        entering(gang(), (), (Seats((0,), (4,)),), choose, None)


def test_tasks_are_dealt_in_order(tmp_path):
    choose = Booking(devices.made_up("4", tmp_path)).chooser("g")
    placed = entering(gang(), (), (Seats((0,), (2,)),), choose, Tasks([7, 9, 11]))
    assert [(one.id, one.task) for one in placed] == [(7, 7), (9, 9)]


# -- variables and ports


def test_variables_of_other_managers_are_taken_out():
    captured = {"SLURM_PROCID": "3", "OMPI_COMM_WORLD_RANK": "1", "RANK": "5", "PATH": "/bin", "TUTTI_HOME": "/h"}
    assert cleaned(captured) == {"PATH": "/bin", "TUTTI_HOME": "/h"}


def test_members_are_told_who_they_are():
    place = Place(job="j", rank=1, size=4, local_rank=1, local_size=4, devices=(2,), gpus=1, port=20001, restarts=2)
    found = variables(place, Gathering("n", "torchrun", "made-up", "/c", "/src"), {"PYTHONPATH": "/mine"})
    assert (found["RANK"], found["WORLD_SIZE"], found["CUDA_VISIBLE_DEVICES"]) == ("1", "4", "2")
    assert (found["PET_NNODES"], found["PET_NODE_RANK"], found["PET_MASTER_PORT"]) == ("4", "1", "20001")
    assert (found["TUTTI_ATTEMPT"], found["TUTTI_CHANNEL"]) == ("2", "unix:/c")
    assert found["PYTHONPATH"] == "/mine:/src"


def test_a_slot_shows_no_card_and_a_users_threads_are_kept():
    place = Place(job="j", devices=(0,), gpus=1, cpus=4)
    assert variables(place, Gathering("n", source="cpu"), {})["CUDA_VISIBLE_DEVICES"] == ""
    assert variables(place, Gathering("n"), {})["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in variables(place, Gathering("n"), {"OMP_NUM_THREADS": "1"})


def test_a_port_is_free_and_not_given_twice(tmp_path):
    ports = Ports(tmp_path, start=0)
    first = ports.choose(())
    assert ports.choose({first}) != first
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
        assert Ports(tmp_path, start=number - 20_000).choose(()) != number


@pytest.mark.slow
def test_ports_never_collide():
    """Rounds of two-rank gangs at once: each first rank listens on its port, and nobody finds it taken."""
    listen = (
        "import os, socket, time; s = socket.socket();"
        "place = ('127.0.0.1', int(os.environ['MASTER_PORT']));"
        "os.environ['RANK'] != '0' or (s.bind(place), s.listen(), time.sleep(0.2))"
    )
    with box("24") as made:
        for turn in range(2):
            jobs = [
                made.submit(sys.executable, "-S", "-c", listen, workers=2, name=f"p{turn}-{at}") for at in range(12)
            ]
            assert [job.wait() for job in jobs] == [0] * 12


# -- names, signals, ends


def test_names_say_what_runs():
    assert stem_of(Job(command=("python", "train.py", "--lr", "1"))) == "train"
    assert stem_of(Job(command=("sh", "-c", "echo hello there"))) == "echo"
    assert stem_of(Job(command=("/opt/bin/My Tool",))) == "my"
    assert stem_of(Job(command="make all")) == "make"
    assert made_up(Job(command=("train.py",)), {"train-1", "train-2"}.__contains__) == "train-3"


@pytest.mark.parametrize(
    ("line", "more"),
    [
        pytest.param("tutti train --state 3GB -- python loop.py", 2 * 3e9 * 1.34 / 2, id="two slots over the fewest"),
        pytest.param("python -m tutti.train --slots 1 --state=1GB loop.py", 1e9 * 1.34 / 2, id="one slot"),
        pytest.param("tutti train --state 1GB --domains 2 python loop.py", 2 * 2 * 1e9 * 1.34 / 2, id="two domains"),
        pytest.param("tutti train -- python loop.py --state 3GB", 0, id="not said to us"),
        pytest.param("tutti train --state much -- python loop.py", 0, id="no amount: refused by itself"),
        pytest.param("python loop.py --state 3GB", 0, id="another program"),
    ],
)
def test_the_memory_of_snapshots_is_part_of_what_a_job_asks_for(line, more):
    job = Job(command=tuple(line.split()), workers="2:4", mem="4G")
    ask = billed(to_gang(job, 0, "me"), job.words).roles[0].shapes[0].ask
    assert ask["memory"] == 4 * 10**9 + int(more)


def test_the_memory_of_snapshots_is_explained():
    found = explained(understand(("tutti", "train", "--state", "1GB", "--", "python", "loop.py"), {"mem": "4G"}))
    assert found.gang.roles[0].shapes[0].ask["memory"] == 4 * 10**9 + int(2 * 1e9 * 1.34)
    assert found.sources["mem"].endswith(", and the snapshots of --state")
    plain = understand(("python", "loop.py"), {})
    assert explained(plain) is plain


def test_signals_by_name():
    assert number_of("SIGUSR1") == number_of("usr1") == 10
    assert number_of("9") == 9
    with pytest.raises(Misused):
        number_of("SIGNOTHING")


FAILED, FINISHED, CANCELLED = State.FAILED, State.FINISHED, State.CANCELLED


def test_a_run_whose_keeper_died_before_it_began_is_no_loss(tmp_path):
    run = Run("n", 1, tmp_path, {}, was_told=True)
    assert not has_begun(run)
    assert records.claimed_by(str(tmp_path)) == records.VOID, "a keeper that comes late must not begin"
    (tmp_path / records.CLAIM).write_text('{"who": "a/1/1"}')
    assert has_begun(run)
    assert not has_begun(msgspec.structs.replace(run, was_told=False))


@pytest.mark.parametrize(
    ("job", "leaving_for", "losses", "record", "fate", "state", "code"),
    [
        ({}, "", 0, {"code": 0}, Fate.OVER, FINISHED, 0),
        ({}, "", 0, {"code": 3, "first": 1}, Fate.OVER, FAILED, 3),
        ({}, "", 0, {"code": -9, "first": 0}, Fate.AGAIN, State.WAITING, 137),
        ({}, "", 10, {"code": -9, "first": 0}, Fate.OVER, FAILED, 137),
        ({"on_loss": OnLoss.FAIL}, "", 0, {"code": -9, "first": 0}, Fate.OVER, FAILED, 137),
        ({}, "", 0, {"code": 1, "first": 0, "lost_first": True}, Fate.AGAIN, State.WAITING, 1),
        ({}, "", 0, {"code": 75, "first": 0}, Fate.AGAIN, State.WAITING, 75),
        ({}, "", 0, {"why": "refused", "refused": "busy"}, Fate.REFUSED, State.WAITING, 125),
        ({"time": "1s"}, "", 0, {"why": "limit", "code": -15}, Fate.OVER, FAILED, 124),
        ({"time": "1s", "on_limit": "requeue"}, "", 0, {"why": "limit", "code": -15}, Fate.AGAIN, State.WAITING, 143),
        ({}, "", 0, {"why": "hang", "code": -15}, Fate.AGAIN, State.WAITING, 143),
        ({}, "cancel", 0, {"code": 0}, Fate.OVER, CANCELLED, 130),
        ({}, "fail", 0, {"code": -15}, Fate.OVER, FAILED, 143),
        ({}, "requeue", 0, {"code": -15}, Fate.AGAIN, State.WAITING, 143),
        ({}, "park", 0, {"code": 75, "saved": True}, Fate.AGAIN, State.PARKED, 75),
    ],
)
def test_what_an_end_means(job, leaving_for, losses, record, fate, state, code):
    found = verdict(Job(**job), leaving_for, "why", losses, record)
    assert (found.fate, found.state, found.code) == (fate, state, code)


# -- settings


def test_a_configuration_is_read_whole():
    text = """
[policy]
preset = "fair"
[policy.order]
half_life = "1d"
[queues.a]
guarantee = { gpu = 2 }
slice = "10m"
"""
    found = checked(text, "c")
    assert found.engine_policy().name == "fair"
    assert [queue.name for queue in found.engine_queues()] == ["default", "a"]
    assert found.engine_queues()[1].slice == 600_000_000


def test_bounds_of_queues_in_the_configuration():
    text = "[queues.a]\nmax_running = 2\n[[queues.a.bounds]]\nusers = ['ann']\nmax_running = 1\nlimit = { gpu = 3 }\n"
    queue = checked(text, "c").engine_queues()[1]
    assert (queue.max_running, queue.bounds) == (2, (Bound(users=("ann",), max_running=1, limit={"gpu": 3}),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense = 1", "config.toml:1: unknown key 'nonsense'"),
        ("[queues.a]\nwieght = 1", "config.toml:2: unknown key 'queues.a.wieght'; did you mean 'weight'?"),
        ("[queues.a]\nweight = 'much'\n[lgos]", "config.toml:2: queues.a.weight: expected int, got str\n"),
        ("[queues.a]\nweight = 'much'\n[lgos]", "config.toml:3: unknown key 'lgos'; did you mean 'logs'?"),
        ("queues = 3", "Expected `object`"),
        ("[logs]\n[policy.order]\nterms = ['colour']", "config.toml:3: policy.order.terms: 'colour'"),
        ("[logs]\nbytes = 'many'", "many"),
        ("[queues.a]\nparent = 'b'", "no such queue"),
        ("x = ", "not TOML"),
        ("[queues.a]\nmax_wait = 'soon'", "soon"),
        ("[queues.a]\nmax_running = -1", "queues.a: max_running is -1; write 0 or more"),
        ("[queues.a]\nmax_running = 'few'", "config.toml:2: queues.a.max_running: invalid enum value 'few'"),
        ("[[queues.a.bounds]]\nmax_running = 1", "queues.a: bounds[0] is about nobody; write users or groups"),
        ("[[queues.a.bounds]]\nusers = ['ann']\nmax_runing = 1", "max_runing"),
    ],
)
def test_a_wrong_configuration_is_told(text, says):
    with pytest.raises(Misused) as told:
        checked(text, "config.toml")
    assert says in str(told.value)


# -- retention


def test_old_history_and_logs_go(tmp_path):
    home = Home(tmp_path / "h")
    home.make()
    journal = Journal(home.journal)
    asyncio.run(journal.commit([_ended(number) for number in range(1, 6)]))
    for number in range(1, 6):
        folder = home.logs / str(number)
        folder.mkdir()
        (folder / "rank-0.log").write_text("x" * 1000)
        os.utime(folder, (number, number))
    settings = msgspec.convert({"history": {"jobs": 2, "keep": "36500d"}, "logs": {"total": 2500}}, Settings)
    keeper = Retention(home, journal, settings)
    now = 10_000_000
    keeper.history(now)
    asyncio.run(journal.commit(()))
    assert [row["id"] for row in journal.rows("SELECT id FROM jobs ORDER BY id")] == [4, 5]
    keeper.logs(now, keep={1})
    assert sorted(path.name for path in home.logs.iterdir()) == ["1", "4", "5"]
    journal.close()


@pytest.mark.parametrize("jump_s", [3 * 3600, -3 * 3600], ids=["forward", "back"])
def test_a_clock_that_is_set_while_old_logs_are_cleared_does_not_put_off_the_next_time(tmp_path, monkeypatch, jump_s):
    """As when a machine learns the time only after it has started."""
    home, clock, passes = Home(tmp_path / "h"), [10**15], []
    home.make()
    journal = Journal(home.journal)
    monkeypatch.setattr(retention, "now_us", lambda: clock[0])
    keeper = Retention(home, journal, Settings())

    def pass_s(seconds):
        clock[0] += seconds * SECOND
        asyncio.run(keeper.turn())

    def clear(now, keep):
        passes.append(now)
        clock[0] += jump_s * SECOND * (len(passes) == 1)

    monkeypatch.setattr(keeper, "logs", clear)
    pass_s(59)
    assert passes == []
    pass_s(1)
    assert len(passes) == 1
    pass_s(1)
    assert len(passes) == 2, "the clock is another: it is looked at once more"
    pass_s(59)
    assert len(passes) == 2
    pass_s(1)
    assert len(passes) == 3
    journal.close()


def test_who_did_what_and_what_the_daemon_says_have_a_limit(tmp_path):
    home = Home(tmp_path / "h")
    home.make()
    journal = Journal(home.journal)
    entry = "INSERT INTO audit (at, who, what, target, detail) VALUES (?,?,?,?,?)"
    asyncio.run(journal.commit([(entry, (number, "u", "submit", f"j{number}", "")) for number in range(1, 6)]))
    keeper = Retention(home, journal, msgspec.convert({"history": {"audit": 3}}, Settings))
    keeper.history(2_000_000)
    asyncio.run(journal.commit(()))
    assert [row["target"] for row in journal.rows("SELECT target FROM audit ORDER BY id")] == ["j3", "j4", "j5"]
    with home.log.open("ab", buffering=0) as written:
        written.write(b"first\n" + b"x" * 99 + b"\n" * (16 << 20) + b"last\n")
        keeper.own_log()
        written.write(b"more\n")
    assert home.log.read_bytes() == b"more\n"
    assert home.log.with_name("daemon.log.1").read_bytes().endswith(b"\nlast\n")
    journal.close()


def _ended(number: int):
    columns = "id, name, user, queue, submitted, ended, job, context, gang, life"
    values = (number, f"j{number}", "u", "q", 1, number, b"{}", b'{"env_hash": "x"}', b"{}", b"{}")
    return f"INSERT INTO jobs ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?)", values


# -- hooks


def test_hooks_are_called_and_told(tmp_path):
    heard = []

    class Ear(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words):
            """Quiet."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Ear)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        job = Job(name="j", command=("true",), hooks={"failed": "echo $TUTTI_JOB $TUTTI_EVENT $TUTTI_CODE >> told"})
        held = Held(1, job, Origin(str(tmp_path), "", 0, "me", 0), Gang("j", ()), {}, Course())
        settings = msgspec.convert({"hooks": {"failed": address, "started": "exit 3"}}, Settings)
        found = Verdict(Fate.OVER, State.FAILED, 3, "rank 0 ended with exit code 3")

        async def happens():
            hooks = Hooks(settings)
            hooks.happened(held, "started")
            hooks.happened(held, "failed", found)
            await asyncio.gather(*hooks._tasks)

        asyncio.run(happens())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (tmp_path / "told").read_text() == "j failed 3\n"
    told = {"job": "j", "event": "failed", "queue": "default", "user": "", "job_id": "1"}
    ended = {"state": "failed", "code": "3", "why": "rank 0 ended with exit code 3"}
    assert heard == [{"schema": "tutti/v1", **told, **ended}]


def test_a_health_check_takes_bad_devices_out():
    config = """
[devices]
health = "test $CUDA_VISIBLE_DEVICES != 0 || { echo fan is off; exit 1; }"
[policy.repair]
back_off = "1s"
"""
    with box("2", config) as made:
        job = made.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert job.wait() == 0
        assert made.log(job.name) == "1\n"
        cells = made.client.get("/v1/nodes")["nodes"][0]["devices"]
        until(lambda: cells[0]["state"] == "drained", "the drain")
        assert "fan is off" in cells[0]["note"]


@pytest.mark.parametrize(
    ("nodes", "job", "members"),
    [
        pytest.param((4, 4), {"framework": "slurm", "gpus": 4}, (1, 4), id="it fits on a node"),
        pytest.param((4, 4), {"framework": "slurm", "gpus": 8}, (2, 4), id="two nodes"),
        pytest.param((2, 4, 4), {"framework": "pbs", "gpus": 6}, (2, 3), id="two of three nodes, evenly"),
        pytest.param((4, 4), {"framework": "slurm", "gpus": 7}, (1, 7), id="it cannot be dealt out evenly"),
        pytest.param((4, 4), {"gpus": 8}, (1, 8), id="no script: a member sees its devices on one node"),
        pytest.param((4, 4), {"framework": "slurm", "gpus": 8, "workers": 2}, (2, 8), id="members of a script's step"),
    ],
)
def test_a_script_that_no_node_holds_is_spread_over_several(nodes, job, members):
    written = Job(command=("sh",), **job)
    there = [Node(f"n{at}", {"gpu": count}) for at, count in enumerate(nodes)]
    role = spread(to_gang(written), written, there).roles[0]
    assert (role.min, role.max, role.shapes[0].ask["gpu"]) == (members[0], members[0], members[1])


@pytest.mark.parametrize(
    ("queue", "workers", "says"),
    [
        ("small", 2, ""),
        ("small", 3, "queue small may hold 2 devices at most, and it needs 3 devices"),
        ("part", 1, ""),
        ("part", 2, "one user of queue part may hold 1 device at most"),
        ("open", 4, "queue team may hold 3 devices at most"),
        ("named", 3, "user me in queue named may hold 2 devices at most"),
        ("nowhere", 9, ""),
    ],
)
def test_a_job_its_queue_would_never_let_run_is_refused(queue, workers, says):
    queues = [
        Queue("small", limit={"gpu": 2}),
        Queue("team", limit={"gpu": 3}),
        Queue("part", "team", user_limit={"gpu": 1}),
        Queue("open", "team"),
        Queue("named", bounds=(Bound(users=("me",), limit={"gpu": 2}),)),
    ]
    with pytest.raises(Refused, match=says) if says else nullcontext():
        check_limits(gang_of("wide", workers, queue=queue, user="me"), {each.name: each for each in queues})


@pytest.mark.parametrize(
    ("tasks", "running", "waiting", "ends"),
    [
        (Tasks([0, 1, 2]), [0], [1, 2], None),
        (Tasks([0], [0]), [], [], 0),
        (Tasks([0, 3], [0], {1: 4}), [2], [3], None),
        (Tasks([0, 1], [0], {1: 4}), [], [], 4),
        (Tasks([0, 1]), [], [0, 1], None),
    ],
    ids=["what runs", "what is done", "what failed", "all over, one failed", "all wait"],
)
def test_a_task_that_is_over_or_runs_does_not_wait_as_well(tmp_path, tasks, running, waiting, ends):
    held = Held(1, Job(), Origin(str(tmp_path), "", 0, "me", 0), Gang("j", ()), {}, Course(copy.deepcopy(tasks)))
    members = {at: Placed(at, 0, at, 0, (), task=task) for at, task in enumerate(running)}
    keep_waiting(held, Run("n", 1, tmp_path, members) if running else None)
    assert held.course.tasks is not None
    assert held.course.tasks.waiting == waiting
    found = nothing_left(held)
    assert (None if found is None else found.code) == (None if running else ends)


@pytest.mark.parametrize(("leaving", "state"), [("cancel", "cancelled"), ("fail", "failed"), ("", "waiting")])
def test_a_job_that_was_told_to_end_before_it_began_does_not_wait_again(leaving, state):
    assert verdict(Job(), leaving, "", 0, {"why": "refused"}).state.value == state


@pytest.mark.parametrize(("failed", "state", "code"), [({2: 3}, State.FAILED, 3), ({}, State.FINISHED, 0)])
def test_an_array_whose_keeper_is_killed_after_its_last_task_has_ended(failed, state, code):
    tasks = Tasks(waiting=[], done=[task for task in range(4) if task not in failed], failed=failed)
    held: Any = SimpleNamespace(course=Course(tasks))
    nobody: Any = None
    run = Run("n", 1, pathlib.Path("/nowhere"), {3: Placed(3, 0, 3, 0, (), 3)})
    lost = {"why": "", "code": -9, "first": 0, "lost_first": True}
    found = verdict(Job(array=4), "", "", 0, Remains(nobody).array_record(held, run, lost))
    assert (found.fate, found.state, found.code) == (Fate.OVER, state, code)
    tasks.waiting = [1]
    again = verdict(Job(array=4), "", "", 0, Remains(nobody).array_record(held, run, lost))
    assert again.fate is Fate.AGAIN
