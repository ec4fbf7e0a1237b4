"""The loop that the training bench runs: a state of a given size, steps of a given length, a line per commit."""

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tutti import train

OPTIONS: dict[str, Any] = {"state_mb": 50, "wrap": "plain", "sleep": 0.02, "steps": 1_000_000, "trained": 8}
OPTIONS.update(json.loads(os.environ.get("LOOP", "{}")))
MEMBER = os.environ.get("TUTTI_TRAIN_MEMBER", "alone")


class Big(nn.Module):
    """Eight equal matrices, of which some are trained; with AdamW each of those is three times its size of state."""

    def __init__(self) -> None:
        super().__init__()
        trained = OPTIONS["trained"]
        rows = int(OPTIONS["state_mb"] * 2**20 / 4 / 1024 / (8 + 2 * trained))
        parts = [nn.Parameter(torch.zeros(rows, 1024), requires_grad=number < trained) for number in range(8)]
        self.parts = nn.ParameterList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.mean(), *(part.sum() for part in self.parts if part.requires_grad)]).sum()


class Samples(torch.utils.data.Dataset[torch.Tensor]):
    """As many as are needed, all alike."""

    def __len__(self) -> int:
        return 64 * int(OPTIONS["steps"])

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(1)


def wrapped(model: nn.Module) -> nn.Module:
    if OPTIONS["wrap"] == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if OPTIONS["wrap"] == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    return model


def main() -> None:
    job = train.join()
    model = wrapped(Big())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    job.protect(model=model, opt=opt)
    with Path(os.environ["OUT"], MEMBER).open("w", buffering=1) as out:
        for batch in job.batches(Samples(), global_batch=64):
            model(batch).backward()
            time.sleep(OPTIONS["sleep"])
            # Who computed the step: the members may change while it ends.
            world = job.world
            if job.commit(opt):
                out.write(f"{time.time()} {job.step} {world} {job.generation}\n")


if __name__ == "__main__":
    main()
