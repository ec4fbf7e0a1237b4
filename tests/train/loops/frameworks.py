"""The five verbs around a loop of Accelerate's or of Lightning Fabric's; a member may be told to die."""

import importlib
import json
import os
import signal
from pathlib import Path

import torch
from torch import nn

from tutti import train

OPTIONS = json.loads(os.environ["LOOP"])
MEMBER = os.environ["TUTTI_TRAIN_MEMBER"]


def accelerate(job, model, opt):
    framework = importlib.import_module("accelerate").Accelerator(cpu=True)
    return framework, framework.prepare(model, opt)


def fabric(job, model, opt):
    environment = importlib.import_module("lightning_fabric.plugins.environments").TorchElasticEnvironment()
    kind = importlib.import_module("lightning_fabric").Fabric
    framework = kind(accelerator="cpu", devices=job.world, strategy="ddp", plugins=[environment])
    framework.launch()
    return framework, framework.setup(model, opt)


def main():
    job = train.join()
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    framework, (model, opt) = globals()[OPTIONS["framework"]](job, model, opt)
    job.protect(model=model, opt=opt)
    samples = torch.randn(400, 4, generator=torch.Generator().manual_seed(1))
    for (x,) in job.batches(torch.utils.data.TensorDataset(samples), global_batch=12, seed=1):
        framework.backward(model(x).pow(2).mean())
        if OPTIONS["victim"] == MEMBER and job.step == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        job.commit(opt)
    weights = {name.rpartition(".")[2]: value.detach() for name, value in model.named_parameters()}
    result = {"weights": weights, "ledger": job.course.ledger.to_record(), "world": job.world, "level": job.level}
    torch.save(result, Path(os.environ["OUT"]) / f"{MEMBER}.pt")


if __name__ == "__main__":
    main()
