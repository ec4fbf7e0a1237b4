"""What rules each node out for a gang? Every node is counted once, by the first thing that stands in the way."""

from collections.abc import Iterator
from enum import StrEnum

import numpy as np

from .company import closed_to
from .desk import Desk
from .model import NEVER, Data, Job, NodeState
from .place import Need, Outlook
from .profile import Bools, Ints
from .whole import allowed


class Cause(StrEnum):
    """Why a node takes no member of a gang; the first that holds is counted. The last four are not the node's own."""

    TAGS = "tags"
    TAINT = "taint"
    SMALL = "small"
    LOST = "lost"
    QUARANTINED = "quarantined"
    DRAINING = "draining"
    LEMON = "lemon"
    FOREIGN = "foreign"
    BUSY = "busy"
    WINDOW = "window"
    COMPANY = "company"
    STARTING = "starting"
    PROMISED = "promised"
    OUTSIDE = "outside"
    ROOM = "room"
    UNSEEN = "unseen"


OF_STATE = {NodeState.LOST: Cause.LOST, NodeState.QUARANTINED: Cause.QUARANTINED, NodeState.DRAINING: Cause.DRAINING}


class Count(Data, frozen=True):
    """So many nodes are ruled out by the same thing. `what` is the resource or the gang it is about."""

    cause: Cause
    nodes: int
    what: str = ""


class Tally:
    """The nodes as columns, each ruled out at most once."""

    def __init__(self, desk: Desk, job: Job, need: Need) -> None:
        self.desk, self.job, self.need = desk, job, need
        self.profile = desk.profile
        self.count = self.profile.count
        self.kind = self.profile.kind[: self.count]
        self.origin = self.profile.origins()
        length = desk.length(job)
        self.end = NEVER if length >= NEVER else desk.now + length
        self.open = np.ones(self.count, np.bool_)
        """Columns that nothing has ruled out so far."""
        self._found: dict[tuple[Cause, str], int] = {}

    def note(self, mask: Bools, cause: Cause, what: str = "") -> None:
        """Rule out what is still open of these columns."""
        hit = self.open & mask
        nodes = int(self.profile.weight[: self.count][hit].sum())
        if nodes:
            self._found[cause, what] = self._found.get((cause, what), 0) + nodes
        self.open &= ~mask

    def counts(self) -> tuple[Count, ...]:
        """Everything noted, most common first."""
        found = [Count(cause, nodes, what) for (cause, what), nodes in self._found.items()]
        return tuple(sorted(found, key=lambda count: (-count.nodes, count.cause, count.what)))


def unseen(desk: Desk) -> tuple[Count, ...]:
    """What to say when nobody looked for seats, because something is wrong with the gang itself."""
    nodes = int(desk.view.class_weight.sum())
    return (Count(Cause.UNSEEN, nodes),) if nodes else ()


def ruled_out(desk: Desk, job: Job, need: Need) -> tuple[Count, ...]:
    """Nodes by what rules them out for one role of a gang, most common first; they add up to all nodes."""
    tally = Tally(desk, job, need)
    _own_fault(tally)
    _unwell(tally)
    _occupied(tally)
    _closed(tally)
    outlook = _taken(tally)
    _outside(tally, outlook)
    tally.note(tally.open.copy(), Cause.ROOM)
    return tally.counts()


def fits_when_empty(desk: Desk, need: Need) -> Bools:
    """Classes of the view whose nodes would take a member if nobody and nothing were on them."""
    view = desk.view
    fits = view.topology.eligible(*need.key)[view.class_kind] & (not need.missing)
    for resource, amount in need.ask:
        fits = fits & (_capacity(desk, resource)[view.class_kind] >= amount)
    return fits


def _capacity(desk: Desk, resource: int) -> Ints:
    name = next(name for name, at in desk.view.resources.items() if at == resource)
    return np.array([kind.capacity.get(name, 0) for kind in desk.view.topology.kinds], np.int64)


def _asked(tally: Tally) -> Iterator[tuple[str, int, int]]:
    """Name, number and amount of each resource a member asks for."""
    names = {at: name for name, at in tally.desk.view.resources.items()}
    return ((names[resource], resource, amount) for resource, amount in tally.need.ask)


