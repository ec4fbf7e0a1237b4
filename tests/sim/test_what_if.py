"""What would start when: before and after a change."""

import gzip
import json

import pytest

from tutti.cli.main import run
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import HOUR, SECOND, Estimate, Gang, Node, Pool, Queue, Role, Shape, Source
from tutti.engine.plan import Reserve
from tutti.engine.presets import PRESETS
from tutti.engine.record import record
from tutti.engine.world import World

POLICY = PRESETS["easy"].policy


def gang(name, workers):
    role = Role(min=workers, shapes=(Shape({"gpu": 1}),))
    return Gang(name, (role,), estimate=Estimate(limit=HOUR, source=Source.DECLARED))


@pytest.fixture
def snapshot(tmp_path):
    """Two racks of one node with four cards; one gang runs on all of it, another waits."""
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    world.apply(ev.PoolSet(0, Pool("default", ("rack",))))
    for name, rack in (("n0", "a"), ("n1", "b")):
        world.apply(ev.NodeSeen(0, Node(name, {"gpu": 4}, place=(rack,))))
    for name in ("runs", "waits"):
        world.apply(ev.Submitted(0, gang(name, 8)))
        for action in decide(world.view(), 0, POLICY).actions:
            if not isinstance(action, Reserve):
                world.apply(ev.Starting(0, action.gang, action.seats))  # type: ignore[union-attr]
                world.apply(ev.Running(0, action.gang))
    path = tmp_path / "now.json"
    path.write_bytes(record(world.view(), 60 * SECOND, POLICY))
    return path


def asked(capsys, *arguments):
    code = run(["what-if", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def starts(out):
    return {start["gang"]: (start["before_s"], start["after_s"]) for start in json.loads(out)["starts"]}


def test_more_nodes_start_a_gang_at_once(capsys, snapshot):
    code, out, _ = asked(capsys, snapshot, "--add-nodes", "2x4", "-o", "json")
    assert code == 0
    assert starts(out) == {"waits": (3540.0, 0.0)}


def test_a_snapshot_may_be_compressed(capsys, snapshot, tmp_path):
    packed = tmp_path / "snapshot.json.gz"
    packed.write_bytes(gzip.compress(snapshot.read_bytes()))
    code, out, _ = asked(capsys, packed, "--add-nodes", "2x4", "-o", "json")
    assert (code, starts(out)) == (0, {"waits": (3540.0, 0.0)})
    packed.write_bytes(packed.read_bytes()[:40])
    code, _, err = asked(capsys, packed)
    assert (code, "the snapshot cannot be unpacked" in err) == (2, True)


def test_fewer_nodes_leave_it_without_a_start(capsys, snapshot):
    _, out, _ = asked(capsys, snapshot, "--remove", "rack=b", "-o", "json")
    assert starts(out)["waits"] == (3540.0, None)


def test_one_more_gang_waits_behind_the_others(capsys, snapshot, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text('name = "mine"\nworkers = 8\nruns = "1h"\n')
    _, out, _ = asked(capsys, snapshot, "--submit", job, "-o", "json")
    assert starts(out) == {"waits": (3540.0, 3540.0), "mine": (None, 7140.0)}


def test_the_table_tells_who_is_new_from_who_finds_no_room(capsys, snapshot, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text('name = "mine"\nworkers = 4\nruns = "1h"\n')
    _, out, _ = asked(capsys, snapshot, "--remove", "rack=b", "--submit", job)
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "not there" in rows["mine"]
    assert rows["waits"].endswith("not within 30.0 d")


def test_the_answer_says_what_it_assumes(capsys, snapshot):
    code, out, err = asked(capsys, snapshot, "--queue", "default.weight=2")
    assert code == 0
    assert "in 59.0 min" in out
    assert "assumes: running gangs end" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--add-nodes", "many"], "8x8 for eight nodes"),
        (["--remove", "b"], "node=n3"),
        (["--remove", "rack=z"], "no node"),
        (["--queue", "default"], "research.weight=2"),
        (["--queue", "defalt.weight=2"], "'default'"),
        (["--queue", "default.max_running=few"], "cannot change queue 'default'"),
        (["--queue", "default.bounds=ann"], "bounds of users are more than one value"),
        (["--queue", "default.wieght=2"], "'weight'"),
        (["--submit", "nothing.toml"], "no job file"),
        (["--queue", "default.weight=-1"], "weight = -1: nothing of a queue is below 0"),
    ],
)
def test_what_cannot_be_read_is_said(capsys, snapshot, arguments, says):
    code, _, err = asked(capsys, snapshot, *arguments)
    assert code != 0
    assert says in err


def test_a_snapshot_that_is_none(capsys, tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{}")
    code, _, err = asked(capsys, path)
    assert code != 0
    assert "snapshot" in err


def test_a_folder_is_neither_a_snapshot_nor_a_job(capsys, snapshot, tmp_path):
    for arguments in ((tmp_path,), (snapshot, "--submit", tmp_path)):
        code, _, err = asked(capsys, *arguments)
        assert code == 2
        assert "Is a directory" in err
