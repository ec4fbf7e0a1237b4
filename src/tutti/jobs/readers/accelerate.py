"""`accelerate launch`: processes over all machines, from its options or from the configuration it names."""

from collections.abc import Sequence
from typing import Any

from tutti.jobs.draft import Draft
from tutti.jobs.flags import Flag, Given, spec
from tutti.jobs.problems import Problem, is_slip
from tutti.jobs.shell import Word
from tutti.jobs.world_size import WorldRule

from . import config, deepspeed

SIZES = ("dp-replicate", "dp-shard", "tp", "cp", "sp")
MEGATRON = {
    "megatron-lm-tp-degree": "tp",
    "megatron-lm-pp-degree": "pp",
    "megatron-lm-context-parallel-size": "cp",
    "megatron-lm-expert-model-parallel-size": "ep",
    "megatron-lm-expert-tensor-parallel-size": "etp",
}
TABLE = spec(
    "accelerate launch",
    "config-file num-processes num-machines num-cpu-threads-per-process mixed-precision dynamo-backend dynamo-mode "
    "machine-rank gpu-ids main-process-ip main-process-port rdzv-backend rdzv-conf max-restarts "
    "monitor-interval tee role "
    "log-dir deepspeed-config-file deepspeed-hostfile deepspeed-exclusion-filter deepspeed-inclusion-filter "
    "deepspeed-multinode-launcher zero-stage offload-optimizer-device offload-param-device gradient-accumulation-steps "
    "gradient-clipping zero3-init-flag zero3-save-16bit-model deepspeed-moe-layer-cls-names fsdp-offload-params "
    "fsdp-min-num-params fsdp-sharding-strategy fsdp-version fsdp-reshard-after-forward fsdp-auto-wrap-policy "
    "fsdp-transformer-layer-cls-to-wrap fsdp-backward-prefetch fsdp-state-dict-type fsdp-forward-prefetch "
    "fsdp-use-orig-params fsdp-cpu-ram-efficient-loading fsdp-sync-module-states fsdp-activation-checkpointing "
    "megatron-lm-num-micro-batches megatron-lm-sequence-parallelism megatron-lm-recompute-activations "
    "megatron-lm-use-distributed-optimizer megatron-lm-gradient-clipping offload-optimizer-nvme-path "
    "offload-param-nvme-path main-training-function downcast-bf16 mpirun-hostfile mpirun-ccl "
    "parallelism-config-cp-backend "
    + " ".join(MEGATRON)
    + " "
    + " ".join(f"parallelism-config-{size}-size" for size in SIZES),
    "multi-gpu cpu tpu ipex use-deepspeed use-fsdp use-megatron-lm use-parallelism-config use-xpu same-network module "
    "no-python quiet debug enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic no-tpu-cluster tpu-use-cluster "
    "tpu-use-sudo fp8-backend",
    m="module",
    q="quiet",
)


MOST_KEYS = 200
KEYS = frozenset(
    [
        "compute_environment",
        "debug",
        "distributed_type",
        "downcast_bf16",
        "dynamo_config",
        "deepspeed_config",
        "enable_cpu_affinity",
        "fsdp_config",
        "fp8_config",
        "gpu_ids",
        "ipex_config",
        "machine_rank",
        "main_process_ip",
        "main_process_port",
        "main_training_function",
        "megatron_lm_config",
        "mixed_precision",
        "mpirun_config",
        "num_machines",
        "num_processes",
        "parallelism_config",
        "rdzv_backend",
        "same_network",
        "tpu_config",
        "tpu_env",
        "tpu_name",
        "tpu_use_cluster",
        "tpu_use_sudo",
        "tpu_vm",
        "tpu_zone",
        "tp_config",
        "use_cpu",
        "command_file",
        "commands",
        "base_job_name",
        "ec2_instance_type",
        "image_uri",
        "profile",
        "region",
        "py_version",
        "pytorch_version",
        "transformers_version",
        "sagemaker_inputs_file",
        "sagemaker_metrics_file",
        "additional_args",
        "iam_role_name",
        "use_stateful_dataloader",
    ]
)
"""Settings of a configuration of accelerate."""


