"""What do the pods of a gang ask of their nodes, in the words of a manifest, and how many nodes have it?"""

from collections.abc import Iterable, Iterator, Mapping

from tutti.jobs.kube.select import CLOSED, tolerates
from tutti.jobs.kube.wants import ATTACHED, DECLARES, NodeRule, Wants

from .gangs import GangSeen
from .ground import Ground
from .volumes import Volumes

MOST = 4
ENGINE, HERE = "without tags", "without its nodeSelector and node affinity"
"""A remedy, as the engine and as people here call it."""


def choices(gang: GangSeen, grounds: Mapping[str, Ground], volumes: Volumes) -> list[str]:
    """Labels, terms, taints and drivers that keep some nodes from holding its pods, each with how many are left."""
    nodes = [ground for ground in grounds.values() if ground.capacity]
    found = dict.fromkeys(
        text for kin in gang.kin for text in (*_of(kin.wants, nodes), *_by(kin.wants, nodes, volumes))
    )
    return list(found)[:MOST]


def _of(wants: Wants, nodes: list[Ground]) -> Iterator[str]:
    if wants.nodes is not None:
        for what, rule in _single(wants.nodes):
            has = sum(rule.allows(node.name, node.labels) for node in nodes)
            if has < len(nodes):
                yield f"{what} ({has} of {len(nodes)} nodes)"
    for (key, value), count in sorted(_repelling(wants, nodes).items()):
        taint = f"{key}={value}" if value else key
        yield f"no taint {taint}, which {count} of {len(nodes)} nodes have"


def _by(wants: Wants, nodes: list[Ground], volumes: Volumes) -> Iterator[str]:
    """Drivers that some nodes lack, or that could not attach all its volumes even to an empty node."""
    asked = {name.removeprefix(ATTACHED): count for name, count in wants.ask.items() if name.startswith(ATTACHED)}
    for driver, count in sorted(asked.items()):
        has = sum(volumes.attachable(node.name).get(driver, 0) >= count for node in nodes)
        if has < len(nodes):
            yield f"the driver {driver} with room for {count} of its volumes ({has} of {len(nodes)} nodes)"


def _single(rule: NodeRule) -> Iterable[tuple[str, NodeRule]]:
    """Each thing that a rule asks for, by itself."""
    for key, value in rule.labels:
        said = key if key.startswith(DECLARES) else f"nodeSelector {key}={value}"
        yield said, NodeRule("", ((key, value),))
    if rule.terms is not None:
        yield "node affinity", NodeRule("", terms=rule.terms)
    if rule.volumes:
        yield "the place of its volumes", NodeRule("", volumes=rule.volumes)


def _repelling(wants: Wants, nodes: list[Ground]) -> dict[tuple[str, str], int]:
    """Taints that it does not put up with, and how many nodes have them."""
    found: dict[tuple[str, str], int] = {}
    for taint in (taint for node in nodes for taint in node.taints if taint.effect in CLOSED):
        if not tolerates(wants.tolerations, taint):
            found[taint.key, taint.value] = found.get((taint.key, taint.value), 0) + 1
    return found


def plainly(lines: Iterable[str], asked: list[str]) -> list[str]:
    """An explanation with what is asked of nodes below the line about nodes."""
    found = []
    for line in lines:
        found.append(line.replace(ENGINE, HERE))
        if line.startswith("  nodes ") and asked:
            found.append(f"  {'asks for':<14}{'; '.join(asked)}")
    return found
