"""Inputs made to cost much, read one after the other in a process that may use little: `python -m tests.jobs.bombs`."""

import resource
import time

from tests.jobs.test_fuzz import growing
from tutti.errors import TuttiError
from tutti.jobs.files import NoFiles
from tutti.jobs.understand import understand_line, understand_text

MOST_BYTES, MOST_S = 1 << 30, 60
MANY = 50_000
ALIASES = "a: &a [1]\n" + "".join(f"b{i}: &b{i} [{'*a,' * 9}]\n" for i in range(9))
FILES = {
    "a.yaml": ("a: " + "[" * MANY, "- " * MANY, "x: " + "y" * (5 << 20), ALIASES),
    "m.yaml": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: " + "x" * MANY + "}",
        "apiVersion: v1\n---\n" * 20_000,
        "apiVersion: v1\nkind: List\nitems: [" + "{kind: Pod}," * MANY + "]",
    ),
    "a.json": ('{"apiVersion": "v1", "a": ' + "[" * MANY, '{"apiVersion": ' + "9" * MANY + "}"),
    "a.toml": (
        "a = " + "[" * MANY,
        "[" + "a." * MANY + "b]",
        "x = {" + "'a'." * MANY + "b = 1}",
        "command = '" + "x.y " * MANY + "'",
        "command = 'x'\nworkers = '1:" + "9" * 4_000 + "'",
    ),
    "a.sbatch": (
        "#!/bin/sh\n" + "#SBATCH --nodes=1\n" * 20_000,
        "#!/bin/sh\n#SBATCH -a 0-" + "9" * 50,
        "#!/bin/sh\n#SBATCH -a " + "1," * MANY,
        "#!/bin/sh\n" + "srun x\n" * 10_000,
        growing("A=$A$A$A$A\n", 60),
    ),
    "a.pbs": ("#PBS -l select=" + "1+" * MANY + "1", "#PBS -J 0-" + "9" * 40),
    "a.bsub": ("#BSUB -J x[1-" + "9" * 40 + "]", '#BSUB -R "' + "span[" * MANY, '#BSUB -w "' + "done(" * MANY),
    "a.flux": ("#flux: -N 1\n" * 20_000, "#flux: -n " + "9" * 4_000),
    "a.py": ("x = " + "(" * MANY, "import a\n" * MANY, "f(" * MANY),
}
LINES = (
    "torchrun " + "$(" * MANY,
    "torchrun " + "(" * MANY,
    'torchrun "' + "a" * MANY,
    "mpirun " + ": x " * MANY,
    "env " * MANY + "x",
    "torchrun --nnodes 1:" + "9" * MANY,
    "python pretrain_gpt.py --tensor-model-parallel-size 1 --global-batch-size " + "9" * 18,
    "torchrun --nnodes 1:999999999 --nproc-per-node 8 x.py",
)


def read(text: str, name: str) -> float:
    """Processor time of one reading; an error of ours is an answer like any other."""
    began = time.process_time()
    try:
        understand_text(text, name, None, NoFiles(), {}) if name else understand_line(text, None, NoFiles(), {})
    except TuttiError as wrong:
        if wrong.exit_code != 2:
            raise
    return time.process_time() - began


def main() -> None:
    """All of them, with what each took."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S))
    for name, texts in FILES.items():
        for number, text in enumerate(texts):
            print(f"{name} {number}: {read(text, name):.2f} s", flush=True)
    for line in LINES:
        print(f"{line[:40]}: {read(line, ''):.2f} s", flush=True)


if __name__ == "__main__":
    main()
