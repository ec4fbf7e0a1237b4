"""Whatever is given to a reader, it answers or raises the one kind of error, runs nothing and opens no other file."""

import contextlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.golden_files import HERE, cases, outcome
from tutti.errors import TuttiError
from tutti.jobs.amounts import binary_memory, count, cpu, memory, workers
from tutti.jobs.arithmetic import evaluate
from tutti.jobs.arrays import array
from tutti.jobs.batch.slurm import slurm_time
from tutti.jobs.durations import duration, moment
from tutti.jobs.explain import as_json, lines
from tutti.jobs.files import NoFiles
from tutti.jobs.problems import BadJob, Misread
from tutti.jobs.scan import scan
from tutti.jobs.shell import commands
from tutti.jobs.size_rule import size_rule
from tutti.jobs.understand import understand_line, understand_text
from tutti.jobs.yaml_file import load

VALUES = (binary_memory, count, cpu, memory, workers, array, slurm_time, duration, lambda t: moment(t, 0), size_rule)
PIECES = (HERE / "pieces.txt").read_text().replace("\\n", "\n").replace("\\0", "\0").split()
WATCHED = ("open", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system")
ENDINGS = ("a.toml", "a.yaml", "a.json", "a.sbatch", "a.pbs", "a.bsub", "a.sh", "a.py")
DIRECTIVES = (HERE / "directives.txt").read_text().splitlines()
YAML = (HERE / "yaml-lines.txt").read_text().splitlines()


def refusal(read, *arguments):
    """What a reader raises, if it does: an error of ours about the input, or nothing."""
    try:
        read(*arguments)
    except TuttiError as wrong:
        return wrong
    return None


def is_fine(wrong):
    return wrong is None or (wrong.exit_code == 2 and bool(str(wrong)))


def texts(pieces, glue):
    whole = st.lists(st.sampled_from(pieces), max_size=24).map(glue.join)
    return whole | st.text(max_size=200)


@given(st.sampled_from(VALUES), st.text(max_size=40) | st.from_regex(r"[0-9:%,.+a-zA-Z-]{0,20}", fullmatch=True))
def test_values_are_read_or_misread(read, text):
    with contextlib.suppress(Misread):
        assert read(text) is not None


@given(texts(PIECES, " "))
def test_shell_text_is_words_or_misread(text):
    for command in commands(text, {"X": "1 2"}):
        assert all(isinstance(word.text, str) for word in command.words)


@given(texts(PIECES, " "))
def test_launch_lines_are_understood_or_refused(text):
    def shown(text):
        found = understand_line(text, None, NoFiles(), {})
        assert as_json(found)["schema"] == "tutti/v1"
        assert list(lines(found))

    assert is_fine(refusal(shown, text))


@given(st.sampled_from(ENDINGS), texts((*DIRECTIVES, *YAML, *PIECES), "\n"))
def test_files_are_understood_or_refused(name, text):
    assert is_fine(refusal(understand_text, text, name, None, NoFiles(), {}))


@given(texts(YAML, "\n"))
def test_manifests_are_understood_or_refused(text):
    assert is_fine(refusal(understand_text, f"apiVersion: v1\n{text}", "m.yaml", None, NoFiles(), {}))


@given(texts(YAML, "\n"))
def test_yaml_is_plain_data_or_refused(text):
    try:
        documents = load(text, "x.yaml")
    except BadJob:
        return
    assert all(type(document.value) in {dict, list, str, int, float, bool} for document in documents)


CASES = cases()


@given(st.sampled_from(CASES), st.data())
def test_inputs_with_a_few_letters_changed_are_understood_or_refused(case, data):
    text = case.path.read_text()
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 12))
    text = (
        text[:at]
        + data.draw(st.sampled_from(["", "$", '"', "'", "\n", " ", ":", "-", "9" * 30, "&a", "{", "\\"]))
        + text[at + cut :]
    )
    if case.group == "lines":
        assert is_fine(refusal(understand_line, text, None, NoFiles(), {}))
    else:
        assert is_fine(refusal(understand_text, text, case.path.name, None, NoFiles(), {}))


@given(st.text(max_size=200) | st.text("(){}[]:\n =import", max_size=200))
def test_scripts_are_scanned_or_said_to_be_broken(text):
    found = scan(text, "x.py")
    assert found.broken or isinstance(found.imports, dict)


@given(st.text("0123456789+-*/%() AB$", max_size=40))
def test_arithmetic_gives_a_number_or_nothing(text):
    assert isinstance(evaluate(text, {"A": "7", "B": "x"}), int | None)


def growing(step, times):
    return "A=x\n" + step * times + "torchrun $A\n"


@pytest.mark.parametrize(
    "text",
    [
        growing("A=$A$A$A$A\n", 40),
        growing("A=($A ${A[@]} ${A[@]})\n", 40),
        "torchrun " + "(" * 100_000,
        "torchrun " + "$(" * 50_000,
        'echo "' + "${A:-" * 20_000,
        "python " + "-" * 100_000,
        "torchrun --nnodes " + "9" * 100_000 + " x.py",
        "mpirun " + ": " * 20_000,
        "env " * 10_000 + "torchrun x.py",
        "bash -c " * 50 + "x",
    ],
    ids=range(10),
)
def test_lines_that_grow_without_end_are_cut_short(text):
    assert is_fine(refusal(understand_line, text, None, NoFiles(), {}))


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 5_000,
        "- " * 3_000 + "x",
        "a: &a [1]\n" + "".join(f"b{i}: &b{i} [{'*a,' * 9}]\n" for i in range(9)),
        "{" * 5_000,
        "x: " + "y" * (5 << 20),
        "[" + "1," * 300_000 + "]",
    ],
    ids=range(6),
)
def test_yaml_bombs_are_refused(text):
    with pytest.raises(BadJob):
        load(text, "bomb.yaml")


def test_deep_toml_and_json_are_refused():
    assert refusal(understand_text, "a = " + "[" * 20_000, "a.toml", None, NoFiles(), {})
    assert refusal(understand_text, '{"apiVersion": "v1", "a": ' + "[" * 20_000, "a.json", None, NoFiles(), {})


def test_nothing_is_run_and_no_other_file_is_opened():
    """Every golden input once more, with the interpreter watching what is opened and started."""
    seen: list[tuple[str, str]] = []
    watching = False

    def watch(event, arguments):
        # A number is a descriptor, which was opened by its name before.
        if watching and event.startswith(WATCHED) and not str(arguments[:1]).strip("(,)").isdigit():
            seen.append((event, str(arguments[:1]).strip("(,)'")))

    for case in CASES:
        outcome(case)
    sys.addaudithook(watch)
    for case in CASES:
        seen.clear()
        watching = True
        outcome(case)
        watching = False
        strangers = [(event, path) for event, path in seen if event != "open" or not path.startswith(str(HERE))]
        assert strangers == [], case.name
