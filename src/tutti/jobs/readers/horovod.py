"""horovodrun: ranks over hosts, and an elastic range."""

from collections.abc import Sequence

from tutti.jobs.draft import Draft
from tutti.jobs.flags import spec
from tutti.jobs.shell import Word

from .mpi import _hosts

TABLE = spec(
    "horovodrun",
    "np n num-proc min-np min-num-proc max-np max-num-proc H hosts hostfile host-discovery-script "
    "slots-per-host slots p "
    "ssh-port ssh-identity-file i network-interfaces network-interface output-filename start-timeout elastic-timeout "
    "reset-limit cooldown-range fusion-threshold-mb cycle-time-ms cache-capacity autotune-log-file timeline-filename "
    "log-level binding-args mpi-args config-file stall-check-warning-time-seconds tcp-flag-value nics",
    "verbose check-build disable-cache gloo mpi jsrun autotune no-stall-check tcp hierarchical-allreduce "
    "torus-allreduce "
    "prefix-output-with-timestamp timeline-mark-cycles log-hide-timestamp",
)


def read(words: Sequence[Word], draft: Draft) -> tuple[Word, ...]:
    """Hosts with so many slots each; one slot is one device."""
    found = draft.options(tuple(words), TABLE)
    draft.launcher = "horovod"
    draft.framework("horovod", draft.place("horovodrun"))
    flags = found.flags
    total = draft.number(flags.get("np") or flags.get("n") or flags.get("num-proc"))
    least = draft.number(flags.get("min-np") or flags.get("min-num-proc"))
    most = draft.number(flags.get("max-np") or flags.get("max-num-proc"))
    slots = draft.number(flags.get("slots-per-host") or flags.get("slots"))
    hosts, source = _hosts(found, draft)
    if least or most:
        _elastic(least or total or 1, most or total or least or 1, slots or 1, draft)
    elif len(hosts) > 1:
        draft.say("workers", len(hosts), source)
        draft.say("gpus", max(hosts.values()), source)
    else:
        draft.say("workers", 1, "horovodrun on one host")
        if total:
            draft.say("gpus", total, draft.place("-np"))
        elif not draft.has("gpus"):
            draft.ask("horovodrun needs -np; say how many ranks")
    draft.ranks = draft.said.get("gpus") or 1
    return found.rest


def _elastic(least: int, most: int, slots: int, draft: Draft) -> None:
    source = draft.place("--min-np and --max-np")
    low, high = -(-least // slots), most // slots
    if high < low:
        draft.problem(f"from {least} to {most} ranks there is no whole number of hosts with {slots} slots")
        return
    draft.say("workers", f"{low}:{high}" if high > low else low, source)
    draft.say("gpus", slots, draft.place("--slots-per-host") if slots > 1 else "default: one slot per host")
    draft.say("resize", "live", source)
