"""Small programs that print what they find: one for each way to start ranks. Kept as text, written where needed."""

TORCH = """
import os
import torch.distributed as dist

dist.init_process_group("gloo")
print(dist.get_rank(), dist.get_world_size(), os.environ["MASTER_ADDR"], flush=True)
dist.destroy_process_group()
"""

TF_CONFIG = """
import json
import os

told = json.loads(os.environ["TF_CONFIG"])
cluster = {role: len(members) for role, members in told["cluster"].items()}
mine = told["cluster"].get(told["task"]["type"], ["outside"] * 9)[told["task"]["index"]]
print(told["task"]["type"], told["task"]["index"], json.dumps(cluster, sort_keys=True), mine)
"""

JAX = """
import os

print(os.environ["JAX_PROCESS_ID"], os.environ["JAX_NUM_PROCESSES"], os.environ["JAX_COORDINATOR_ADDRESS"])
assert os.environ["SLURM_PROCID"] == os.environ["JAX_PROCESS_ID"]
assert os.environ["SLURM_NTASKS"] == os.environ["JAX_NUM_PROCESSES"]
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
