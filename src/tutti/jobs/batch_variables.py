"""The variables that batch systems set, so that a script written for one of them runs unchanged."""

import itertools
import re

from .place import Place

MEGABYTE = 1 << 20


def slurm(place: Place) -> dict[str, str]:
    """What Slurm tells a task of a job step."""
    nodes = str(len(place.nodes))
    names = nodelist(place.nodes)
    tasks = _per_node(place.per_node)
    found = {
        "SLURM_JOB_ID": str(place.job_id),
        "SLURM_JOBID": str(place.job_id),
        "SLURM_JOB_NAME": place.job,
        "SLURM_JOB_USER": place.user,
        "SLURM_JOB_PARTITION": place.queue,
        "SLURM_CLUSTER_NAME": "tutti",
        "SLURM_SUBMIT_DIR": place.cwd,
        "SLURM_SUBMIT_HOST": place.nodes[0],
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NODELIST": names,
        "SLURM_NODELIST": names,
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURM_STEP_NODELIST": names,
        "SLURM_STEP_NUM_TASKS": str(place.size),
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_NTASKS": str(place.size),
        "SLURM_NPROCS": str(place.size),
        "SLURM_NTASKS_PER_NODE": str(max(place.per_node)),
        "SLURM_TASKS_PER_NODE": tasks,
        "SLURM_PROCID": str(place.rank),
        "SLURM_LOCALID": str(place.local_rank),
        "SLURM_NODEID": str(place.node_rank),
        "SLURMD_NODENAME": place.nodes[place.node_rank],
        "SLURM_RESTART_COUNT": str(place.restarts),
    }
    return {name: value for name, value in found.items() if value} | _slurm_asks(place) | _slurm_array(place)


