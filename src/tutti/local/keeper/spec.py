"""What a keeper is told when it begins: plain data in a file that only the owner can read."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

VERSION = 1
T = TypeVar("T")


@dataclass
class MemberSpec:
    """One rank: its variables and the devices it may use."""

    rank: int
    env: dict[str, str] = field(default_factory=dict)
    locks: list[str] = field(default_factory=list)
    """Lock files of its devices."""
    cpus: list[int] = field(default_factory=list)
    """Processors it is kept to; none means all."""
    argv: list[str] = field(default_factory=list)
    """Its own command, where it differs from the others'."""
    loose: bool = False
    """Nobody waits for it: what becomes of it is no business of the others."""


@dataclass
class Spec:
    """A run of a gang."""

    job: str
    nonce: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    logs: str
    """Folder of the log files."""
    members: list[MemberSpec]
    version: int = VERSION
    locks: list[str] = field(default_factory=list)
    """Lock files of what belongs to the gang as a whole, such as the port its members meet at."""
    channel: str = ""
    """Where the job's channel listens; empty for none."""
    umask: int = 0o022
    log_bytes: int = 64 << 20
    """Most bytes of one rank's log; as much again is kept in the rotated file."""
    grace_s: float = 30.0
    limit_s: float = 0.0
    """How long the gang may run; 0 means for ever."""
    keeps_on: bool = False
    """At the end of its time it is only told, not stopped."""
    notice: int = 0
    """A signal to send some time before the limit; 0 for none."""
    notice_s: float = 0.0
    hang_s: float = 0.0
    """After its first report, silence of so long means that the job hangs; 0 means never."""
    loose: bool = False
    """Members come and go one by one; the keeper stays until it is told to close."""
    ends_on_failure: bool = True
    """One member that fails ends all of them at once."""
    memory: int = 0
    limits: dict[str, list[int]] = field(default_factory=dict)
    """Resource limits of the submitter, soft and hard, by the kernel's name."""
    on_word: int = 0
    """Members are held at the gate until the daemon of this process id says go: it has written down by then that they
    shall run. 0: nobody has to say so."""
    early: bool = False
    """They are made ready before there is room for them: the word may come late or never, and until then nothing that
    others could use is theirs."""
    ports: list[str] = field(default_factory=list)
    """Those of its lock files that nobody else waits for: it may hold them before it begins."""
    uid: int = -1
    gid: int = -1
    groups: list[int] = field(default_factory=list)


def to_record(spec: Spec) -> dict[str, Any]:
    return {**vars(spec), "members": [vars(one) for one in spec.members]}


def from_record(data: dict[str, Any]) -> Spec:
    """A specification from plain data; fields of a later version are ignored."""
    spec: Spec = _known(Spec, data)
    spec.members = [member_from(entry) for entry in data.get("members", ())]
    return spec


def member_from(data: dict[str, Any]) -> MemberSpec:
    found: MemberSpec = _known(MemberSpec, data)
    return found


def _known(kind: type[T], data: dict[str, Any]) -> T:
    names = {item.name for item in fields(kind)}  # type: ignore[arg-type]  # a dataclass, as both callers know
    return kind(**{name: value for name, value in data.items() if name in names})
