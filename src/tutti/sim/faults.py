"""What breaks, and when: nodes and whole domains that are lost and come back."""

import random
import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tutti.engine import events as ev
from tutti.engine.model import HOUR, NEVER, Data, Listing, Node, NodeState
from tutti.engine.read_policy import duration
from tutti.errors import Misused, NotFound

from .agenda import Agenda, Rank
from .backend import Cluster, News


class Fault(Data, frozen=True):
    """Nodes go down at a moment, and come back after `lasts` (NEVER: they do not)."""

    at: int
    nodes: tuple[str, ...]
    lasts: int = NEVER

    @property
    def until(self) -> int:
        """When the nodes come back."""
        return self.at + self.lasts if self.lasts < NEVER else NEVER


class FaultEntry(Data, frozen=True):
    """One fault as a file says it."""

    at: str | int
    node: str = ""
    domain: str = ""
    lasts: str | int = ""
    flaps: int = 1
    """How often it happens again, one `lasts` after it has come back."""


class RandomFaults(Data, frozen=True):
    """Faults drawn at random: each node fails once in `mean_between` on average, and comes back after `lasts`."""

    mean_between: str | int
    lasts: str | int = "1h"


class FaultFile(Data, frozen=True):
    """A file of faults: some by name, some by chance."""

    fault: tuple[FaultEntry, ...] = ()
    random: RandomFaults | None = None


def read_faults(path: Path, cluster: Listing, until: int, seed: int, since: int = 0) -> list[Fault]:
    """The faults a TOML file describes, for this cluster and this stretch of time."""
    try:
        file = msgspec.convert(tomllib.loads(path.read_text()), FaultFile)
        return drawn_up(file, cluster, until, seed, since)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as problem:
        raise Misused(f"cannot read {path}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as problem:
        raise Misused(
            f"{path.name} is not a file of faults: {problem}", hint="see docs/reference/simulate.md"
        ) from None


def rest_of(fault: Fault, first: int) -> Fault:
    """What is left of a fault at a moment; all of it where it begins later."""
    if fault.at >= first:
        return fault
    return Fault(first, fault.nodes, fault.until - first if fault.until < NEVER else NEVER)


def drawn_up(file: FaultFile, cluster: Listing, until: int, seed: int, since: int = 0) -> list[Fault]:
    """All faults of a file in the order of time."""
    found = [fault for entry in file.fault for fault in named(entry, cluster)]
    if file.random is not None:
        between, lasts = duration(file.random.mean_between), duration(file.random.lasts)
        found += by_chance(cluster, between, lasts, until, seed, since)
    return sorted(found, key=lambda fault: (fault.at, fault.nodes))


def named(entry: FaultEntry, cluster: Listing) -> list[Fault]:
    """The faults of one entry; a flapping node has several."""
    _check_entry(entry)
    nodes = tuple(node.name for node in cluster.nodes if _is_meant(node, entry))
    if not nodes:
        known = (
            f"nodes are called {cluster.nodes[0].name} to {cluster.nodes[-1].name}; a domain of the cluster will do too"
        )
        raise Misused(f"no node is {entry.node or entry.domain!r}", hint=known)
    lasts = duration(entry.lasts) if entry.lasts != "" else NEVER
    at = duration(entry.at)
    return [Fault(at + 2 * lasts * again if again else at, nodes, lasts) for again in range(max(entry.flaps, 1))]


def _check_entry(entry: FaultEntry) -> None:
    """An entry that says too little or too much is refused, not guessed at."""
    what = f"the fault at {entry.at}"
    if not entry.node and not entry.domain:
        raise ValueError(f"{what} names neither a node nor a domain")
    if entry.node and entry.domain:
        raise ValueError(f"{what} names both a node and a domain; write two faults")
    if entry.flaps < 1:
        raise ValueError(f"{what} flaps {entry.flaps} times; it happens at least once")
    if entry.flaps > 1 and entry.lasts == "":
        raise ValueError(f"{what} flaps {entry.flaps} times, and does not say how long it `lasts`")


def _is_meant(node: Node, entry: FaultEntry) -> bool:
    return (entry.node != "" and node.name == entry.node) or (entry.domain != "" and entry.domain in node.place)


def by_chance(cluster: Listing, mean_between: int, lasts: int, until: int, seed: int, since: int = 0) -> list[Fault]:
    """Independent faults of single nodes; the same seed draws the same faults."""
    if mean_between < HOUR:
        raise ValueError("mean_between is the mean time between two faults of one node, an hour or more")
    draws = random.Random(seed)
    found = []
    for node in cluster.nodes:
        at = since
        while (at := at + round(draws.expovariate(1 / mean_between))) < until:
            found.append(Fault(at, (node.name,), lasts))
            at += lasts
    return found


def put_on(agenda: Agenda, cluster: Cluster, index: dict[str, int], faults: Iterable[Fault]) -> None:
    """Enter the faults in the agenda."""
    for fault in faults:
        agenda.add(fault.at, Rank.NODES, lambda at, fault=fault: _lose(agenda, cluster, index, fault, at))  # type: ignore[misc]


def _lose(agenda: Agenda, cluster: Cluster, index: dict[str, int], fault: Fault, at: int) -> News:
    for name in fault.nodes:
        cluster.lose_node(index[name], at)
    if fault.lasts < NEVER:
        agenda.add(at + fault.lasts, Rank.NODES, lambda back: _return(fault, back))
    return [ev.NodeTurned(at, name, NodeState.LOST, fault=True) for name in fault.nodes]


def _return(fault: Fault, at: int) -> News:
    return [ev.NodeTurned(at, name, NodeState.READY) for name in fault.nodes]
