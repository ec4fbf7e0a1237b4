"""One leader at a time, by a Lease; and a fence, so that a paused leader never writes once it could be replaced.

The holder counts from before its last successful renewal, by its own monotonic clock; a candidate waits until it has
itself seen the lease unchanged for the whole duration. So the clocks of the two need not agree.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from .api import Api, ApiError, Fenced
from .http import Broken

DURATION = 15.0
MARGIN = 5.0
RENEW = 2.0


class Lease:
    """A lease that we hold, or wait for."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        duration: float = DURATION,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = api
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.name = name
        self.identity = identity
        self.duration = duration
        self.margin = duration / 3
        self.clock = clock
        self.held_until = 0.0
        self.transitions = 0
        self.has_missed = False
        """Whether something was not written because somebody else might have been the leader."""
        self._seen: tuple[object, ...] = ()
        self._seen_at = 0.0

    def fence(self) -> None:
        """Raises Fenced where somebody else might be the leader by now."""
        if self.clock() >= self.held_until:
            self.has_missed = True
            raise Fenced("the lease may have been taken over")

    @property
    def is_held(self) -> bool:
        """Whether we are the leader for sure."""
        return self.clock() < self.held_until

    async def acquire(self) -> None:
        """Return when we are the leader."""
        while True:
            if await self._try():
                return
            await asyncio.sleep(min(RENEW, self.duration / 8))

    async def keep(self) -> None:
        """Renew; returns when the lease is lost, or was doubtful for so long that something was not written.

        What was to be written then is not asked for again: whoever leads next finds out what is missing.
        """
        while not self.has_missed:
            await asyncio.sleep(min(RENEW, self.duration / 8))
            if not await self._try() and not self.is_held:
                return

    async def release(self) -> None:
        """Let the next one in at once. Nothing is written afterwards."""
        if not self.is_held:
            return
        try:
            found = await self.api.get(f"{self.path}/{self.name}", dict[str, Any])
            if (found.get("spec") or {}).get("holderIdentity") == self.identity:
                found["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp()}
                await self._write("PUT", f"{self.path}/{self.name}", found)
        except (ApiError, Broken):
            pass
        finally:
            self.held_until = 0.0

    async def _try(self) -> bool:
        asked = self.clock()
        try:
            async with asyncio.timeout(self.margin):
                won = await self._write_ours()
        except (ApiError, Broken, TimeoutError):
            return False
        if won:
            self.held_until = asked + self.duration - self.margin
        return won

    async def _write_ours(self) -> bool:
        try:
            found = await self.api.get(f"{self.path}/{self.name}", dict[str, Any])
        except ApiError as no:
            if no.status != 404:
                raise
            await self._write("POST", self.path, self._fresh())
            return True
        spec = found.get("spec") or {}
        if spec.get("holderIdentity") != self.identity and not self._is_free(spec):
            return False
        if spec.get("holderIdentity") != self.identity:
            self.transitions = int(spec.get("leaseTransitions") or 0) + 1
            spec["acquireTime"] = stamp()
        found["spec"] = spec | self._terms()
        await self._write("PUT", f"{self.path}/{self.name}", found)
        return True

    def _is_free(self, spec: dict[str, Any]) -> bool:
        """Whether nobody has renewed it for its whole duration, as far as we have seen ourselves."""
        if not spec.get("holderIdentity"):
            return True
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self.clock()
        return self.clock() - self._seen_at >= float(spec.get("leaseDurationSeconds") or self.duration)

    def _fresh(self) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name},
            "spec": self._terms() | {"acquireTime": stamp()},
        }

    def _terms(self) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(int(self.duration), 1),
            "renewTime": stamp(),
            "leaseTransitions": self.transitions,
        }

    async def _write(self, method: str, path: str, body: object) -> None:
        """The one write that needs no lease: it has a version of its own."""
        answer = await self.api.http.request(method, path, msgspec.json.encode(body))
        if answer.status >= 300:
            raise ApiError(answer.status, "", answer.body[:200].decode(errors="replace"))


def stamp() -> str:
    """Now, as Kubernetes writes it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
