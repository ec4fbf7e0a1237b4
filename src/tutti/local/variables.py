"""What a member finds in its environment: what was captured, less what other cluster managers left in it, plus ours.

Pure. Which framework wants which names is the business of `jobs.delivery`.
"""

import re
from collections.abc import Mapping

import msgspec

from tutti.jobs.batch_variables import MANAGERS
from tutti.jobs.delivery import variables as delivered
from tutti.jobs.place import Place

FOREIGN = re.compile(
    r"(?:SLURM|SRUN|SBATCH|SALLOC|SLURMD|PMIX?|PMI2|MPI_LOCAL|HYDRA|MV2|PALS|PBS|LSB|LSF|FLUX|PET|TORCHELASTIC)_\w*"
    r"|OMPI_(?!MCA_|ALLOW_)\w*|JAX_(?:COORDINATOR_\w+|NUM_PROCESSES|PROCESS_ID|LOCAL_DEVICE_IDS)|TF_CONFIG"
    r"|(?:LOCAL_|GROUP_|ROLE_)?RANK|(?:LOCAL_|ROLE_|GROUP_)?WORLD_SIZE|NODE_RANK|MASTER_(?:ADDR|PORT)"
    r"|ROLE_NAME|TUTTI_(?!HOME|LOCKS|DEVICES$|TRAIN|HANG|STEPS)\w*|CUDA_VISIBLE_DEVICES"
)
"""Variables of cluster managers, ours included, that a captured environment may carry; what users set for Open MPI and
JAX stays."""


class Gathering(msgspec.Struct, frozen=True):
    """What a member is told of its gang beside its place in it."""

    nonce: str
    framework: str = ""
    source: str = "made-up"
    channel: str = ""
    train_path: str = ""
    """Where `from tutti import train` finds the library, if the job has not installed it."""


def cleaned(env: Mapping[str, str]) -> dict[str, str]:
    """A captured environment without what another cluster manager said in it."""
    return {name: value for name, value in env.items() if not FOREIGN.fullmatch(name)}


def variables(place: Place, gathering: Gathering, captured: Mapping[str, str]) -> dict[str, str]:
    """Everything a member is given beside what was captured."""
    manager = gathering.framework if gathering.framework in MANAGERS else ""
    given = delivered(place, gathering.framework, manager)
    shown = given["CUDA_VISIBLE_DEVICES"]
    if gathering.source == "cpu":
        # Processor slots show no GPU at all: a job that was given none must not use one.
        given["CUDA_VISIBLE_DEVICES"] = ""
    if "OMP_NUM_THREADS" in captured:
        given.pop("OMP_NUM_THREADS", None)
    return {**given, **_ours(place, gathering, shown), **_path(gathering, captured)}


def _ours(place: Place, gathering: Gathering, devices: str) -> dict[str, str]:
    found = {
        "TUTTI_JOB": place.job,
        "TUTTI_RUN": gathering.nonce,
        "TUTTI_ATTEMPT": str(place.restarts),
        "TUTTI_ROLE": place.role,
        "TUTTI_ROLE_RANK": str(place.role_rank),
        "TUTTI_DEVICES_GIVEN": devices,
    }
    if gathering.channel:
        found["TUTTI_CHANNEL"] = f"unix:{gathering.channel}"
    if place.index is not None:
        found |= {"TUTTI_TASK": str(place.index), "TUTTI_TASKS": str(len(place.indices))}
    return found


def _path(gathering: Gathering, captured: Mapping[str, str]) -> dict[str, str]:
    if not gathering.train_path:
        return {}
    before = captured.get("PYTHONPATH", "")
    return {"PYTHONPATH": f"{before}:{gathering.train_path}" if before else gathering.train_path}
