"""Something happened. Events are the only way into the world; the outcomes of actions arrive as events too."""

from typing import TypeAlias

from .model import (
    NEVER,
    Data,
    Domain,
    Estimate,
    Gang,
    Node,
    NodeState,
    Pledge,
    Pool,
    Progress,
    Promise,
    Queue,
    Seats,
    State,
    Window,
)


class Event(Data, frozen=True, tag_field="event"):
    """Base of all events: when it happened."""

    at: int


class Submitted(Event, frozen=True, tag="submitted"):
    """A gang was accepted. `awaiting` members are declared but do not exist yet."""

    gang: Gang
    awaiting: int = 0


class Changed(Event, frozen=True, tag="changed"):
    """The owner changed the gang: limit, priority, queue, sizes."""

    gang: Gang


class MembersSeen(Event, frozen=True, tag="members-seen"):
    """So many declared members are still missing."""

    gang: str
    awaiting: int


class Held(Event, frozen=True, tag="held"):
    """Somebody put the gang on hold."""

    gang: str


class Released(Event, frozen=True, tag="released"):
    """The hold is over."""

    gang: str


class Starting(Event, frozen=True, tag="starting"):
    """The gang was given seats and is being started."""

    gang: str
    seats: tuple[Seats, ...]
    decided: int = 0
    """Number of the view the start was decided on; 0 when nobody of ours decided it."""
    up: bool = False
    """Whether all members are up at once."""
    lent: int = 0
    """From when on the room may be asked back, where it is kept for another."""


class Running(Event, frozen=True, tag="running"):
    """All members are up."""

    gang: str


class Resized(Event, frozen=True, tag="resized"):
    """The gang now has these seats: it grew, shrank, was repaired or moved."""

    gang: str
    seats: tuple[Seats, ...]
    decided: int = 0


class Asked(Event, frozen=True, tag="asked"):
    """The gang was asked to change its seats: to grow, shrink, move or take a lost member's replacement in."""

    gang: str
    seats: tuple[Seats, ...]
    by: int = NEVER
    decided: int = 0


class Leaving(Event, frozen=True, tag="leaving"):
    """The gang was told to make room (or leave a draining node) and is on its way out."""

    gang: str
    leaving_for: str = ""
    by: int = NEVER


class Stays(Event, frozen=True, tag="stays"):
    """The gang was told to leave and will not, for good: nobody can take it off its seats. It runs on."""

    gang: str


class Evicted(Event, frozen=True, tag="evicted"):
    """The gang gave up its seats: parked with its state, or back in the queue. `kept` is the run time not lost."""

    gang: str
    parked: bool = False
    kept: int = 0
    interrupted: bool = True


class Refused(Event, frozen=True, tag="refused"):
    """A start was tried and failed; nothing of it is left. It may be tried again after `not_before`."""

    gang: str
    not_before: int = 0
    why: str = ""


class MemberLost(Event, frozen=True, tag="member-lost"):
    """Members of one role are gone: so many on each of these nodes, and which ranks, where that is known."""

    gang: str
    role: int
    nodes: tuple[int, ...]
    counts: tuple[int, ...]
    ranks: tuple[int, ...] = ()


class MembersDone(Event, frozen=True, tag="members-done"):
    """Members of a loose role finished and need no seat again."""

    gang: str
    role: int
    nodes: tuple[int, ...]
    counts: tuple[int, ...]


class Ended(Event, frozen=True, tag="ended"):
    """The gang is over."""

    gang: str
    state: State = State.FINISHED


class Reported(Event, frozen=True, tag="reported"):
    """The job said how far it is."""

    gang: str
    progress: Progress


class Estimated(Event, frozen=True, tag="estimated"):
    """There is a better estimate of the gang's run time."""

    gang: str
    estimate: Estimate


class Promised(Event, frozen=True, tag="promised"):
    """A promise was given, moved, or (None) withdrawn."""

    gang: str
    promise: Promise | None


class Pledged(Event, frozen=True, tag="pledged"):
    """Capacity is being freed for the gang, or (None) no longer."""

    gang: str
    pledge: Pledge | None


class TurnTaken(Event, frozen=True, tag="turn-taken"):
    """A new time slice of the gang began."""

    gang: str


class NodeSeen(Event, frozen=True, tag="node-seen"):
    """A node appeared or changed: capacity, tags, place, what others use on it."""

    node: Node


class NodeTurned(Event, frozen=True, tag="node-turned"):
    """A node became ready, draining, quarantined or lost."""

    node: str
    state: NodeState
    drain_by: int = NEVER
    fault: bool = False


class NodeGone(Event, frozen=True, tag="node-gone"):
    """A node was removed for good."""

    node: str


class PoolSet(Event, frozen=True, tag="pool-set"):
    """A pool's levels were declared."""

    pool: Pool


class DomainSet(Event, frozen=True, tag="domain-set"):
    """A domain's countable resources were declared."""

    domain: Domain


class QueueSet(Event, frozen=True, tag="queue-set"):
    """A queue was made or changed."""

    queue: Queue


class QueueGone(Event, frozen=True, tag="queue-gone"):
    """A queue was removed; its gangs wait until they are moved."""

    queue: str


class WindowSet(Event, frozen=True, tag="window-set"):
    """A maintenance window or an advance reservation was made or changed."""

    window: Window


class WindowGone(Event, frozen=True, tag="window-gone"):
    """A window was withdrawn."""

    window: str


AnyEvent: TypeAlias = (
    Submitted
    | Changed
    | MembersSeen
    | Held
    | Released
    | Starting
    | Running
    | Resized
    | Asked
    | Leaving
    | Stays
    | Evicted
    | Refused
    | MemberLost
    | MembersDone
    | Ended
    | Reported
    | Estimated
    | Promised
    | Pledged
    | TurnTaken
    | NodeSeen
    | NodeTurned
    | NodeGone
    | PoolSet
    | DomainSet
    | QueueSet
    | QueueGone
    | WindowSet
    | WindowGone
)
