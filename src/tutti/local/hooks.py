"""Commands and web addresses that are told when something happens to a job."""

import asyncio
import os
import pwd
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from .ends import Verdict
from .held import Held
from .settings import Settings

LIMIT_S = 30.0


class Hooks:
    """Runs what the job, its queue and the configuration name for a moment. A hook that fails harms nobody."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._tasks: set[asyncio.Task[None]] = set()

    def happened(self, held: Held, moment: str, found: Verdict | None = None) -> None:
        """Something happened to a job; how it ended, where that is what happened."""
        queue = self.settings.queues.get(held.gang.queue)
        sources: list[Mapping[str, str]] = [held.job.hooks, queue.hooks if queue else {}, self.settings.hooks]
        for target in dict.fromkeys(hooks[moment] for hooks in sources if moment in hooks):
            task = asyncio.create_task(_told(target, held, moment, found))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _told(target: str, held: Held, moment: str, found: Verdict | None) -> None:
    about = {
        "TUTTI_JOB": held.name,
        "TUTTI_EVENT": moment,
        "TUTTI_QUEUE": held.gang.queue,
        "TUTTI_USER": held.gang.user,
        "TUTTI_JOB_ID": str(held.id),
    }
    if found is not None:
        about |= {"TUTTI_STATE": found.state.value, "TUTTI_CODE": str(found.code), "TUTTI_WHY": found.why}
    try:
        if target.startswith(("http://", "https://")):
            await asyncio.wait_for(asyncio.to_thread(_posted, target, about), LIMIT_S)
        else:
            await _run(target, held, about)
    except (OSError, ValueError, TimeoutError) as problem:
        sys.stderr.write(f"hook {target!r} for {held.name} failed: {problem}\n")


def _as(uid: int) -> dict[str, Any]:
    """The keywords that start a process as somebody; none where we are that somebody, or may not."""
    if os.getuid() != 0 or uid <= 0:
        return {}
    who = pwd.getpwuid(uid)
    return {"user": uid, "group": who.pw_gid, "extra_groups": os.getgrouplist(who.pw_name, who.pw_gid)}


async def _run(command: str, held: Held, about: dict[str, str]) -> None:
    process = await asyncio.create_subprocess_shell(
        command,
        # A shared service must not run what a user wrote as anybody but that user.
        **_as(held.origin.uid),
        env={**os.environ, **about},
        cwd=held.origin.cwd,
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await asyncio.wait_for(process.wait(), LIMIT_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        raise


def _posted(address: str, about: dict[str, str]) -> None:
    body = msgspec.json.encode(
        {"schema": "tutti/v1", **{key.removeprefix("TUTTI_").lower(): v for key, v in about.items()}}
    )
    request = urllib.request.Request(address, data=body, headers={"Content-Type": "application/json"})  # noqa: S310 - only http(s) comes here
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310
        pass
