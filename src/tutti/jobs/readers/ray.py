"""Ray: `ray start`, `ray job submit`, and ScalingConfig in a script."""

from collections.abc import Sequence

from tutti.jobs.draft import Draft
from tutti.jobs.flags import spec
from tutti.jobs.scan import Call
from tutti.jobs.shell import Word

START = spec(
    "ray start",
    "address port node-ip-address num-cpus num-gpus memory object-store-memory resources dashboard-host dashboard-port "
    "ray-client-server-port node-manager-port min-worker-port max-worker-port temp-dir labels node-name redis-password "
    "object-manager-port autoscaling-config plasma-directory runtime-env-agent-port metrics-export-port",
    "head block no-redirect-output disable-usage-stats include-dashboard verbose",
)
SUBMIT = spec(
    "ray job submit",
    "address submission-id job-id runtime-env runtime-env-json working-dir entrypoint-num-cpus entrypoint-num-gpus "
    "entrypoint-memory entrypoint-resources metadata-json headers log-style log-color",
    "no-wait verify",
)


def read(words: Sequence[Word], draft: Draft) -> tuple[Word, ...]:
    """A head, a worker, or a driver handed to a cluster."""
    first = words[0].text if words else ""
    draft.framework("ray", draft.place("ray"))
    if first == "start":
        found = draft.options(tuple(words[1:]), START)
        head = "head" in found.flags
        draft.what = "the head of a Ray cluster" if head else "a worker of a Ray cluster"
        draft.say_number("gpus", found.flags.get("num-gpus"), 0)
        draft.say_number("cpus", found.flags.get("num-cpus"), 1)
        if head:
            draft.say("gpus", 0, "the head of a cluster computes nothing by itself")
        if "block" not in found.flags:
            draft.warn("ray start goes to the background; with --block the job lives as long as Ray does")
        return ()
    if first == "job" and len(words) > 1 and words[1].text == "submit":
        found = draft.options(tuple(words[2:]), SUBMIT)
        draft.say_number("gpus", found.flags.get("entrypoint-num-gpus"), 0)
        draft.say_number("cpus", found.flags.get("entrypoint-num-cpus"))
        draft.warn("ray job submit runs its program on the cluster it is pointed at, not here")
        return found.rest
    return ()


def read_scaling(call: Call, draft: Draft) -> None:
    """`ScalingConfig(num_workers=8, use_gpu=True)`: the script starts its own workers on this machine."""
    workers = call.keywords.get("num_workers")
    place = f"{call.name}(num_workers={workers}) at {call.place}"
    if isinstance(workers, tuple | list) and len(workers) == 2 and all(isinstance(n, int) for n in workers):
        draft.warn(f"{place}: Ray resizes between {workers[0]} and {workers[1]} by itself, inside what it is given")
        workers = workers[1]
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        draft.ask(f"{place}: how many workers is known only when it runs; say --gpus")
        return
    resources = call.keywords.get("resources_per_worker")
    per_worker = resources if isinstance(resources, dict) else {}
    gpus = per_worker.get("GPU", 1 if call.keywords.get("use_gpu") is True else 0)
    if isinstance(gpus, int) and gpus > 0:
        draft.say("gpus", workers * gpus, place)
    else:
        draft.say("gpus", 0, f"{place}, without use_gpu")
        cores = per_worker.get("CPU", 1)
        draft.say("cpus", workers * (cores if isinstance(cores, int) and cores > 0 else 1), place)
