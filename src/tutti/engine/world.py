"""All that is known now. One writer, the driver; one way in, `apply(event)`; readers get a numbered view."""

import weakref

from . import events as ev
from . import gang_events, node_events
from .books import HALF_LIFE, HANDLERS, MOST_TOUCHES, Books, Touched
from .model import Listing, Usage
from .seats import renumbered
from .view import View

__all__ = ["Touched", "World", "gang_events", "node_events"]


class World(Books):
    """The books with their one door."""

    def view(self) -> View:
        """The world as it is now. Later events do not show in it; with none in between, it is the same view.

        It may be given to whoever wants it, in whichever thread."""
        made = self.glance()
        made.look()
        return made

    def glance(self) -> View:
        """The same for whoever lets go of it before anything happens: most of it is worked out when it is asked for."""
        shown = self._last_view() if self._last_view is not None else None
        if shown is not None:
            return shown
        made = View(self)
        self._last_view = weakref.ref(made)
        return made

    def apply(self, event: ev.Event) -> Touched:
        """Take in what happened. An event that does not fit what is known changes nothing and says so."""
        if self._last_view is not None:
            self.let_go()
        self.version += 1
        self.at = max(self.at, event.at)
        if len(self.touches) > MOST_TOUCHES:
            self.touches = []
        return HANDLERS[type(event)](self, event)

    @classmethod
    def load(cls, listing: Listing, half_life: int = HALF_LIFE) -> "World":
        """The world a backend lists; equal to the one reached through events."""
        world = cls(half_life)
        for pool in listing.pools:
            world.apply(ev.PoolSet(listing.at, pool))
        for node in listing.nodes:
            world.apply(ev.NodeSeen(listing.at, node))
        for domain in listing.domains:
            world.apply(ev.DomainSet(listing.at, domain))
        for queue in listing.queues:
            world.apply(ev.QueueSet(listing.at, queue))
        for window in listing.windows:
            world.apply(ev.WindowSet(listing.at, window))
        for job in listing.jobs:
            gang_events.admit(world, job)
        for name, usage in listing.usage.items():
            use = world.use_of(name)
            use.at = usage.at
            for resource, amount in usage.amounts.items():
                use.past[world.resource(resource)] = amount
        world.at = listing.at
        return world

    def listing(self) -> Listing:
        """The full truth in a canonical order: nodes along the topology, the rest by name."""
        order = self.line()[1].tolist()
        number = {old: new for new, old in enumerate(order)}
        names = list(self.resources)
        return Listing(
            at=self.at,
            pools=tuple(pool for _, pool in sorted(self.topology.pools.items())),
            nodes=tuple(node for i in order if (node := self.nodes[i])),
            domains=tuple(sorted(self.domains.values(), key=lambda d: (d.pool, d.path))),
            queues=tuple(queue for _, queue in sorted(self.queues.items())),
            windows=tuple(window for _, window in sorted(self.windows.items())),
            jobs=tuple(renumbered(job, number) for job in sorted(filter(None, self.jobs), key=lambda j: j.gang.name)),
            usage={
                name: Usage(
                    use.at,
                    {names[r]: past for r, past in sorted(enumerate(use.past), key=lambda p: names[p[0]]) if past},
                )
                for name, use in sorted(self.use.items())
                if any(use.past) or any(use.total)
            },
        )