def _own_fault(tally: Tally) -> None:
    """Nodes that would not do even if they were empty."""
    topology = tally.desk.view.topology
    tags, avoid, tolerate = tally.need.key
    taints = tuple(sorted({tag for kind in topology.kinds for tag in kind.tags if tag.startswith("!")}))
    tally.note(~topology.eligible(tags, avoid, taints)[tally.kind], Cause.TAGS)
    tally.note(~topology.eligible(tags, avoid, tolerate)[tally.kind], Cause.TAINT)
    if tally.need.missing:
        tally.note(tally.open.copy(), Cause.SMALL, tally.need.missing)
    for name, resource, amount in _asked(tally):
        tally.note(_capacity(tally.desk, resource)[tally.kind] < amount, Cause.SMALL, name)


def _unwell(tally: Tally) -> None:
    states = _by_column(tally, [trait.state if trait else 0 for trait in tally.desk.view.traits])
    for state, cause in OF_STATE.items():
        tally.note(states == state, cause)
    tally.note(~tally.profile.usable[: tally.count], Cause.LEMON)


def _by_column(tally: Tally, by_class: list[int]) -> Ints:
    """Numbers known for each class of the view, for each column; the view has room for more classes than there are."""
    values = np.zeros(len(tally.desk.view.class_weight), np.int64)
    values[: len(by_class)] = by_class
    return values[tally.origin]


def _occupied(tally: Tally) -> None:
    """Nodes on which others, or running gangs, leave too little."""
    view, desk = tally.desk.view, tally.desk
    for name, resource, amount in _asked(tally):
        foreign = _by_column(tally, [trait.foreign.get(name, 0) if trait else 0 for trait in view.traits])
        left = _capacity(desk, resource)[tally.kind] - foreign
        tally.note(left < amount, Cause.FOREIGN, name)
    for name, resource, amount in _asked(tally):
        tally.note(view.class_free[resource, tally.origin] < amount, Cause.BUSY, name)


def _closed(tally: Tally) -> None:
    """Nodes that a window or the company there keeps shut."""
    desk, job = tally.desk, tally.job
    mine = {f"queue:{job.gang.queue}", f"user:{job.gang.user}", f"gang:{job.gang.name}"}
    for name, window in sorted(desk.view.windows.items()):
        if window.start < tally.end and desk.now < window.end and mine.isdisjoint(window.allow):
            tally.note(
                _columns(tally, [desk.view.node_index.get(node, -1) for node in window.nodes]), Cause.WINDOW, name
            )
    closed = closed_to(desk, job, tally.need, desk.now, tally.end)
    if closed is not None:
        tally.note(closed, Cause.COMPANY)


def _columns(tally: Tally, nodes: list[int]) -> Bools:
    """The columns that these nodes are in."""
    found = np.zeros(tally.count, np.bool_)
    here = [
        node for node in nodes if 0 <= node < len(tally.desk.view.nodes) and tally.desk.view.nodes[node] is not None
    ]
    found[tally.profile.columns_of(tally.desk.view.line[here])] = True
    return found


def _taken(tally: Tally) -> Outlook:
    """Nodes whose room this plan gives, or has promised, to somebody else during the stay."""
    desk = tally.desk
    first, last = tally.profile.slots(desk.now, tally.end)
    outlook = Outlook(tally.profile, tally.need, first, last, allowed(desk, tally.job, tally.need, desk.now, tally.end))
    full = outlook.fits <= 0
    for start, end, job, seats, _ in sorted(desk.stays.values(), key=lambda stay: (stay[0], stay[2].gang.name)):
        name = job.gang.name
        if start < tally.end and desk.now < end and name != tally.job.gang.name:
            cause = Cause.STARTING if name in desk.started else Cause.PROMISED
            tally.note(full & _columns(tally, [node for held in seats for node in held.nodes]), cause, name)
    tally.note(full, Cause.PROMISED)
    return outlook


def _outside(tally: Tally, outlook: Outlook) -> None:
    """Where all must sit in one domain, nodes with room in any but the roomiest."""
    level = outlook.need.level
    if not level:
        return
    sums = outlook.sums(level)
    best = int(sums.argmax()) if len(sums) and sums.max() > 0 else -1
    tally.note(outlook.domains(level) != best, Cause.OUTSIDE, level)
