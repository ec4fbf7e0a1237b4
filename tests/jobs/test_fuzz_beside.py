"""The other readers: files that a job names, variables, words of the Slurm-like commands, data over the wire."""

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.golden_files import HERE, cases, outcome, understood
from tests.jobs.test_fuzz import PIECES, is_fine, refusal, texts
from tutti.cli.slurm_words import options
from tutti.errors import TuttiError
from tutti.jobs.batch import slurm_words
from tutti.jobs.batch_submission import read_sbatch
from tutti.jobs.convert.write import NAMES, convert
from tutti.jobs.explain import as_json, lines
from tutti.jobs.file import from_data
from tutti.jobs.files import Files, NoFiles
from tutti.jobs.gang import to_gang
from tutti.jobs.step import inside, outside
from tutti.jobs.understand import understand_line

WORDS = (HERE / "words.txt").read_text().replace("\\0", "\0").splitlines()
KEYS = (HERE / "keys.txt").read_text().replace("\\0", "\0").splitlines()
JOB_KEYS = (HERE / "job-keys.txt").read_text().replace("\\0", "\0").splitlines()
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS)
NAMED = {
    "deepspeed --hostfile F train.py": "F",
    "deepspeed --hostfile F --include a@b:0,1 train.py": "F",
    "mpirun -np 4 --hostfile F ./x": "F",
    "mpiexec -f F ./x": "F",
    "horovodrun -np 4 --hostfile F python x.py": "F",
    "deepspeed train.py --deepspeed_config F.json": "F.json",
    "accelerate launch --config_file F.yaml train.py": "F.yaml",
    "accelerate launch --use_deepspeed --deepspeed_config_file F.json train.py": "F.json",
    "torchrun --nproc-per-node 2 F.py": "F.py",
    "python F.py": "F.py",
    "bash F.sh": "F.sh",
}
CODE = (HERE / "code.txt").read_text().replace("\\0", "\0").splitlines()
ONE_OF_OURS = (
    *PIECES,
    "--wrap",
    "-n",
    "-N",
    "2-1",
    "-t",
    "1-0",
    "--gres=gpu:a100:2",
    "-d",
    "afterok:1",
    "-a",
    "1-9%2",
    "-o",
    "%i%%%",
)


class Given(Files):
    """One file, whatever is asked for; others are not here."""

    def __init__(self, name, text):
        super().__init__()
        self.name, self.given = name, text

    def text(self, name):
        self.read[name] = self.given if name == self.name else None
        return self.read[name]


def shown(line, files, env):
    found = understand_line(line, None, files, env)
    assert as_json(found)["schema"] == "tutti/v1"
    assert list(lines(found))


def tables(keys):
    inner = LEAVES | st.lists(LEAVES, max_size=4)
    below = inner | st.dictionaries(
        st.sampled_from(keys), inner | st.dictionaries(st.sampled_from(keys), inner), max_size=5
    )
    return st.dictionaries(st.sampled_from(keys), below, max_size=8)


def code():
    values = st.sampled_from([*WORDS[:22], "x", "None", "(1, 2)", "[0, 1]", "-1", "{'GPU': 2}"])
    rows = st.lists(st.tuples(st.sampled_from(CODE), values), max_size=12)
    return rows.map(lambda rows: "\n".join(row.replace("{0}", value) for row, value in rows))


CONTENT = texts(WORDS, " ") | texts(WORDS, "\n") | tables(KEYS).map(json.dumps) | code() | texts(PIECES, "\n")


@given(st.sampled_from(sorted(NAMED)), CONTENT)
def test_files_that_a_line_names_are_read_or_refused(line, text):
    assert is_fine(refusal(shown, line, Given(NAMED[line], text), {}))


NEAR = sorted(path for path in (HERE / "files").iterdir())


@given(st.sampled_from(NEAR), st.data())
def test_files_with_a_few_letters_changed_are_read_or_refused(path, data):
    text = path.read_text()
    at = data.draw(st.integers(0, len(text)))
    new = data.draw(st.sampled_from(["", "$", '"', "'", "\n", " ", ":", "-", "9" * 30, "&a", "{", "[", "null"]))
    text = text[:at] + new + text[at + data.draw(st.integers(0, 12)) :]
    name = path.name.removesuffix(".txt")
    line = next(
        (line.replace("F", "G", 1).replace(file, name) for line, file in NAMED.items() if name.endswith(file[1:])), ""
    )
    assert is_fine(refusal(shown, line.replace("G", "F") or f"deepspeed --hostfile {name} x.py", Given(name, text), {}))


@given(
    st.sampled_from(["TF_CONFIG", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_RDZV_CONF"]),
    tables(["cluster", "task", "chief", "worker", "ps", "type", "index"]).map(json.dumps) | texts(WORDS, " "),
)
def test_variables_are_read_or_refused(name, text):
    for line in ("python tf.py", "torchrun train.py"):
        assert is_fine(refusal(shown, line, NoFiles(), {name: text}))


@given(st.lists(st.sampled_from(ONE_OF_OURS) | st.text(max_size=8), max_size=8))
def test_words_of_the_slurm_commands_are_read_or_refused(words):
    assert is_fine(refusal(read_sbatch, [*words, "--wrap", "true"])) or isinstance(
        refusal(read_sbatch, words), TuttiError
    )
    for table in (slurm_words.SQUEUE, slurm_words.SCANCEL, slurm_words.SINFO):
        assert is_fine(refusal(options, tuple(words), table))
    assert is_fine(refusal(outside, tuple(words)))
    assert is_fine(refusal(inside, tuple(words), {"SLURM_NNODES": "2", "CUDA_VISIBLE_DEVICES": "0,1"}))


@given(st.text(max_size=30), st.sampled_from([slurm_words.JOB_COLUMNS, slurm_words.NODE_COLUMNS]))
def test_formats_of_columns_are_read_or_refused(form, columns):
    try:
        known = slurm_words.table([], columns, form, True) is not None
    except KeyError as letter:
        known = str(letter.args[0]) in form
    assert known


@given(tables(JOB_KEYS))
def test_a_job_over_the_wire_is_a_gang_or_refused(data):
    assert is_fine(refusal(lambda: to_gang(from_data(data, "the request"), now=0)))


UNDERSTOOD = [case for case in cases() if "error" not in outcome(case)]


@given(st.sampled_from(UNDERSTOOD), st.sampled_from(NAMES))
def test_whatever_is_understood_can_be_converted_or_is_refused(case, target):
    assert is_fine(refusal(lambda: convert(understood(case), target)))


def test_bombs_of_every_kind_stay_within_a_gigabyte_and_a_minute():
    done = subprocess.run(
        [sys.executable, "-m", "tests.jobs.bombs"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
