"""A pipeline that proves itself: the samples that went through it are counted by a parameter of its last stage."""

import functools
import importlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from tutti import train

OPTIONS: dict[str, Any] = {
    "stages": 2,
    # The number of stages by the number of members, where it depends on them.
    "by_world": {},
    "layers": 4,
    "width": 16,
    "samples": 100,
    "batch": 12,
    "epochs": 2,
    "microbatch": 0,
    "chunks": 2,
    "numerics": "fast",
    "schedule": "GPipe",
    "shard": False,
    # So many ranks share each stage.
    "tensor": 1,
    "names": "whole",
    "faults": {},
    # Where torch's own checkpoint is written after a step, and compared with by who begins with that step.
    "checkpoint": "",
    "checkpoint_at": -1,
    # Mistakes.
    "ddp": False,
    "together": 0,
    "stray": False,
    "unlike": False,
    "odd": -1,
    "late": False,
}
OPTIONS.update(json.loads(os.environ.get("LOOP", "{}")))
# The samples and the faults of the other loop.
storm = importlib.import_module("storm")
storm.OPTIONS.update(OPTIONS)
MEMBER = os.environ.get("TUTTI_TRAIN_MEMBER", "alone")


class Stage(nn.Module):
    """The layers of one stage, under the names that they have in the whole model."""

    def __init__(self, layers, is_first, is_last):
        super().__init__()
        width = OPTIONS["width"]
        # All are made, so that each begins with the same numbers wherever it is.
        torch.manual_seed(7)
        every = {str(number): nn.Sequential(nn.Linear(width, width), nn.Tanh()) for number in range(OPTIONS["layers"])}
        enter, leave = nn.Linear(8, width), nn.Linear(width, 1)
        if OPTIONS["names"] == "whole":
            self.layers = nn.ModuleDict({str(number): every[str(number)] for number in layers})
        else:
            self.layers = nn.ModuleDict({str(at): every[str(number)] for at, number in enumerate(layers)})
        self.enter = enter if is_first else None
        self.leave = leave if is_last else None
        self.count = nn.Parameter(torch.zeros(OPTIONS["samples"])) if is_last else None
        self.register_buffer("scale", torch.full((1,), 0.5 + OPTIONS["unlike"] * is_first))

    def forward(self, x):
        x = self.enter(x) if self.enter is not None else x
        for layer in self.layers.values():
            x = layer(x) * self.scale + x
        return self.leave(x) if self.leave is not None else x


