"""For each reason, the smallest cluster on which a gang waits for it; the pages on reasons show what is printed."""

from collections.abc import Callable
from typing import NamedTuple

from tests.clusters import drawn, gang, seat, submit
from tutti.engine import events as ev
from tutti.engine.explain import explain
from tutti.engine.model import MINUTE, SECOND, Queue, Token
from tutti.engine.policy import Order, Policy, Reclaim, Reservation
from tutti.engine.remedy import remedies
from tutti.engine.world import World
from tutti.views.why import why_lines

NOW = 30 * MINUTE
HOUR_S = 3600


class Case(NamedTuple):
    """A gang named `llama` that waits in a world."""

    world: World
    policy: Policy = Policy()

    def page(self) -> str:
        """What `tutti why llama` prints."""
        view = self.world.view()
        found = explain(view, NOW, self.policy, "llama")
        return "\n".join(why_lines(found, remedies(view, NOW, self.policy, "llama")))


def llama(members=2, gpu=8, **fields):
    return gang("llama", members, gpu, run_s=HOUR_S, **fields)


def vision(members=1, **fields):
    return gang("vision", members, 8, run_s=HOUR_S, **fields)


def busy(picture="8 8"):
    return seat(drawn(picture), vision(), "n0")


def invalid() -> Case:
    return Case(submit(drawn("8 8"), llama(4, max=2)))


def never_fits() -> Case:
    return Case(submit(drawn("8 8 8"), llama(4)))


def unsupported() -> Case:
    return Case(submit(drawn("8 8"), llama(unsupported="hostIPC")))


def held() -> Case:
    world = submit(drawn("8 8"), llama())
    world.apply(ev.Held(0, "llama"))
    return Case(world)


def queue_closed() -> Case:
    return Case(submit(drawn("8 8", Queue("night", closed=True), Queue("day")), llama(queue="night")))


def dependency() -> Case:
    return Case(submit(busy("8 8 8"), llama(after=("vision",))))


def members() -> Case:
    world = drawn("8 8")
    world.apply(ev.Submitted(0, llama(), awaiting=1))
    return Case(world)


def quota() -> Case:
    world = seat(drawn("8 8 8", Queue("default", limit={"gpu": 16})), vision(), "n0")
    return Case(submit(world, llama()))


def backing_off() -> Case:
    world = seat(drawn("8 8"), llama(), "n0 n1")
    world.apply(ev.Refused(29 * MINUTE, "llama", not_before=31 * MINUTE, why="n1 did not answer"))
    return Case(world)


def behind() -> Case:
    world = submit(busy("8 8 8"), gang("bert", 3, 8, run_s=HOUR_S), llama(1, submitted=SECOND))
    return Case(world, Policy(order=Order(strict=True), reserve=Reservation(depth=0)))


def reserved() -> Case:
    world = submit(busy("8 8"), gang("bert", 2, 8, run_s=HOUR_S), llama(1, submitted=SECOND))
    return Case(world)


def no_domain() -> Case:
    return Case(submit(seat(drawn("a: 8 8 8 | b: 8 8"), vision(), "a0"), llama(3, within="rack")))


def used() -> Case:
    return Case(submit(drawn("8 8-4"), llama()))


def lost() -> Case:
    return Case(submit(drawn("8 8x 8d"), llama(3)))


def no_capacity() -> Case:
    return Case(submit(busy("8 8"), llama()))


def eviction() -> Case:
    world = submit(seat(drawn("8 8"), vision(2), "n0 n1"), llama(priority=5))
    return Case(world, Policy(reclaim=Reclaim(min_run=0)))


CASES: dict[Token, Callable[[], Case]] = {
    Token.INVALID: invalid,
    Token.NEVER_FITS: never_fits,
    Token.UNSUPPORTED: unsupported,
    Token.HELD: held,
    Token.QUEUE_CLOSED: queue_closed,
    Token.DEPENDENCY_WAIT: dependency,
    Token.WAITING_FOR_MEMBERS: members,
    Token.QUOTA_REACHED: quota,
    Token.BACKING_OFF: backing_off,
    Token.BEHIND_OTHERS: behind,
    Token.RESERVED_AHEAD: reserved,
    Token.NO_DOMAIN: no_domain,
    Token.USED_BY_OTHERS: used,
    Token.NODES_LOST: lost,
    Token.NO_CAPACITY: no_capacity,
    Token.WAITING_FOR_EVICTION: eviction,
}
