"""A cluster to try things out: a real API server on loopback, made-up nodes and a made-up kubelet, until interrupted.

python -m tools.control_plane.run [NODES]
"""

import asyncio
import signal
import sys
from pathlib import Path

from tools.control_plane import rig as control_plane
from tools.control_plane.build import Impossible
from tools.control_plane.kubelet import Kubelet
from tools.control_plane.rig import Rig
from tools.control_plane.stage import Stage, node
from tutti.kube.api import Api
from tutti.kube.credentials import from_file

KUBECONFIG = Path("build") / "kubeconfig"


async def serve(rig: Rig, nodes: int) -> None:
    """Make the nodes and let pods run."""
    stage = Stage(rig.kubeconfig())
    await stage.install()
    await stage.priorities(high=1000, low=10)
    await stage.make_one({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tutti-system"}})
    names = [(f"node-{i}", {"rack": f"r{i // 4}"}) for i in range(nodes)]
    await stage.make(*(node(name, labels=labels) for name, labels in names))
    rig.start_controllers("job-controller,garbage-collector-controller,podgroup-protection-controller")
    KUBECONFIG.parent.mkdir(exist_ok=True)
    KUBECONFIG.write_text(rig.kubeconfig().read_text())
    print(f"{nodes} nodes of 8 GPUs in racks of 4; in another terminal:\n  export KUBECONFIG={KUBECONFIG.resolve()}")
    print("Control-C ends everything.", flush=True)
    await Kubelet(Api(from_file(rig.kubeconfig())), delay=0.2).run()


def main() -> None:
    """Start, serve, end."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        rig = control_plane.started()
    except Impossible as problem:
        sys.exit(f"error: {problem}")
    try:
        asyncio.run(serve(rig, nodes))
    except KeyboardInterrupt:
        print("ended")
    finally:
        rig.close()
        KUBECONFIG.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
