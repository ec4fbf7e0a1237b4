"""The commands of one box, as a person types them."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.cli.command_page import PRINTED
from tests.local.stage import Box, box, until
from tutti.api import types
from tutti.local.settings import QueueSettings, Settings, checked


@pytest.fixture(scope="module")
def made():
    with box("4") as found:
        yield found


def tutti(made: Box, *words: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **made.env, "TUTTI_HOME": str(made.path), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", "tutti", *words],
        env=env, cwd=made.path, capture_output=True, text=True, timeout=60, check=False, input=typed,
    )  # fmt: skip


def test_run_prints_rank_0_and_ends_with_its_code(made):
    done = tutti(made, "run", "--workers", "2", "--", "sh", "-c", "echo hello from $RANK; sleep $RANK; exit $RANK")
    assert (done.stdout, done.returncode) == ("hello from 0\n", 1)
    assert "rank 1 ended with exit code 1" in done.stderr


def test_run_shows_the_last_lines_of_the_rank_that_failed(made):
    line = "test $RANK = 0 && exec sleep 60; echo the data is missing; exit 4"
    done = tutti(made, "run", "--workers", "2", "--", "sh", "-c", line)
    assert done.returncode == 4
    assert "the data is missing" in done.stderr


def test_run_of_everybody_is_told_apart(made):
    done = tutti(made, "run", "--all-ranks", "--workers", "3", "--", "sh", "-c", "echo x")
    assert sorted(done.stdout.splitlines()) == ["[0] x", "[1] x", "[2] x"]


def test_our_own_failures_end_with_125(made):
    done = tutti(made, "run", "--workers", "99", "--", "true")
    assert done.returncode == 125
    assert done.stderr.startswith("error: this box can never hold it")
    assert "try: --workers 4" in done.stderr


def test_nobody_waits_for_a_job_that_can_never_start():
    with box("1") as one:
        tutti(one, "submit", "--name", "first", "--", "sh", "-c", "while ! test -e go; do sleep 0.02; done; exit 3")
        tutti(one, "submit", "--name", "second", "--after", "first", "--", "echo", "at last")
        tutti(one, "submit", "--name", "third", "--after", "any:second", "--", "true")
        env = {**os.environ, **one.env, "TUTTI_HOME": str(one.path)}
        words = [sys.executable, "-m", "tutti", "wait", "second"]
        with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as before:
            (one.path / "go").touch()
            _, said = before.communicate(timeout=60)
        assert before.returncode == 125
        assert "second can never start: it comes after first, which ended otherwise than it waits for" in said
        later = tutti(one, "wait", "third")
        assert later.returncode == 125
        assert "it comes after second, which can never start" in later.stderr
        assert "It comes after first" in tutti(one, "why", "second").stdout
        hint = "tutti update second after=[]"
        assert hint in said
        assert tutti(one, *hint.split()[1:]).returncode == 0
        assert tutti(one, "wait", "second", "third").returncode == 0


def test_what_was_acknowledged_is_seen_at_once(made):
    """Ten times, because it took a moment most times."""
    made.submit("true", name="seen-at-once", held=True)
    for priority in range(1, 11):
        made.client.post("/v1/jobs/seen-at-once/update", {"set": {"priority": priority}})
        assert made.row("seen-at-once")["priority"] == priority
    made.client.post("/v1/jobs/seen-at-once/cancel", {})


def test_a_list_can_be_changed_as_it_was_given(made):
    tutti(made, "submit", "--name", "before", "--hold", "--", "true")
    tutti(made, "submit", "--name", "changed", "--hold", "--", "true")
    assert tutti(made, "update", "changed", "--after", "before", "--after", "any:before").returncode == 0
    assert made.client.get("/v1/jobs/changed")["written"]["after"] == ["before", "any:before"]
    wrong = tutti(made, "update", "changed", "after=[before")
    assert (wrong.returncode, "is no list or table" in wrong.stderr) == (2, True)
    tutti(made, "cancel", "before", "changed")


def test_a_job_file_and_a_script_with_directives(made):
    (made.path / "job.toml").write_text('name = "filed"\nworkers = 2\ncommand = ["sh", "-c", "echo from a file"]\n')
    assert tutti(made, "run", "job.toml").stdout == "from a file\n"
    script = made.path / "job.sh"
    script.write_text("#!/bin/sh\n#tutti: --name scripted --workers 2\necho rank $RANK of $WORLD_SIZE\n")
    for mode in (0o644, 0o755):
        script.chmod(mode)
        assert tutti(made, "run", "job.sh").stdout == "rank 0 of 2\n"


def test_submit_wait_and_every_way_to_look(made):
    assert tutti(made, "submit", "--name", "seen", "--", "sh", "-c", "echo out").stdout == "seen\n"
    assert tutti(made, "wait", "seen").returncode == 0
    assert tutti(made, "logs", "seen").stdout == "out\n"
    assert "seen is finished" in tutti(made, "story", "seen").stdout
    assert "seen is finished" in tutti(made, "why", "seen").stdout
    assert "command   sh -c" in tutti(made, "show", "seen").stdout
    listed = json.loads(tutti(made, "queue", "-a", "-o", "json").stdout)
    assert listed["schema"] == "tutti/v1"
    row = next(job for job in listed["jobs"] if job["name"] == "seen")
    assert {"name", "state", "members", "placed", "reason", "eta"} <= set(row)
    assert "seen" in tutti(made, "queue", "-a", "-o", "name").stdout.splitlines()
    assert "name: seen" in tutti(made, "queue", "-a", "-o", "yaml").stdout
    assert tutti(made, "queue", "--columns", "name,nonsense").returncode == 2


def test_sets_of_columns_have_names(made):
    kept = made.path / "config.toml"
    before = kept.read_text() if kept.exists() else ""
    kept.write_text(before + '\n[columns]\nmine = "name, why, eta"\n')
    try:
        assert tutti(made, "queue", "-a", "--columns", "mine").stdout.split()[:3] == ["NAME", "WHY", "ETA"]
        assert "no column 'yours'" in tutti(made, "queue", "--columns", "yours").stderr
    finally:
        kept.write_text(before)
    wrong = made.path / "wrong.toml"
    wrong.write_text('[columns]\nmine = "name,wy"\n')
    assert "no column 'wy'" in tutti(made, "config", "--check", str(wrong)).stderr


def test_hold_release_update_move_cancel(made):
    tutti(made, "submit", "--name", "later", "--hold", "--", "true")
    until(lambda: made.state("later") == "held", "the hold")
    assert "later: priority changed" in tutti(made, "update", "later", "priority=7").stderr
    until(lambda: made.row("later")["priority"] == 7, "the change")
    assert tutti(made, "resize", "later", "2").returncode == 0
    assert made.row("later")["members"] == 2
    assert tutti(made, "move", "later", "nowhere").returncode == 4
    assert "would be released" in tutti(made, "release", "--dry-run", "later").stderr
    assert made.state("later") == "held"
    assert tutti(made, "release", "later").returncode == 0
    assert tutti(made, "wait", "later").returncode == 0
    assert tutti(made, "retry", "later").returncode == 0
    assert tutti(made, "wait", "later").returncode == 0
    assert tutti(made, "cancel", "later").returncode == 4
    two = tutti(made, "cancel", "nobody", "nothing")
    assert two.returncode == 3
    assert {"nobody", "nothing"} <= {name for name in ("nobody", "nothing") if f"no job '{name}'" in two.stderr}


def test_nodes_drain_queues_report_plan(made):
    assert "4 free of 4 made-up" in tutti(made, "nodes").stdout
    assert tutti(made, "drain", "0", "--why", "dust").returncode == 0
    assert "drained: dust" in tutti(made, "nodes").stdout
    assert tutti(made, "undrain", "0").returncode == 0
    assert tutti(made, "drain", "nothing").returncode == 3
    assert "default" in tutti(made, "queues").stdout
    made.submit("true", name="used").wait()
    assert "it adds up" in tutti(made, "report").stdout
    assert "device-hours" in tutti(made, "report", "--users").stdout
    assert "would start now" in tutti(made, "plan", "--workers", "2", "--", "true").stdout
    assert tutti(made, "plan").stdout.strip()
    assert "nobody waits" in tutti(made, "why").stdout
    assert tutti(made, "what-if", "--add-nodes", "1x4").returncode == 0
    assert tutti(made, "top", "--once").stdout
    assert "submit" in tutti(made, "audit").stdout
    assert tutti(made, "doctor").returncode == 0


def test_snapshots_can_be_replayed(made):
    (made.path / "now.json").write_text(tutti(made, "snapshot").stdout)
    assert tutti(made, "replay", "now.json").returncode == 0


def test_config_is_checked_and_reloaded(made):
    (made.path / "bad.toml").write_text("[queues.x]\nwieght = 2\n")
    done = tutti(made, "config", "--check", "bad.toml")
    assert done.returncode == 2
    assert "weight" in done.stderr
    made.home.config.write_text("[queues.research]\nweight = 3\n")
    assert tutti(made, "config", "--check").returncode == 0
    assert "2 queues" in tutti(made, "config", "--reload").stderr
    until(lambda: "research" in tutti(made, "queues").stdout, "the new queue")
    assert tutti(made, "run", "--queue", "research", "--", "echo", "in").stdout == "in\n"
    made.home.config.write_text("[hooks]\nfinished = 'touch hooked'\n[devices]\nmade_up = 3\n")
    assert "[devices] counts for the next daemon" in tutti(made, "config", "--reload").stderr
    assert tutti(made, "run", "--", "true").returncode == 0
    until((made.path / "hooked").exists, "the hook that was read again")


SHOWN = {
    "Jobs": ["queue -a", "wait printed"],
    "JobPage": ["show printed", "show printed --ranks"],
    "Why": ["why printed", "why waits"],
    "Reasons": ["why"],
    "Story": ["story printed"],
    "LogsOf": ["logs printed", "logs printed --all-ranks"],
    "Nodes": ["nodes", "nodes --topology"],
    "Queues": ["queues"],
    "Report": ["report", "report --users"],
    "Forecasts": ["report --forecasts"],
    "Throughput": ["report --since 1h"],
    "ReportHistory": ["report --history 1h"],
    "PlanAnswer": ["plan", "plan --workers 2 true", "submit --dry-run true"],
    "Outlook": ["what-if --add-nodes 1x8"],
    "Audit": ["audit"],
    "Config": ["config", "config --path"],
    "Findings": ["doctor"],
    "Done": ["backup"],
    "Results": [
        *("cancel waits --dry-run", "release waits --dry-run", "hold waits", "update waits time=20m", "resize waits 3"),
        *("move waits default", "retry printed --dry-run", "drain 3 --dry-run", "undrain 3", "config --check"),
        "config --reload",
    ],
}


@pytest.fixture
def shown(made):
    made.home.config.write_text("")
    made.submit("echo", "hello", name="printed", workers=2)
    made.client.job("printed").wait()
    made.submit("true", name="waits", workers=4, held=True)
    yield made
    tutti(made, "cancel", "waits")


def test_what_machines_read_is_what_the_schema_says(shown):
    assert set(SHOWN) == set(PRINTED)
    for kind, lines in SHOWN.items():
        for line in lines:
            command, *rest = line.split()
            done = tutti(shown, command, "-o", "json", *rest)
            found = json.loads(done.stdout)
            assert found["schema"] == "tutti/v1", line
            msgspec.convert(found, getattr(types, kind))
            told = yaml.safe_load(tutti(shown, command, "-o", "yaml", *rest).stdout)
            msgspec.convert(told, getattr(types, kind))


def test_errors_are_data_where_data_is_asked_for(shown):
    lost = tutti(shown, "show", "nobody", "-o", "json")
    found = msgspec.convert(json.loads(lost.stdout), types.Problem)
    assert (lost.returncode, found.code, found.error) == (3, 3, "there is no job 'nobody'")
    assert "error: there is no job 'nobody'" in lost.stderr
    assert yaml.safe_load(tutti(shown, "queue", "--frob", "--output=yaml").stdout)["code"] == 2
    both = tutti(shown, "hold", "waits", "nobody", "-o", "json")
    told = msgspec.convert(json.loads(both.stdout), types.Results).results
    assert both.returncode == 3
    assert [(one.names, one.done, one.code) for one in told] == [(["waits"], True, 0), (["nobody"], False, 3)]
    assert tutti(shown, "run", "--", "sh", "-c", "exit 3 -o json").stdout == ""


def test_queues_show_what_they_deserve_hold_and_borrow():
    config = "[queues.heavy]\nweight = 3\n[queues.light]\nweight = 1\n"
    with box("4", config) as mine:
        mine.submit("sleep", "600", name="greedy", workers=2, queue="light", grace="0s")
        mine.becomes("greedy", "running")
        mine.submit("sleep", "600", name="wanting", workers=4, queue="heavy", grace="0s")
        until(lambda: mine.row("wanting")["reason"], "a reason")
        found = {row["name"]: row for row in json.loads(tutti(mine, "queues", "-o", "json").stdout)["queues"]}
        assert [(found[name]["deserved"], found[name]["devices"], found[name]["borrowed"]) for name in found] == [
            (1, 0, 0),
            (3, 0, 0),
            (1, 2, 1),
        ]
        told = [line.split() for line in tutti(mine, "queues").stdout.splitlines()]
        assert told[0][6:9] == ["deserved", "devices", "borrowed"]
        assert told[3][6:9] == ["1", "2", "1"]
        assert found["light"]["used_device_s"] > 0, "what runs counts, too"


def test_queues_show_how_many_may_run_at_once():
    config = "[queues.few]\nmax_running = 1\nuser_limit = { gpu = 3 }\n"
    config += "[[queues.few.bounds]]\ngroups = ['ml']\nmax_running = 4\n"
    with box("4", config) as mine:
        for name in ("first", "second"):
            mine.submit("sleep", "600", name=name, queue="few", grace="0s")
        mine.becomes("first", "running")
        until(lambda: mine.row("second")["reason"], "a reason")
        told = tutti(mine, "queues").stdout.splitlines()
        assert re.search(r" at once ", told[0])
        assert re.search(r"few .* 1 of 1 ", told[2])
        assert told[3:] == ["few: group ml: at most 4 running", "few: every other user: at most gpu=3"]
        assert "queue few runs 1 gang of at most 1" in tutti(mine, "why", "second").stdout
        assert tutti(mine, "what-if", "--queue", "few.max_running=2").returncode == 0
        tutti(mine, "cancel", "first")
        mine.becomes("second", "running")


def test_every_key_of_the_configuration_is_explained(made):
    text = tutti(made, "config", "--explain").stdout
    assert checked(text, "commented out") == Settings()
    keys = re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE)
    everything = Settings(policy={"preset": "balanced"}, queues={"NAME": QueueSettings()})
    assert checked(keys, "all of it") == everything
    assert {"made_up = ", "user_limit = "} <= set(re.findall(r"\w+ = ", text))


def test_a_backup_can_be_put_in_place(made):
    assert tutti(made, "run", "--name", "backed-up", "--", "true").returncode == 0
    where = tutti(made, "backup", "mine.db").stdout.strip()
    assert where == str(made.path / "mine.db")
    assert Path(where).stat().st_mode & 0o777 == 0o600
    assert "cannot be written" in tutti(made, "backup", "no/such/folder").stderr
    assert tutti(made, "backup", "--restore", where).returncode == 4
    with box("4", start=False) as other:
        assert tutti(other, "backup", "--restore", where).returncode == 0
        other.start()
        assert any(job["name"] == "backed-up" for job in other.client.get("/v1/jobs", which="all")["jobs"])


def test_nothing_is_left_of_what_is_removed():
    with box("2") as mine:
        assert mine.submit("true", name="was-here").wait() == 0
        assert tutti(mine, "setup", "--remove", "--yes").returncode == 4
        assert tutti(mine, "stop").returncode == 0
        assert (mine.path / "shared").exists()
        assert tutti(mine, "setup", "--remove", "--yes", "--dry-run").returncode == 0
        assert mine.home.journal.exists()
        assert tutti(mine, "setup", "--remove", "--yes").returncode == 0
        assert not mine.path.exists()


def test_commands_that_read_answer_without_a_daemon():
    with box("4", start=False) as empty:
        assert tutti(empty, "queue").stdout == "no jobs\n"
        assert json.loads(tutti(empty, "nodes", "-o", "json").stdout)["nodes"] == []
        assert "no daemon runs here" in tutti(empty, "top").stdout
        assert tutti(empty, "what-if", "--add-nodes", "8x8").stdout == "nobody waits, before or after\n"
        assert tutti(empty, "report", "-o", "json").returncode == 0
        assert tutti(empty, "cancel", "x").returncode == 5
        assert tutti(empty, "stop").returncode == 0


def test_another_number_of_devices_is_refused(made):
    done = tutti(made, "submit", "--devices", "7", "--", "true")
    assert done.returncode == 4
    assert "4 made-up devices" in done.stderr


@contextmanager
def started(
    command: list[str], env: dict[str, str], stderr: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is over afterwards, whatever happens."""
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_ends_the_job(made):
    env = {**os.environ, **made.env, "TUTTI_HOME": str(made.path)}
    command = [sys.executable, "-m", "tutti", "run", "--name", "pressed", "--", "sleep", "600"]
    with started(command, env) as process:
        until(lambda: _known(made, "pressed") and made.state("pressed") == "running", "the job")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    assert made.state("pressed") == "cancelled"


