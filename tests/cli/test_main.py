"""The frame of the command: help, errors, exit codes, and how fast it starts."""

import resource
import subprocess
import sys

import click
import pytest

import tutti
from tutti import errors
from tutti.cli import main as cli
from tutti.cli.commands import COMMANDS, Entry

HERE = __name__


def fake(name: str, own_failure: int | None = None) -> dict[str, Entry]:
    sys.modules.setdefault(HERE, sys.modules[__name__])
    return {name: Entry(f"{HERE}:{name}", "A command of this test.", own_failure)}


@click.command()
def fails() -> None:
    raise errors.NotFound("there is no job 'llama'.", where="queue research", hint="tutti queue -a")


@click.command()
def breaks() -> None:
    raise KeyError("oops")


@click.command()
@click.option("--workers", type=int)
def asks(workers: int | None) -> None:
    click.echo(f"{workers} workers")


def test_help_lists_the_table(capsys):
    assert cli.run(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said and entry.says in said for name, entry in COMMANDS.items())


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(capsys, arguments):
    assert cli.run(arguments) == 0
    assert capsys.readouterr().out.startswith(f"tutti {tutti.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["vresion"], "error: there is no command 'vresion'.\n  try: tutti version\n", id="a slip"),
        pytest.param(["zzz"], "error: there is no command 'zzz'.\n  try: tutti --help\n", id="nothing like it"),
        pytest.param(
            ["kube", "why", "-n", "team"],
            "error: -n says whose gang a name is, and no gang is named.\n  try: -n NAMESPACE NAME, or leave out -n\n",
            id="a namespace without a gang",
        ),
        pytest.param(["version", "--x"], "error: No such option '--x'.\n  try: tutti version --help\n", id="option"),
    ],
)
def test_a_usage_mistake_says_what_to_try_and_ends_with_2(capsys, arguments, said):
    assert cli.run(arguments) == 2
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("words", [[], ["kube"]], ids=["tutti", "tutti kube"])
def test_commands_are_listed_to_who_names_none_and_that_is_no_error(capsys, words):
    assert cli.run(words) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.startswith("Usage: tutti "), "\nCommands:\n" in said.err) == ("", True, True)


def test_an_error_says_what_where_and_what_to_do(capsys):
    assert cli.run(["fails"], fake("fails")) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: there is no job 'llama'.\n  queue research\n  try: tutti queue -a\n"


def test_a_bug_is_called_a_bug_and_shows_no_traceback(capsys):
    assert cli.run(["breaks"], fake("breaks")) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: this is a bug in Tutti. KeyError: 'oops'\n")
    assert "Traceback" not in said


def test_debug_shows_the_traceback(capsys, monkeypatch):
    assert cli.run(["--debug", "fails"], fake("fails")) == 3
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("TUTTI_DEBUG", "1")
    assert cli.run(["fails"], fake("fails")) == 3
    assert "Traceback" in capsys.readouterr().err


def test_where_exit_codes_belong_to_the_job_our_own_failure_has_its_own(capsys):
    assert cli.run(["fails"], fake("fails", own_failure=125)) == 125
    assert cli.run(["asks", "--workers", "many"], fake("asks", own_failure=125)) == 125


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.TuttiError, 1),
        (errors.Misused, 2),
        (errors.NotFound, 3),
        (errors.Refused, 4),
        (errors.NoDaemon, 5),
    ],
)
def test_each_kind_of_error_has_its_exit_code(kind, code):
    assert kind("what").exit_code == code


def test_every_command_in_the_table_can_be_loaded_and_says_the_same():
    group = cli.make_group(COMMANDS)
    for name, entry in COMMANDS.items():
        command = group.get_command(click.Context(group), name)
        assert command is not None
        assert command.get_short_help_str(limit=200).rstrip(".") == entry.says.rstrip(".")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import tutti", id="import tutti"),
        pytest.param("from tutti.cli.main import run; run(['--help'])", id="tutti --help"),
    ],
)
def test_nothing_heavy_is_imported(code):
    heavy = "{'numpy', 'msgspec', 'asyncio', 'sqlite3', 'torch', 'rich', 'tutti.engine'}"
    script = f"{code}; import sys; print('heavy:', sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("heavy: []\n")


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m tutti --help | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_help_is_there_before_one_notices():
    """Processor time, the best of five, so that a busy machine does not fail it."""
    best_s = min(processor_time_of([sys.executable, "-m", "tutti", "--help"]) for _ in range(5))
    assert best_s < 0.15


def processor_time_of(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
