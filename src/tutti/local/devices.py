"""What there is to give away on this machine: GPUs by NVML, otherwise processor slots; or made-up devices."""

import os
import pwd
import re
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tutti.engine.model import Node, NodeState, Pool
from tutti.errors import Misused
from tutti.jobs.job import CPU, DEVICE, MEMORY

from .keeper.locks import is_held

MADE_UP = re.compile(r"(?:(?:([0-9]{1,4})x)?([0-9]{1,4})x)?([0-9]{1,5})(?::([\w.-]{1,40}))?")
MOST = 10_000
MADE_UP_CORES = 16
"""Cores that a made-up device comes with, so that nobody has to think of them."""


class Device(msgspec.Struct, frozen=True):
    """One device: a cell of the map."""

    id: str
    index: int
    """Its number on its node: what the job sees."""
    node: int
    kind: str
    lock: str
    """The file that is locked while somebody uses it."""
    uuid: str = ""


class Box(msgspec.Struct, frozen=True):
    """All of them, and the nodes they are on."""

    source: str
    """nvml, cpu or made-up."""
    devices: tuple[Device, ...]
    nodes: tuple[Node, ...]
    pool: Pool
    spec: str = ""
    notes: tuple[str, ...] = ()

    def on(self, node: int) -> list[Device]:
        """The devices of a node, in order."""
        return [device for device in self.devices if device.node == node]


def look(spec: str, slots: int, exclude: tuple[int, ...], locks: Path) -> Box:
    """The devices of this machine, or the made-up ones that were asked for."""
    if spec:
        return made_up(spec, locks)
    return by_nvml(exclude) or by_cpus(slots, exclude)


def shared_locks() -> Path:
    """Where all users of this machine lock real devices."""
    chosen = os.environ.get("TUTTI_LOCKS")
    if chosen:
        folder = Path(chosen)
    else:
        run = Path("/run/lock")
        folder = (run if os.access(run, os.W_OK) else Path(tempfile.gettempdir())) / "tutti"
    before = os.umask(0)
    try:
        folder.mkdir(mode=0o1777, parents=True, exist_ok=True)
    finally:
        os.umask(before)
    return folder


# -- made-up ones


def made_up(spec: str, locks: Path) -> Box:
    """Devices that exist only in name: '8', '4x8', '2x4x8:h100'."""
    racks, nodes, each, kind = read_spec(spec)
    found: list[Device] = []
    rows: list[Node] = []
    for number in range(racks * nodes):
        name = f"n{number}" if racks * nodes > 1 else socket.gethostname()
        place = (f"r{number // nodes}",)
        tags = (f"kind={kind}",) if kind else ()
        capacity = {DEVICE: each, CPU: each * MADE_UP_CORES * 1000, MEMORY: each * (64 << 30)}
        rows.append(Node(name, capacity, place=place, tags=tags))
        found += [
            Device(f"{name}:{at}", at, number, kind or "made-up", str(locks / f"{name}-{at}")) for at in range(each)
        ]
    return Box("made-up", tuple(found), tuple(rows), Pool("default", ("rack",)), spec)


def read_spec(spec: str) -> tuple[int, int, int, str]:
    """Racks, nodes in each, devices on each, and what they are called."""
    found = MADE_UP.fullmatch(spec.strip())
    racks, nodes, each = (int(found[at] or 1) for at in (1, 2, 3)) if found else (0, 0, 0)
    if not found or not 0 < racks * nodes * each <= MOST:
        raise Misused(f"{spec!r} is no number of devices", hint=f"--devices 8, 4x8 or 2x4x8:h100; at most {MOST:,}")
    return racks, nodes, each, found[4] or ""


# -- real ones


def by_nvml(exclude: tuple[int, ...], nvml: Any = None) -> Box | None:
    """The GPUs that NVIDIA's library tells of; None where there is no such library or no GPU."""
    nvml = nvml or _nvml()
    if nvml is None:
        return None
    locks = shared_locks()
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        if index in exclude:
            continue
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, kind = _text(nvml.nvmlDeviceGetUUID(handle)), _text(nvml.nvmlDeviceGetName(handle))
        found.append(Device(f"gpu{index}", index, 0, kind, str(locks / uuid), uuid))
    if not found:
        return None
    kind = re.sub(r"\W+", "-", found[0].kind.lower())
    return Box("nvml", tuple(found), (_this_node(len(found), (f"kind={kind}",)),), Pool("default"))


def _nvml() -> Any:
    try:
        import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no library, no driver, no permission: all mean that there are no GPUs to give
        return None
    return pynvml


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def foreigners(box: Box, ours: Callable[[int], bool], nvml: Any = None) -> dict[str, str]:
    """Real GPUs on which somebody else's processes run, with the name of their owner."""
    nvml = nvml or (_nvml() if box.source == "nvml" else None)
    found: dict[str, str] = {}
    for device in box.devices if nvml is not None else ():
        with suppress(Exception):
            handle = nvml.nvmlDeviceGetHandleByIndex(device.index)
            strangers = [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
            strangers = [pid for pid in strangers if not ours(pid)]
            if strangers:
                found[device.id] = f"used by {owner_of(strangers[0])} (process {strangers[0]})"
    return found


def locked_elsewhere(box: Box, ours: Mapping[str, object]) -> dict[str, str]:
    """Real devices that another scheduler of this machine holds."""
    if box.source == "made-up":
        return {}
    return {
        device.id: "held by another scheduler"
        for device in box.devices
        if device.id not in ours and is_held(device.lock)
    }


def owner_of(pid: int) -> str:
    """The user of a process."""
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return "somebody"
    return user_name(uid)


def user_name(uid: int) -> str:
    """What a user is called."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def by_cpus(slots: int, exclude: tuple[int, ...]) -> Box:
    """One slot for each core that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    if slots:
        cores = (cores * (slots // max(len(cores), 1) + 1))[:slots]
    locks = shared_locks()
    numbered = [(at, core) for at, core in enumerate(cores) if at not in exclude]
    found = [
        Device(f"cpu{at}", at, 0, "cpu", str(locks / (f"cpu-{core}" if not slots else f"slot-{at}")))
        for at, core in numbered
    ]
    notes = ("no GPU was found, so processor cores are given away as slots",)
    return Box("cpu", tuple(found), (_this_node(len(found), ()),), Pool("default"), notes=notes)


def _this_node(devices: int, tags: tuple[str, ...]) -> Node:
    capacity = {DEVICE: devices, CPU: len(os.sched_getaffinity(0)) * 1000, MEMORY: total_memory()}
    return Node(socket.gethostname(), capacity, tags=tags, state=NodeState.READY)


def total_memory() -> int:
    """Bytes of main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
