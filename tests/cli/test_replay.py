"""`tutti replay` and `tutti why`: recorded views in, plans and reasons out, and bad files named for what they are."""

import gzip
import json

import pytest

from tests.clusters import drawn, gang, seat, submit
from tutti.cli.main import run
from tutti.engine.decide import decide
from tutti.engine.model import SECOND
from tutti.engine.policy import Policy
from tutti.engine.record import encode_plan, record

NOW = 100 * SECOND


@pytest.fixture
def view():
    world = seat(drawn("8 8"), gang("runs", 1, gpu=8, run_s=300), "n0")
    return submit(world, gang("pair", 2, gpu=8, run_s=60), gang("one", 1, gpu=8, run_s=60, submitted=1)).view()


@pytest.fixture
def snapshot(view):
    return record(view, NOW, Policy())


@pytest.fixture
def recorded(view, snapshot):
    return snapshot + encode_plan(decide(view, NOW, Policy()))


def said(capsys, tmp_path, data, *arguments):
    file = tmp_path / "view.json"
    if data is not None:
        file.write_bytes(data)
    code = run([word.replace("FILE", str(file)) for word in arguments])
    return code, *capsys.readouterr()


def test_the_plan_is_printed(capsys, tmp_path, snapshot):
    code, out, err = said(capsys, tmp_path, snapshot, "replay", "FILE")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "reserve  pair  in 3.3 min  n0, n1"
    assert "start    one   1 member    n1" in out
    assert "wait     pair  NoCapacity" in out


def test_a_recorded_plan_is_compared(capsys, tmp_path, recorded):
    code, _, err = said(capsys, tmp_path, recorded, "replay", "FILE")
    assert (code, err) == (0, "identical to the recorded plan, to the byte\n")


def test_another_plan_is_an_error_that_names_the_gangs(capsys, tmp_path, recorded):
    code, _, err = said(capsys, tmp_path, recorded.replace(b"NoCapacity", b"NoDomain"), "replay", "FILE")
    assert code == 4
    assert err == "error: this is not the plan that was recorded.\n  different: pair\n  try: tutti version\n"


def test_json_is_the_recorded_form_and_says_whether_it_is_the_same(capsys, tmp_path, recorded):
    code, out, _ = said(capsys, tmp_path, recorded, "replay", "FILE", "-o", "json")
    found = json.loads(out)
    assert (code, found["schema"], found["kind"], found["identical"]) == (0, "tutti/v1", "plan", True)
    assert found["plan"]["answers"]["pair"]["token"] == "NoCapacity"


def test_compressed_files_are_read(capsys, tmp_path, recorded):
    assert said(capsys, tmp_path, gzip.compress(recorded), "replay", "FILE")[0] == 0


@pytest.mark.parametrize("command", [("replay", "FILE"), ("why", "pair", "--view", "FILE")])
@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(None, "there is no file", id="no file"),
        pytest.param(b"", "this is not a snapshot", id="an empty file"),
        pytest.param(b"{}", "this is not a snapshot", id="something else"),
        pytest.param(b"\x00\xff\xfe", "this is not a snapshot", id="no text at all"),
        pytest.param(b"\x1f\x8bjunk", "cannot read", id="a broken archive"),
        pytest.param(b"\x28\xb5\x2f\xfdjunk", "compressed with zstd", id="an archive of another kind"),
        pytest.param(b'{"schema":"tutti/v9","kind":"snapshot"}', "written in 'tutti/v9'", id="from the future"),
        pytest.param(b'{"schema":"tutti/v1","kind":"snapshot"}', "damaged", id="only its head"),
    ],
)
def test_a_bad_file_is_named_for_what_it_is(capsys, tmp_path, command, data, says):
    code, out, err = said(capsys, tmp_path, data, *command)
    assert (code, out) == (2, "")
    assert says in err
    assert "bug" not in err


def test_half_a_snapshot(capsys, tmp_path, snapshot):
    code, _, err = said(capsys, tmp_path, snapshot[: len(snapshot) // 2], "replay", "FILE")
    assert code == 2
    assert "only a part of one" in err


def test_a_folder_is_no_file(capsys, tmp_path):
    assert run(["replay", str(tmp_path)]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_why_names_the_reason_and_what_to_do(capsys, tmp_path, recorded):
    code, out, err = said(capsys, tmp_path, recorded, "why", "pair", "--view", "FILE")
    assert (code, err) == (0, "")
    assert out.startswith("pair is waiting: NoCapacity")
    assert "to start now  workers = 1" in out


def test_why_for_machines(capsys, tmp_path, recorded):
    code, out, _ = said(capsys, tmp_path, recorded, "why", "pair", "--view", "FILE", "-o", "json")
    found = json.loads(out)
    assert (code, found["schema"], found["reason"]) == (0, "tutti/v1", "NoCapacity")


def test_why_without_a_name_sums_up(capsys, tmp_path, recorded):
    assert "NoCapacity  1      pair" in said(capsys, tmp_path, recorded, "why", "--view", "FILE")[1]
    out = said(capsys, tmp_path, recorded, "why", "--view", "FILE", "-o", "json")[1]
    assert json.loads(out)["reasons"] == [{"reason": "NoCapacity", "gangs": ["pair"]}]


def test_an_unknown_gang_ends_with_3_and_the_nearest_name(capsys, tmp_path, recorded):
    code, _, err = said(capsys, tmp_path, recorded, "why", "pear", "--view", "FILE")
    assert (code, err) == (3, "error: there is no gang named 'pear'.\n  try: pair\n")


def test_without_a_view_the_daemon_is_asked(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_HOME", "/tmp/tutti-nobody-is-here")
    code, _, err = said(capsys, tmp_path, None, "why", "pair")
    assert code == 5
    assert "no daemon is running" in err
