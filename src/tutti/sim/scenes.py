"""Small stories that ship with Tutti: a cluster, a few gangs, two or more ways to run them, and a moral."""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tutti.engine.model import (
    NEVER,
    Arrange,
    Data,
    Estimate,
    Gang,
    Listing,
    OnLoss,
    Queue,
    Resizing,
    Role,
    Shape,
    Source,
    Speed,
)
from tutti.engine.policy import Policy
from tutti.engine.read_policy import duration, read_policy
from tutti.errors import Misused, NotFound

from .cluster import ClusterFile, PoolFile, listing
from .faults import FaultEntry
from .policies import find_policies, find_policy
from .speed import power_law
from .task import PLAIN, Habits, Task

FOLDER = Path(__file__).parent / "scenes"
DEVICE = "gpu"
Time = str | int


class GangEntry(Data, frozen=True):
    """One gang, or with `count` a stream of equal ones. Times are texts like '10m', or seconds."""

    name: str
    runs: Time
    at: Time = 0
    file: str = ""
    """A job somebody has, beside the scene: its roles and sizes instead of workers and gpus."""
    which: int = 0
    """Which gang of that file; a manifest may have several."""
    workers: int = 1
    least: int = 0
    """The fewest workers it runs with; 0 means all of them."""
    most: int = 0
    """The most workers it can use."""
    gpus: int = 1
    """Devices of each worker."""
    spares: int = 0
    """Idle workers that stand by and replace lost ones."""
    limit: Time = ""
    """The run time that was declared; nothing means the true one."""
    queue: str = "default"
    user: str = ""
    priority: int = 0
    count: int = 1
    every: Time = 0
    speed: float = 0.0
    """How speed grows with size: size to this power. 0 means in proportion."""
    within: str = ""
    parkable: bool = False
    preemptible: bool = True
    on_loss: OnLoss = OnLoss.RESTART
    start_up: Time = 0
    restart: Time = 0
    save_every: Time = 0
    save_cost: Time = 0
    resize: Time = 0
    leave: Time = 0


class QueueEntry(Data, frozen=True):
    """A queue of the scene."""

    name: str
    weight: int = 1
    guarantee: int = 0
    """Devices it is sure of."""
    slice: Time = 0


class Variant(Data, frozen=True):
    """One way to run the scene: a policy, and how members are laid out."""

    policy: str
    """A name, or the text of a policy file."""
    says: str = ""
    arrange: Arrange = Arrange.PACK


class Scene(Data, frozen=True):
    """A scene file."""

    title: str
    story: str
    moral: str
    cluster: PoolFile
    variants: dict[str, Variant]
    gang: tuple[GangEntry, ...]
    queue: tuple[QueueEntry, ...] = ()
    fault: tuple[FaultEntry, ...] = ()
    until: Time = ""
    """When to stop looking; nothing means when all is over."""
    name: str = ""

    @property
    def horizon(self) -> int:
        """When to stop looking, in microseconds."""
        return duration(self.until) if self.until else NEVER


def under(scene: Scene, policies: Iterable[str]) -> Scene:
    """The same scene under other policies; its moral is about its own variants, and so it is left out."""
    words = list(policies)
    found = zip(find_policies(words), words, strict=True)
    variants = {policy.name: Variant(word, "as you asked") for policy, word in found}
    return msgspec.structs.replace(scene, variants=variants, moral="")


def scene_names() -> list[str]:
    """The scenes that ship."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find_scene(name: str) -> Scene:
    """A scene that ships, by its name."""
    path = FOLDER / f"{name}.toml"
    if not path.exists():
        raise NotFound(f"there is no scene {name!r}", hint=f"one of {', '.join(scene_names())}")
    return read_scene(path)


def read_scene(path: Path) -> Scene:
    """A scene from a file; what is wrong with it is said with its place."""
    try:
        scene = _beside(msgspec.convert(tomllib.loads(path.read_text()), Scene), path.parent)
        tuple(tasks_of(scene))
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as problem:
        raise Misused(f"{path.name} is not a scene: {problem}", hint="docs/explanation/scenes.md shows one") from None
    return msgspec.structs.replace(scene, name=scene.name or path.stem)


def _beside(scene: Scene, folder: Path) -> Scene:
    """The files that a scene names stand beside it."""
    entries = (
        msgspec.structs.replace(entry, file=str(folder / entry.file)) if entry.file else entry for entry in scene.gang
    )
    return msgspec.structs.replace(scene, gang=tuple(entries))


def looks_like(first: list[str]) -> bool:
    """Whether these are the first lines of a scene file."""
    return any(line.startswith("title") for line in first) and any(line.startswith("story") for line in first)


def policy_of(variant: Variant, name: str) -> Policy:
    """The policy of a variant, under the variant's name."""
    text = variant.policy
    policy = read_policy(text, name) if "\n" in text or "=" in text else find_policy(text)
    return msgspec.structs.replace(policy, name=policy.name if policy.name == "pod-fifo" else name)