def test_ctrl_c_before_a_job_begins_takes_it_back(made):
    made.submit("sleep", "600", name="in-the-way", workers=4)
    made.becomes("in-the-way", "running")
    env = {**os.environ, **made.env, "TUTTI_HOME": str(made.path)}
    with started([sys.executable, "-m", "tutti", "run", "--name", "behind", "--", "true"], env) as process:
        until(lambda: _known(made, "behind"), "the job")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    assert made.state("behind") == "cancelled"
    assert tutti(made, "cancel", "in-the-way", "--grace", "0", "--wait").returncode == 0


@pytest.mark.parametrize("words", [("submit", "--wait"), ("submit", "--follow")])
def test_ctrl_c_while_looking_leaves_the_job_alone(made, words):
    name, env = f"left{words[1]}", {**os.environ, **made.env, "TUTTI_HOME": str(made.path)}
    command = [sys.executable, "-m", "tutti", *words, "--name", name, "--", "sleep", "600"]
    with started(command, env, stderr=subprocess.PIPE) as process:
        until(lambda: _known(made, name) and made.state(name) == "running", "the job")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said.decode().strip()) == (
        130,
        f"{name} is submitted and goes on; `tutti cancel {name}` ends it",
    )
    assert made.state(name) == "running"
    assert tutti(made, "cancel", name, "--grace", "0", "--wait").returncode == 0


