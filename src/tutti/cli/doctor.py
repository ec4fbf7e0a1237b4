"""`tutti doctor`: what could be wrong with this installation, looked at one by one."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import tutti
from tutti.api.client import Client
from tutti.api.home import SHARED, home
from tutti.cli.output import output_option, show

WITHOUT = "not available here: trees are ended by looking for their processes instead"
Finding = tuple[str, str, str]
"""ok, note or bad; what was looked at; what was found."""


@click.command()
@output_option
def doctor(output: str) -> None:
    """Look for what is wrong with this installation."""
    found = list(findings())
    answer = {
        "schema": "tutti/v1",
        "findings": [dict(zip(("level", "what", "said"), one, strict=True)) for one in found],
    }
    show(answer, output, lambda: [f"{level:<5} {what}: {said}" for level, what, said in found])
    if any(level == "bad" for level, _, _ in found):
        sys.exit(1)


def findings() -> Iterator[Finding]:
    """Everything worth a look."""
    yield "ok", "python", f"{sys.version.split()[0]} at {sys.executable}"
    yield _home()
    yield from _daemon()
    yield from _kernel()
    yield _devices()


def _home() -> Finding:
    where = home()
    folder = where.path if where.path.exists() else where.path.parent
    while not folder.exists():
        folder = folder.parent
    if folder.stat().st_uid not in {os.getuid(), 0} or (where.path == SHARED and os.getuid()):
        return "note", "home", f"{where.path}, of the service that all users share"
    if not os.access(folder, os.W_OK):
        return "bad", "home", f"{folder} cannot be written; set TUTTI_HOME"
    free = os.statvfs(folder)
    left = free.f_bavail * free.f_frsize >> 20
    return ("ok" if left > 500 else "bad"), "home", f"{where.path}, {left:,} MiB free"


def _daemon() -> Iterator[Finding]:
    client = Client()
    if not client.is_up():
        how = "systemctl start tutti" if home().is_shared else "`tutti run` starts it"
        yield "note", "daemon", f"not running; {how}"
        return
    status = client.get("/v1/status")
    same = status["version"] == tutti.__version__
    yield (
        ("ok" if same else "note"),
        "daemon",
        f"version {status['version']}, process {status['pid']}"
        + ("" if same else f"; this is {tutti.__version__}: `tutti stop`, and the next command starts the new one"),
    )
    for trouble in status["trouble"]:
        yield "bad", "daemon", trouble


def _kernel() -> Iterator[Finding]:
    yield from _groups_of_service() if home().is_shared and os.getuid() else _groups()
    yield ("ok" if hasattr(os, "pidfd_open") else "bad"), "pidfd", "processes are never mistaken for one another"


def _groups_of_service() -> Iterator[Finding]:
    """What the service has counts, not what this user has."""
    from tutti.local.keeper.cgroup import DAEMON  # noqa: PLC0415

    client = Client()
    if client.is_up():
        groups = Path(f"/proc/{client.get('/v1/status')['pid']}/cgroup").read_text()
        has = any(line.startswith("0::") and line.endswith(DAEMON) for line in groups.splitlines())
        yield ("ok", "cgroup v2", "every gang of the service has a group") if has else ("note", "cgroup v2", WITHOUT)


def _groups() -> Iterator[Finding]:
    from tutti.local.keeper import cgroup  # noqa: PLC0415

    group = cgroup.make()
    if group is None:
        yield "note", "cgroup v2", WITHOUT
    else:
        counts = group.can_limit_memory()
        group.remove()
        yield "ok", "cgroup v2", "members are ended whole, whatever they fork"
        yield (
            ("ok", "memory limits", "the kernel holds a gang to the memory it asked for")
            if counts
            else ("note", "memory limits", "not enforced: the memory controller is not given to this group")
        )


def _devices() -> Finding:
    client = Client()
    if client.is_up() and (status := client.get("/v1/status"))["source"] == "made-up":
        return "note", "devices", f"{status['devices']} made-up ones, to try things out"
    try:
        import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except Exception as problem:  # noqa: BLE001 - any of many reasons, all of which mean the same
        return "note", "GPUs", f"none found ({type(problem).__name__}); processor cores are given away as slots"
    return "ok", "GPUs", f"{count} by NVML"
