"""A loop that proves itself: one parameter per sample counts how often it was trained on, beside a small network.

What happens to it is in the environment: LOOP is JSON with the wrapper, the numerics, and faults by member and step.
"""

import faulthandler
import importlib
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tutti import train

OPTIONS: dict[str, Any] = {
    "wrap": "plain",
    "numerics": "fast",
    "epochs": 2,
    "samples": 120,
    "batch": 12,
    # How long a step takes until the test says to hurry, so that others have the time to come on a busy machine.
    "sleep": 0.0,
    "faults": {},
    "width": 16,
    "data": "dataset",
    "loaders": 0,
    "layers": 0,
    "per_member": 0,
    "lr_rule": "",
    "microbatch": 0,
    # Who freezes when it is about to meet the others for the first time.
    "shy": [],
    # Whose callback never returns when the members change.
    "rapt": "",
    # So many runs through the data, one after the other, each of all epochs.
    "phases": 1,
    # A loop over epochs around the loop over batches.
    "nested": False,
    # A collective of the loop's own after each epoch, with the members that computed it.
    "collect": False,
    # Dropout draws from each rank's own stream in fast numerics: with it no two runs could be compared.
    "dropout": 0.0,
}
OPTIONS.update(json.loads(os.environ.get("LOOP", "{}")))
if OPTIONS["numerics"] == "ordered":
    OPTIONS["dropout"] = 0.1
MEMBER = os.environ.get("TUTTI_TRAIN_MEMBER", "alone")


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return OPTIONS["samples"]

    def __getitem__(self, index):
        torch_generator = torch.Generator().manual_seed(index)
        return index, torch.randn(8, generator=torch_generator)


class Stream(torch.utils.data.IterableDataset):
    """The same samples, one after the other, without a length."""

    def __iter__(self):
        samples = Samples()
        return (samples[index] for index in range(len(samples)))


def stateful():
    """The same samples behind a loader of torchdata, whose own order and state are not used."""
    kind = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
    return kind(Samples(), batch_size=5, shuffle=True, num_workers=OPTIONS["loaders"])


def table():
    """The same samples as a table of Hugging Face."""
    datasets, pyarrow = importlib.import_module("datasets"), importlib.import_module("pyarrow")
    rows = [Samples()[index] for index in range(OPTIONS["samples"])]
    columns = {"index": [index for index, _ in rows], "x": [x.tolist() for _, x in rows]}
    return datasets.Dataset(datasets.table.InMemoryTable(pyarrow.table(columns)), fingerprint="tutti").with_format(
        "torch"
    )


SOURCES = {"dataset": Samples, "stream": Stream, "stateful": stateful, "table": table}


class Model(nn.Module):
    passes: torch.Tensor

    def __init__(self):
        super().__init__()
        width = OPTIONS["width"]
        self.count = nn.Parameter(torch.zeros(OPTIONS["samples"]))
        self.register_buffer("passes", torch.zeros(2))
        self.many = nn.ParameterList(torch.ones(2) for _ in range(OPTIONS["layers"]))
        self.net = nn.Sequential(
            nn.Linear(8, width),
            nn.ReLU(),
            nn.Dropout(OPTIONS["dropout"]),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, index, x):
        self.passes += 1
        return self.net(x) + sum(layer.mean() for layer in self.many), self.count[index]


def inject(step):
    """Do to ourselves what the test asked for at this step."""
    fault = OPTIONS["faults"].get(MEMBER, {}).pop(str(step), None)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "raise":
        raise ValueError("the loop was told to fail")
    elif fault == "slow":
        time.sleep(0.5)
    elif fault == "hang":
        threading.Event().wait()
    elif fault == "partition":
        cut_sockets()
    elif fault == "deaf":
        lose_the_news()
    elif fault:
        FAULTS[fault]()


