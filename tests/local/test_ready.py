"""The next gang in line is ready before there is room for it; whatever happens then, it runs once or not at all."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.local.stage import Box, box, until
from tutti.api.client import job_path
from tutti.api.home import Home
from tutti.local import starting
from tutti.local.backend import LocalBackend
from tutti.local.devices import made_up
from tutti.local.held import Run
from tutti.local.keeper import records, tree
from tutti.local.keeper.locks import is_held
from tutti.local.keeper.turn import TURN
from tutti.local.ports import Ports
from tutti.local.settings import Settings
from tutti.local.starting import Starting
from tutti.train.agent.watch import state_of

HOLD = "while ! test -e go; do sleep 0.02; done"


def stopped(made: Box) -> dict[str, list[int]]:
    """Members that are at the gate, by run."""
    found = {}
    for folder in made.home.runs.iterdir():
        here = [pid for pid in tree.marked(folder.name) if state_of(pid) in {"t", "T"}]
        if here and (folder / records.BEGUN).exists():
            found[folder.name] = here
    return found


def scene(made: Box, *command: str, **job: object) -> None:
    """One gang has the device, and another waits for it."""
    made.submit("sh", "-c", HOLD, name="first")
    made.becomes("first", "running")
    made.submit(*(command or ("sh", "-c", "echo $TUTTI_ATTEMPT >> ran")), name="next", **job)


@pytest.fixture
def one():
    with box("1") as made:
        yield made


def nothing_left(made: Box) -> None:
    until(lambda: not list(made.home.runs.iterdir()), "the end of every folder")
    assert not [path for path in made.home.locks.iterdir() if is_held(str(path))]
    assert not made.client.get("/v1/status")["trouble"]
    assert "violation" not in made.home.log.read_text()


def ran_once(made: Box, attempt: str = "0") -> None:
    (made.path / "go").touch()
    assert made.client.job("next").wait() == 0
    assert (made.path / "ran").read_text() == f"{attempt}\n"
    nothing_left(made)


def test_whoever_is_next_is_ready_and_has_done_nothing_and_holds_nothing(one):
    scene(one, "sh", "-c", "echo $$ > pid; echo 0 >> ran")
    nonce, members = until(lambda: stopped(one), "a member at the gate").popitem()
    assert one.state("next") == "waiting"
    assert not (one.path / "ran").exists()
    assert one.client.get(job_path("next"))["ranks"] == []
    keeper = records.keeper_of(str(one.home.runs / nonce))
    lock = next(iter(one.home.locks.iterdir())).read_text()
    assert f"process {keeper} " not in lock
    ran_once(one)
    assert [int((one.path / "pid").read_text())] == members


@pytest.mark.parametrize("order", ["cancel", "hold", "overtake", "drain"])
def test_whoever_was_ready_and_is_not_next_any_more_leaves_nothing(one, order):
    scene(one)
    nonce, members = until(lambda: stopped(one), "a member at the gate").popitem()
    match order:
        case "cancel" | "hold":
            one.client.post(job_path("next", order), {})
        case "drain":
            one.client.post("/v1/devices/0/drain", {})
        case "overtake":
            one.submit("true", name="a", priority=9)
            one.submit("true", name="b", priority=9)
    until(lambda: not (one.home.runs / nonce).exists(), "its end")
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in members), "the end of its members")
    if order == "cancel":
        (one.path / "go").touch()
        assert one.client.job("first").wait() == 0
        assert not (one.path / "ran").exists()
        assert not list(one.home.logs.glob("2*"))
        nothing_left(one)
        return
    if order == "hold":
        one.client.post(job_path("next", "release"), {})
    if order == "drain":
        one.client.post("/v1/devices/0/undrain", {})
    ran_once(one)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(job_path("next", "update"), {"set": {"env": {"SOMETHING": "else"}}}, id="job"),
        pytest.param("/v1/config/reload", None, id="configuration"),
    ],
)
def test_what_is_changed_is_for_those_who_are_ready_too(one, path, body):
    scene(one, workers=1)
    nonce, members = until(lambda: stopped(one), "a member at the gate").popitem()
    one.client.post(path, body)
    until(lambda: (found := stopped(one)) and nonce not in found, "another member at the gate")
    assert set(stopped(one).popitem()[1]).isdisjoint(members)
    ran_once(one)


def test_a_daemon_that_is_killed_takes_those_who_are_ready_with_it(one):
    scene(one)
    _, members = until(lambda: stopped(one), "a member at the gate").popitem()
    one.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in members), "their end")
    one.start()
    _, others = until(lambda: stopped(one), "another at the gate").popitem()
    assert set(others).isdisjoint(members)
    ran_once(one)


def test_a_daemon_that_is_stopped_leaves_nobody_at_the_gate(one):
    scene(one)
    _, members = until(lambda: stopped(one), "a member at the gate").popitem()
    one.client.post("/v1/stop")
    one.daemons[-1].wait(timeout=20)
    assert not any(Path(f"/proc/{pid}").exists() for pid in members)
    assert len(list(one.home.runs.iterdir())) == 1
    one.client.close()
    one.start()
    ran_once(one)


@pytest.mark.parametrize("whom", ["keeper", "member"])
def test_whoever_is_killed_at_the_gate_costs_nothing(one, whom):
    scene(one)
    nonce, members = until(lambda: stopped(one), "a member at the gate").popitem()
    os.kill(records.keeper_of(str(one.home.runs / nonce)) if whom == "keeper" else members[0], signal.SIGKILL)
    until(lambda: not (one.home.runs / nonce).exists(), "its end")
    assert one.state("next") == "waiting"
    ran_once(one)


def offered(made: Box) -> list[Path]:
    """Runs whose members the keeper of another may let go."""
    return [folder for folder in made.home.runs.iterdir() if (folder / TURN).exists()]


@contextmanager
def asleep(made: Box) -> Iterator[int]:
    """A daemon that hears and says nothing."""
    until(lambda: offered(made), "somebody who may go without asking")
    daemon = int(made.client.get("/v1/status")["pid"])
    os.kill(daemon, signal.SIGSTOP)
    try:
        yield daemon
    finally:
        os.kill(daemon, signal.SIGCONT)


def devices_held(made: Box) -> list[str]:
    """Who holds the device, as its lock says."""
    return [lock.read_text() for lock in made.home.locks.iterdir() if is_held(str(lock))]


def test_the_next_goes_without_asking_anybody_and_has_the_device_at_once(one):
    scene(one, "sh", "-c", "echo 0 >> ran; while ! test -e end; do sleep 0.02; done")
    with asleep(one):
        (one.path / "go").touch()
        until((one.path / "ran").exists, "the start of the next")
        keepers = [records.keeper_of(str(folder)) for folder in one.home.runs.iterdir()]
        until(lambda: any(f"process {keeper} " in text for keeper in keepers for text in devices_held(one)), "a holder")
    one.becomes("next", "running")
    assert one.client.job("first").wait() == 0
    (one.path / "end").touch()
    ran_once(one)


def test_whoever_is_over_before_anybody_knew_of_it_has_run_once(one):
    scene(one, "sh", "-c", "echo 0 >> ran; echo said; exit 3")
    with asleep(one):
        (one.path / "go").touch()
        until((one.path / "ran").exists, "the start of the next")
    assert one.client.job("first").wait() == 0
    assert one.client.job("next").wait() == 3
    assert (one.path / "ran").read_text() == "0\n"
    assert one.log("next") == "said\n"
    nothing_left(one)


def test_a_daemon_killed_before_it_hears_that_the_next_has_begun_finds_out(one):
    scene(one, "sh", "-c", "echo 0 >> ran; while ! test -e end; do sleep 0.02; done")
    with asleep(one):
        (one.path / "go").touch()
        until((one.path / "ran").exists, "the start of the next")
        one.daemons[-1].kill()
    one.daemons[-1].wait(timeout=20)
    one.client.close()
    one.start()
    one.becomes("next", "running")
    assert one.client.job("first").wait() == 0
    (one.path / "end").touch()
    ran_once(one)


@pytest.mark.parametrize("order", ["fails", "cancel"])
def test_the_next_goes_only_when_the_one_before_has_finished_well(one, order):
    one.submit("sh", "-c", f"{HOLD}; exit 4", name="first")
    one.becomes("first", "running")
    one.submit("sh", "-c", "echo 0 >> ran", name="next")
    with asleep(one):
        (folder,) = offered(one)
        keepers = {records.keeper_of(str(path)) for path in one.home.runs.iterdir()} - {records.keeper_of(str(folder))}
        if order == "cancel":
            os.kill(keepers.pop(), signal.SIGTERM)
        else:
            (one.path / "go").touch()
        until(lambda: any((path / records.EXIT).exists() for path in one.home.runs.iterdir()), "the end of the first")
        assert not (one.path / "ran").exists()
    ran_once(one)


def test_a_device_that_is_drained_is_handed_to_nobody(one):
    scene(one)
    until(lambda: offered(one), "somebody who may go without asking")
    one.client.post("/v1/devices/0/drain", {})
    assert not offered(one)
    (one.path / "go").touch()
    assert one.client.job("first").wait() == 0
    assert one.state("next") == "waiting"
    one.client.post("/v1/devices/0/undrain", {})
    ran_once(one)


def test_a_command_that_is_not_there_fails_in_its_turn_and_not_before(one):
    scene(one, "no-such-command")
    until(lambda: [f for f in one.home.runs.iterdir() if (f / records.BEGUN).exists()], "an attempt")
    until(lambda: len(list(one.home.runs.iterdir())) == 1, "its end")
    assert one.state("next") == "waiting"
    assert not list(one.home.logs.glob("2/*"))
    (one.path / "go").touch()
    assert one.client.job("next").wait() == 127
    assert one.log("next").count("there is no command") == 1


def test_a_program_that_was_just_made_is_not_held_open(one):
    program = one.path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    scene(one, str(program))
    until(lambda: [f for f in one.home.runs.iterdir() if (f / records.BEGUN).exists()], "an attempt")
    until(lambda: len(list(one.home.runs.iterdir())) == 1, "its end")
    program.write_bytes(Path("/bin/false").read_bytes())
    (one.path / "go").touch()
    assert one.client.job("next").wait() == 1


def test_a_program_that_was_replaced_is_run_as_it_is_now(one):
    program = one.path / "program"
    program.write_bytes(Path("/bin/false").read_bytes())
    program.chmod(0o755)
    os.utime(program, (1, 1))
    scene(one, str(program))
    until(lambda: stopped(one), "a member at the gate")
    other = one.path / "other"
    other.write_bytes(Path("/bin/true").read_bytes())
    other.chmod(0o755)
    other.rename(program)
    (one.path / "go").touch()
    assert one.client.job("next").wait() == 0


def test_a_gang_that_must_not_begin_twice_waits_for_the_disk(tmp_path):
    """While the disk takes nothing it does not begin, though it is ready."""
    frozen = tmp_path / "frozen"
    with box("1", "[policy.repair]\nback_off = '1s'\n", start=False) as made:
        made.env["TUTTI_FAULT_READ_ONLY"] = str(frozen)
        made.start()
        scene(made, on_loss="fail")
        until(lambda: stopped(made), "a member at the gate")
        frozen.touch()
        (made.path / "go").touch()
        until(lambda: made.client.get("/v1/status")["trouble"], "the disk to be noticed")
        until(lambda: made.row("next")["reason"] == "BackingOff", "that its start is refused")
        assert not (made.path / "ran").exists()
        frozen.unlink()
        assert made.client.job("next").wait() == 0
        assert int((made.path / "ran").read_text()) >= 1


@pytest.mark.parametrize("point", ["early", "gate", "passed", "lent", "word", "locked", "noted", "open"])
def test_a_keeper_killed_at_any_step_costs_one_try_at_most(point, tmp_path):
    killed = tmp_path / "killed"
    with box("1", "[policy.repair]\nback_off = '1s'\n", start=False) as made:
        made.start(TUTTI_FAULT_KEEPER=f"{point}:{killed}")
        scene(made)
        if point in {"early", "gate"}:
            until(killed.exists, "the keeper's end")
            until(lambda: len(list(made.home.runs.iterdir())) == 1, "that the daemon knows of it")
        else:
            until(lambda: stopped(made), "a member at the gate")
        (made.path / "go").touch()
        assert made.client.job("next").wait() == 0
        assert killed.exists()
        # Only whoever had been let go may have begun before: it is killed with its keeper and begins again.
        ran = (made.path / "ran").read_text().split()
        never_lost = {"early", "gate", "passed", "lent"}
        assert ran in ([["0"]] if point in never_lost else [["1"], ["0", "1"]])
        assert made.state("first") == "finished"
        nothing_left(made)


def test_a_folder_into_which_its_keeper_still_writes_goes_all_the_same(tmp_path, monkeypatch):
    home = Home(tmp_path)
    home.make()
    swept: list[Path] = []

    def rmtree(folder: Path, **_: object) -> None:
        swept.append(folder)
        if len(swept) > 1:
            folder.rmdir()

    monkeypatch.setattr("tutti.local.starting.shutil.rmtree", rmtree)
    monkeypatch.setattr(starting, "SWEEP_AGAIN_S", 0.001)
    run = Run("n1", 1, home.runs / "n1", {})
    run.folder.mkdir()
    asyncio.run(Starting(home, made_up("1", tmp_path), Settings(), Ports(tmp_path)).sweep(run))
    assert swept == [run.folder] * 2


def test_whatever_goes_wrong_with_a_start_nobody_is_left_starting(tmp_path):
    ends: list[object] = []

    async def stored() -> None:
        return None

    async def prepare(*_: object) -> None:
        raise ValueError("nobody thought of this")

    async def begin() -> None:
        backend = SimpleNamespace(
            journal=SimpleNamespace(storing=lambda _writes: asyncio.ensure_future(stored())),
            _prepare=prepare,
            read_exit=lambda _run: None,
            over=lambda _held, _run, said: ends.append(said),
        )
        await LocalBackend._begin(backend, SimpleNamespace(id=1), Run("n1", 1, tmp_path, {}), None)  # type: ignore[arg-type]

    asyncio.run(begin())
    assert ends == [{"why": "refused", "refused": "nobody thought of this"}]
