"""What an action means for the world at the moment it is taken: the event that is entered before the backend answers.

What is entered errs on the side of holding: seats being added are held at once, seats being given up are held until
the backend says they are free. So whatever the backend does, and however slowly, nothing is given away twice.
"""

from tutti.engine import events as ev
from tutti.engine.model import NEVER, SEATED, Life, Seats
from tutti.engine.plan import (
    AnyAction,
    Await,
    Evict,
    Fail,
    Grow,
    Migrate,
    Repair,
    Reserve,
    Restart,
    Resume,
    Shrink,
    Start,
)

from .backend import Refused

RESIZES = (Grow, Shrink, Repair, Migrate)
ENDS = (Evict, Restart, Fail)


def kind(action: AnyAction) -> str:
    """The action's word: 'start', 'evict' ..."""
    return str(type(action).__struct_config__.tag)


def outcome(action: AnyAction, life: Life, now: int, decided: int) -> ev.AnyEvent | None:
    """The event to enter when the action is taken, or None where only the backend can tell."""
    name = action.gang
    match action:
        case Start() | Resume():
            return ev.Starting(now, name, action.seats, decided)
        case Grow() | Repair():
            return ev.Resized(now, name, action.seats, decided)
        case Reserve() | Await():
            return _given(action, now)
        case Migrate() if both := union(life.seats, action.seats):
            return ev.Resized(now, name, both, decided)
        case Evict() | Restart() | Fail() if life.state in SEATED:
            return leaving(action, now)
        case _:
            return None


def _given(action: Reserve | Await, now: int) -> ev.Promised | ev.Pledged:
    if isinstance(action, Reserve):
        return ev.Promised(now, action.gang, action.promise)
    return ev.Pledged(now, action.gang, action.pledge)


def leaving(action: Evict | Restart | Fail, now: int) -> ev.Leaving:
    """The gang is on its way out; it holds its seats until the backend says it is gone."""
    if isinstance(action, Evict):
        return ev.Leaving(now, action.gang, action.room_for, action.by)
    return ev.Leaving(now, action.gang, by=NEVER)


def union(old: tuple[Seats, ...], new: tuple[Seats, ...]) -> tuple[Seats, ...]:
    """Both places of a gang that moves, held until it has arrived; nothing where the shapes differ."""
    if len(old) != len(new) or any(a.shape != b.shape for a, b in zip(old, new, strict=True)):
        return ()
    return tuple(_both(a, b) for a, b in zip(old, new, strict=True))


def _both(old: Seats, new: Seats) -> Seats:
    most = tally(old)
    for node, count in tally(new).items():
        most[node] = max(most.get(node, 0), count)
    return Seats(tuple(most), tuple(most.values()), old.shape)


def tally(seats: Seats) -> dict[int, int]:
    """Members on each node, in the order the nodes are first named."""
    found: dict[int, int] = {}
    for node, count in zip(seats.nodes, seats.counts, strict=True):
        found[node] = found.get(node, 0) + count
    return found


def undone(action: AnyAction, refusal: Refused, before: tuple[Seats, ...], now: int) -> list[ev.AnyEvent]:
    """The events that take back what was entered for an action the backend then refused."""
    name = action.gang
    match action:
        case Start() | Resume():
            return [ev.Refused(now, name, refusal.not_before, refusal.why)]
        case Grow() | Migrate():
            return [ev.Resized(now, name, before)]
        case Repair():
            return [
                ev.MemberLost(now, name, role, added.nodes, added.counts)
                for role, added in enumerate(newcomers(before, action.seats))
                if added.nodes
            ]
        case _:
            return []


def newcomers(old: tuple[Seats, ...], new: tuple[Seats, ...]) -> tuple[Seats, ...]:
    """The seats that were not there before, role by role."""
    return tuple(_added(a, b) for a, b in zip(old, new, strict=True))


def _added(old: Seats, new: Seats) -> Seats:
    there = tally(old)
    more = {node: count - there.get(node, 0) for node, count in tally(new).items()}
    runs = {node: count for node, count in more.items() if count > 0}
    return Seats(tuple(runs), tuple(runs.values()), new.shape)
