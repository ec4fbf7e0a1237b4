"""What the jobs run on: a shorthand like 128x8, a file, or what the trace says of its own machine."""

import csv
import re
import tomllib
from collections import Counter
from pathlib import Path

import msgspec

from tutti.engine.model import Data, Listing, Node, Pool, Queue
from tutti.engine.read_policy import duration
from tutti.errors import Misused

from .task import Habits

SHORTHAND = re.compile(r"(\d{1,7})x(\d{1,6})(?::([\w.-]+))?")
MOST_NODES = 200_000


class PoolFile(Data, frozen=True):
    """Nodes that are alike, standing in racks (or other levels) of a size."""

    nodes: int
    each: int
    kind: str = ""
    per_domain: dict[str, int] = {}
    """Nodes in one domain of each level, outermost first: {zone = 64, rack = 16}."""
    capacity: dict[str, int] = {}
    """Other resources of one node."""


class CostsFile(Data, frozen=True):
    """What running costs there beside the work itself, for every job. Times are texts like '20s', or seconds."""

    start_up: str | int = 0
    restart: str | int = 0
    save_every: str | int = 0
    save_cost: str | int = 0
    resize: str | int = 0
    leave: str | int = 0
    source: str = ""
    """Where these times come from, for the report."""

    def habits(self) -> Habits:
        """As the simulator takes them."""
        return Habits(*(duration(getattr(self, field)) for field in Habits.__struct_fields__))


class ClusterFile(Data, frozen=True):
    """A cluster as a file says it: pools by name, and the queues."""

    pools: dict[str, PoolFile] = {}
    queues: tuple[Queue, ...] = ()
    resource: str = ""
    """What the devices are called; empty means as the trace calls them."""
    costs: CostsFile = CostsFile()


def plain(nodes: int, each: int, resource: str, kind: str = "", queues: tuple[str, ...] = ("default",)) -> Listing:
    """So many nodes of so many devices, all alike."""
    file = ClusterFile({"default": PoolFile(nodes, each, kind)}, tuple(Queue(name) for name in queues), resource)
    return listing(file)


def listing(file: ClusterFile) -> Listing:
    """The cluster as the engine takes it."""
    resource = file.resource or "gpu"
    pools = [Pool(name, tuple(pool.per_domain)) for name, pool in file.pools.items()]
    many = len(file.pools) > 1
    nodes = [node for name, pool in file.pools.items() for node in _nodes(name, pool, resource, name if many else "n")]
    return Listing(pools=tuple(pools), nodes=tuple(nodes), queues=file.queues or (Queue("default"),))


def _nodes(name: str, pool: PoolFile, resource: str, prefix: str) -> list[Node]:
    digits = len(str(pool.nodes - 1))
    tags = (f"kind={pool.kind}",) if pool.kind else ()
    capacity = {**pool.capacity, resource: pool.each}
    return [
        Node(f"{prefix}{i:0{digits}d}", capacity, name, _place(i, pool.per_domain), tags) for i in range(pool.nodes)
    ]


def _place(index: int, per_domain: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"{level}-{index // each}" for level, each in per_domain.items())


def read_cluster(spec: str, resource: str) -> Listing:
    """A cluster from a shorthand ('128x8', '16x4:h100,8x8:a100') or from a TOML file."""
    parts = [SHORTHAND.fullmatch(part) for part in spec.split(",")]
    if all(parts):
        return _from_shorthand([part for part in parts if part], resource, spec)
    path = Path(spec)
    if not path.is_file():
        raise Misused(f"{spec!r} is neither a cluster shorthand nor a file", hint="128x8, or 16x4:h100,8x8:a100")
    return _table(path, resource) or listing(_counted_in(read_file(path), resource))


def _table(path: Path, resource: str) -> Listing | None:
    """A cluster from a list of nodes, or what is wrong with the list; None where the file is none."""
    try:
        found = from_table(path, resource)
    except KeyError as problem:
        raise Misused(f"{path.name} is a list of nodes without a column {problem}", str(path)) from None
    except (TypeError, ValueError) as problem:
        raise Misused(f"{path.name} has a number of devices that is none: {problem}", str(path)) from None
    if found is not None and not found.nodes:
        raise Misused(f"{path.name} lists no node that has devices", str(path))
    return found


def _counted_in(file: ClusterFile, resource: str) -> ClusterFile:
    """The file with its devices called as the trace calls them, where it does not say itself."""
    return msgspec.structs.replace(file, resource=file.resource or resource)