def test_following_the_output_of_a_job_is_no_failure_of_ours(made):
    made.submit("sh", "-c", "sleep 0.5; printf 'a\\fb\\n'; exit 3", name="fails-later")
    followed = tutti(made, "logs", "-f", "fails-later")
    assert (followed.returncode, followed.stdout) == (0, "a\fb\n")
    assert tutti(made, "logs", "fails-later").stdout == "a\fb\n"


def _known(made: Box, name: str) -> bool:
    return any(job["name"] == name for job in made.client.get("/v1/jobs")["jobs"])


def test_a_shell_has_devices_and_ends_with_its_code(made):
    done = tutti(made, "shell", "--gpus", "2", "--", "sh", "-c", "echo devices $CUDA_VISIBLE_DEVICES; exit 6", typed="")
    assert done.returncode == 6
    assert "devices 0,1" in done.stdout
    typed = tutti(made, "shell", "--gpus", "1", typed="echo $((6 * 7)) from $CUDA_VISIBLE_DEVICES\n")
    assert typed.returncode == 0
    assert "42 from 0" in typed.stdout


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_shell_whose_terminal_is_closed_gives_its_devices_back(made, number):
    env, name = {**os.environ, **made.env, "TUTTI_HOME": str(made.path)}, f"closed-{number}"
    command = [sys.executable, "-m", "tutti", "shell", "--name", name, "--", "sleep", "600"]
    with started(command, env) as process:
        until(lambda: _known(made, name) and made.state(name) == "running", "the shell")
        process.send_signal(number)
        process.wait(timeout=30)
    assert until(lambda: not _known(made, name), "its end")


