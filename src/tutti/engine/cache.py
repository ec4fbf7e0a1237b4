"""What may be remembered between two decisions. It only ever saves time: with an empty one the plan is the same."""

from collections.abc import Callable
from typing import TypeVar, cast

from .model import Gang, Job
from .place import Need
from .sizes import Sizes, job_sizes
from .view import View

T = TypeVar("T")


class Cache:
    """Facts about gangs and about the empty cluster that hold until a gang or a node changes."""

    def __init__(self) -> None:
        self._needs: dict[str, tuple[Gang, int, tuple[tuple[Need, ...], ...]]] = {}
        self._once: dict[tuple[str, str], tuple[Gang, int, object]] = {}
        self._sizes: dict[tuple[str, int, int], tuple[Job, Sizes]] = {}
        self._ground = -1
        self._facts: dict[object, object] = {}

    def needs(self, view: View, job: Job) -> tuple[tuple[Need, ...], ...]:
        """The gang's roles as the profile understands them: for each role, one entry for each shape."""
        gang = job.gang
        known = self._needs.get(gang.name)
        if known is None or known[0] is not gang or known[1] != view.ground:
            roles = tuple(tuple(Need(view, gang, role, s) for s in range(len(role.shapes))) for role in gang.roles)
            known = self._needs[gang.name] = (gang, view.ground, roles)
        return known[2]

    def sizes(self, job: Job, role: int, shape: int) -> Sizes:
        """The sizes a role of the gang may have now."""
        known = self._sizes.get((job.gang.name, role, shape))
        if known is None or known[0] is not job:
            known = self._sizes[job.gang.name, role, shape] = (job, job_sizes(job, role, shape))
        return known[1]

    def once(self, view: View, job: Job, about: str, find: Callable[[], T]) -> T:
        """A fact about a gang, found out again only when the gang or the nodes were changed."""
        known = self._once.get((about, job.gang.name))
        if known is None or known[0] is not job.gang or known[1] != view.ground:
            known = self._once[about, job.gang.name] = (job.gang, view.ground, find())
        return cast("T", known[2])

    def facts(self, view: View) -> dict[object, object]:
        """Findings about the cluster with nobody on it; emptied when nodes change."""
        if self._ground != view.ground:
            self._ground = view.ground
            self._facts = {}
        return self._facts

    def forget(self, view: View) -> None:
        """Drop what belongs to gangs that are gone, now and then."""
        if len(self._needs) > 2 * (len(view.queued) + len(view.seated)) + 1000:
            here = {job.gang.name for job in view.jobs if job is not None}
            self._sizes = {key: known for key, known in self._sizes.items() if key[0] in here}
            self._once = {key: known for key, known in self._once.items() if key[1] in here}
            self._needs = {name: known for name, known in self._needs.items() if name in here}
