"""One gang as the cluster shows it: its pods, the seats it was given, and which pod sits where."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from tutti.engine.model import Gang, Node, Seats
from tutti.jobs.kube.declared import Declared
from tutti.jobs.kube.gang import NO_QUEUE, Kin
from tutti.jobs.kube.objects import PodSpec
from tutti.jobs.kube.read import NO_ASIDE
from tutti.jobs.kube.wants import Wants

OVER = frozenset({"Succeeded", "Failed"})
NOTHING: dict[str, int] = {}
Where = list[tuple[str, int]]
"""Nodes in rank order, and how many members each holds."""


class Seen:
    """A pod, as much of it as is kept."""

    __slots__ = (
        "aside",
        "charged",
        "charged_all",
        "controller",
        "created",
        "deleting",
        "gang",
        "gated",
        "generation",
        "group",
        "grown",
        "heralds",
        "labels",
        "marks",
        "mounted",
        "movable",
        "name",
        "namespace",
        "node",
        "nominated",
        "noted",
        "ours",
        "part",
        "phase",
        "polite",
        "priority",
        "priority_class",
        "queue",
        "rank",
        "reason",
        "refused",
        "sent",
        "spec",
        "spoken",
        "time",
        "told",
        "uid",
        "wants",
        "wrong",
    )

    def __init__(self, uid: str, namespace: str, name: str, wants: Wants) -> None:
        self.uid = uid
        self.namespace = namespace
        self.name = name
        self.wants = wants
        self.spec: PodSpec | None = None
        """Kept only of pods with volumes, whose wants change when a volume is bound."""
        self.gang = ""
        self.group = ""
        """The group it names, which may be a part of its gang."""
        self.heralds = ""
        """A group that it declares and is not in."""
        self.part = ""
        self.rank = -1
        self.node = ""
        self.nominated = ""
        self.sent = ""
        """Where it is being bound to; until it is seen there, or that was refused."""
        self.phase = ""
        self.reason = ""
        self.gated = False
        self.deleting = False
        self.ours = False
        self.controller = ""
        """Uid of the controller that would make another one."""
        self.labels: dict[str, str] = {}
        self.marks: tuple[str, ...] = ()
        self.charged, self.charged_all = "", True
        """The node it is charged to as a stranger: with all it asks for, or with what it was given more than that."""
        self.mounted = ""
        """The node on which it uses its volumes."""
        self.grown: dict[str, int] = NOTHING
        """What it was given more since it got its seat."""
        self.generation = self.noted = 0
        """How often its spec had been changed when it was read, where the server counts; its labels and annotations."""
        self.priority: int | None = None
        self.polite = False
        """It may not preempt others."""
        self.movable = False
        self.aside = NO_ASIDE
        self.priority_class = ""
        self.refused = ""
        """What it asks for, beside its spec, that cannot be had."""
        self.queue = NO_QUEUE
        self.time = self.created = 0
        self.told = ""
        """What its condition says at present."""
        self.spoken: tuple[str, ...] = ()
        """Other dialects it speaks as well."""
        self.wrong: tuple[str, ...] = ()
        """What is wrong with what it says."""

    @property
    def is_over(self) -> bool:
        """Whether it needs no room any more."""
        return self.phase in OVER

    @property
    def place(self) -> str:
        """The node it takes room on, now or in a moment."""
        return self.node or self.sent or self.nominated

    @property
    def can_be_placed(self) -> bool:
        """Whether it waits for a node."""
        return not (self.node or self.sent or self.gated or self.deleting or self.is_over)

    def bearing(self) -> tuple[object, ...]:
        """Everything that changes and bears on the gang."""
        return (self.node, self.phase, self.reason, self.nominated, self.gated, self.deleting)

    def order(self) -> tuple[int, str, str]:
        """By rank, then by name; shorter numbers first."""
        return (self.rank if self.rank >= 0 else 1 << 40, f"{len(self.name):04}", self.name)


class Seat:
    """Where a pod was put."""

    __slots__ = ("bound", "flying", "leaving", "node", "role")

    def __init__(self, role: int, node: str, bound: bool = False) -> None:
        self.role = role
        self.node = node
        self.bound = bound
        self.leaving = False
        """It is being evicted."""
        self.flying = False
        """Its bind is on the way, and may or may not have arrived."""


class Fill(NamedTuple):
    """A pod to bind."""

    pod: Seen
    node: str


class Kept(Enum):
    """Whether a disruption budget keeps pods that have to leave, and somebody was told."""

    NO = auto()
    YES = auto()
    TOLD = auto()


class GangSeen:
    """A gang: what was declared, which pods there are, and who sits where."""

    __slots__ = (
        "again",
        "arrival",
        "asked",
        "awaiting",
        "away",
        "barred",
        "behind",
        "declared",
        "desired",
        "exposed",
        "failed_start",
        "gang",
        "goes_on",
        "is_entered",
        "is_foreign",
        "joined",
        "kept",
        "key",
        "kin",
        "landed",
        "leaving",
        "left_at",
        "lost",
        "pending",
        "pods",
        "problems",
        "ran",
        "room_for",
        "seats",
        "shapes",
        "since",
        "spared",
        "stood",
        "told",
        "up",
        "wanted",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.arrival = 0
        """Who came first within one second, which is as exactly as Kubernetes tells the time."""
        self.declared: Declared | None = None
        self.pods: dict[str, Seen] = {}
        self.again = 0
        """When it is to be looked at anew, in microseconds, because it waits for a moment; 0: never."""
        self.gang: Gang | None = None
        """As it was last told to the engine."""
        self.kin: tuple[Kin, ...] = ()
        self.awaiting = self.wanted = 0
        """Members that must be there before it can start; `awaiting` of them are not."""
        self.problems: tuple[str, ...] = ()
        """What is wrong with how it is declared, as it was last looked at."""
        self.is_entered = self.away = False
        """The engine has heard of it; it had to leave, and nobody has made its pods again yet."""
        self.is_foreign = self.goes_on = False
        """Another scheduler has or had pods of it; its start was begun by a leader before us, and is being finished."""
        self.desired: list[Where] = []
        """The seats it should have, role by role; empty while it waits."""
        self.seats: dict[str, Seat] = {}
        """Pods that have a seat."""
        self.shapes: tuple[int, ...] = ()
        """The shape each role was seated with."""
        self.asked = False
        """Its seats were changed and the engine awaits an answer."""
        self.leaving = ""
        """Why it is being taken off its seats: 'evict' or 'undo'."""
        self.left_at = 0.0
        """When it was told to leave, by the monotonic clock."""
        self.stood = 0
        """How many of its minimum were bound when it was told to leave."""
        self.spared = 0.0
        """Until when it is not asked to leave again, by the monotonic clock."""
        self.kept = Kept.NO
        """Whether disruption budgets keep it where it has to leave."""
        self.failed_start = self.room_for = self.barred = ""
        """The last: why pods that are unlike all of its members do not join them while it runs."""
        self.up = self.ran = False
        """All its members have run at once since it got its seats, or may have before we came."""
        self.lost = 0
        self.told: dict[str, object] = {}
        self.since = self.behind = self.exposed = 0
        """When its first bind was sent, while it is partly bound; how long it was so before we came; and in all, where
        its start was undone. In nanoseconds."""
        self.joined = 0.0
        """When its latest pod came, by the monotonic clock."""
        self.pending = 0
        """Binds that are still to be answered."""
        self.landed = 0
        """Binds that were answered well since it got its seats."""

    @property
    def live(self) -> Iterable[Seen]:
        """Pods that are or could be running."""
        return (pod for pod in self.pods.values() if not pod.is_over)

    def complaints(self) -> tuple[str, ...]:
        """What is wrong with what its pods say."""
        return tuple(dict.fromkeys(text for pod in self.pods.values() if pod.wrong for text in pod.wrong))

    @property
    def is_short(self) -> bool:
        """Whether there are fewer pods than must start, seen without looking closely."""
        return self.declared is not None and len(self.pods) < self.declared.min

    @property
    def is_seated(self) -> bool:
        """Whether it was given seats."""
        return bool(self.desired)

    @property
    def least(self) -> int:
        """Its minimum, over all roles."""
        return sum(role.min for role in self.gang.roles) if self.gang else 0

    def present(self) -> dict[Kin, int]:
        """Live pods that are not gated, by kin, in order of rank."""
        counted: Counter[Kin] = Counter()
        first: dict[Kin, tuple[int, str, str]] = {}
        for pod in self.pods.values():
            if pod.is_over or pod.gated or (pod.deleting and pod.uid not in self.seats):
                continue
            kin = Kin(pod.part, pod.wants, pod.marks)
            counted[kin] += 1
            order = pod.order()
            if kin not in first or order < first[kin]:
                first[kin] = order
        return {kin: counted[kin] for kin in sorted(counted, key=lambda kin: first[kin])}

    def bound_by_kin(self) -> dict[tuple[str, str], int]:
        """How many live pods of each kin have a node."""
        return Counter((pod.part, pod.wants.key) for pod in self.live if pod.node)

    def role_of(self, pod: Seen) -> int:
        """The role a pod is a member of, -1 where it is like none."""
        for at, kin in enumerate(self.kin):
            if kin.part == pod.part and kin.wants.key == pod.wants.key and kin.marks == pod.marks:
                return at
        # Marks change when somebody asks about new labels; they do not make a pod another one.
        for at, kin in enumerate(self.kin):
            if kin.part == pod.part and kin.wants.key == pod.wants.key:
                return at
        return -1

    def fills(self) -> list[Fill]:
        """Pods that wait, matched in order of rank to seats that are free. They count as seated from now on."""
        free = self._free()
        if not any(free):
            return []
        waiting: list[list[Seen]] = [[] for _ in self.desired]
        for pod in self.pods.values():
            if pod.can_be_placed and pod.uid not in self.seats:
                role = self.role_of(pod)
                if 0 <= role < len(waiting):
                    waiting[role].append(pod)
        found: list[Fill] = []
        for role, pods in enumerate(waiting):
            for pod, node in zip(sorted(pods, key=Seen.order), free[role], strict=False):
                self.seats[pod.uid] = Seat(role, node)
                found.append(Fill(pod, node))
        return found

    def unclaimed(self) -> list[tuple[int, str]]:
        """Desired seats, as role and node, on which nobody sits and nobody is done."""
        over = Counter((self.role_of(pod), pod.node) for pod in self.pods.values() if pod.is_over)
        free = Counter((role, node) for role, nodes in enumerate(self._free()) for node in nodes)
        return list((free - over).elements())

    def _free(self) -> list[list[str]]:
        taken: Counter[tuple[int, str]] = Counter((seat.role, seat.node) for seat in self.seats.values())
        free: list[list[str]] = []
        for role, where in enumerate(self.desired):
            nodes: list[str] = []
            for node, count in where:
                used = min(taken[role, node], count)
                taken[role, node] -= used
                nodes += [node] * (count - used)
            free.append(nodes)
        return free

    def surplus(self) -> list[str]:
        """Seated pods that are on no desired seat: the highest ranks of each node."""
        wanted: Counter[tuple[int, str]] = Counter()
        for role, where in enumerate(self.desired):
            for node, count in where:
                wanted[role, node] += count
        found: list[str] = []
        for uid in sorted(self.seats, key=lambda uid: self.pods[uid].order() if uid in self.pods else (0, "", "")):
            seat = self.seats[uid]
            if wanted[seat.role, seat.node] > 0:
                wanted[seat.role, seat.node] -= 1
            else:
                found.append(uid)
        return found

    @property
    def bound(self) -> int:
        """Members that are bound."""
        return sum(seat.bound for seat in self.seats.values())

    @property
    def is_whole(self) -> bool:
        """Whether every seat is filled and bound."""
        wanted = sum(count for where in self.desired for _, count in where)
        return wanted == len(self.seats) and all(seat.bound and not seat.leaving for seat in self.seats.values())

    @property
    def may_move(self) -> bool:
        """Whether its members may be started anew elsewhere, even where too few are left meanwhile."""
        said = self.declared is not None and self.declared.movable
        return said or all(pod.movable for pod in self.live)

    def in_part(self, now: int) -> int:
        """How long it has been bound in part, whoever began it; by the monotonic clock, in nanoseconds."""
        return now - self.since + self.behind

    def give_up(self, role: int, node: str) -> None:
        """A seat is no longer desired."""
        where = self.desired[role]
        for at, (name, count) in enumerate(where):
            if name == node:
                where[at : at + 1] = [(name, count - 1)] if count > 1 else []
                return

    def clear(self) -> None:
        """It has no seats any more."""
        self.desired, self.seats, self.barred = [], {}, ""
        self.asked, self.up, self.leaving, self.lost = False, False, "", 0
        self.failed_start, self.room_for, self.ran, self.kept = "", "", False, Kept.NO
        self.since = self.landed = self.behind = 0

    def sit(self, seats: tuple[Seats, ...], nodes: Sequence[Node | None]) -> None:
        """It should have these seats from now on."""
        self.desired = named(seats, nodes)
        self.shapes = tuple(held.shape for held in seats)


def named(seats: tuple[Seats, ...], nodes: Sequence[Node | None]) -> list[Where]:
    """Seats by the names of their nodes."""
    return [
        [(node.name if (node := nodes[at]) is not None else "", n) for at, n in zip(s.nodes, s.counts, strict=True)]
        for s in seats
    ]
