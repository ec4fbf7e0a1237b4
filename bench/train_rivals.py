"""What others need for the same: DCP and torchrun elastic, run here; torchft where it is installed."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

SIZE_MB = 200


def dcp_reshard_ms() -> float:
    """Save 200 MiB on four ranks and load it on three, through files in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        saved = _spawn(_save, 4, folder)
        loaded = _spawn(_load, 3, folder)
    return (saved + loaded) * 1e3


def dcp_async_ms() -> float:
    """How long an asynchronous save of 200 MiB holds the loop up."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        return _spawn(_save_async, 1, folder) * 1e3


def torch_save_ms(state: dict[str, torch.Tensor]) -> float:
    """Plain torch.save of the same state to memory."""
    taken = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for _ in range(3):
            began = time.perf_counter()
            torch.save(state, f"{folder}/state.pt")
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e3


def _spawn(work: Any, world: int, folder: str) -> float:
    """Run a rank function in fresh processes; the slowest rank's time."""
    listener = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    start: Any = mp.start_processes
    start(_rank, args=(work, world, listener.port, folder), nprocs=world, start_method="spawn")
    return max(float(Path(folder, f"took{rank}").read_text()) for rank in range(world))


def _rank(rank: int, work: Any, world: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, None, is_master=False)
    dist.init_process_group("gloo", store=dist.PrefixStore(work.__name__, store), rank=rank, world_size=world)
    took = work(folder)
    Path(folder, f"took{rank}").write_text(str(took))
    dist.destroy_process_group()


def _state() -> dict[str, Any]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    full = torch.zeros(SIZE_MB * 2**20 // 4 // 8 // 1024, 1024)
    return {f"part{number}": distribute_tensor(full, mesh, [Shard(0)]) for number in range(8)}


def _save(folder: str) -> float:
    state = _state()
    dist.barrier()
    began = time.perf_counter()
    dcp.save(state, checkpoint_id=folder)
    dist.barrier()
    return time.perf_counter() - began


def _load(folder: str) -> float:
    state = _state()
    dist.barrier()
    began = time.perf_counter()
    dcp.load(state, checkpoint_id=folder)
    dist.barrier()
    return time.perf_counter() - began


def _save_async(folder: str) -> float:
    state = {f"part{number}": torch.zeros(SIZE_MB * 2**20 // 4 // 50) for number in range(50)}
    taken = []
    for number in range(4):
        began = time.perf_counter()
        pending: Any = dcp.async_save(state, checkpoint_id=f"{folder}/{number}")
        taken.append(time.perf_counter() - began)
        pending.result()
    return statistics.median(taken[1:])


TORCHRUN_LOOP = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.zeros(1)
out = open(os.path.join(os.environ["OUT"], f"{os.getpid()}"), "w", buffering=1)
while True:
    dist.all_reduce(x)
    out.write(f"{time.time()} {os.environ['TORCHELASTIC_RESTART_COUNT']}\\n")
    time.sleep(0.02)
"""


def torchrun_kill_ms() -> float:
    """Kill one of four workers under torchrun on one node (with the switch without which it does not come back)."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loop.py").write_text(TORCHRUN_LOOP)
        out = Path(folder, "out")
        out.mkdir()
        words = ["--standalone", "--nproc-per-node=4", "--max-restarts=3", "--monitor-interval=0.1"]
        process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *words, f"{folder}/loop.py"],
            env={**os.environ, "OUT": str(out), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        try:
            before = _steady(out, 4, "0")
            killed = time.time()
            os.kill(int(before[0].name), signal.SIGKILL)
            _steady(out, 4, "1")
            return (max(_first(path, "1") for path in out.iterdir() if _first(path, "1")) - killed) * 1e3
        finally:
            process.terminate()
            process.wait(60)


def _steady(out: Path, count: int, attempt: str, limit_s: float = 120.0) -> list[Path]:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        found = [path for path in out.iterdir() if _first(path, attempt)]
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise TimeoutError("torchrun did not come back")


def _first(path: Path, attempt: str) -> float:
    for line in path.read_text().splitlines():
        words = line.split()
        if len(words) == 2 and words[1] == attempt:
            return float(words[0])
    return 0.0


if __name__ == "__main__":
    print(json.dumps({"reshard": dcp_reshard_ms(), "async": dcp_async_ms(), "torchrun": torchrun_kill_ms()}))
