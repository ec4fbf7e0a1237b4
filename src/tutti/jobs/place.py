"""Where one member of a running gang sits: all that its environment is made from."""

from tutti.engine.model import Data


class Place(Data, frozen=True, kw_only=True):
    """One member among the others. Ranks count over all roles in the order of the gang."""

    job: str
    job_id: int = 1
    user: str = ""
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    node_rank: int = 0
    nodes: tuple[str, ...] = ("localhost",)
    """Names of the machines, in the order of their first rank."""
    per_node: tuple[int, ...] = (1,)
    """Members on each of them."""
    address: str = "127.0.0.1"
    port: int = 29500
    role: str = "worker"
    role_rank: int = 0
    addresses: tuple[tuple[str, str], ...] = ()
    """Role and host:port of every member, in rank order."""
    gpus: int = 0
    devices: tuple[int, ...] = ()
    cpus: int = 0
    memory: int = 0
    elastic: bool = False
    index: int | None = None
    """Number of the task, where the job is an array."""
    indices: tuple[int, ...] = ()
    queue: str = "default"
    cwd: str = ""
    limit_s: int = 0
    restarts: int = 0
