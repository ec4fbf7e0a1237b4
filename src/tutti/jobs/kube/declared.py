"""The one model that every dialect is read into: which group a pod belongs to, and what was declared for the group."""

from collections.abc import Mapping
from typing import NamedTuple

from tutti.engine.model import MOST_MEMBERS, Data
from tutti.jobs.durations import duration
from tutti.jobs.problems import Misread

from .objects import LabelSelector
from .select import labels_match

TIME = "tutti.dev/time"
QUEUE = "tutti.dev/queue"
MOVABLE = "tutti.dev/movable"
LONGEST = 40
"""As much of a value as is repeated to people."""


class Member(NamedTuple):
    """Which gang a pod says it belongs to, and as what."""

    dialect: str
    group: str
    part: str = ""
    """Task, sub-group or role, where the dialect has them."""
    rank: int = -1
    """Its rank, where the dialect has one."""


class Segmented(Data, frozen=True):
    """Members of a part come in groups of so many, each inside one domain."""

    level: str
    members: int


class Part(Data, frozen=True):
    """What was declared for one part of a gang."""

    min: int = 0
    within: str = ""
    near: str = ""
    segment: Segmented | None = None
    select: dict[str, str] = {}
    """Labels of nodes that the part asks for, beside what its pods do."""
    asks: tuple[str, ...] = ()
    """Other fields of a pod that the part has beside its pods."""


class Sorting(Data, frozen=True):
    """Pods are sorted into parts by their labels, not by what they say."""

    name: str
    """The part of those that are chosen."""
    chosen: LabelSelector | None = None
    """Which pods; none: all of them."""
    keys: tuple[str, ...] = ()
    """One part for each set of values that these labels have."""

    def part(self, said: str, labels: Mapping[str, str]) -> str:
        """The part of a pod, from what it says itself and from its labels."""
        if self.chosen is not None and not labels_match(self.chosen, labels):
            return said
        return " ".join((self.name, *(labels.get(key, "") for key in self.keys)))


class Declared(Data, frozen=True):
    """What was declared for a gang, whatever the dialect."""

    dialect: str
    namespace: str
    name: str
    uid: str = ""
    api: str = ""
    """Version and kind of the object that declares it; nothing where only pods do."""
    kind: str = ""
    min: int = 0
    """Members that must start together; 0 where only the parts say it."""
    total: int = 0
    """Members there will be in the end; 0 where that is not said."""
    parts: dict[str, Part] = {}
    within: str = ""
    near: str = ""
    queue: str = ""
    local_queue: str = ""
    """The queue it names inside its namespace (namespace/name), which stands for one of the cluster."""
    owner: str = ""
    """Uid of the object that made the group."""
    priority: int | None = None
    priority_class: str = ""
    preemptible: bool = True
    preemptible_below: int | None = None
    """Where it does not say whether it may be preempted: so does a priority lower than this."""
    may_preempt: bool = True
    whole: bool = False
    """Its surplus may not be taken member by member."""
    loose: bool = False
    movable: bool = False
    """Its members may be started anew on other nodes, so that others find room in one piece."""
    time: int = 0
    limit: int = 0
    """The longest it may run, where nobody says how long it does."""
    min_run: int = 0
    """How long it runs before others may take its place."""
    max_wait: int = 0
    """How long it may wait before room is kept for it."""
    preempts_after: int = 0
    """How long it waits before others are asked to make room for it."""
    pool: str = ""
    """The only nodes it may have: those with this value of KAI's label."""
    hold_up_to: int = -1
    """How long it may stay below its minimum; negative where the dialect does not say."""
    never_stale: bool = False
    min_ask: dict[str, str] = {}
    """What all members of the minimum ask for together, where that is declared before there are pods."""
    sorting: Sorting | None = None
    partners: tuple[str, ...] = ()
    """Groups (namespace/name) that start only together with this one."""
    parent: str = ""
    is_tree: bool = False
    """It is made of other groups."""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What is said rightly and has no effect here, though somebody may count on it."""
    unsupported: str = ""
    created: str = ""
    scheduled: bool = False
    """Its status says that it was started once."""
    over: bool = False
    """Its status says that it has ended."""
    told: tuple[str, str, str] = ("", "", "")
    """What its condition says: type and status, message, and since when it has had that status."""

    @property
    def key(self) -> str:
        """The gang's name in the scheduler: unlike that of any other, and readable."""
        return gang_name(self.namespace, self.name, self.dialect)


def gang_name(namespace: str, name: str, dialect: str) -> str:
    """'namespace/name', with the dialect where it is not the native one."""
    return f"{namespace}/{name}" if dialect == "native" else f"{namespace}/{name}@{dialect}"


def quoted(written: object) -> str:
    """What somebody wrote, as far as it bears repeating."""
    text = str(written)
    return repr(text) if len(text) <= LONGEST else f"{text[:LONGEST]!r}..."


class Reading:
    """Reads numbers and times, and remembers what was wrong with them."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.refused = ""
        """Why the gang cannot be started as it is written."""

    def least(self, written: object, what: str, lowest: int = 1, default: int = 1) -> int:
        """A minimum. What one below zero, beyond a million or in words was meant to be nobody knows: it is refused."""
        known = len(self.problems)
        found = self.count(written, what, lowest, default)
        if len(self.problems) > known and str(written) != "0":
            self.refused = self.refused or f"{what} {quoted(written)}"
        return found

    def count(self, written: object, what: str, least: int = 0, default: int = 0) -> int:
        """A number of members; what makes no sense is told and counts as the default, too many as the most there is."""
        if written is None or written == "":
            return default
        try:
            number = int(str(written))
        except ValueError:
            self.problems.append(f"{what} is {quoted(written)}; write a whole number")
            return default
        if not least <= number <= MOST_MEMBERS:
            self.problems.append(f"{what} is {str(number)[:LONGEST]}; write a number from {least} to {MOST_MEMBERS:,}")
            return MOST_MEMBERS if number > MOST_MEMBERS else default
        return number

    def time(self, written: object, what: str) -> int:
        """A length of time in microseconds; 0 where it says nothing sensible."""
        if written is None or written == "":
            return 0
        try:
            return duration(str(written))
        except Misread as problem:
            said = str(problem).replace(repr(str(written)), quoted(written))
            self.problems.append(f"{what}: {said}; write 30m or 2h30m")
            return 0

    def run_time(self, annotations: Mapping[str, str] | None) -> int:
        """How long it runs, as our own annotation says. One that is there and says nothing is told as well."""
        written, known = (annotations or {}).get(TIME), len(self.problems)
        found = self.time(written, f"annotation {TIME}")
        if written is not None and not found and len(self.problems) == known:
            self.problems.append(f"annotation {TIME} is {quoted(written)}; write 30m or 2h30m")
        return found

    def truth(self, written: object, what: str) -> bool:
        """Yes or no; anything else is told and means no."""
        if written in (None, "", "true", "false"):
            return written == "true"
        self.problems.append(f"{what} is {quoted(written)}; write true or false")
        return False

    def one_of(self, written: object, what: str, choice: tuple[str, ...]) -> str:
        """One of some words; anything else is told and counts as the first."""
        if written is None or written == "" or written in choice:
            return str(written or choice[0])
        self.problems.append(f"{what} is {quoted(written)}; write {' or '.join(choice)}")
        return choice[0]

    def mapping(self, written: object, what: str) -> dict[str, object]:
        """A mapping; anything else is told and is empty."""
        if written is None:
            return {}
        if isinstance(written, dict):
            return written
        self.problems.append(f"{what} is not a mapping")
        return {}