def _slurm_asks(place: Place) -> dict[str, str]:
    found: dict[str, str] = {}
    if place.cpus:
        found["SLURM_CPUS_PER_TASK"] = str(place.cpus)
        found["SLURM_CPUS_ON_NODE"] = str(place.cpus * place.local_size)
        found["SLURM_JOB_CPUS_PER_NODE"] = _per_node(tuple(place.cpus * members for members in place.per_node))
    if place.gpus:
        found["SLURM_GPUS_ON_NODE"] = str(place.gpus * place.local_size)
        found["SLURM_JOB_GPUS"] = found["SLURM_STEP_GPUS"] = ",".join(map(str, place.devices))
    if place.memory:
        found["SLURM_MEM_PER_NODE"] = str(place.memory * place.local_size // MEGABYTE)
    return found


def _slurm_array(place: Place) -> dict[str, str]:
    if place.index is None:
        return {}
    return {
        "SLURM_ARRAY_JOB_ID": str(place.job_id),
        "SLURM_ARRAY_TASK_ID": str(place.index),
        "SLURM_ARRAY_TASK_COUNT": str(len(place.indices)),
        "SLURM_ARRAY_TASK_MIN": str(min(place.indices, default=0)),
        "SLURM_ARRAY_TASK_MAX": str(max(place.indices, default=0)),
        "SLURM_ARRAY_TASK_STEP": str(_step(place.indices)),
    }


def pbs(place: Place) -> dict[str, str]:
    """What PBS tells a job script; its list of nodes is a file, which whoever starts the member writes."""
    found = {
        "PBS_JOBID": f"{place.job_id}.tutti",
        "PBS_JOBNAME": place.job,
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_QUEUE": place.queue,
        "PBS_O_QUEUE": place.queue,
        "PBS_O_WORKDIR": place.cwd,
        "PBS_O_HOST": place.nodes[0],
        "PBS_O_LOGNAME": place.user,
        "PBS_NODENUM": str(place.node_rank),
        "PBS_TASKNUM": str(place.rank + 1),
        "PBS_NUM_NODES": str(len(place.nodes)),
        "PBS_NP": str(place.size * max(place.cpus, 1)),
        "NCPUS": str(max(place.cpus, 1)),
    }
    if place.index is not None:
        found |= {
            "PBS_ARRAY_INDEX": str(place.index),
            "PBS_ARRAYID": str(place.index),
            "PBS_ARRAY_ID": f"{place.job_id}[].tutti",
            "PBS_JOBID": f"{place.job_id}[{place.index}].tutti",
        }
    return {name: value for name, value in found.items() if value}


def pbs_nodefile(place: Place) -> str:
    """The text of PBS_NODEFILE: one line per slot."""
    return "".join(f"{node}\n" * members for node, members in zip(place.nodes, place.per_node, strict=True))


def lsf(place: Place) -> dict[str, str]:
    """What LSF tells a job."""
    hosts = list(zip(place.nodes, place.per_node, strict=True))
    found = {
        "LSB_JOBID": str(place.job_id),
        "LSB_BATCH_JID": str(place.job_id) if place.index is None else f"{place.job_id}[{place.index}]",
        "LSB_JOBINDEX": str(place.index or 0),
        "LSB_JOBNAME": place.job if place.index is None else f"{place.job}[{place.index}]",
        "LSB_QUEUE": place.queue,
        "LSB_HOSTS": " ".join(node for node, members in hosts for _ in range(members)),
        "LSB_MCPU_HOSTS": " ".join(f"{node} {members}" for node, members in hosts),
        "LSB_DJOB_NUMPROC": str(place.size),
        "LSB_MAX_NUM_PROCESSORS": str(place.size),
        "LSB_SUB_HOST": place.nodes[0],
        "LS_SUBCWD": place.cwd,
        "LSB_OUTDIR": place.cwd,
    }
    if place.index is not None:
        found["LSB_JOBINDEX_STEP"] = str(_step(place.indices))
        found["LSB_JOBINDEX_END"] = str(max(place.indices, default=0))
    return {name: value for name, value in found.items() if value}


def flux(place: Place) -> dict[str, str]:
    """What Flux tells a task."""
    found = {
        "FLUX_JOB_ID": str(place.job_id),
        "FLUX_JOB_SIZE": str(place.size),
        "FLUX_JOB_NNODES": str(len(place.nodes)),
        "FLUX_TASK_RANK": str(place.rank),
        "FLUX_TASK_LOCAL_ID": str(place.local_rank),
    }
    return found | ({} if place.index is None else {"FLUX_JOB_CC": str(place.index)})


MANAGERS = {"slurm": slurm, "pbs": pbs, "lsf": lsf, "flux": flux}


def nodelist(nodes: tuple[str, ...]) -> str:
    """Names of machines the way Slurm shortens them: n[1-4,7]."""
    parts: list[str] = []
    for stem, group in itertools.groupby(nodes, _stem):
        names = list(group)
        if stem is None or len(names) == 1:
            parts += names
        else:
            parts.append(f"{stem[0]}[{','.join(_runs([name.removeprefix(stem[0]) for name in names]))}]")
    return ",".join(parts)


def named(written: str) -> tuple[str, ...]:
    """The machines of such a list, one by one."""
    found: list[str] = []
    for stem, numbers in re.findall(r"([^,\[\]]+)(?:\[([0-9,-]*)\])?", written):
        for run in numbers.split(",") if numbers else ():
            low, _, high = run.partition("-")
            found += [f"{stem}{number:0{len(low)}}" for number in range(int(low), int(high or low) + 1)]
        found += [] if numbers else [stem]
    return tuple(found)


def _stem(name: str) -> tuple[str, int] | None:
    """What comes before the number at the end, and how many digits the number has."""
    found = re.fullmatch(r"(.*?)([0-9]{1,9})", name)
    return (found[1], len(found[2]) if found[2].startswith("0") and found[2] != "0" else 0) if found else None


def _runs(numbers: list[str]) -> list[str]:
    runs: list[list[str]] = []
    for number in numbers:
        if runs and int(number) == int(runs[-1][-1]) + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def _per_node(counts: tuple[int, ...]) -> str:
    """Counts by machine the way Slurm shortens them: 4(x2),3."""
    parts = [(count, len(list(group))) for count, group in itertools.groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)


def _step(indices: tuple[int, ...]) -> int:
    return indices[1] - indices[0] if len(indices) > 1 else 1
