"""Which variables a member finds in its environment, by framework. Pure: from where it sits to names and values.

The base variables are always there; a recognised framework adds its own. Variables of a cluster manager (Slurm, PBS,
LSF) are delivered for at most one of them, see `batch_variables`.
"""

import json
from collections.abc import Callable

from tutti.engine.model import Data

from .batch_variables import MANAGERS, slurm
from .place import Place

BASE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES")


class Delivery(Data, frozen=True):
    """What a framework adds to the base variables, and what the names are good for."""

    adds: Callable[[Place], dict[str, str]]
    says: str


def variables(place: Place, framework: str = "", manager: str = "") -> dict[str, str]:
    """All variables of a member: the base, its framework's, and those of the batch system its script is written for."""
    found = base(place)
    if framework in DELIVERIES:
        found |= DELIVERIES[framework].adds(place)
    if manager in MANAGERS:
        # A script for one batch system must not look as if it ran under another as well.
        found = {name: value for name, value in found.items() if not name.startswith("SLURM_") or manager == "slurm"}
        # mpirun believes these variables and would look for the batch system's own way to start ranks.
        found |= mpi(place) | MANAGERS[manager](place)
    return found


def delivered(framework: str = "", manager: str = "", is_array: bool = False) -> tuple[str, ...]:
    """The names of what would be delivered, for people to read."""
    index = 0 if is_array else None
    example = Place(job="job", size=2, gpus=1, devices=(0,), cpus=1, limit_s=60, index=index, indices=(0,))
    return tuple(variables(example, framework, manager))


def base(place: Place) -> dict[str, str]:
    """Always there: what every collective library can be started from."""
    found = {
        "RANK": place.rank,
        "WORLD_SIZE": place.size,
        "LOCAL_RANK": place.local_rank,
        "LOCAL_WORLD_SIZE": place.local_size,
        "MASTER_ADDR": place.address,
        "MASTER_PORT": place.port,
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, place.devices)),
    }
    if place.cpus:
        found["OMP_NUM_THREADS"] = place.cpus
    return {name: str(value) for name, value in found.items()}


def torchrun(place: Place) -> dict[str, str]:
    """torchrun is run as written, one launcher per member; options it was not given are filled from here."""
    found = {
        "PET_NNODES": place.size,
        "PET_NODE_RANK": place.rank,
        "PET_MASTER_ADDR": place.address,
        "PET_MASTER_PORT": place.port,
        "PET_RDZV_ID": place.job,
        "PET_RDZV_ENDPOINT": f"{place.address}:{place.port}",
    }
    if place.size > 1 or place.elastic:
        found["PET_RDZV_BACKEND"] = "c10d"
    if place.gpus:
        found["PET_NPROC_PER_NODE"] = place.gpus
    return {name: str(value) for name, value in found.items()}


def accelerate(place: Place) -> dict[str, str]:
    """What `accelerate launch` hands on, for scripts that are started without it."""
    return {"ACCELERATE_USE_CPU": "false" if place.gpus else "true"}


def jax(place: Place) -> dict[str, str]:
    """A bare `jax.distributed.initialize()` finds its number and count where it looks for Slurm's."""
    coordinator = f"{place.address}:{place.port}"
    own = {
        "JAX_COORDINATOR_ADDRESS": coordinator,
        "JAX_NUM_PROCESSES": str(place.size),
        "JAX_PROCESS_ID": str(place.rank),
    }
    names = (
        "SLURM_JOB_ID",
        "SLURM_STEP_NODELIST",
        "SLURM_NTASKS",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_STEP_NUM_NODES",
    )
    told = slurm(place)
    return own | {name: told[name] for name in names}


def tensorflow(place: Place) -> dict[str, str]:
    """TF_CONFIG: who is in the cluster, and which of them this is."""
    cluster: dict[str, list[str]] = {}
    for role, address in place.addresses or ((place.role, f"{place.address}:{place.port}"),):
        cluster.setdefault(role, []).append(address)
    task = {"type": place.role, "index": place.role_rank}
    # An evaluator watches checkpoints from outside the cluster.
    inside = {role: found for role, found in cluster.items() if role != "evaluator"}
    return {"TF_CONFIG": json.dumps({"cluster": inside, "task": task})}


def head(place: Place) -> dict[str, str]:
    """Where the head of a Ray or Dask cluster listens."""
    return {"TUTTI_HEAD": f"{place.address}:{place.port}", "TUTTI_ROLE": place.role}


def ray(place: Place) -> dict[str, str]:
    """Workers and drivers of a Ray cluster find its head."""
    return head(place) | {"RAY_ADDRESS": f"{place.address}:{place.port}"}


def dask(place: Place) -> dict[str, str]:
    """Workers and clients of a Dask cluster find its scheduler."""
    return head(place) | {"DASK_SCHEDULER_ADDRESS": f"tcp://{place.address}:{place.port}"}


def mpi(place: Place) -> dict[str, str]:
    """mpirun is run as written on one machine: it stays there, and may use every slot it was given."""
    slots = str(max(place.gpus, place.cpus, 1))
    return {
        "OMPI_MCA_plm": "isolated",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "HYDRA_LAUNCHER": "fork",
        "TUTTI_SLOTS": slots,
    }


DELIVERIES = {
    "torchrun": Delivery(torchrun, "options of torchrun that its line leaves out"),
    "torch": Delivery(lambda _: {}, "`init_process_group()` reads the base variables"),
    "accelerate": Delivery(lambda place: torchrun(place) | accelerate(place), "as for torchrun"),
    "deepspeed": Delivery(lambda _: {}, "DeepSpeed reads the base variables"),
    "lightning": Delivery(
        lambda place: {"GROUP_RANK": str(place.node_rank), "NODE_RANK": str(place.node_rank)}, "nodes"
    ),
    "megatron": Delivery(torchrun, "as for torchrun"),
    "horovod": Delivery(mpi, "how the launcher starts its ranks"),
    "mpi": Delivery(mpi, "how mpirun starts its ranks"),
    "jax": Delivery(jax, "coordinator, count and number"),
    "tensorflow": Delivery(tensorflow, "the cluster and the task"),
    "ray": Delivery(ray, "where the head is"),
    "dask": Delivery(dask, "where the scheduler is"),
}
