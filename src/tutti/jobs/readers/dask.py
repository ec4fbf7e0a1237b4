"""Dask: scheduler and workers."""

from collections.abc import Sequence

from tutti.jobs.draft import Draft
from tutti.jobs.flags import spec
from tutti.jobs.shell import Word

WORKER = spec(
    "dask worker",
    "nthreads nworkers memory-limit name host port worker-port nanny-port dashboard-address resources death-timeout "
    "interface local-directory preload scheduler-file lifetime lifetime-stagger protocol listen-address "
    "contact-address "
    "worker-class tls-ca-file tls-cert tls-key pid-file",
    "nanny no-nanny dashboard no-dashboard reconnect no-reconnect bokeh no-bokeh lifetime-restart",
)


def read(words: Sequence[Word], draft: Draft, program: str = "dask") -> tuple[Word, ...]:
    """`dask scheduler`, `dask worker ADDRESS`, and the old names of both."""
    verb = program.removeprefix("dask-") if program.startswith("dask-") else (words[0].text if words else "")
    rest = words if program.startswith("dask-") else words[1:]
    draft.framework("dask", draft.place("dask"))
    draft.say("gpus", 0, "Dask's own processes ask for cores")
    if verb == "worker":
        _worker(rest, draft)
    elif verb == "scheduler":
        draft.what = "the scheduler of a Dask cluster"
        draft.say("cpus", 1, "a Dask scheduler keeps one core busy")
    return ()


def _worker(words: Sequence[Word], draft: Draft) -> None:
    draft.what = "workers of a Dask cluster"
    found = draft.options(tuple(words), WORKER, stop_at_word=False)
    processes = draft.number(found.flags.get("nworkers")) or 1
    threads = draft.number(found.flags.get("nthreads")) or 1
    words_said = " and ".join(found.flags[name].spelling for name in ("nworkers", "nthreads") if name in found.flags)
    draft.say("cpus", processes * threads, draft.place(words_said) if words_said else "default")
    limit = found.flags.get("memory-limit")
    if limit is not None and limit.text not in {"auto", "0"} and not limit.value.unknown:
        draft.say("mem", limit.text, draft.place(limit.spelling))
