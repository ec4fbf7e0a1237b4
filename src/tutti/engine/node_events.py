"""How nodes, domains, queues and windows are entered in the books."""

import msgspec

from . import events as ev
from .books import Books, Touched, on
from .classes import Load, Trait
from .estimate import expected_ends
from .gang_events import drop
from .model import NEVER, Node, NodeState


@on(ev.NodeSeen)
def _node_seen(books: Books, event: ev.NodeSeen) -> Touched:
    node = event.node
    for resource in (*node.capacity, *node.foreign):
        books.resource(resource)
    books.measure(node.capacity, on_node=True)
    books.measure(node.foreign, on_node=True)
    at = books.node_index.get(node.name)
    if at is None:
        books.own_nodes()
        at = books.node_index[node.name] = len(books.nodes)
        books.nodes.append(None)
        books.forget_line()
        books.versions.append(0)
    _set_node(books, at, node)
    return Touched(books.version, freed=True, nodes=True)


def _set_node(books: Books, at: int, node: Node) -> None:
    books.own_nodes()
    old = books.nodes[at]
    if old is None or (old.pool, old.place) != (node.pool, node.place):
        books.forget_line()
    books.count_node(old, -1)
    books.count_node(node, 1)
    books.ground += 1
    load: Load = books.classes.load(at) if old is not None else ()
    books.nodes[at] = node
    books.versions[at] = books.version
    if node.state is NodeState.DRAINING:
        books.draining[at] = node.drain_by
    else:
        books.draining.pop(at, None)
    trait = Trait(books.topology.kind(node), node)
    books.classes.place(at, trait, load, _free(books, node, load))


def _free(books: Books, node: Node, load: Load) -> list[int]:
    free = [node.capacity.get(name, 0) - node.foreign.get(name, 0) for name in books.resources]
    for slot, role, members in load:
        job = books.job_in(slot)
        ask = job.gang.roles[role].shapes[job.life.seats[role].shape].ask
        for name, amount in ask.items():
            if name in books.resources:
                free[books.resources[name]] -= members * amount
    return free


@on(ev.NodeTurned)
def _node_turned(books: Books, event: ev.NodeTurned) -> Touched:
    at = books.node_index.get(event.node)
    node = books.nodes[at] if at is not None else None
    if at is None or node is None:
        return books.nothing(f"no node named {event.node!r}")
    faults = (*node.faults[-7:], event.at) if event.fault else node.faults
    drain_by = event.drain_by if event.state is NodeState.DRAINING else NEVER
    if event.state is NodeState.LOST:
        _lose_members(books, at, event.at)
    _set_node(books, at, msgspec.structs.replace(node, state=event.state, drain_by=drain_by, faults=faults))
    return Touched(books.version, freed=True, nodes=True)


def _lose_members(books: Books, at: int, when: int) -> None:
    for slot, role, members in books.classes.load(at):
        drop(books, slot, role, (at,), (members,), when, lost=True)


@on(ev.NodeGone)
def _node_gone(books: Books, event: ev.NodeGone) -> Touched:
    at = books.node_index.get(event.node)
    if at is None:
        return books.nothing(f"no node named {event.node!r}")
    books.own_nodes()
    _lose_members(books, at, event.at)
    books.count_node(books.nodes[at], -1)
    books.ground += 1
    books.classes.remove(at)
    books.nodes[at] = None
    books.versions[at] = books.version
    books.draining.pop(at, None)
    del books.node_index[event.node]
    books.forget_line()
    return Touched(books.version, freed=True, nodes=True)


@on(ev.PoolSet)
def _pool_set(books: Books, event: ev.PoolSet) -> Touched:
    books.topology.declare(event.pool)
    for at, node in enumerate(books.nodes):
        if node is not None and node.pool == event.pool.name:
            _set_node(books, at, node)
    return Touched(books.version, nodes=True)


@on(ev.DomainSet)
def _domain_set(books: Books, event: ev.DomainSet) -> Touched:
    at = books.topology.find(event.domain.pool, event.domain.path)
    old = books.domains[at].capacity if at in books.domains else {}
    used = {name: old.get(name, 0) - left for name, left in books.domain_free.get(at, {}).items()}
    books.domains[at] = event.domain
    books.ground += 1
    books.domain_free[at] = {name: most - used.get(name, 0) for name, most in event.domain.capacity.items()}
    return Touched(books.version, freed=True, nodes=True)


@on(ev.QueueSet)
def _queue_set(books: Books, event: ev.QueueSet) -> Touched:
    queue = event.queue
    bounded = (resource for bound in queue.bounds for resource in bound.limit)
    for resource in (*queue.guarantee, *queue.limit, *queue.user_limit, *bounded):
        books.resource(resource)
    books.queues[queue.name] = queue
    books.rules += 1
    books.use_of(queue.name)
    _expect_anew(books, queue.name)
    return Touched(books.version, freed=True)


def _expect_anew(books: Books, queue: str) -> None:
    """The queue's estimate for gangs without one may be another."""
    for slot in books.seated:
        job = books.job_in(slot)
        if job.gang.queue == queue:
            books.ends[slot] = expected_ends(job, books.queues.get(queue))


@on(ev.QueueGone)
def _queue_gone(books: Books, event: ev.QueueGone) -> Touched:
    if books.queues.pop(event.queue, None) is None:
        return books.nothing(f"no queue named {event.queue!r}")
    books.rules += 1
    _expect_anew(books, event.queue)
    return Touched(books.version, freed=True)


@on(ev.WindowSet)
def _window_set(books: Books, event: ev.WindowSet) -> Touched:
    books.windows[event.window.name] = event.window
    return Touched(books.version, freed=True)


@on(ev.WindowGone)
def _window_gone(books: Books, event: ev.WindowGone) -> Touched:
    if books.windows.pop(event.window, None) is None:
        return books.nothing(f"no window named {event.window!r}")
    return Touched(books.version, freed=True)