def _from_shorthand(parts: list[re.Match[str]], resource: str, spec: str) -> Listing:
    pools = {
        f"pool{i}" if len(parts) > 1 else "default": PoolFile(int(found[1]), int(found[2]), found[3] or "")
        for i, found in enumerate(parts)
    }
    _check_size(pools, spec)
    return listing(ClusterFile(pools, (), resource))


def _check_size(pools: dict[str, PoolFile], where: str) -> None:
    nodes = sum(pool.nodes for pool in pools.values())
    if not 1 <= nodes <= MOST_NODES or any(pool.each < 1 or pool.nodes < 1 for pool in pools.values()):
        raise Misused(
            f"a cluster has between 1 and {MOST_NODES:,} nodes with at least one device each.",
            where=where,
            hint="128x8 is 128 nodes of 8 devices",
        )


def read_file(path: Path) -> ClusterFile:
    """A cluster from a TOML file; everything that is wrong is said with its place."""
    try:
        file = msgspec.convert(tomllib.loads(path.read_text()), ClusterFile)
        file.costs.habits()
    except (msgspec.ValidationError, ValueError) as problem:
        raise Misused(
            f"{path.name} is not a cluster file: {problem}", hint="docs/reference/simulate.md has one"
        ) from None
    _check_size(file.pools, str(path))
    _check_parts(file, str(path))
    return file


def _check_parts(file: ClusterFile, where: str) -> None:
    """Domains hold nodes, queues have names of their own; anything else is said."""
    for name, pool in file.pools.items():
        for level, each in pool.per_domain.items():
            if each < 1:
                raise Misused(f"pool {name} has a {level} of {each} nodes", where, hint=f"{level} = 16")
    names = [queue.name for queue in file.queues]
    for queue in file.queues:
        if names.count(queue.name) > 1:
            raise Misused(f"there are two queues {queue.name!r}", where, hint="write each of them once")
        if queue.weight < 1:
            raise Misused(f"queue {queue.name} has a weight of {queue.weight}", where, hint="weight = 1, or more")


def read_costs(spec: str) -> CostsFile:
    """What a cluster's file says of costs; none where the cluster is a shorthand or a public list of nodes."""
    return read_file(Path(spec)).costs if spec.endswith(".toml") else CostsFile()


def devices(cluster: Listing, resource: str) -> int:
    """How many devices the cluster has in all."""
    return sum(node.capacity.get(resource, 0) for node in cluster.nodes)


def node_sizes(cluster: Listing, resource: str, kinds: tuple[str, ...] = ()) -> Counter[int]:
    """How many nodes have how many devices, of these kinds or (nothing said) of any."""
    tags = {f"kind={kind}" for kind in kinds}
    sizes = (node.capacity.get(resource, 0) for node in cluster.nodes if not tags or not tags.isdisjoint(node.tags))
    return Counter(size for size in sizes if size)


def from_table(path: Path, resource: str) -> Listing | None:
    """A cluster from a list of nodes or a shape that comes with a public trace; None where it is not one."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    first = lines[0] if lines else ""
    if "\t" in first:
        return _from_machines(lines, resource)
    rows = list(csv.DictReader(lines))
    if first.startswith("sn,"):
        return _from_nodes([(row["sn"], row["gpu"], row["model"]) for row in rows], resource)
    if first.startswith("gpu_model,"):
        return _from_nodes([(row["node_name"], row["gpu_capacity_num"], row["gpu_model"]) for row in rows], resource)
    if first.startswith("num_switch,") and rows:
        nodes = int(rows[0]["num_switch"]) * int(rows[0]["num_node_p_switch"])
        pool = PoolFile(nodes, int(rows[0]["num_gpu_p_node"]), per_domain={"switch": int(rows[0]["num_node_p_switch"])})
        return listing(ClusterFile({"default": pool}, (), resource))
    return None


def _from_nodes(rows: list[tuple[str, str, str]], resource: str) -> Listing:
    """Nodes that have any device, tagged with their kind."""
    nodes = [
        Node(f"n{name}" if name[:1].isdigit() else name, {resource: int(devices)}, tags=(f"kind={kind}",))
        for name, devices, kind in rows
        if int(devices) > 0
    ]
    return Listing(pools=(Pool("default"),), nodes=tuple(nodes), queues=(Queue("default"),))


def _from_machines(lines: list[str], resource: str) -> Listing | None:
    """Machines of the Alea simulator: id, name, nodes, processors per node, speed, memory."""
    pools = {}
    for line in lines:
        words = line.split("\t")
        if len(words) < 4 or not words[2].isdigit() or not words[3].isdigit():
            return None
        pools[words[1]] = PoolFile(int(words[2]), int(words[3]))
    return listing(ClusterFile(pools, (), resource))
