"""A launch line: wrappers are taken off, the launcher is recognised, and what it runs is read in turn."""

import re
from collections.abc import Sequence
from importlib import import_module

from .draft import Draft
from .lazy import pattern
from .problems import Misread
from .shell import Command, Word, commands

MOST_DEPTH = 6
COUNTS = pattern(r"--?(?:nproc|nnodes|num[-_](?:gpus|nodes|processes|machines|workers)|gpus)(?![a-z])", re.IGNORECASE)
"""Options by which a program betrays that it starts others."""
ASSIGN = pattern(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
PYTHON = pattern(r"python(?:[0-9](?:\.[0-9]+)?)?|pypy3?|ipython")
SHELLS = {"bash", "sh", "zsh", "dash", "ksh"}
TORCH_MODULES = {
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.launcher",
    "torch.distributed.elastic",
}
MODULES = {"accelerate.commands.launch": "accelerate", "deepspeed.launcher.runner": "deepspeed"}
MODULE_PROGRAMS = {"horovod.runner.launch": "horovodrun", "ray.scripts.scripts": "ray", "lightning.fabric": "fabric"}
BARE = {
    "nohup",
    "exec",
    "command",
    "setsid",
    "unbuffer",
    "eatmydata",
    "xvfb-run",
    "time",
    "builtin",
    "chronic",
    "catchsegv",
}
"""Wrappers without options that matter."""
WITH_VALUES = {
    "nice": {"-n", "--adjustment"},
    "ionice": {"-c", "-n"},
    "stdbuf": {"-i", "-o", "-e"},
    "numactl": {
        "-N",
        "-m",
        "-C",
        "-i",
        "-p",
        "--cpunodebind",
        "--membind",
        "--physcpubind",
        "--interleave",
        "--preferred",
    },
    "env": {"-u", "--unset", "-C", "--chdir"},
    "sudo": {"-u", "-g"},
    "nsys": {"-o", "-t", "-s", "-c"},
    "ncu": {"-o"},
    "py-spy": {"-o", "-r", "-d"},
    "gdb": set(),
    "chrt": set(),
}
"""Wrappers, and which of their options take a value."""
ONE_WORD = {"taskset", "timeout", "chrt"}
"""Wrappers that take one word of their own before the command."""
VERBS = {
    "conda": {"run"},
    "mamba": {"run"},
    "micromamba": {"run"},
    "uv": {"run"},
    "poetry": {"run"},
    "pipenv": {"run"},
    "pdm": {"run"},
    "hatch": {"run"},
    "nsys": {"profile"},
    "py-spy": {"record"},
}
VERB_VALUES = {
    "-n",
    "--name",
    "-p",
    "--prefix",
    "--python",
    "--with",
    "--project",
    "--extra",
    "--group",
    "--env-file",
    "--directory",
}
CONTAINERS = {"singularity": {"exec", "run"}, "apptainer": {"exec", "run"}, "enroot": {"start"}, "shifter": set()}
FAR_AWAY = {"docker", "podman", "nerdctl", "kubectl", "ssh", "sbatch", "qsub", "bsub"}
"""Programs that have others start something."""
LAUNCHERS = {
    "torchrun": "torchrun",
    "ft_launcher": "torchrun",
    "dlrover-run": "torchrun",
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
    "ds": "deepspeed",
    "mpirun": "mpi",
    "mpiexec": "mpi",
    "mpiexec.hydra": "mpi",
    "mpirun.openmpi": "mpi",
    "mpirun.mpich": "mpi",
    "mpiexec.openmpi": "mpi",
    "mpiexec.mpich": "mpi",
    "orterun": "mpi",
    "prterun": "mpi",
    "horovodrun": "horovod",
    "spark-submit": "spark",
    "srun": "srun",
    "ray": "ray",
}
"""Programs that start jobs, and which reader knows them. A reader is imported when its program is seen."""
SAYS = {
    "torchrun": "a torchrun line",
    "accelerate": "an accelerate line",
    "deepspeed": "a deepspeed line",
    "mpi": "an MPI line",
    "horovod": "a horovodrun line",
    "spark": "a spark-submit line",
    "srun": "an srun line",
    "lightning": "a Lightning line",
    "ray": "a Ray line",
    "dask": "a Dask line",
}


def base(path: str) -> str:
    """The name of a program without its folder."""
    return path.rstrip("/").rpartition("/")[2]


def read(words: Sequence[Word], draft: Draft, depth: int = 0) -> None:
    """Everything a line says, from its outermost word inwards."""
    words = unwrapped(words, draft)
    if not words or depth > MOST_DEPTH:
        return
    _read_unwrapped(words, draft, depth)
    if not depth:
        _shown_devices(draft)


def _shown_devices(draft: Draft) -> None:
    """A line that chooses its devices says how many it wants; which ones is not for it to say."""
    chosen = [part for part in draft.env.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    if chosen:
        draft.fill("gpus", len(chosen), draft.place("CUDA_VISIBLE_DEVICES"))
        said = f"CUDA_VISIBLE_DEVICES={','.join(chosen)}"
        draft.ignore(said, "devices are given out; each member sees its own")


def _read_unwrapped(words: Sequence[Word], draft: Draft, depth: int) -> None:
    name = base(words[0].text)
    rest = tuple(words[1:])
    inner = _launched(name, rest, draft)
    if inner is not None:
        if not inner and name not in {"dask", "ray", "spark-submit"} and not name.startswith("dask-"):
            draft.warn(f"{name} is given no program to start")
        draft.what = draft.what or SAYS.get(draft.launcher or next(iter(draft.frameworks), ""), "a launch line")
        _program(inner, draft, depth)
    elif PYTHON.fullmatch(name):
        _python(rest, draft, depth)
    elif name in SHELLS:
        _shell(rest, draft, depth)
    else:
        draft.what = draft.what or "a command"
        if name in FAR_AWAY:
            draft.warn(f"what {name} starts is no part of the job: neither variables nor devices reach it")
        elif told := [word.text for word in words[1:] if COUNTS.match(word.text)]:
            draft.warn(f"{name} is no launcher that is known here, so {told[0]} says nothing; say --workers and --gpus")
        _program(words, draft, depth, nested=False)


def is_launcher(words: Sequence[Word]) -> bool:
    """Whether a command, its wrappers taken off, starts a job that can be recognised."""
    words = unwrapped(words, None)
    if not words:
        return False
    name = base(words[0].text)
    known = (
        name in LAUNCHERS or name.startswith("dask-") or name in {"accelerate", "fabric", "lightning", "dask", "tune"}
    )
    if name in SHELLS and len(words) > 1:
        return words[1].text.endswith((".sh", ".bash")) or words[1].text.startswith("-")
    return (known and name != "ray") or bool(PYTHON.fullmatch(name)) or words[0].text.endswith(".py")


def unwrapped(words: Sequence[Word], draft: Draft | None) -> tuple[Word, ...]:
    """The line without what stands in front of the program: variables, `nohup`, `numactl`, `conda run` and the like."""
    words = tuple(words)
    for _ in range(32):
        if not words:
            return words
        name = base(words[0].text)
        if assign := ASSIGN.fullmatch(words[0].text):
            if draft is not None and not words[0].unknown:
                draft.env[assign[1]] = assign[2]
            words = words[1:]
        elif name in BARE:
            words = _without_options(words[1:], set())
        elif name in VERBS and len(words) > 1 and words[1].text in VERBS[name]:
            words = _without_options(words[2:], VERB_VALUES | WITH_VALUES.get(name, set()))
        elif name in CONTAINERS and len(words) > 1 and words[1].text in CONTAINERS[name]:
            words = _contained(words, draft)
        elif name in ONE_WORD:
            words = _without_options(words[1:], {"-s", "--signal", "-k", "--kill-after"})[1:]
        elif name in WITH_VALUES and name not in VERBS:
            words = _without_options(words[1:], WITH_VALUES[name])
        else:
            return words
    return words


def _without_options(words: Sequence[Word], with_value: set[str]) -> tuple[Word, ...]:
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        if words[at].text == "--":
            return tuple(words[at + 1 :])
        at += 2 if words[at].text in with_value else 1
    return tuple(words[at:])


def _contained(words: Sequence[Word], draft: Draft | None) -> tuple[Word, ...]:
    """`apptainer exec --nv image.sif python train.py`: the command comes after the image."""
    inner = _without_options(
        words[2:], {"-B", "--bind", "--pwd", "-H", "--home", "--env", "--overlay", "-W", "--workdir"}
    )
    if draft is not None and inner:
        draft.ignore(f"{base(words[0].text)} {words[1].text} {inner[0].text}", "the container is run as written")
    return inner[1:]


def _launched(name: str, rest: tuple[Word, ...], draft: Draft) -> tuple[Word, ...] | None:
    """What a launcher starts; None where the program is no launcher."""
    first = rest[0].text if rest else ""
    if name == "tune":
        return _read_by("torchrun", rest[1:], draft, "tune run") if first == "run" else None
    if name == "accelerate":
        return _read_by("accelerate", rest[1:], draft) if first == "launch" else None
    if name in {"fabric", "lightning"} and first == "run":
        return _read_by("lightning", rest[2:] if len(rest) > 1 and rest[1].text == "model" else rest[1:], draft)
    if name == "dask" or name.startswith("dask-"):
        return _read_by("dask", rest, draft, name)
    if name not in LAUNCHERS:
        return None
    named = LAUNCHERS[name] in {"torchrun", "mpi"}
    return _read_by(LAUNCHERS[name], rest, draft, *([name] if named else []))


def _read_by(reader: str, words: Sequence[Word], draft: Draft, *program: str) -> tuple[Word, ...]:
    rest: tuple[Word, ...] = import_module(f"tutti.jobs.readers.{reader}").read(words, draft, *program)
    return rest


def _program(words: Sequence[Word], draft: Draft, depth: int, nested: bool = True) -> None:
    """What a launcher runs: another launcher, a Python script, or a program nobody can look into."""
    if not words:
        return
    first = words[0].text
    if first == "-m" or first.endswith(".py"):
        _read_by("python", words, draft)
    elif nested:
        read(words, draft, depth + 1)


def _python(words: Sequence[Word], draft: Draft, depth: int) -> None:
    """`python -m launcher`, or a script."""
    at = next((i for i, word in enumerate(words) if word.text == "-m"), None)
    if at is not None and at + 1 < len(words) and all(word.text.startswith("-") for word in words[:at]):
        module, rest = words[at + 1].text, tuple(words[at + 2 :])
        if module in TORCH_MODULES:
            draft.what = draft.what or "a torchrun line"
            _program(_read_by("torchrun", rest, draft, f"python -m {module}"), draft, depth)
            return
        if module in MODULES or module in MODULE_PROGRAMS:
            name = MODULE_PROGRAMS.get(module) or {"accelerate": "accelerate-launch"}.get(
                MODULES[module], MODULES[module]
            )
            read((Word(name), *rest), draft, depth + 1)
            return
    draft.what = draft.what or "a Python program"
    _read_by("python", words, draft)


def _shell(words: Sequence[Word], draft: Draft, depth: int) -> None:
    """`bash -c "line"`, or a script that is named: its commands are read, not run."""
    at = 0
    while at < len(words) and words[at].text.startswith("-") and "c" not in words[at].text:
        at += 1
    if at >= len(words):
        return
    if words[at].text.startswith("-"):
        line = words[at + 1] if at + 1 < len(words) else Word("")
        read_script(commands(line.text, draft.env), draft, depth + 1)
        return
    text = draft.files.text(words[at].text)
    draft.what = draft.what or "a shell script"
    if text is None:
        draft.warn(f"{words[at].text} is not here, so what it runs is not known")
        return
    draft.file = words[at].text
    read_script(commands(text, draft.env), draft, depth + 1)


def read_script(found: Sequence[Command], draft: Draft, depth: int = 0) -> None:
    """The command of a script that starts the job; others like it are named."""
    starts = [command for command in found if is_launcher(command.words)]
    if not starts:
        return
    launchers = [c for c in starts if not PYTHON.fullmatch(base(unwrapped(c.words, None)[0].text))]
    chosen = next((c for c in launchers or starts), starts[0])
    modules = [c for c in starts if any(word.text in TORCH_MODULES for word in c.words)]
    if not launchers and modules:
        chosen = modules[0]
    draft.line = chosen.line
    for name, value in chosen.sets:
        if not value.unknown:
            draft.env[name] = value.text
    try:
        read(chosen.words, draft, depth)
    except Misread as wrong:
        draft.problem(wrong.what, "", wrong.hint)
    others = [c for c in launchers if c is not chosen and base(unwrapped(c.words, None)[0].text) != "srun"]
    if others:
        lines = ", ".join(str(command.line) for command in others[:8])
        draft.warn(f"line {chosen.line} was taken for the job; line {lines} starts something too")
