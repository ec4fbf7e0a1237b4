"""The messages of the channel between a job and its scheduler, as typed records. The specification is
docs/reference/channel.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from tutti.train.agent.lines import BadLine, Message

VERSION = 1


@dataclass(frozen=True)
class Hello:
    say: ClassVar[str] = "hello"
    run: str
    pid: int
    channel: int = VERSION
    can: tuple[str, ...] = ("resize", "snapshot", "leave")


@dataclass(frozen=True)
class Welcome:
    say: ClassVar[str] = "welcome"
    channel: int = VERSION


@dataclass(frozen=True)
class Goodbye:
    say: ClassVar[str] = "goodbye"
    why: str


@dataclass(frozen=True)
class Progress:
    say: ClassVar[str] = "progress"
    step: int
    rate: float = 0.0
    world: int = 0
    generation: int = 0
    state_bytes: int = 0
    memory_bytes: int = 0
    snapshot_step: int = -1
    snapshot_age_s: float = 0.0
    save_s: float = 0.0
    restart_s: float = 0.0
    legal: tuple[int, ...] = ()
    level: str = "L1"
    stragglers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """Something happened inside the job that belongs into its story."""

    say: ClassVar[str] = "told"
    event: str
    text: str


@dataclass(frozen=True)
class Resize:
    say: ClassVar[str] = "resize"
    id: str
    target: int
    deadline_s: float
    members: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Snapshot:
    say: ClassVar[str] = "snapshot"
    id: str
    deadline_s: float
    tier: str = "memory"
    reason: str = ""


@dataclass(frozen=True)
class Leave:
    say: ClassVar[str] = "leave"
    id: str
    deadline_s: float
    reason: str = ""


@dataclass(frozen=True)
class Accepted:
    say: ClassVar[str] = "accepted"
    id: str
    step: int


@dataclass(frozen=True)
class Refused:
    say: ClassVar[str] = "refused"
    id: str
    why: str
    legal: tuple[int, ...] = ()


@dataclass(frozen=True)
class Released:
    say: ClassVar[str] = "released"
    id: str
    step: int
    members: tuple[str, ...] = ()
    state: str = "memory"


@dataclass(frozen=True)
class Done:
    say: ClassVar[str] = "done"
    id: str
    step: int
    took_s: float = 0.0


@dataclass(frozen=True)
class Unknown:
    say: ClassVar[str] = "unknown"
    of: str


Request = Resize | Snapshot | Leave
Answer = Accepted | Refused | Released | Done
Word = (
    Hello
    | Welcome
    | Goodbye
    | Progress
    | Told
    | Resize
    | Snapshot
    | Leave
    | Accepted
    | Refused
    | Released
    | Done
    | Unknown
)

_WORDS: tuple[type[Word], ...] = (
    Hello,
    Welcome,
    Goodbye,
    Progress,
    Told,
    Resize,
    Snapshot,
    Leave,
    Accepted,
    Refused,
    Released,
    Done,
    Unknown,
)
_BY_NAME = {word.say: word for word in _WORDS}


def to_message(word: Word) -> Message:
    """A record as it goes over the wire."""
    return {"say": word.say, **asdict(word)}


def from_message(message: Message) -> Word:
    """A record from the wire; fields it does not know are ignored, a name it does not know becomes Unknown."""
    kind = _BY_NAME.get(message["say"])
    if kind is None:
        return Unknown(of=message["say"])
    known = {item.name for item in fields(kind)}
    values = {name: _frozen(value) for name, value in message.items() if name in known}
    try:
        return kind(**values)
    except TypeError as error:
        raise BadLine(f"a {kind.say!r} message lacks a field: {error}") from error


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
