"""torchft on the same fault: four replica groups of one process, one of them killed.

Neither a dependency of the project nor of its tests: it is installed once beside the cached layers, on the first race,
without torch, which is there. Run as a program it prints its figure, or why it has none.
"""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VERSION = "0.2.0"
LOOP = """
import os, sys, time
from datetime import timedelta
import torch
from torchft import Manager, ProcessGroupGloo
name, out = sys.argv[1], open(os.path.join(sys.argv[2], sys.argv[1]), "w", buffering=1)
weights = [torch.zeros(1280, 1024) for _ in range(10)]
state = {"weights": weights}
manager = Manager(pg=ProcessGroupGloo(timeout=timedelta(seconds=10)), min_replica_size=1,
    load_state_dict=lambda found: state.update(found), state_dict=lambda: state, replica_id=name,
    rank=0, world_size=1, store_addr="127.0.0.1", store_port=int(sys.argv[3]), use_async_quorum=False)
while True:
    manager.start_quorum()
    manager.allreduce(torch.ones_like(weights[0])).wait()
    time.sleep(0.02)
    if manager.should_commit():
        out.write(f"{time.time()} {manager.num_participants()}\\n")
"""


def kill_ms() -> float | None:
    """From the kill to the first step that the three others commit; None where torchft cannot be had."""
    folder = installed()
    if folder is None:
        return None
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        print(f"torchft: {(run.stderr.strip().splitlines() or ['it failed'])[-1]}", flush=True)
        return None
    return float(json.loads(run.stdout.splitlines()[-1]))


def installed() -> Path | None:
    """The folder with torchft in it, filled if it is not there; None, and a sentence, when that fails."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tutti"
    folder = cache / f"bench-torchft-{VERSION}"
    if folder.is_dir():
        return folder
    half = folder.with_name(f"{folder.name}.building-{os.getpid()}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(half)]
    for words in (["--no-deps", f"torchft=={VERSION}"], ["opentelemetry-exporter-otlp-proto-http"]):
        done = subprocess.run([*pip, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"torchft is not run, it could not be installed: {done.stderr.strip().splitlines()[-1]}", flush=True)
            shutil.rmtree(half, ignore_errors=True)
            return None
    half.rename(folder)
    return folder


def race() -> float:
    """In a process that can import torchft."""
    from torch.distributed import TCPStore  # noqa: PLC0415 - only where it is needed

    coordination = importlib.import_module("torchft.coordination")
    lighthouse = coordination.LighthouseServer(
        bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=1000, heartbeat_timeout_ms=1000
    )
    stores = [TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False) for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loop.py").write_text(LOOP)
        environment = {**os.environ, "TORCHFT_LIGHTHOUSE": lighthouse.address(), "OMP_NUM_THREADS": "1"}
        groups = [
            subprocess.Popen(
                [sys.executable, f"{folder}/loop.py", f"g{number}", folder, str(store.port)],
                env=environment,
                stderr=subprocess.DEVNULL,
            )
            for number, store in enumerate(stores)
        ]
        try:
            await_commits(Path(folder), range(4), 4, 0.0)
            moment = time.time()
            groups[3].send_signal(signal.SIGKILL)
            return (await_commits(Path(folder), range(3), 3, moment) - moment) * 1e3
        finally:
            for group in groups:
                group.kill()
                group.wait()
            lighthouse.shutdown()


def await_commits(folder: Path, groups: range, world: int, after: float) -> float:
    """When the last of these groups first committed with that many."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        firsts = [first(folder / f"g{number}", world, after) for number in groups]
        if all(firsts):
            return max(firsts)
        time.sleep(0.02)
    raise TimeoutError("torchft did not commit")


def first(path: Path, world: int, after: float) -> float:
    rows = [line.split() for line in path.read_text().rpartition("\n")[0].splitlines()] if path.exists() else []
    return next((float(row[0]) for row in rows if float(row[0]) > after and int(row[1]) == world), 0.0)


if __name__ == "__main__":
    print(json.dumps(race()))
