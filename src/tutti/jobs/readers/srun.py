"""srun: tasks, each a member; inside a batch script the header has already said how many."""

from collections.abc import Sequence

from tutti.jobs.batch import slurm
from tutti.jobs.draft import Draft
from tutti.jobs.flags import Flag, Spec
from tutti.jobs.shell import Word

TABLE = Spec("srun", slurm.TABLE.takes, {**slurm.TABLE.alias, "I": "immediate"})


def read(words: Sequence[Word], draft: Draft) -> tuple[Word, ...]:
    """Its options as those of sbatch, except that a task is a member."""
    found = draft.options(tuple(words), TABLE)
    if draft.manager:
        return found.rest
    draft.framework("python", draft.place("srun"))
    draft.launcher = "srun"
    flags = found.flags
    tasks = draft.number(flags.get("ntasks"))
    nodes = draft.number(flags.get("nodes"))
    per_node = draft.number(flags.get("ntasks-per-node"))
    members = tasks or (nodes or 1) * (per_node or 1)
    said = [flags[name] for name in ("ntasks", "nodes", "ntasks-per-node") if name in flags]
    source = draft.place(" and ".join(flag.spelling for flag in said)) if said else "default"
    draft.say("workers", members, source)
    if nodes and members > nodes:
        draft.say("per_node", -(-members // nodes), source)
    _each(flags, members, nodes or 1, draft)
    slurm.fields(found._replace(flags={k: v for k, v in flags.items() if k not in RESOURCES}), draft)
    return found.rest


RESOURCES = {
    "ntasks",
    "nodes",
    "ntasks-per-node",
    "gpus",
    "gpus-per-task",
    "gpus-per-node",
    "gres",
    "cpus-per-task",
    "mem",
}


def _each(flags: dict[str, Flag], members: int, nodes: int, draft: Draft) -> None:
    """Devices and cores of a task."""
    on_a_node = -(-members // nodes)
    for option, share in (("gpus-per-task", 1), ("gpus-per-node", on_a_node), ("gres", on_a_node), ("gpus", members)):
        flag = flags.get(option)
        if flag is None or flag.value.unknown:
            continue
        found = (slurm.GRES if option == "gres" else slurm.TYPED).fullmatch(flag.text)
        if found:
            draft.say("gpus", -(-int(found[2] or 1) // share), draft.place(flag.spelling))
            if found[1]:
                draft.say("kind", [found[1]], draft.place(flag.spelling))
        else:
            draft.problem(f"{flag.spelling}: {flag.text!r} is no number of devices", hint="write 4, or a100:4")
    draft.say("gpus", 0, "default: no device is asked for")
    draft.say_number("cpus", flags.get("cpus-per-task"))
    if "cpus-per-task" not in flags:
        draft.say("cpus", 1, "default: one core per task")