def build(grid):
    """Neighbouring layers to each stage, the first ones to the first."""
    edges = [OPTIONS["layers"] * stage // grid.stages for stage in range(grid.stages + 1)]
    return Stage(range(edges[grid.stage], edges[grid.stage + 1]), grid.is_first, grid.is_last)


def loss_of(module, output, index):
    return (output**2).mean() + output.mean() - module.count[index].mean()


def main():
    (Path(os.environ["OUT"]) / f"{MEMBER}.pid").write_text(str(os.getpid()))
    job = train.join()
    stages = OPTIONS["by_world"].get(str(job.world), OPTIONS["stages"])
    grid = job.pipeline(1 if job.rank == OPTIONS["odd"] else stages, OPTIONS["tensor"])
    module = build(grid)
    if OPTIONS["ddp"]:
        OPTIONS["wrapped"] = nn.parallel.DistributedDataParallel(module, process_group=grid.mesh["replica"].get_group())
    if OPTIONS["tensor"] > 1:
        split(module, grid)
    if OPTIONS["shard"]:
        from torch.distributed.fsdp import fully_shard

        fully_shard(module, mesh=grid.mesh["replica"])
    opts = optimizers(module)
    sched = torch.optim.lr_scheduler.StepLR(opts["opt"], 5)
    job.protect(model=module, **opts, sched=sched)

    @functools.cache
    def schedule_for(count):
        """torch prepares a schedule for one size; the last batch of an epoch is smaller."""
        chunks = next(number for number in range(min(OPTIONS["chunks"], count), 0, -1) if count % number == 0)
        stage = PipelineStage(module, grid.stage, grid.stages, torch.device("cpu"), group=grid.group)
        kind = Schedule1F1B if OPTIONS["schedule"] == "1F1B" and chunks >= grid.stages else ScheduleGPipe
        return kind(stage, chunks, loss_fn=functools.partial(loss_of, module))

    arguments = {key: OPTIONS[key] for key in ("epochs", "microbatch", "numerics", "together")}
    is_new = True
    for index, x in job.batches(storm.Samples(), global_batch=OPTIONS["batch"], seed=3, **arguments):
        if is_new and job.step == OPTIONS["checkpoint_at"]:
            compare(module, opts)
        is_new = False
        if OPTIONS["late"]:
            job.pipeline(stages)
        if grid.stages == 1:
            loss_of(module, module(x), index).backward()
        else:
            run(schedule_for(len(x)), grid, x, index)
        storm.inject(job.step)
        storm.pause()
        job.commit(*opts.values(), sched)
        if job.step == OPTIONS["checkpoint_at"] and OPTIONS["faults"]:
            save(module, opts)
    report(job, grid, module, opts, sched)


def split(module, grid):
    """The layers of a stage over the ranks that share it; what travels between stages is whole."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    plan: dict[str, Any] = {f"layers.{name}.0": ColwiseParallel(output_layouts=Replicate()) for name in module.layers}
    parallelize_module(module, grid.mesh["tensor"], plan)


def optimizers(module):
    """Adam for the network, and steps of one for what counts; only the last stage has something to count."""
    net = [parameter for name, parameter in module.named_parameters() if name != "count"]
    found = {"opt": torch.optim.AdamW(net, lr=1e-2)}
    counts = [parameter for name, parameter in module.named_parameters() if name == "count"]
    if OPTIONS["stray"]:
        found["opt"].add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    return {**found, "tally": torch.optim.SGD([{"params": counts}], lr=1.0)}


def run(schedule, grid, x, index):
    if grid.is_first:
        schedule.step(x)
    elif grid.is_last:
        schedule.step(target=index)
    else:
        schedule.step()


def named_state(module, opts):
    """As torch's own checkpoints see it."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict

    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    return {
        "model": get_model_state_dict(module),
        "opt": get_optimizer_state_dict(module, opts["opt"], options=flat),
    }


def save(module, opts):
    """What torch's own checkpoint would keep."""
    import torch.distributed.checkpoint as dcp

    dcp.save(named_state(module, opts), checkpoint_id=OPTIONS["checkpoint"])


def compare(module, opts):
    """Every byte that this rank has with what it would have loaded."""
    import torch.distributed.checkpoint as dcp

    mine = named_state(module, opts)
    loaded = {
        thing: {name: torch.zeros_like(one) if torch.is_tensor(one) else one for name, one in content.items()}
        for thing, content in mine.items()
    }
    dcp.load(loaded, checkpoint_id=OPTIONS["checkpoint"])
    compared = 0
    for thing, content in mine.items():
        for name, one in content.items():
            theirs = loaded[thing][name]
            if torch.is_tensor(one):
                assert torch.equal(local(one), local(theirs)), name
                compared += local(one).nbytes
            else:
                assert one == theirs, name
    (Path(os.environ["OUT"]) / f"{MEMBER}.same").write_text(str(compared))


def local(value):
    return value.to_local() if hasattr(value, "to_local") else value


def whole(value):
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def report(job, grid, module, opts, sched):
    result = {
        "weights": {name: whole(parameter).detach().clone() for name, parameter in module.named_parameters()},
        "state": {
            name: {key: whole(value).clone() for key, value in opts["opt"].state[parameter].items()}
            for name, parameter in module.named_parameters()
            if parameter in opts["opt"].state
        },
        "ledger": job.course.ledger.to_record(),
        "step": job.step,
        "rank": job.rank,
        "world": job.world,
        "stage": grid.stage,
        "stages": grid.stages,
        "lr": sched.get_last_lr(),
    }
    torch.save(result, Path(os.environ["OUT"]) / f"{MEMBER}.pt")


if __name__ == "__main__":
    main()
