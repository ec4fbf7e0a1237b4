"""What of the environment a job is submitted from tells something about it."""

from collections.abc import Mapping

from .lazy import pattern

FOREIGN = pattern(
    r"(?:SLURM|SLURMD|SBATCH|SRUN|SALLOC|PBS|LSB|LSF|FLUX|OMPI|PMIX?|PMI2|HYDRA|TORCHELASTIC|TUTTI)_\w*"
    r"|(?:LOCAL_|GROUP_|ROLE_)?RANK|(?:LOCAL_|ROLE_|GROUP_)?WORLD_SIZE|NODE_RANK|MASTER_(?:ADDR|PORT)|CUDA_VISIBLE_DEVICES"
)
"""Said by the job that one submits from, if there is one, and not true of the new one."""


def known_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that the job will find as they are now: it runs in the environment it was submitted from."""
    return {name: value for name, value in environ.items() if not FOREIGN.fullmatch(name)}