def pause():
    until, hurry = time.monotonic() + OPTIONS["sleep"], Path(os.environ["OUT"]) / "hurry"
    while (left := until - time.monotonic()) > 0 and not hurry.exists():
        time.sleep(min(left, 0.02))


def cut_sockets():
    """Close every connection to other members, as a network that went away would."""
    import socket

    for entry in Path("/proc/self/fd").iterdir():
        try:
            number = int(entry.name)
            if "socket" in str(entry.readlink()):
                peer = socket.socket(fileno=os.dup(number))
                if peer.family == socket.AF_INET and peer.getpeername()[1] != int(os.environ["MASTER_PORT"]):
                    peer.shutdown(socket.SHUT_RDWR)
                peer.close()
        except OSError:
            continue


def lose_the_news():
    """Our next collective never says that it has ended, as gloo's do that were sending when the connection went."""
    from tutti.train import hold

    usual = hold.look_at

    def wait_on(_work):
        hold.look_at = usual
        return lambda patience: time.sleep(patience.total_seconds())

    hold.look_at = wait_on


def lose_node():
    """Everything in our failure domain at once: its memory, its other members, and we."""
    folder = Path(os.environ["TUTTI_TRAIN_AGENT"])
    last = json.loads((folder / "generations").read_text().splitlines()[-1])
    domains = dict(zip(last["members"], last["domains"], strict=True))
    shutil.rmtree(folder / "slots" / domains[MEMBER])
    for member, domain in domains.items():
        if domain == domains[MEMBER] and member != MEMBER:
            os.kill(int((Path(os.environ["OUT"]) / f"{member}.pid").read_text()), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def lose_node_and_agent():
    os.kill(int(os.environ["TUTTI_TRAIN_PARENT"]), signal.SIGKILL)
    lose_node()


def lose_machine():
    """The agent of our machine and its memory; the kernel sees to it that its members go with it."""
    shutil.rmtree(os.environ["TUTTI_TRAIN_AGENT"])
    os.kill(int(os.environ["TUTTI_TRAIN_PARENT"]), signal.SIGKILL)
    threading.Event().wait()


def die_in_the_next_snapshot():
    """After the step counts, before our part of it is kept."""
    from tutti.train.keep import Keeper

    def die(*_arguments, **_named):
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(Keeper, "keep", die)  # noqa: B010 - a method may not be assigned to by name


FAULTS = {
    "node": lose_node,
    "machine": lose_machine,
    "node and agent": lose_node_and_agent,
    "unkept": die_in_the_next_snapshot,
}


def freeze_at_the_door():
    """In the moment in which the others begin to wait for us."""
    from tutti.train.group import Group

    def freeze(*_):
        os.kill(os.getpid(), signal.SIGSTOP)

    setattr(Group, "form", freeze)  # noqa: B010 - a method may not be assigned to by name


def listen_for_ever(_job):
    threading.Event().wait()


def wrapped(model, job):
    if OPTIONS["wrap"] == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if OPTIONS["wrap"] in ("tp", "grid"):
        return tensor_parallel(model, job)
    if OPTIONS["wrap"] in ("fsdp", "hsdp"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        world = job.world
        shape = (world,) if OPTIONS["wrap"] == "fsdp" else (world // 2, 2)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("copies", "shards")[-len(shape) :])
        fully_shard(model.net, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def tensor_parallel(model, job):
    """One model over all members, or (a grid) over two of them, side by side and sharded over the pairs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    shape = (1, job.world) if OPTIONS["wrap"] == "tp" else (job.world // 2, 2)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("groups", "together"))
    parallelize_module(model.net, mesh["together"], {"0": ColwiseParallel(), "3": RowwiseParallel()})
    if OPTIONS["wrap"] == "grid":
        fully_shard(model, mesh=mesh["groups"])
    return model


def main():
    if OPTIONS.get("stillborn") == MEMBER:
        os.kill(os.getpid(), signal.SIGSTOP)
    if OPTIONS.get("dump"):
        faulthandler.dump_traceback_later(OPTIONS["dump"])
    torch.manual_seed(7)
    (Path(os.environ["OUT"]) / f"{MEMBER}.pid").write_text(str(os.getpid()))
    if OPTIONS["rapt"]:
        setattr(importlib.import_module("tutti.train.job"), "CALLBACK_S", 0.5)  # noqa: B010 - a module has no such name for mypy
    if MEMBER in OPTIONS["shy"]:
        freeze_at_the_door()
    job = train.join()
    base = Model()
    model = wrapped(base, job)
    count = [parameter for name, parameter in base.named_parameters() if name == "count"]
    rest = [parameter for name, parameter in base.named_parameters() if name != "count"]
    opt = torch.optim.AdamW(rest, lr=1e-2)
    tally = torch.optim.SGD(count, lr=1.0)
    sched = torch.optim.lr_scheduler.StepLR(opt, 5)
    job.protect(model=model, opt=opt, tally=tally, sched=sched)
    worlds = []
    job.on_resize(lambda job: worlds.append(job.world))
    if OPTIONS["rapt"] == MEMBER:
        job.on_resize(listen_for_ever)
    arguments = {key: OPTIONS[key] for key in ("numerics", "epochs", "lr_rule", "microbatch")}
    arguments["batch_per_member"] = OPTIONS["per_member"]
    arguments["together"] = OPTIONS.get("together") or {"tp": job.world, "grid": 2}.get(OPTIONS["wrap"], 1)
    data = SOURCES[OPTIONS["data"]]()
    for batch in phases(job, data, arguments):
        index, x = batch.values() if isinstance(batch, dict) else batch
        output, counted = model(index, x)
        loss = (output**2).mean() + output.mean() - counted.mean()
        loss.backward()
        inject(job.step)
        pause()
        job.commit(opt, tally, sched)
        if job.rank == 0 and OPTIONS.get("say"):
            print("step", job.step, "world", job.world, flush=True)
    report(job, base, sched, worlds)


def phases(job, data, arguments):
    if OPTIONS["nested"]:
        yield from nested(job, data, arguments)
        return
    for _ in range(OPTIONS["phases"]):
        yield from job.batches(data, global_batch=OPTIONS["batch"], seed=3, **arguments)


def nested(job, data, arguments):
    count = arguments["epochs"]
    for epoch in range(count) if OPTIONS["nested"] == "range" else job.epochs(count):
        batch = None
        for batch in job.batches(data, global_batch=OPTIONS["batch"], seed=3, **{**arguments, "epochs": 1}):
            assert job.course.epoch == epoch
            yield batch
        if OPTIONS["collect"]:
            collect(job, epoch)
        else:
            assert batch is not None, "an epoch that is over is not gone through again"


def collect(job, epoch):
    """Everyone's word on which epoch is over; whoever is somewhere else would be mixed with it."""
    if job.step == OPTIONS["faults"].get(MEMBER, {}).get("between"):
        os.kill(os.getpid(), signal.SIGKILL)
    words = torch.tensor([1, epoch], dtype=torch.float64)
    torch.distributed.all_reduce(words)
    assert words.tolist() == [job.world, epoch * job.world], (words, job.world, epoch)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def report(job, model, sched, worlds):
    weights = {name: whole(parameter).detach().clone() for name, parameter in model.named_parameters()}
    result = {
        "weights": weights,
        "passes": model.passes.tolist(),
        "ledger": job.course.ledger.to_record(),
        "step": job.step,
        "rank": job.rank,
        "world": job.world,
        "worlds": worlds,
        "lr": sched.get_last_lr(),
        "machine": [int(os.environ.get(name, "-1")) for name in ("GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_RANK")],
    }
    torch.save(result, Path(os.environ["OUT"]) / f"{MEMBER}.pt")


if __name__ == "__main__":
    main()
