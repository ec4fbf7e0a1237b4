"""Does a command line look like something that has to be read before it is run? Cheap: before every submission.

Programs that start ranks, files that describe jobs, scripts with directives, and Python scripts whose imports say that
there is more to know. Everything else is a command like any other.
"""

import re
from collections.abc import Sequence
from pathlib import Path, PurePath

LAUNCHERS = {
    "torchrun", "tune", "ft_launcher", "dlrover-run", "accelerate", "accelerate-launch", "deepspeed", "ds",
    "mpirun", "mpiexec",
    "mpiexec.hydra", "mpirun.openmpi", "mpirun.mpich", "mpiexec.openmpi", "mpiexec.mpich", "orterun",
    "prterun", "horovodrun",
    "spark-submit", "srun", "fabric", "lightning", "ray", "dask", "dask-worker", "dask-scheduler",
}  # fmt: skip
WRAPPERS = {
    "env", "nohup", "nice", "numactl", "taskset", "timeout", "conda", "mamba", "uv", "poetry", "pipenv", "apptainer",
    "singularity", "stdbuf", "exec", "time",
}  # fmt: skip
FILES = (".yaml", ".yml", ".json", ".sbatch", ".slurm", ".pbs", ".lsf", ".bsub", ".flux")
DIRECTIVE = re.compile(rb"^#(?:SBATCH|PBS|BSUB|\s?flux:)\s", re.MULTILINE | re.IGNORECASE)
TELLING = re.compile(
    rb"^\s*(?:import|from)\s+(?:lightning|pytorch_lightning|ray|jax|tensorflow|horovod|megatron|nemo|deepspeed|accelerate"
    rb"|dask|distributed|mpi4py|tutti)\b",
    re.MULTILINE,
)
MODULES = re.compile(r"torch\.distributed\.|accelerate\.|deepspeed\.|horovod\.")
SAYS = re.compile(r"--?(?:tensor|pipeline|context|expert)[-_]model?[-_]?parallel|^trainer\.|--trainer\.|--deepspeed")
MOST = 64 << 10


def must_be_read(words: Sequence[str]) -> bool:
    """Whether `understand` has something to say about these words that running them as they are would miss."""
    if not words:
        return False
    first = PurePath(words[0]).name
    if first in LAUNCHERS or first in WRAPPERS or "=" in words[0].split("/")[0]:
        return True
    if len(words) == 1 and words[0].endswith(FILES):
        return True
    if first.startswith("python"):
        return _python(words[1:])
    return is_batch_script(words[0])


def is_batch_script(name: str) -> bool:
    """Whether a file has directives of a batch system; programs on the PATH are not looked at."""
    return ("/" in name or "." in name) and not name.endswith(".py") and _head(name, DIRECTIVE)


def _python(words: Sequence[str]) -> bool:
    if any(MODULES.search(word) or SAYS.search(word) for word in words):
        return True
    script = next((word for word in words if not word.startswith("-")), "")
    return script.endswith(".py") and _head(script, TELLING)


def _head(name: str, pattern: re.Pattern[bytes]) -> bool:
    """Whether the beginning of a file says so; a name that is no plain file says nothing."""
    try:
        path = Path(name)
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return pattern.search(file.read(MOST)) is not None
    except (OSError, ValueError):
        return False
