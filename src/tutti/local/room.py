"""Whether a job could ever run here: one that could not is refused when it comes, with what it lacks."""

from collections.abc import Iterable, Mapping

from tutti.engine import events as ev
from tutti.engine.bounds import Caps
from tutti.engine.decide import decide
from tutti.engine.demand import least
from tutti.engine.model import Gang, Listing, Node, Queue, Role, Token
from tutti.engine.policy import Policy
from tutti.engine.world import World
from tutti.errors import Refused
from tutti.jobs.amounts import spelled_memory

from .devices import Box
from .fault import now_us
from .spread import fits


def check_room(gang: Gang, box: Box) -> None:
    """Refuse what does not fit the empty box."""
    if len(gang.roles) > 1 or any(map(_is_particular, gang.roles)):
        return _check_by_trial(gang, box)
    for role in gang.roles:
        ask = role.shapes[0].ask
        room = sum(fits(node.capacity, ask) for node in box.nodes)
        if not room:
            raise Refused(_too_much(box.nodes, ask), hint="fewer of them; tutti nodes shows what there is")
        if room < role.min and role.coupling.value == "gang":
            raise Refused(
                f"this box can never hold it: it needs {role.min} members at once, and {room} fit when it is empty",
                hint=f"--workers {room}",
            )
    return None


def _is_particular(role: Role) -> bool:
    """Whether it says more than how many members there are and what each needs."""
    shape = role.shapes[0]
    plain = Role(role.name, role.min, role.want, role.max, role.shapes, role.coupling, role.rule)
    return len(role.shapes) > 1 or bool(shape.tags or shape.avoid) or role != plain


def _check_by_trial(gang: Gang, box: Box) -> None:
    """Kinds of nodes, racks, several roles: the engine is asked, about a box on which nothing runs."""
    now = now_us()
    world = World.load(Listing(now, (box.pool,), box.nodes, queues=(Queue(gang.queue),)))
    world.apply(ev.Submitted(now, gang))
    reason = decide(world.view(), now, Policy()).answers.get(gang.name)
    if reason is not None and reason.token is Token.NEVER_FITS:
        said = reason.detail.replace("on the empty cluster", "when it is empty")
        raise Refused(f"this box can never hold it: {said}", hint="tutti nodes --topology shows what there is")


def check_limits(gang: Gang, queues: Mapping[str, Queue]) -> None:
    """A job that its queue would never let run is refused too."""
    needs, name = least(gang), gang.queue
    while name in queues:
        queue = queues[name]
        for who, limits in ((f"queue {name}", queue.limit), (f"one user of queue {name}", queue.user_limit)):
            over = next((resource for resource, most in limits.items() if needs.get(resource, 0) > most), None)
            if over is not None:
                raise Refused(
                    f"{who} may hold {_amount(over, limits[over])} at most, and it needs {_amount(over, needs[over])}",
                    hint="fewer or smaller members, another --queue, or ask for a higher limit",
                )
        name = queue.parent
    for cap in Caps(queues).of(gang):
        over = next((resource for resource, most in cap.limit.items() if needs.get(resource, 0) > most), None)
        if over is not None:
            raise Refused(
                f"{cap.whose} may hold {_amount(over, cap.limit[over])} at most,"
                f" and it needs {_amount(over, needs[over])}",
                hint="fewer or smaller members, another --queue, or ask for a higher limit",
            )


def _too_much(nodes: Iterable[Node], ask: dict[str, int]) -> str:
    """What of one member is more than any node has."""
    most = {name: max(node.capacity.get(name, 0) for node in nodes) for name in ask}
    name = next((name for name in ask if ask[name] > most[name]), next(iter(ask)))
    return f"no member fits here: each asks for {_amount(name, ask[name])}, and a node has {_amount(name, most[name])}"


def _amount(name: str, number: int) -> str:
    """So much of a resource, as people write it."""
    match name:
        case "cpu":
            return f"{number / 1000:g} cores"
        case "memory":
            return f"{spelled_memory(number)} of memory"
        case "gpu":
            return f"{number} {'device' if number == 1 else 'devices'}"
        case _:
            return f"{number} of {name!r}"