def test_top_is_drawn_anew_when_something_changes_and_left_by_a_key(made):
    ours, theirs = pty.openpty()
    env = {**os.environ, **made.env, "TUTTI_HOME": str(made.path), "TERM": "xterm"}
    command = [sys.executable, "-m", "tutti", "top"]
    process = subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    screen = b""

    def shows(words: bytes) -> bool:
        nonlocal screen
        screen += os.read(ours, 1 << 16)
        return words in screen

    try:
        until(lambda: shows(b"of 4 devices"), "the first picture")
        made.submit("sleep", "600", name="watched", grace="0s")
        until(lambda: shows(b"watched"), "the job in the picture")
        os.write(ours, b"q")
        assert process.wait(timeout=30) == 0
        assert tutti(made, "cancel", "watched", "--wait").returncode == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_command_beside_a_rank(made):
    made.submit("sleep", "600", name="beside", workers=2, grace="0s")
    made.becomes("beside", "running")
    done = tutti(made, "attach", "-r", "1", "beside", "--", "sh", "-c", "echo rank $RANK; exit 4", typed="")
    assert (done.returncode, done.stdout.strip()) == (4, "rank 1")
    assert tutti(made, "attach", "beside", "--rank=1", "printenv", "RANK", typed="").stdout.strip() == "1"
    assert "'x' is no rank" in tutti(made, "attach", "beside", "--rank", "x", typed="").stderr
    done = tutti(made, "attach", "beside", "no-such-thing", typed="")
    assert (done.returncode, "cannot be executed" in done.stdout) == (127, True)
    assert "rank 7 is not running" in tutti(made, "attach", "-r", "7", "beside", "true", typed="").stderr
    made.client.job("beside").cancel()


