"""Binds pods that were decided on beforehand, and does nothing else: nobody is faster than this.

    python -m bench.kube_binder KUBECONFIG PODS      p0 to n0000, p1 to n0001 ...

It is a process of its own, as a scheduler is, so that both share the processors with the driver alike.
"""

import asyncio
import sys
from pathlib import Path

from tutti.kube.api import Api
from tutti.kube.config import Config
from tutti.kube.credentials import from_file


async def bind(kubeconfig: Path, pods: int) -> None:
    """All of them, over as many connections as the scheduler has."""
    connections = Config().connections
    api = Api(from_file(kubeconfig), connections)
    await api.http.warm(connections)
    async with asyncio.TaskGroup() as work:
        for i in range(pods):
            body = {"metadata": {"name": f"p{i}"}, "target": {"kind": "Node", "name": f"n{i:04}"}}
            work.create_task(api.write("POST", f"/api/v1/namespaces/default/pods/p{i}/binding", body))
    api.close()


if __name__ == "__main__":
    asyncio.run(bind(Path(sys.argv[1]), int(sys.argv[2])))
