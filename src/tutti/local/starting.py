"""What a keeper is given to begin with: the folder of a run, and the specification in it."""

import asyncio
import os
import pwd
import shutil
from pathlib import Path
from typing import TypedDict

import tutti
from tutti.api.home import Home
from tutti.engine.model import SECOND
from tutti.jobs.durations import duration
from tutti.jobs.gang import array_of, notice_of
from tutti.jobs.job import CPU, DEVICE, MEMORY, words_of
from tutti.jobs.place import Place

from .devices import Box
from .fault import writable
from .held import Change, Held, Placed, Run
from .keeper import records
from .keeper.spec import MemberSpec, Spec, to_record
from .links import NotForked
from .ports import Ports
from .settings import Settings
from .signals import number_of
from .variables import Gathering, cleaned, variables

PACKAGE = str(Path(tutti.__file__).resolve().parents[1])
HEALTH_S = 30.0
MOST_ADDRESSES = 64
SWEEPS, SWEEP_AGAIN_S = 50, 0.1
"""Members that get an address of their own; frameworks that need more than that find each other otherwise."""


class Identity(TypedDict, total=False):
    """A user as the kernel knows one."""

    uid: int
    gid: int
    groups: list[int]


class Starting:
    """Writes specifications; knows the box, the settings and the home."""

    def __init__(self, home: Home, box: Box, settings: Settings, ports: Ports) -> None:
        self.home, self.box, self.settings, self.ports = home, box, settings, ports
        self._numbers = {device.id: device for device in box.devices}
        self.shared = False

    def folder(self, nonce: str) -> Path:
        """The folder of a run."""
        return self.home.runs / nonce

    def log_folder(self, held_id: int) -> Path:
        """Where a job's output is."""
        return self.home.logs / str(held_id)

    def write(self, held: Held, run: Run, early: bool = False) -> None:
        """Everything the keeper needs, in a file that only the owner can read."""
        # In a shared folder nobody but us may make files: what is in it is given to the submitter one by one.
        mode = 0o711 if self.shared else 0o700
        writable()
        run.folder.mkdir(mode=mode)
        logs = self.log_folder(held.id)
        logs.mkdir(mode=mode, exist_ok=True)
        self._write(run.folder / records.SPEC, to_record(self.spec(held, run, logs, early)))

    def write_more(self, held: Held, run: Run, change: Change) -> Path:
        """Members that join a run which goes on."""
        joined = [self.member(held, run, run.members[rank]) for rank in change.entering]
        file = run.folder / f"more-{abs(hash(change.id))}.json"
        self._write(file, {"members": [vars(one) for one in joined]})
        return file

    def _write(self, path: Path, data: dict[str, object]) -> None:
        import json  # noqa: PLC0415 - msgspec would do, but the keeper reads it with this one

        with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(json.dumps(data))

    def spec(self, held: Held, run: Run, logs: Path, early: bool = False) -> Spec:
        """The specification of a run."""
        job = held.job
        notice = notice_of(job)
        return Spec(
            job=held.name,
            nonce=run.nonce,
            argv=launched(list(job.words), held, len(run.here())) if held.is_led else list(job.words),
            cwd=held.origin.cwd,
            env={**cleaned(held.env), **job.env},
            logs=str(logs),
            members=[self.member(held, run, one) for one in (run.here()[:1] if held.is_led else run.here())],
            locks=self._gang_locks(held, run),
            channel=str(run.folder / "c"),
            umask=held.origin.umask,
            log_bytes=self.settings.log_bytes,
            grace_s=duration(job.grace) / SECOND,
            limit_s=duration(job.time) / SECOND if job.time else 0.0,
            keeps_on=job.on_limit == "keep",
            notice=number_of(notice[0]) if notice else 0,
            notice_s=notice[1] / SECOND if notice else 0.0,
            hang_s=duration(job.hang) / SECOND if job.hang else 0.0,
            limits={name: list(pair) for name, pair in held.origin.limits.items()},
            loose=held.is_loose,
            on_word=os.getpid(),
            early=early,
            ports=self._port_locks(held, run),
            memory=sum(self._memory(held, one) for one in run.here()),
            **self._identity(held),
        )

    def _identity(self, held: Held) -> Identity:
        """As whom the members run: as whoever submitted them, with all their groups."""
        uid = held.origin.uid
        if not self.shared or uid == os.getuid():
            return {}
        try:
            who = pwd.getpwuid(uid)
        except KeyError:
            raise NotForked(f"there is no user {uid} on this machine") from None
        return {"uid": uid, "gid": who.pw_gid, "groups": os.getgrouplist(who.pw_name, who.pw_gid)}

    def _ports(self, held: Held, run: Run) -> int:
        """How many ports in a row: members of some frameworks listen on one each."""
        framework = held.framework
        if held.is_loose:
            return 0
        return min(len(run.here()), MOST_ADDRESSES) if framework == "tensorflow" else 1

    def _gang_locks(self, held: Held, run: Run) -> list[str]:
        return self._port_locks(held, run) + (self.locks_of(run.here()) if held.is_led else [])

    def _port_locks(self, held: Held, run: Run) -> list[str]:
        return [self.ports.lock(run.port + at) for at in range(self._ports(held, run))]

    def locks_of(self, members: list[Placed]) -> list[str]:
        """The lock files of what these members use."""
        return [self._numbers[device].lock for one in members for device in one.devices]

    def _memory(self, held: Held, one: Placed) -> int:
        return int(held.gang.roles[one.role].shapes[0].ask.get("memory", 0))

    def member(self, held: Held, run: Run, one: Placed) -> MemberSpec:
        """One rank."""
        part = list(held.job.roles.values())[one.role] if held.job.roles else held.job
        captured = {**held.env, **held.job.env}
        given = variables(self.place(held, run, one), self.gathering(held, run), captured)
        locks = [] if held.is_led else self.locks_of([one])
        words = list(words_of(part.command)) if held.job.roles and part.command else []
        argv = self._with_task(held, one, words)
        return MemberSpec(one.id, given, locks, self._cpus(one), argv, held.stands_alone(one.role))

    def _with_task(self, held: Held, one: Placed, words: list[str]) -> list[str]:
        """A `{task}` in the command of an array stands for the number of the task."""
        if one.task < 0:
            return words
        return [word.replace("{task}", str(one.task)) for word in words or held.job.words]

    def place(self, held: Held, run: Run, one: Placed) -> Place:
        """Where a member sits among the others."""
        here = [one] if held.is_loose else held.seated(run)
        mine = [other for other in here if other.role == one.role]
        beside = [other for other in here if other.node == one.node]
        nodes = list(dict.fromkeys(other.node for other in here))
        ask = held.gang.roles[one.role].shapes[0].ask
        return Place(
            job=held.name,
            job_id=held.id,
            user=held.origin.user,
            rank=_at(here, one),
            size=len(here),
            local_rank=_at(beside, one),
            local_size=len(beside),
            node_rank=nodes.index(one.node),
            nodes=tuple(self.box.nodes[node].name for node in nodes),
            per_node=tuple(sum(1 for other in here if other.node == node) for node in nodes),
            port=run.port,
            role=held.gang.roles[one.role].name,
            role_rank=one.role_rank if held.stands_alone(one.role) and not held.is_loose else _at(mine, one),
            addresses=self._addresses(held, here, run.port),
            gpus=ask.get(DEVICE, 0),
            devices=tuple(self._numbers[d].index for m in (here if held.is_led else [one]) for d in m.devices),
            cpus=ask.get(CPU, 0) // 1000,
            memory=ask.get(MEMORY, 0),
            elastic=any(role.max > role.min for role in held.gang.roles) and not held.is_loose,
            index=one.task if one.task >= 0 else None,
            indices=self._indices(held) if one.task >= 0 else (),
            queue=held.gang.queue,
            cwd=held.origin.cwd,
            limit_s=duration(held.job.time) // SECOND if held.job.time else 0,
            restarts=run.number - 1,
        )

    def _addresses(self, held: Held, here: list[Placed], port: int) -> tuple[tuple[str, str], ...]:
        roles = held.gang.roles
        return tuple((roles[one.role].name, f"127.0.0.1:{port + at}") for at, one in enumerate(here[:MOST_ADDRESSES]))

    def _indices(self, held: Held) -> tuple[int, ...]:
        found = array_of(held.job)
        return found.indices if found else ()

    def gathering(self, held: Held, run: Run) -> Gathering:
        """What all members of a run are told."""
        return Gathering(run.nonce, held.framework, self.box.source, str(run.folder / "c"), PACKAGE)

    def _cpus(self, one: Placed) -> list[int]:
        """Real slots are cores, and a member keeps to its own."""
        if self.box.source != "cpu" or self.settings.devices.cpu_slots:
            return []
        return [int(Path(self._numbers[device].lock).name.removeprefix("cpu-")) for device in one.devices]

    async def unhealthy(self, held: Held, run: Run) -> str:
        """Why the devices must not be used, as the check that the owner configured says; empty when they may."""
        check = self.settings.devices.health
        if not check:
            return ""
        devices = ",".join(str(self._numbers[device].index) for one in run.here() for device in one.devices)
        env = {**os.environ, "TUTTI_JOB": held.name, "CUDA_VISIBLE_DEVICES": devices, "TUTTI_DEVICES_GIVEN": devices}
        process = await asyncio.create_subprocess_shell(
            check, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=env
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), HEALTH_S)
        except TimeoutError:
            process.kill()
            return f"the health check did not answer within {HEALTH_S:.0f} s"
        return (
            "" if process.returncode == 0 else said.decode(errors="replace").strip()[:200] or "the health check failed"
        )

    async def sweep(self, run: Run) -> None:
        """The folder of a run that the journal knows to be over. Its keeper may be writing down the end meanwhile."""
        for _ in range(SWEEPS):
            await asyncio.to_thread(shutil.rmtree, run.folder, ignore_errors=True)
            if not run.folder.exists():
                return
            await asyncio.sleep(SWEEP_AGAIN_S)


def _at(members: list[Placed], one: Placed) -> int:
    """Its place among members; a rank that is not there yet comes last."""
    return next((at for at, other in enumerate(members) if other.id == one.id), len(members))


def launched(words: list[str], held: Held, size: int) -> list[str]:
    """`tutti train` with the size it was given and the bounds of the gang, unless its line says so itself."""
    at = next((at for at, word in enumerate(words[:4]) if word in {"train", "tutti.train"}), -1)
    if at < 0 or any(word.startswith(("--workers", "--nproc")) for word in words):
        return words
    role = held.gang.roles[0]
    bounds = ["--workers", str(size), "--min", str(role.min), "--max", str(max(role.max, size))]
    return [*words[: at + 1], *bounds, *words[at + 1 :]]
