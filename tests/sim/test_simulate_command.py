"""`tutti simulate` as a person meets it."""

import json
import signal

import pytest

from tutti.cli.main import run


def said(capsys, *arguments):
    code = run(["simulate", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_scenes_are_listed(capsys):
    code, out, _ = said(capsys, "--scenes")
    assert code == 0
    assert "deadlock       two gangs that each hold half" in out


def test_a_scene_is_told_with_its_pictures_and_its_moral(capsys):
    code, out, _ = said(capsys, "deadlock")
    assert code == 0
    assert "anna holds 2 of 4 cards" in out
    assert "all 2 finish" in out
    assert "Moral: Pod by pod" in out


def test_json_is_one_object_with_a_result_for_each_variant(capsys):
    code, out, _ = said(capsys, "deadlock", "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "tutti/v1"
    assert [result["policy"] for result in found["results"]] == ["pod-fifo", "balanced"]
    assert [result["stuck"] for result in found["results"]] == [2, 0]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "nothing to simulate"),
        (["deadlok"], 3, "deadlock"),
    ],
)
def test_what_is_wrong_is_said(capsys, arguments, code, says):
    found, _, err = said(capsys, *arguments)
    assert found == code
    assert says in err


def test_an_interrupt_leaves_the_report_of_what_had_ended(tmp_path, capsys, monkeypatch):
    load = tmp_path / "load.toml"
    load.write_text("[generate]\njobs = 2000\ndevices = 64\nload = 0.7\n")
    monkeypatch.setattr("tutti.cli.simulate.Bar.tell", lambda *_: signal.raise_signal(signal.SIGINT))
    code, out, err = said(capsys, str(load), "--policy", "easy", "--policy", "fcfs", "--out", str(tmp_path / "out"))
    assert code == 0
    assert "interrupted: the figures are of what had ended by then" in err
    assert "easy" in out
    assert "fcfs" not in out
    assert "The run was interrupted" in (tmp_path / "out" / "report.html").read_text()
    rows = (tmp_path / "out" / "jobs-easy.csv").read_text().splitlines()
    assert 1 < len(rows) < 2_000
