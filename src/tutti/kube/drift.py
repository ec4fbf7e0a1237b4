"""Do the engine's books say what the pods say?"""

from tutti.engine.model import MOST_AMOUNT
from tutti.engine.world import World
from tutti.jobs.kube.wants import ATTACHED

from .intake import Intake


def drift(mirror: Intake, world: World) -> int:
    """Nodes of which the engine believes something else to be free than what the pods leave."""
    used: dict[str, dict[str, int]] = {}
    for pod in mirror.pods.values():
        gang = mirror.gangs.get(pod.gang)
        seat = gang.seats.get(pod.uid) if gang is not None else None
        places = {pod.place, seat.node if seat is not None else ""} - {""}
        for where in () if pod.is_over else places:
            amounts = used.setdefault(where, {})
            more = pod.grown.items() if where == pod.place else ()
            for name, value in (*pod.wants.ask.items(), *more):
                amounts[name] = amounts.get(name, 0) + value
    for name in mirror.grounds:
        for driver, count in mirror.volumes.idle(name).items():
            amounts = used.setdefault(name, {})
            amounts[f"{ATTACHED}{driver}"] = amounts.get(f"{ATTACHED}{driver}", 0) + count
    wrong = 0
    for name, at in world.node_index.items():
        node = world.nodes[at]
        free = world.classes.free[:, world.classes.of[at]]
        taken = used.get(name, {})
        for place, resource in enumerate(world.resources):
            told = taken.get(resource, 0)
            if node is not None and told <= MOST_AMOUNT and int(free[place]) != node.capacity.get(resource, 0) - told:
                wrong += 1
                break
    return wrong
