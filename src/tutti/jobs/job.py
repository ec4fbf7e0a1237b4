"""What a person says of a job: on the command line, in a job file, or in `#tutti:` lines. One type for all three.

Values stand as they were written ('2:8', '80G', '2h30m'), so that a job can be shown back to its author; `to_gang`
reads them. This module starts fast: the client imports it before every submission.
"""

from typing import Literal

from tutti.engine.model import Arrange, Coupling, Data, OnLoss, Resizing

DEVICE, CPU, MEMORY = "gpu", "cpu", "memory"
"""Names of what a member asks for: whole devices, thousandths of a core, bytes."""

Amount = int | float | str
HOOK_EVENTS = ("submitted", "started", "resized", "lost", "finished", "failed", "cancelled", "ended")


class Part(Data, frozen=True, kw_only=True):
    """Members that are alike: how many, and what each of them asks for."""

    workers: int | str = 1
    """How many: 4, or '2:8' for an elastic part."""
    want: int = 0
    """How many to aim for, between the two; 0 means as many as possible."""
    gpus: int | None = None
    """Devices that each worker sees; left out means 1."""
    cpus: Amount | None = None
    """Cores of each worker: 4, 0.5 or '500m'."""
    mem: Amount | None = None
    """Memory of each worker: '80G', '64GiB' or bytes."""
    kind: tuple[str, ...] = ()
    """Kinds of node that will do, the best first: 'h100'."""
    coupling: Coupling = Coupling.GANG
    """gang: all start together or none. loose: members come, fail and are retried one by one."""
    size_rule: str = ""
    """Which sizes are legal: 'multiple:8', 'power-of-two', '4,8,16', 'batch:512', 'memory:300G/80G', joined by '+'."""
    within: str = ""
    """All members inside one domain of this level: 'rack'; beside roles, all roles together."""
    near: str = ""
    """The same as a wish."""
    group: str = ""
    """Members come in groups that share a domain: '8@nvlink'."""
    arrange: Arrange = Arrange.PACK
    """pack: few nodes. spread: many."""
    per_node: int = 0
    """At most so many members on one node."""
    command: tuple[str, ...] | str = ()
    """What to run: words, or one line for the shell."""
    spare_for: str = ""
    """The part whose lost members these idle ones replace."""


class Job(Part, frozen=True, kw_only=True):
    """A job as its author describes it."""

    name: str = ""
    """Made up readably where it is left out."""
    roles: dict[str, Part] = {}
    """Several kinds of members instead of one: launcher and worker, ps and worker, head and worker."""
    cwd: str = ""
    """Where it runs; left out means where it was submitted."""
    env: dict[str, str] = {}
    """Variables to add to the environment it was submitted with."""
    time: Amount = ""
    """How long it may run: '2h30m'."""
    expect: Amount = ""
    """How long it will probably run, if less."""
    queue: str = "default"
    """Which queue it waits in."""
    priority: int = 0
    """Higher goes first among the jobs of its queue, and may take the room of lower ones."""
    begin: int | str = ""
    """It is not started before: a duration from submission, or a date."""
    deadline: int | str = ""
    """When it must be done: a duration from submission, or a date."""
    max_wait: Amount = ""
    """After this long it gets a promise."""
    downtime_cost: int = 0
    """Cost of waiting, in units per hour."""
    after: tuple[str, ...] = ()
    """Jobs that must end first: 'name' or 'ok:name' (well), 'any:name' (somehow), 'failed:name' (badly)."""
    array: int | str = ""
    """A loose array of tasks: 500, '0-99', '1,5,7', '0-99%10'."""
    held: bool = False
    """Wait until released."""
    on_loss: OnLoss = OnLoss.RESTART
    """A member lost: fail, shrink, repair or restart."""
    retries: int = 10
    """How often it is started again after a loss; for an array, how often each task."""
    hold_up_to: Amount = "10m"
    """How long a broken gang keeps its seats while a member is replaced."""
    on_limit: Literal["stop", "requeue", "keep"] = "stop"
    """At the end of its time: stop it, put it back into the queue, or only say so."""
    hang: Amount = ""
    """Once it has reported progress, silence of so long means that it hangs: the same as a loss."""
    grace: Amount = "30s"
    """Between the polite signal and the hard one."""
    signal: str = ""
    """A signal some time before the end: 'USR1@120s'."""
    resize: Resizing | None = None
    """none, restart or live: how its size may change while it runs; left out, the job says so over the channel."""
    preemptible: bool = True
    """It may be interrupted so that another job can start; where not, it never borrows what is another queue's."""
    parkable: bool = False
    """It saves its work when it is asked to leave, and goes on from there: so it may run in room kept for another."""
    min_run: Amount = ""
    """Once started, not interrupted for so long."""
    interruptions_per_day: int = 0
    """How often it may be interrupted in a day; 0 takes what the policy says."""
    domain_ask: dict[str, dict[str, int]] = {}
    """Countable things of each domain used: {rack = {sharp = 1}}."""
    speed: dict[str, float] = {}
    """Speed by size, one worker being 1: {1 = 1.0, 4 = 3.4}."""
    framework: str = ""
    """Which framework's variables to deliver; left out means the one that is recognised."""
    hooks: dict[str, str] = {}
    """A command or an address for each of submitted, started, resized, lost, finished, failed, cancelled, ended."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command as words for exec."""
        return words_of(self.command)


def words_of(command: tuple[str, ...] | str) -> tuple[str, ...]:
    """A command as words for exec; a line of text goes to the shell."""
    return ("/bin/sh", "-c", command) if isinstance(command, str) and command else tuple(command)
