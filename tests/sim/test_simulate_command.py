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
    assert code == 130
    assert "interrupted: the figures are of what had ended by then" in err
    assert "easy" in out
    assert "The run was interrupted" in (tmp_path / "out" / "report.html").read_text()
    rows = (tmp_path / "out" / "jobs-easy.csv").read_text().splitlines()
    assert 1 < len(rows) < 2_000


@pytest.mark.parametrize(("options", "offered"), [((), 0.6), (("--load", "0.8"), 0.8)])
def test_generated_load_offers_what_the_file_says_unless_told_otherwise(tmp_path, capsys, options, offered):
    path = tmp_path / "load.toml"
    path.write_text("[generate]\njobs = 60\ndevices = 64\nload = 0.6\n")
    _, out, _ = said(capsys, str(path), "--policy", "easy", "-o", "json", *options)
    found = json.loads(out)
    assert found["offered_load"] == offered
    assert any("arrivals were moved" in note for note in found["notes"])


SWF_LINE = "{job} {at} 0 60 {width} -1 -1 {width} 90 -1 1 1 1 1 -1 -1 -1 -1"


def test_what_is_left_out_is_counted_and_listed_and_the_rest_is_in_json(tmp_path, capsys):
    good = [SWF_LINE.format(job=job, at=job, width=1) for job in range(1, 4)]
    wide = [SWF_LINE.format(job=job, at=job, width=50) for job in range(4, 6)]
    bad = ["not a job at all"] * 12
    path = tmp_path / "mixed.swf"
    path.write_text("\n".join(["; MaxProcs: 100", *good, *bad, *wide]) + "\n")
    arguments = [str(path), "--cluster", "4x2", "--policy", "easy", "--skip-bad"]
    code, _, err = said(capsys, *arguments)
    assert code == 0
    assert "left out: 14 entries" in err
    assert "line 5: " in err
    assert "and 4 more; -o json lists them all" in err
    listed = json.loads(said(capsys, *arguments, "-o", "json")[1])["left_out"]
    assert [each["what"] for each in listed[-2:]] == [
        "job 4 is 50 wide, and the cluster has 8 devices",
        "job 5 is 50 wide, and the cluster has 8 devices",
    ]
    assert len(listed) == 14


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--policy", "esay"], 2, ("there is no policy 'esay'", "easy")),
        (["--policy", "mine.toml"], 2, ("there is no file mine.toml", "a file with a policy")),
        (["--cluster", "0x8"], 2, ("0x8", "128x8")),
        (["--cluster", "4x"], 2, ("'4x' is neither a cluster shorthand nor a file", "128x8")),
        (["--backfill", "easy"], 2, ("--backfill cannot be applied to a trace without --protocol rlscheduler",)),
        (["--out", "one.swf/report"], 2, ("cannot write into one.swf/report", "one.swf is not a folder", "--out")),
        (["--out", "/proc/report"], 2, ("cannot write into /proc/report", "--out")),
        (["--cluster", "2x2"], 2, ("50 wide", "--skip-bad")),
        (["--estimates", "bogus"], 2, ("bogus", "scaled:2.5")),
        (["--load", "-1"], 2, ("--load -1", "0.9")),
        (["--faults", "nowhere.toml"], 3, ("nowhere.toml",)),
        (["--faults", "."], 2, ("cannot read .", "Is a directory")),
        (["--cluster", "."], 2, ("'.' is neither a cluster shorthand nor a file",)),
        (["--policy", "easy", "--policy", "easy"], 2, ("two policies would be called 'easy'", "give each once")),
        (["--policy", "a/x.toml", "--policy", "b/x.toml"], 2, ("'x'", "a/x.toml and b/x.toml")),
        (["--policy", "up.toml"], 2, ("up.toml: '../up' is no name for a policy",)),
        (["--protocol", "pyss", "--policy", "nope"], 2, ("'nope'", "easy-sjbf")),
        (["--protocol", "pyss", "--load", "0.9", "--out", "x"], 2, ("--load, --out cannot be applied to --protocol",)),
    ],
)
def test_a_bad_option_is_named_with_what_to_write_instead(tmp_path, monkeypatch, capsys, arguments, code, says):
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.toml").write_text('preset = "easy"\n')
    (tmp_path / "up.toml").write_text('preset = "easy"\nname = "../up"\n')
    path = tmp_path / "one.swf"
    path.write_text("; MaxProcs: 100\n" + SWF_LINE.format(job=1, at=0, width=50) + "\n")
    found, _, err = said(capsys, str(path), *arguments)
    assert found == code
    assert all(word in err for word in says)


def test_an_option_that_would_change_nothing_is_refused(capsys):
    code, _, err = said(capsys, "deadlock", "--faults", "x.toml", "--jobs", "3")
    assert code == 2
    assert "--faults, --jobs cannot be applied to a scene" in err
    assert said(capsys, "deadlock", "--seed", "7")[0] == 0


def test_a_scene_is_played_under_the_policies_one_asks_for(capsys):
    code, out, _ = said(capsys, "deadlock", "--policy", "fcfs", "--policy", "easy", "-o", "json")
    assert code == 0
    found = json.loads(out)["results"]
    assert [result["policy"] for result in found] == ["fcfs", "easy"]
    assert [result["avg_wait_s"] for result in found] == [600.0, 600.0]
    assert all(result["jobs_per_s"] > 0 and 0 < result["utilization"] <= 1 for result in found)
    assert "Moral" not in said(capsys, "deadlock", "--policy", "fcfs")[1]


def test_what_is_held_for_ever_is_in_use(capsys):
    stuck, *_ = json.loads(said(capsys, "deadlock", "-o", "json")[1])["results"]
    assert (stuck["stuck"], round(stuck["utilization"], 6), stuck["goodput"]) == (2, 1.0, 0.0)
