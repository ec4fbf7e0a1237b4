"""Random histories of a small cluster: every kind of event, in any order, some of them impossible."""

from hypothesis import strategies as st

from tests.clusters import gang
from tutti.engine import events as ev
from tutti.engine.model import Node, NodeState, Pledge, Progress, Promise, Resizing, Seats, State, Token
from tutti.engine.plan import Reason

NODES = 4
GANGS = 3
ENDS = (State.FINISHED, State.FAILED, State.CANCELLED, State.LOST)
TOKENS = (Token.NO_CAPACITY, Token.QUOTA_REACHED, Token.HELD)

#: (what, which, how much, how long after the one before)
steps = st.lists(
    st.tuples(st.integers(0, 17), st.integers(0, 19), st.integers(0, 7), st.sampled_from([0, 0, 1, 7, 1000, 10**9])),
    max_size=40,
)


def events(history):
    """The history as events, in time order."""
    at = 0
    for which in range(GANGS):
        yield from (event(0, which, which, 0), event(1, which, which, 0), event(3, which, which, 0))
    for what, which, much, later in history:
        at += later
        yield event(what, which, much, at)


def event(what: int, which: int, much: int, at: int) -> ev.AnyEvent:
    name, node = f"g{which % GANGS}", which % NODES
    seats = (Seats((node, (node + 1) % NODES), (much % 3 + 1, 1)),)
    makers = (
        lambda: ev.Submitted(at, gang(name, 1, 1 + much % 2, max=4, queue=f"q{much % 2}", resizing=Resizing.LIVE)),
        lambda: ev.Starting(at, name, seats),
        lambda: ev.Starting(at, name, seats),
        lambda: ev.Running(at, name),
        lambda: ev.Running(at, name),
        lambda: ev.Reported(at, name, progress(which, much, at)),
        lambda: ev.Reported(at, name, progress(which, much, at)),
        lambda: ev.Resized(at, name, seats),
        lambda: ev.Evicted(at, name, parked=which % 2 == 0, kept=much * 100),
        lambda: ev.Refused(at, name),
        lambda: ev.Ended(at, name, ENDS[which % 4]),
        lambda: ev.MemberLost(at, name, 0, (node,), (1,)),
        lambda: ev.Leaving(at, name),
        lambda: ev.NodeTurned(at, f"n{node}", NodeState(much % 4)),
        lambda: ev.NodeGone(at, f"n{node}"),
        lambda: ev.NodeSeen(at, Node(f"n{node}", {"gpu": 8}, foreign={"gpu": much} if which % 2 else {})),
        lambda: ev.Promised(at, name, Promise(at, at + 10, seats, at) if much else None),
        lambda: ev.Pledged(at, name, Pledge(seats, (), at, at + 10) if much else None),
    )
    return makers[what]()


def progress(which: int, much: int, at: int) -> Progress:
    """A report, sometimes with a rate, a snapshot, or steps taken back."""
    return Progress(
        step=which * much,
        steps=100 if much % 2 else 0,
        rate_milli=much * 1000,
        at=at,
        snapshot_at=at - which if which % 3 == 0 else 0,
        save_cost=much,
    )


def answers(history):
    """Reasons why gangs wait, to go with a history."""
    return {f"g{which % GANGS}": Reason(TOKENS[much % 3]) for _, which, much, _ in history[::3]}
