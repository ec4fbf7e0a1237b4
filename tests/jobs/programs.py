"""Small programs that print what they find: one for each way to start ranks. Kept as text, written where needed."""

TORCH = """
import os
import torch.distributed as dist

dist.init_process_group("gloo")
print(dist.get_rank(), dist.get_world_size(), os.environ["MASTER_ADDR"], flush=True)
# Whoever leaves first would break the connections that another one is still making.
dist.barrier()
dist.destroy_process_group()
"""

TF_CONFIG = """
import json
import os
import time
from pathlib import Path

told = json.loads(os.environ["TF_CONFIG"])
cluster = {role: len(members) for role, members in told["cluster"].items()}
mine = told["cluster"].get(told["task"]["type"], ["outside"] * 9)[told["task"]["index"]]
print(told["task"]["type"], told["task"]["index"], json.dumps(cluster, sort_keys=True), mine)

# Workers that are loose are told to end with those they serve: nobody leaves before all have spoken.
Path("said-{type}-{index}".format(**told["task"])).touch()
for _ in range(600):
    if len(list(Path().glob("said-*"))) == sum(cluster.values()):
        break
    time.sleep(0.05)
"""

JAX = """
import json
import os

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

jax.distributed.initialize()
mine = jnp.array([jax.process_index() + 1])
total = int(multihost_utils.process_allgather(mine).sum())
told = {"rank": jax.process_index(), "size": jax.process_count(), "sum": total}
print(json.dumps({**told, "coordinator": os.environ["JAX_COORDINATOR_ADDRESS"]}), flush=True)
"""

DASK_CLUSTER = """
name = "dask"
framework = "dask"

[roles.scheduler]
gpus = 0
cpus = 1
command = "{python} -m distributed.cli.dask_scheduler --host $MASTER_ADDR --port $MASTER_PORT --no-dashboard"

[roles.worker]
gpus = 0
cpus = "100m"
workers = 8
coupling = "loose"
command = "{python} -m distributed.cli.dask_worker $DASK_SCHEDULER_ADDRESS --no-nanny --no-dashboard --nthreads 1"

[roles.client]
gpus = 0
cpus = "100m"
command = "{python} client.py"
"""

DASK_CLIENT = """
import os
import pathlib
import time

from distributed import Client


def compute(client, word):
    client.wait_for_workers(8, timeout=60)
    total = client.submit(sum, client.map(int, range(100), pure=False), pure=False).result(timeout=60)
    print(f"{word}{len(client.scheduler_info(n_workers=-1)['workers'])} workers computed {total}", flush=True)


with Client(os.environ["DASK_SCHEDULER_ADDRESS"], timeout=60) as client:
    compute(client, "")
    while not pathlib.Path("killed").exists():
        time.sleep(0.02)
    compute(client, "again ")
    client.shutdown()
"""

HEAD = """
import os
import socket

with socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as server:
    names = set()
    while len(names) < 3:
        peer, _ = server.accept()
        names.add(peer.makefile().readline().strip())
        peer.close()
    print(" ".join(sorted(names)))
"""

WORKER = """
import os
import socket
import time

host, _, port = os.environ["DASK_SCHEDULER_ADDRESS"].removeprefix("tcp://").partition(":")
for _ in range(600):
    try:
        with socket.create_connection((host, int(port))) as peer:
            peer.sendall(f"worker-{os.environ['TUTTI_ROLE_RANK']}\\n".encode())
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
"""

DEEPSPEED = """#!{python}
import os
import subprocess
import sys

hosts = dict(line.split() for line in open(sys.argv[sys.argv.index("--hostfile") + 1]))
slots = [int(slots.removeprefix("slots=")) for slots in hosts.values()]
size, local = sum(slots), slots[int(os.environ["RANK"])]
first = sum(slots[: int(os.environ["RANK"])])
for rank in range(local):
    env = {{**os.environ, "RANK": str(first + rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}}
    subprocess.run([sys.executable, sys.argv[-1]], env=env, check=True)
"""

RANK = """
import os

print(os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"], os.environ["CUDA_VISIBLE_DEVICES"])
"""

PAIR = """
import os
import socket
import time

rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == "0":
    with socket.create_server(place) as server:
        server.settimeout(60)
        peer, _ = server.accept()
        print(f"met {peer.makefile().readline().strip()} at {place[0]}:{place[1]}")
else:
    for _ in range(1200):
        try:
            with socket.create_connection(place) as peer:
                peer.sendall(f"{rank} of {size}\\n".encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    else:
        raise SystemExit("nobody listens there")
"""
