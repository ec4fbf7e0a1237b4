"""A plain torchrun program that has never heard of this library: it keeps its own checkpoint and starts from it."""

import json
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist

OPTIONS = json.loads(os.environ.get("LOOP", "{}"))
OUT = Path(os.environ["OUT"])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    saved = OUT / "saved"
    state = torch.load(saved) if saved.exists() else {"step": 0, "total": 0.0}
    first = state["step"]
    while state["step"] < OPTIONS["steps"]:
        if (attempt, rank, state["step"]) == (0, OPTIONS.get("victim"), OPTIONS.get("at")):
            os.kill(os.getpid(), signal.SIGKILL)
        one = torch.ones(1)
        dist.all_reduce(one)
        state = {"step": state["step"] + 1, "total": state["total"] + one.item()}
        if rank == 0:
            torch.save(state, OUT / "new")
            (OUT / "new").replace(saved)
        dist.barrier()
        time.sleep(OPTIONS.get("sleep", 0))
    torch.save({"attempt": attempt, "first": first, "world": world, **state}, OUT / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