@pytest.mark.parametrize(
    "words", [("release", "on-shelf"), ("update", "on-shelf", "time=2h"), ("cancel", "on-shelf"), ("drain", "0")]
)
def test_orders_answer_in_every_form(made, words):
    shelved = made.submit("true", name="on-shelf", held=True)
    made.becomes("on-shelf", "held")
    told = {form: tutti(made, *words, "--dry-run", "-o", form).stdout for form in ("table", "name", "json", "yaml")}
    answer = json.loads(told["json"])
    assert (answer["schema"], yaml.safe_load(told["yaml"])) == ("tutti/v1", answer)
    assert told["table"] == ""
    assert told["name"].split() == answer["results"][0]["names"]
    shelved.cancel()
    assert shelved.wait() != 0


def test_python_users_have_the_same(made, monkeypatch):
    import tutti as package

    monkeypatch.setenv("TUTTI_HOME", str(made.path))
    client = package.connect()  # type: ignore[operator]  # the package gives it away when it is asked for
    job = client.submit(["sh", "-c", "echo from python"], workers=2, name="python")
    assert job.wait() == 0
    assert job.logs(1) == "from python\n"
    assert "finished" in repr(job)
    assert "<table>" in job._repr_html_()
    planned = client.plan(["true"], workers=1, name="dry")
    assert planned.fits
    assert "dry would start now" in repr(planned)
    assert "<b>dry would start now</b>" in planned._repr_html_()
    assert client.plan().lines
    cluster = client.cluster()
    assert "free" in repr(cluster)
    assert cluster._repr_html_().count("<span") == sum(len(node["devices"]) for node in cluster.nodes)
    client.close()


