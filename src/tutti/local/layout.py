"""Which member sits where: from seats, which only count, to ranks with devices of their own. Pure."""

from collections.abc import Callable, Sequence

from tutti.engine.model import Gang, Seats

from .held import Held, Placed, Run, Tasks, devices_each, id_bases

Choose = Callable[[int, int], tuple[str, ...] | None]
"""So many free devices of a node, or None where there are not enough."""


class NoRoom(Exception):
    """The node has fewer free devices than the plan thought."""


def entering(
    gang: Gang, here: Sequence[Placed], seats: tuple[Seats, ...], choose: Choose, tasks: Tasks | None
) -> list[Placed]:
    """Members to start so that the seats are taken; ids that are free are used again, lowest first."""
    found: list[Placed] = []
    bases = id_bases(gang)
    queue = list(tasks.waiting) if tasks else []
    for role, held in enumerate(seats):
        mine = [one for one in here if one.role == role]
        used = {one.id for one in mine}
        for node, count in _per_node(held).items():
            missing = count - sum(1 for one in mine if one.node == node)
            for _ in range(missing):
                task = queue.pop(0) if tasks and queue else -1
                if tasks is not None and task < 0:
                    break
                at = task_id(tasks, task) if tasks else _free(used, bases[role])
                used.add(at)
                devices = choose(node, devices_each(gang, role))
                if devices is None:
                    raise NoRoom(f"node {node} has not enough free devices")
                found.append(Placed(at, role, at - bases[role], node, devices, task))
    return found


def leaving(here: Sequence[Placed], seats: tuple[Seats, ...]) -> list[Placed]:
    """Members that have no seat any more: of each node the last ones."""
    found: list[Placed] = []
    for role, held in enumerate(seats):
        wanted = _per_node(held)
        mine = [one for one in here if one.role == role]
        for node in {one.node for one in mine}:
            there = sorted((one for one in mine if one.node == node), key=lambda one: one.id)
            found += there[wanted.get(node, 0) :]
    return sorted(found, key=lambda one: one.id)


def missing(held: Held, run: Run, seats: tuple[Seats, ...]) -> list[Placed]:
    """Members that these seats count on and that were lost: of each role the latest."""
    found: list[Placed] = []
    for role, wanted in enumerate(seats):
        short = wanted.members - len(held.seated(run, role))
        found += run.lost(role)[-short:] if short > 0 else []
    return found


def seats_of(gang: Gang, here: Sequence[Placed], like: tuple[Seats, ...] = ()) -> tuple[Seats, ...]:
    """The seats that these members take, in the order of their ranks."""
    found = []
    for role in range(len(gang.roles)):
        nodes: list[int] = []
        counts: list[int] = []
        for one in sorted((one for one in here if one.role == role), key=lambda one: one.id):
            if one.node in nodes:
                counts[nodes.index(one.node)] += 1
            else:
                nodes.append(one.node)
                counts.append(1)
        shape = like[role].shape if role < len(like) else 0
        found.append(Seats(tuple(nodes), tuple(counts), shape))
    return tuple(found)


def task_id(tasks: Tasks | None, task: int) -> int:
    """An array's task keeps its own number as id, so that its log is easy to find."""
    return task if tasks is not None else -1


def _per_node(held: Seats) -> dict[int, int]:
    wanted: dict[int, int] = {}
    for node, count in zip(held.nodes, held.counts, strict=True):
        wanted[node] = wanted.get(node, 0) + count
    return wanted


def _free(used: set[int], base: int) -> int:
    at = base
    while at in used:
        at += 1
    return at