def cluster_of(scene: Scene) -> Listing:
    """The cluster of a scene, with its queues."""
    queues = [
        Queue(entry.name, guarantee={"gpu": entry.guarantee}, weight=entry.weight, slice=duration(entry.slice))
        for entry in scene.queue
    ]
    return listing(ClusterFile({"default": scene.cluster}, tuple(queues or [Queue("default")])))


class SceneTasks:
    """The gangs of a scene as a workload."""

    def __init__(self, scene: Scene, arrange: Arrange = Arrange.PACK) -> None:
        self._tasks = sorted(tasks_of(scene, arrange), key=lambda task: task.gang.submitted)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        """Each of them."""
        return iter(self._tasks)


def tasks_of(scene: Scene, arrange: Arrange = Arrange.PACK) -> Iterator[Task]:
    """Every gang of the scene, streams spelled out."""
    for entry in scene.gang:
        digits = len(str(entry.count - 1))
        for number in range(entry.count):
            name = entry.name if entry.count == 1 else f"{entry.name}-{number:0{digits}d}"
            yield _task(entry, name, duration(entry.at) + number * duration(entry.every), arrange)


def task_of(entry: GangEntry) -> Task:
    """The one gang of an entry."""
    return _task(entry, entry.name, duration(entry.at), Arrange.PACK)


def _task(entry: GangEntry, name: str, at: int, arrange: Arrange) -> Task:
    if entry.file:
        return _brought(entry, name, at)
    runs = duration(entry.runs)
    most = max(entry.most, entry.workers)
    least = entry.least or entry.workers
    elastic = least < most
    role = Role(
        min=least,
        want=entry.workers,
        max=most,
        shapes=(Shape({"gpu": entry.gpus}),),
        within=entry.within,
        arrange=arrange,
    )
    gang = Gang(
        name=name,
        roles=(role, *_spares(entry)),
        queue=entry.queue,
        user=entry.user,
        priority=entry.priority,
        submitted=at,
        estimate=Estimate(limit=duration(entry.limit) if entry.limit else runs, source=Source.DECLARED),
        preemptible=entry.preemptible,
        parkable=entry.parkable,
        resizing=Resizing.LIVE if elastic else Resizing.NONE,
        speed=power_law(entry.speed, most) if entry.speed else Speed(),
        on_loss=entry.on_loss,
    )
    return Task(gang, runs, _habits(entry))


def _brought(entry: GangEntry, name: str, at: int) -> Task:
    """A job file, a batch script or a manifest, as it would be scheduled for real."""
    from tutti.jobs.counted import counted  # noqa: PLC0415 - most scenes bring nothing
    from tutti.jobs.understand import understand  # noqa: PLC0415

    runs = duration(entry.runs)
    found = understand([entry.file])
    every = (found, *found.others)
    if not 0 <= entry.which < len(every):
        raise ValueError(f"{entry.file} has {len(every)} gangs, and there is no number {entry.which}")
    gang = counted(every[entry.which].gang, (DEVICE,))
    estimate = Estimate(limit=duration(entry.limit) if entry.limit else runs, source=Source.DECLARED)
    queue = entry.queue if entry.queue != "default" else gang.queue
    changes = {"name": name, "submitted": at, "estimate": estimate, "queue": queue}
    return Task(msgspec.structs.replace(gang, **changes), runs, _habits(entry))


def _spares(entry: GangEntry) -> tuple[Role, ...]:
    if not entry.spares:
        return ()
    return (Role("spare", min=entry.spares, shapes=(Shape({"gpu": entry.gpus}),), spare_for="worker"),)


def _habits(entry: GangEntry) -> Habits:
    times = [duration(getattr(entry, field)) for field in Habits.__struct_fields__]
    return Habits(*times) if any(times) else PLAIN