def read(words: Sequence[Word], draft: Draft) -> tuple[Word, ...]:
    """Machines, and processes on each."""
    found = draft.options(tuple(words), TABLE)
    draft.launcher = "accelerate"
    draft.framework("accelerate", draft.place("accelerate launch"))
    settings = _settings(found, draft)
    _members(found, settings, draft)
    _parallel(found, settings, draft)
    if flag := found.flags.get("deepspeed-config-file"):
        deepspeed.read_config(flag.text, draft)
    nested = settings.get("deepspeed_config")
    if isinstance(nested, dict) and isinstance(nested.get("deepspeed_config_file"), str):
        deepspeed.read_config(nested["deepspeed_config_file"], draft)
    if "module" in found.flags:
        return (Word("-m"), *found.rest)
    return found.rest


def _settings(found: Given, draft: Draft) -> "config.Settings":
    flag = found.flags.get("config-file")
    if flag is None:
        if "num-processes" not in found.flags:
            draft.warn("no --config_file is named; a default configuration of accelerate, if any, was not read")
        return config.Settings()
    if flag.value.unknown:
        draft.ask(f"{flag.spelling} {flag.text}: known only when it runs")
        return config.Settings()
    settings = config.read(flag.text, draft)
    for key in settings.value if len(settings.value) <= MOST_KEYS else ():
        meant = next((known for known in sorted(KEYS) if is_slip(str(key), known)), "") if key not in KEYS else ""
        if meant:
            what, hint = f"accelerate has no setting {key!r}", f"did you mean {meant!r}?"
            draft.problems.append(Problem(what, "", hint, *settings.spot(key)))
    return settings


def _members(found: Given, settings: "config.Settings", draft: Draft) -> None:
    machines = _number(found.flags.get("num-machines"), settings, "num_machines", draft)
    total = _number(found.flags.get("num-processes"), settings, "num_processes", draft)
    nodes = machines[0] if machines else 1
    draft.say("workers", nodes, machines[1] if machines else "default of accelerate: one machine")
    cpu = "cpu" in found.flags or settings.get("use_cpu") is True or settings.get("distributed_type") == "MULTI_CPU"
    if total is None:
        if not cpu and not draft.has("gpus"):
            draft.ask(
                "accelerate takes every device it sees when --num_processes is left out; say how many with --gpus"
            )
        draft.ranks = 0
        return
    if total[0] % nodes:
        hint = f"write a multiple of {nodes}"
        draft.problem(f"{total[0]} processes do not divide over {nodes} machines ({total[1]})", hint=hint)
        return
    draft.ranks = total[0] // nodes
    if cpu:
        draft.say("gpus", 0, "accelerate on CPUs")
        draft.say("cpus", draft.ranks, f"one core per process ({total[1]})")
    else:
        draft.say("gpus", draft.ranks, total[1] if nodes == 1 else f"{total[1]}, over {nodes} machines")


def _number(flag: Flag | None, settings: "config.Settings", key: str, draft: Draft) -> tuple[int, str] | None:
    if flag is not None:
        number = draft.number(flag)
        return (number, draft.place(flag.spelling)) if number is not None else None
    value: Any = settings.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value, settings.place(key)
    if value is not None:
        text, hint = f"{key}: {value}", "write a whole number from 1"
        draft.problems.append(Problem(f"{key}: {value!r} is no number", text, hint, *settings.spot(key)))
    return None


def _parallel(found: Given, settings: "config.Settings", draft: Draft) -> None:
    """The product of the sizes of the mesh is the number of processes; only the replicas may change."""
    nested = settings.get("parallelism_config")
    block: dict[str, Any] = nested if isinstance(nested, dict) else {}
    sizes: dict[str, int] = {}
    for size in SIZES:
        flag = found.flags.get(f"parallelism-config-{size}-size")
        key = f"parallelism_config_{size.replace('-', '_')}_size"
        value = draft.number(flag) if flag else block.get(key)
        sizes[size] = value if isinstance(value, int) and value > 0 else 1
    unit = sizes["dp-shard"] * sizes["tp"] * sizes["cp"] * sizes["sp"]
    if unit > 1:
        named = " x ".join(f"{name} {size}" for name, size in sizes.items() if size > 1 and name != "dp-replicate")
        draft.rule(WorldRule(multiple=unit, replica=unit, why=f"accelerate: {named}"))
    given = {short: draft.number(found.flags[name]) or 1 for name, short in MEGATRON.items() if name in found.flags}
    if given:
        from .megatron import rule_of  # noqa: PLC0415 - only for this plug-in

        draft.rule(rule_of(given))
