"""A Python program: its arguments, the configurations they name, and what its script imports."""

from collections.abc import Sequence

from tutti.jobs.draft import Draft
from tutti.jobs.scan import Call, Scan, scan
from tutti.jobs.shell import Word

from . import megatron

SPECIFIC = {
    "deepspeed": ("deepspeed",),
    "horovod": ("horovod",),
    "lightning": ("lightning", "pytorch_lightning", "lightning_fabric"),
    "megatron": ("megatron",),
    "nemo": ("nemo", "nemo_run"),
    "accelerate": ("accelerate",),
    "jax": ("jax", "flax"),
    "tensorflow": ("tensorflow", "keras"),
    "ray": ("ray",),
    "dask": ("dask", "distributed", "dask_jobqueue"),
    "mpi": ("mpi4py",),
}
"""Frameworks that start or expect ranks, and the modules that give them away."""
ABOVE = {"nemo": ("megatron", "lightning"), "lightning": ("deepspeed",), "accelerate": ("deepspeed",), "ray": ("dask",)}
"""Frameworks that are built on others: the upper one is the one that counts."""
CONFIGS = {"--deepspeed", "--deepspeed_config", "--deepspeed-config"}


def read(words: Sequence[Word], draft: Draft) -> tuple[Word, ...]:
    """The program words of a line: script and arguments, `-m module`, or `-c code`."""
    script, arguments = _script(words)
    draft.framework("python", draft.place("python"))
    _arguments(arguments, draft)
    if script is None:
        return ()
    text = None if script.unknown else draft.files.text(script.text)
    if script.unknown:
        draft.warn(f"{script.text} is known only when it runs, so its imports were not read")
    elif text is None:
        draft.warn(f"{script.text} is not here, so its imports were not read")
    else:
        read_script(scan(text, script.text), script.text, draft)
    return ()


def read_script(found: Scan, source: str, draft: Draft) -> None:
    """What the script itself gives away."""
    if found.broken:
        draft.warn(f"{source} was not read: {found.broken}")
        return
    _frameworks(found, source, draft)
    if line := found.line_of("tutti.train") or found.line_of("tutti"):
        sharded = any(call.name in {"fully_shard", "FullyShardedDataParallel"} for call in found.calls)
        draft.level = "L3" if sharded else "L2"
        draft.sources["elastic_level"] = f"imports tutti.train at {source}:{line}"
        draft.say("resize", "live", f"imports tutti.train at {source}:{line}")
    for call in found.calls:
        _call(call, found, draft)


def _script(words: Sequence[Word]) -> tuple[Word | None, tuple[Word, ...]]:
    """The script and its arguments; a module or code has no file that is named."""
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        option = words[at].text
        if option in {"-m", "-c"}:
            return None, tuple(words[at + 2 :])
        at += 2 if option in {"-W", "-X"} else 1
    return (words[at], tuple(words[at + 1 :])) if at < len(words) else (None, ())


def _arguments(arguments: Sequence[Word], draft: Draft) -> None:
    megatron.read(arguments, draft)
    if any(word.text.startswith("--trainer.") for word in arguments):
        from . import lightning  # noqa: PLC0415 - each reader only when it is needed

        lightning.read_arguments(arguments, draft)
    for at, word in enumerate(arguments):
        key, equals, value = word.text.partition("=")
        if key in CONFIGS:
            named = value if equals else (arguments[at + 1].text if at + 1 < len(arguments) else "")
            if named.endswith(".json"):
                draft.framework("deepspeed", draft.place(key))
                from . import deepspeed  # noqa: PLC0415

                deepspeed.read_config(named, draft)
    if not draft.launcher and draft.env.get("TF_CONFIG"):
        from . import tensorflow  # noqa: PLC0415

        tensorflow.read_config(draft)


def _frameworks(found: Scan, source: str, draft: Draft) -> None:
    seen = {
        name: min(line for module in modules if (line := found.line_of(module)))
        for name, modules in SPECIFIC.items()
        if any(found.line_of(module) for module in modules)
    }
    for upper, lower in ABOVE.items():
        if upper in seen:
            seen = {name: line for name, line in seen.items() if name not in lower}
    # Whoever started the ranks has already said what it is; the script can only add what is built on it.
    if draft.launcher in {"accelerate", "deepspeed", "horovod", "spark"} or "megatron" in draft.frameworks:
        seen = {}
    if draft.launcher == "mpi":
        draft.frameworks.pop("mpi", None)
        seen = {name: line for name, line in seen.items() if name != "mpi"} or {"mpi": found.line_of("mpi4py")}
    for name, line in seen.items():
        draft.framework(name, f"imports {name} at {source}:{line}" if line else f"{draft.launcher} starts its ranks")
    if line := found.line_of("torch"):
        draft.framework("torch", f"imports torch at {source}:{line}")


def _call(call: Call, found: Scan, draft: Draft) -> None:
    match call.name:
        case "Trainer" | "Fabric" if any(found.line_of(module) for module in SPECIFIC["lightning"]):
            from . import lightning  # noqa: PLC0415

            lightning.read_trainer(call, draft)
        case "ScalingConfig" if found.line_of("ray"):
            from . import ray  # noqa: PLC0415

            ray.read_scaling(call, draft)
        case "initialize" if "jax" in call.path.split(".") or call.path.endswith("distributed.initialize"):
            _jax(call, found, draft)
        case "ParameterServerStrategy" | "ParameterServerStrategyV2" if "TF_CONFIG" not in draft.env:
            if not draft.has("roles"):
                draft.ask(
                    f"{call.name} at {call.place} needs chief, worker and ps; say how many in a job file with roles"
                )
        case "MultiWorkerMirroredStrategy":
            draft.sources.setdefault("delivery", f"TF_CONFIG for {call.name} at {call.place}")


def _jax(call: Call, found: Scan, draft: Draft) -> None:
    if not found.line_of("jax"):
        return
    number = call.keywords.get("num_processes")
    if isinstance(number, int) and not isinstance(number, bool) and 0 < number <= 1_000_000:
        draft.say("workers", number, f"{call.path}(num_processes={number}) at {call.place}")
    elif not draft.has("workers"):
        draft.warn(f"{call.path}() at {call.place} takes its count from us; say it with --workers")
