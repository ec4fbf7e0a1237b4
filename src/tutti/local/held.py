"""The jobs a daemon holds: what was submitted, and the run that goes on, if one does."""

from pathlib import Path

import msgspec

from tutti.engine.model import Coupling, Data, Gang, Seats
from tutti.jobs.gang import array_of
from tutti.jobs.job import DEVICE, Job

from .links import KeeperLink
from .spread import is_script


class Origin(Data, frozen=True):
    """Where and as whom a job was submitted. The environment is kept apart: many jobs share one."""

    cwd: str
    env_hash: str
    umask: int
    user: str
    uid: int
    framework: str = ""
    limits: dict[str, tuple[int, int]] = {}
    """What the submitter's own processes may use."""


class Placed(msgspec.Struct):
    """A member that was given a place. `id` is its rank, for as long as the run lasts."""

    id: int
    role: int
    role_rank: int
    node: int
    devices: tuple[str, ...]
    task: int = -1
    """The number of an array's task."""
    pid: int = 0
    code: int | None = None
    released: bool = False
    begun: int = 0
    """When it was given its devices."""
    until: int = 0
    """When it gave them back; 0 while it has them."""

    @property
    def is_here(self) -> bool:
        """Whether it is at work."""
        return self.code is None

    @property
    def has_finished(self) -> bool:
        """Whether it ended by itself, well or not."""
        return self.code is not None and self.code >= 0 and not self.released


class Change(msgspec.Struct):
    """A change of size that is under way."""

    id: str
    seats: tuple[Seats, ...]
    leaving: list[int]
    entering: list[int]
    wants_answer: bool = False
    names: list[str] = []
    """Who must leave and nobody else, as a launcher that starts its members itself calls them."""
    replacing: list[int] = []
    """Those who enter in the place of one that was lost."""


class Run(msgspec.Struct):
    """One run of a gang, kept by one keeper."""

    nonce: str
    number: int
    folder: Path
    members: dict[int, Placed]
    port: int = 0
    made: int = 0
    up: int = 0
    phase: str = "intent"
    was_told: bool = False
    """Its keeper was told to let the members go; before that nothing of them has run."""
    leaving: str = ""
    """Why it was told to end: cancel, fail, requeue, park or restart."""
    leaving_why: str = ""
    grace_s: float = 0.0
    change: Change | None = None
    broken: bool = False
    """A member was lost and is not replaced yet."""
    can: tuple[str, ...] = ()
    tellings: int = 0
    """How often the job told of something that happened inside it."""
    saved: bool = False
    """It answered that its state is kept whole."""
    link: KeeperLink | None = None
    at_gate: list[tuple[int, str]] = []
    """Its members that are ready and can be let go by another keeper: process and when it began."""

    def here(self, role: int | None = None) -> list[Placed]:
        """Members that are at work, in order."""
        found = (self.members[at] for at in sorted(self.members))
        return [one for one in found if one.is_here and (role is None or one.role == role)]

    @property
    def is_as_begun(self) -> bool:
        """Whether its members are those it began with: a launcher calls those it starts by their numbers."""
        return all(one.begun == self.made and one.is_here for one in self.members.values())

    def lost(self, role: int) -> list[Placed]:
        """Members of a role that were killed and not replaced, the latest last."""
        found = (one for one in self.members.values() if one.role == role and not one.released)
        return sorted((one for one in found if (one.code or 0) < 0), key=lambda one: one.until)

    def device_time(self, now: int) -> int:
        """What its members use and is not counted yet, in device-microseconds."""
        having = (one for one in self.members.values() if not one.until)
        return sum(len(one.devices) * max(now - (one.begun or self.up or now), 0) for one in having)


class Tasks(msgspec.Struct):
    """What became of the tasks of an array."""

    waiting: list[int]
    done: list[int] = []
    failed: dict[int, int] = {}
    """Tasks that failed, with their exit codes."""
    tries: dict[int, int] = {}

    @property
    def worst(self) -> tuple[int, int] | None:
        """The task that failed first and its exit code."""
        return next(iter(self.failed.items()), None)


class Course(msgspec.Struct):
    """What only this backend knows of a job's course so far, stored with the job."""

    tasks: Tasks | None = None
    losses: int = 0
    """How often it was lost and had to begin again."""
    cancelled: str = ""
    """Why it was cancelled, once it was; a daemon that restarts goes on with that."""
    device_us: int = 0
    """Device time of runs that are over."""
    first_started: int = 0
    tries: dict[int, int] = {}
    """How often a loose member beside others that stay together was started again, by its id."""


class Held(msgspec.Struct):
    """A job that has not ended."""

    id: int
    job: Job
    origin: Origin
    gang: Gang
    env: dict[str, str]
    course: Course
    run: Run | None = None
    runs: int = 0

    @property
    def name(self) -> str:
        return self.gang.name

    @property
    def framework(self) -> str:
        """Whose variables it gets: the one its author named, or the one that was recognised."""
        return self.job.framework or self.origin.framework

    @property
    def is_led(self) -> bool:
        """Whether one launcher (`tutti train`, a batch script) starts the rest itself: there is one process to keep."""
        leads = self.framework == "train" or (is_script(self.job) and self.gang.roles[0].min > 1)
        return leads and len(self.gang.roles) == 1 and not self.is_loose

    @property
    def is_loose(self) -> bool:
        """Whether its members come and go one by one."""
        return all(role.coupling is Coupling.LOOSE for role in self.gang.roles)

    def stands_alone(self, role: int) -> bool:
        """Whether members of this role come and go one by one, whatever holds for the others."""
        return self.gang.roles[role].coupling is Coupling.LOOSE

    def seated(self, run: Run, role: int | None = None) -> list[Placed]:
        """Members that have their places: whoever is at work, or has finished while others it belongs to have not."""
        found = (run.members[at] for at in sorted(run.members))
        mine = (one for one in found if role is None or one.role == role)
        return [one for one in mine if one.is_here or (one.has_finished and not self.stands_alone(one.role))]

    def lost(self, run: Run) -> list[Placed]:
        """Members that others of their role wait for."""
        together = [at for at in range(len(self.gang.roles)) if not self.stands_alone(at) and run.here(at)]
        return [one for role in together for one in run.lost(role)]

    def is_done(self, one: Placed) -> bool:
        """Whether a member that comes and goes by itself has finished; beside others, one that failed has not."""
        code = -1 if one.code is None or one.released else one.code
        return self.stands_alone(one.role) and (code >= 0 if self.is_loose else code == 0)


def tasks_of(job: Job) -> Tasks | None:
    """The tasks of a job that was just submitted, if it is an array."""
    found = array_of(job)
    return Tasks(list(found.indices)) if found else None


def devices_each(gang: Gang, role: int) -> int:
    """Devices of each member of a role."""
    return gang.roles[role].shapes[0].ask.get(DEVICE, 0)


def id_bases(gang: Gang) -> list[int]:
    """The first id of each role: ids never move when another role grows."""
    bases, base = [], 0
    for role in gang.roles:
        bases.append(base)
        base += max(role.max, role.want, role.min)
    return bases