def test_a_daemon_that_died_is_started_again_by_whoever_asks():
    with box("2") as mine:
        mine.submit("sleep", "600", name="stays", grace="0s")
        mine.becomes("stays", "running")
        mine.kill()
        try:
            asked = tutti(mine, "queue", "-o", "name")
            assert (asked.stdout, asked.returncode) == ("stays\n", 0)
            assert "the daemon had died" in asked.stderr
            assert mine.client.get("/v1/status")["devices"] == 2
            mine.client.close()
        finally:
            assert tutti(mine, "stop").returncode == 0
        stopped = tutti(mine, "queue")
        assert (stopped.stdout, stopped.returncode) == ("", 5)
        assert "1 job has not ended" in stopped.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(made, shell):
    assert "_TUTTI_COMPLETE" in tutti(made, "completion", shell).stdout


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("tutti show compl", "completed"),
        ("tutti run --queue def", "default"),
        ("tutti submit --after any:compl", "any:completed"),
        ("tutti queue -q def", "default"),
        ("tutti move completed def", "default"),
        ("tutti drain ", ":3"),
    ],
)
def test_live_names_are_completed(made, line, name):
    if "completed" not in {job["name"] for job in made.client.get("/v1/jobs")["jobs"]}:
        made.submit("true", name="completed", held=True)
    env = {**os.environ, **made.env, "TUTTI_HOME": str(made.path), "_TUTTI_COMPLETE": "bash_complete"}
    env |= {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'tutti'; from tutti.cli.main import main; main()"],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert any(one.startswith("plain,") and one.endswith(name) for one in done.stdout.split()), done
