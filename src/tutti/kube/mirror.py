"""The cluster as we know it, and what of its changes the engine has to hear of.

Objects come in one by one from the watches; nothing is told before `take`, which says in one batch what has become of
every node and gang that changed. So a gang of five hundred pods is translated once, not five hundred times.
"""

import time
from collections.abc import Callable, Mapping

import msgspec

from tutti.engine import events as ev
from tutti.engine.model import Gang, Job, Life, Listing, NodeState, Seats, State
from tutti.engine.world import World
from tutti.jobs.kube.declared import Declared
from tutti.jobs.kube.gang import NO_QUEUE, Facts, Kin, Translated, expected, translate
from tutti.jobs.kube.gang import Ground as Known
from tutti.jobs.kube.read import NO_ASIDE

from . import late
from .gangs import Fill, GangSeen, Seat, Seen, Where
from .intake import Intake, moment
from .losses import Counts, drops, is_loose, resized, short
from .placement import Written

FILLING = 0.1
"""Seconds after the latest pod of a gang that is not complete in which the next one is awaited."""


class Mirror(Intake):
    """Nodes, pods and groups, and which of them the engine has not heard of yet."""

    # -- what the engine has to hear

    def refillable(self) -> list[str]:
        """Gangs with a free seat and a pod that could take it."""
        found, self._changed_gangs = self._changed_gangs, {}
        return [key for key in found if key in self.gangs and self.gangs[key].is_seated and not self.gangs[key].leaving]

    def take(self, world: World, now: int) -> list[ev.Event]:
        """Everything the engine has not heard of yet."""
        self.now = now
        events = [*self.news, *self._of_ground(now)]
        self.news, self._kept = [], None
        fresh = [e.node.name for e in events if isinstance(e, ev.NodeSeen) and e.node.name not in world.node_index]
        numbers: Mapping[str, int] = world.node_index
        if fresh:
            numbers = dict(numbers) | {name: len(world.nodes) + at for at, name in enumerate(dict.fromkeys(fresh))}
        dirty, self.dirty_gangs = self.dirty_gangs, {}
        moved, self.moved_gangs = self.moved_gangs, {}
        self._changed_gangs |= dirty | moved
        for key in self._filled(dirty):
            events += self._of_gang(key, numbers, now)
        for key in moved:
            if key not in dirty:
                events += self._of_moved(key, numbers, now)
        # Who has lost its last seat meanwhile is looked at as one that waits, and not only when something else happens.
        emptied, self.dirty_gangs = self.dirty_gangs, {}
        for key in emptied:
            events += self._of_gang(key, numbers, now)
        return events

    def _of_moved(self, key: str, numbers: Mapping[str, int], now: int) -> list[ev.Event]:
        """Its members are the same as before; only where they are has changed."""
        gang = self.gangs.get(key)
        if gang is None or not gang.is_entered or not gang.is_seated or gang.leaving:
            return self._of_gang(key, numbers, now)
        return self._of_seats(gang, numbers, now)

    def _filled(self, dirty: Mapping[str, None]) -> list[str]:
        """Those that are to be looked at now; members of the others are still coming."""
        since = time.monotonic() - FILLING
        found = []
        for key in {**self.filling, **dirty}:
            gang = self.gangs.get(key)
            if gang is not None and gang.joined > since and gang.is_short and not gang.is_seated:
                self.filling[key] = None
            else:
                self.filling.pop(key, None)
                found.append(key)
        return found

    def _of_ground(self, now: int) -> list[ev.Event]:
        events: list[ev.Event] = []
        if self._resurvey:
            self._survey()
        if self.taints.changed:
            self.taints.changed = False
            self.dirty_gangs |= dict.fromkeys(self.gangs)
        if self._offers_change:
            self._offers_change = False
            self._places.clear()
            self.dirty_gangs |= {g.key: None for g in self.gangs.values() if len(g.kin) > 1 and not g.is_seated}
        pool = self.terrain.pool()
        if pool != self._told_pool:
            self._told_pool = pool
            events.append(ev.PoolSet(now, pool))
        dirty, self.dirty_nodes = self.dirty_nodes, {}
        fresh = {name for name in dirty if self.grounds[name].node is None and self.grounds[name].foreign}
        for name in dirty:
            events += self._of_node(name, now)
        if fresh:
            # Pods that were bound to a node before it was heard of may sit now.
            self.dirty_gangs |= {pod.gang: None for pod in self.pods.values() if pod.gang and pod.node in fresh}
        return events + self._of_queues(now)

    def _survey(self) -> None:
        self._resurvey = False
        labels = {name: ground.labels for name, ground in self.grounds.items() if ground.capacity}
        changed = self.terrain.survey(labels)
        before, self._domains = self._domains, self.terrain.domains(labels)
        if changed:
            self.dirty_nodes |= dict.fromkeys(self.grounds)
            self.dirty_gangs |= dict.fromkeys(self.gangs)
        elif before != self._domains:
            # How many of them may share a domain depends on how many there are.
            spread = (g.key for g in self.gangs.values() if any(kin.wants.spread for kin in g.kin))
            self.dirty_gangs |= dict.fromkeys(spread)

    def _of_node(self, name: str, now: int) -> list[ev.Event]:
        ground = self.grounds[name]
        if not ground.capacity and ground.ready is NodeState.LOST:
            if not ground.foreign or not any(ground.foreign.values()):
                del self.grounds[name]
            if ground.node is None:
                return []
            ground.node = None
            self._lose_node(name)
            return [ev.NodeGone(now, name)]
        volumes = self.volumes
        told = ground.told(self.terrain, self.rules.values(), volumes.attachable(name), volumes.idle(name))
        if told == ground.node:
            return []
        if told.state is not NodeState.READY:
            self.moved_gangs |= {
                g.key: None for g in self.gangs.values() if any(s.node == name for s in g.seats.values())
            }
        was = ground.node.state if ground.node is not None else NodeState.READY
        ground.node = told
        if told.state is NodeState.LOST and was is not NodeState.LOST:
            self._lose_node(name)
            return [ev.NodeTurned(now, name, NodeState.LOST, fault=True), ev.NodeSeen(now, told)]
        return [ev.NodeSeen(now, told)]

    def _lose_node(self, name: str) -> None:
        """The engine takes the members off a node that is gone; we do the same."""
        for gang in self.gangs.values():
            for uid in [uid for uid, seat in gang.seats.items() if seat.node == name]:
                seat = gang.seats.pop(uid)
                gang.give_up(seat.role, name)
                if not is_loose(gang, seat.role):
                    gang.lost += 1
                    gang.up = False
                if uid in self.pods:
                    self.recharge(self.pods[uid])
                self.dirty_gangs[gang.key] = None

    def _of_queues(self, now: int) -> list[ev.Event]:
        queues, traits = self.queues.all(), self.queues.traits()
        if traits != self._told_traits:
            self._told_traits = traits
            self.dirty_gangs |= dict.fromkeys(self.gangs)
        if queues == self._told_queues:
            return []
        changed = [queue for name, queue in queues.items() if self._told_queues.get(name) != queue]
        gone = [name for name in self._told_queues if name not in queues]
        self._told_queues = queues
        self.dirty_gangs |= dict.fromkeys(self.gangs)
        return [*(ev.QueueSet(now, queue) for queue in changed), *(ev.QueueGone(now, name) for name in gone)]

    # -- gangs

    def known(self) -> Known:
        """What a translation has to know of the cluster."""
        return Known(
            levels=self.terrain.aliases,
            domains=self._domains,
            priorities=self.priorities.values,
            default_priority=self.priorities.default,
            lasting=frozenset(self.priorities.lasting),
            polite=frozenset(self.priorities.polite),
            traits=self.queues.traits(),
            queues=frozenset(self.queues.all()),
            local_queues=self.queues.local,
            repelled={mark: tuple(pairs) for mark, pairs in self.marks.repelled.items()},
        )

    def translated(self, gang: GangSeen, known: Known | None = None) -> Translated | None:
        """The gang as the engine should know it; None while nothing can be said."""
        said = self._declared(gang)
        if said is None or self.is_elsewhere(gang):
            return None
        pods = list(gang.live)
        present = gang.present()
        if not present and (kin := expected(said)) is not None:
            present = {kin: 0}
        if not present:
            return None
        done = sum(pod.phase == "Succeeded" for pod in gang.pods.values())
        if done:
            said = msgspec.structs.replace(said, min=max(said.min - done, 1), parts={})
        whose = min((pod.aside for pod in pods if pod.aside.user), key=lambda said: said.user, default=NO_ASIDE)
        created = [pod.created for pod in gang.pods.values()]
        facts = Facts(
            submitted=min([*created, *([moment(said.created)] if said.created else [])], default=0) + gang.arrival,
            user=said.namespace,
            named=whose.user,
            groups=whose.groups,
            application=min({pod.aside.application for pod in pods} - {""}, default=""),
            priority=max((pod.priority for pod in pods if pod.priority is not None), default=None),
            time=max((pod.time for pod in pods), default=0),
            tolerate={kin.wants.key: self.taints.tolerated(kin.wants) for kin in present},
            problems=gang.complaints(),
            owned=all(pod.controller for pod in pods) if pods else True,
            spared=gang.spared > 0,
            polite=any(pod.polite or pod.aside.polite for pod in pods),
            lasting=any(pod.aside.lasting for pod in pods),
            classes=frozenset(pod.priority_class for pod in pods),
            min_run=max((pod.aside.min_run for pod in pods), default=0),
            max_wait=max((pod.aside.max_wait for pod in pods), default=0),
            now=self.now,
            estimate=self.estimates.get(said.owner, 0),
            queue=min({pod.queue for pod in pods} - {NO_QUEUE}, default=NO_QUEUE),
            refused=next((pod.refused for pod in pods if pod.refused), ""),
            movable=bool(pods) and all(pod.movable for pod in pods),
            gathers=any(present.values()) and not gang.is_seated and not any(pod.node for pod in pods),
            last=self._last(gang, said, present),
            bound={} if gang.is_seated else gang.bound_by_kin(),
            beside=late.beside(gang, present),
        )
        found = translate(said, present, known or self.known(), facts)
        found = found._replace(problems=(*found.problems, *found.notes))
        gang.wanted = found.wanted
        gang.again = found.again
        return found._replace(awaiting=max(found.awaiting, 1)) if self.is_early(gang.key) else found

    def _last(self, gang: GangSeen, said: Declared, present: Mapping[Kin, int]) -> frozenset[tuple[str, str]]:
        """Where any of them will do: kin that no node could hold, or of which nobody is bound though others are."""
        if said.loose or gang.is_seated or len(present) < 2 or sum(present.values()) <= said.min:
            return frozenset()
        bound = gang.bound_by_kin()
        return frozenset(k.alike for k in present if not self.has_place(k.wants) or (bound and k.alike not in bound))

    def _of_gang(self, key: str, numbers: Mapping[str, int], now: int) -> list[ev.Event]:
        gang = self.gangs.get(key)
        if gang is None:
            return []
        events = self._of_seats(gang, numbers, now) if gang.is_seated else []
        if gang.is_entered and not any(True for _ in gang.live) and not gang.leaving and self._is_gone(gang):
            return [*events, *self._ended(gang, now)]
        if gang.leaving:
            return events
        found = self.translated(gang, self._known_once())
        if found is not None and (gang.pods or gang.is_entered or found.gang.roles):
            events += self._told(gang, found, numbers, now)
        elif gang.is_entered and not gang.is_seated:
            events += self._awaited(gang, now) if _is_away(gang) else self._ended(gang, now)
        if not gang.pods and gang.declared is None and not gang.is_entered:
            del self.gangs[key]
        return events

    def _known_once(self) -> Known:
        """The same for all gangs that are looked at together."""
        self._kept = self._kept or self.known()
        return self._kept

    def _is_gone(self, gang: GangSeen) -> bool:
        """No pod is left: it is over, unless it never had one and is only declared, or had to leave."""
        if _is_away(gang):
            return False
        return gang.is_seated or bool(gang.pods) or expected_kin(gang) is None

    def _awaited(self, gang: GangSeen, now: int) -> list[ev.Event]:
        """It had to leave and waits until its pods are made again."""
        if gang.awaiting == gang.least:
            return []
        gang.awaiting = gang.wanted = gang.least
        return [ev.MembersSeen(now, gang.key, gang.awaiting)]

    def _ended(self, gang: GangSeen, now: int) -> list[ev.Event]:
        failed = any(pod.phase == "Failed" for pod in gang.pods.values())
        worked = any(pod.phase == "Succeeded" for pod in gang.pods.values())
        state = State.FINISHED if worked and not failed else State.FAILED if failed else State.CANCELLED
        gang.clear()
        gang.is_entered, gang.gang, gang.kin = False, None, ()
        for pod in gang.pods.values():
            self.recharge(pod)
        if not gang.pods and gang.declared is None:
            self.gangs.pop(gang.key, None)
        return [ev.Ended(now, gang.key, state)]

    def _told(self, gang: GangSeen, found: Translated, numbers: Mapping[str, int], now: int) -> list[ev.Event]:
        gang.away, gang.problems = gang.away and not gang.pods, found.problems
        if not gang.is_entered:
            gang.is_entered = True
            gang.gang, gang.kin, gang.awaiting = found.gang, found.kin, found.awaiting
            submitted = ev.Submitted(now, found.gang, found.awaiting)
            return [submitted, *self._adopted(gang, numbers, now)]
        if gang.is_seated:
            return self._while_seated(gang, found, now)
        events: list[ev.Event] = []
        # Pods that have come may ask for just what was expected of them: the same gang, of other kin.
        gang.kin = found.kin
        if found.gang != gang.gang:
            gang.gang = found.gang
            events.append(ev.Changed(now, found.gang))
        if found.awaiting != gang.awaiting:
            gang.awaiting = found.awaiting
            events.append(ev.MembersSeen(now, gang.key, found.awaiting))
        return [*events, *self._adopted(gang, numbers, now)]

    def _while_seated(self, gang: GangSeen, found: Translated, now: int) -> list[ev.Event]:
        """What a seated gang's members ask for cannot change; how many there may be can, and others may join them."""
        told = late.retold(gang, found)
        if told == gang.gang:
            return []
        gang.gang = told
        return [ev.Changed(now, told)]

    def _adopted(self, gang: GangSeen, numbers: Mapping[str, int], now: int) -> list[ev.Event]:
        """A gang that sits already although nobody here has seated it; not before its pods and nodes are all known."""
        bound = [pod for pod in gang.live if pod.node]
        if gang.awaiting or not bound or not all(pod.node in numbers and self._can_sit(pod) for pod in bound):
            return []
        seats = numbered(self.seat_bound(gang), numbers)
        if seats is None or not any(held.nodes for held in seats):
            return []
        self.moved_gangs[gang.key] = None
        return [ev.Starting(now, gang.key, seats)]

    def seat_bound(self, gang: GangSeen) -> list[Where]:
        """Give the pods that are bound their seats."""
        counts: list[dict[str, int]] = [{} for _ in gang.kin]
        for pod in sorted(gang.pods.values(), key=Seen.order):
            role = gang.role_of(pod)
            if pod.node and not pod.is_over and role >= 0 and self._can_sit(pod):
                counts[role][pod.node] = counts[role].get(pod.node, 0) + 1
                gang.seats[pod.uid] = Seat(role, pod.node, bound=True)
                self.recharge(pod)
        if gang.seats:
            gang.ran = True
            gang.desired = [list(nodes.items()) for nodes in counts]
            gang.landed = len(gang.seats)
        return gang.desired

    def _can_sit(self, pod: Seen) -> bool:
        """Whether the node of a bound pod is there, and the pod is not on its way out of one that does not answer."""
        ground = self.grounds[pod.node]
        return bool(ground.capacity) and ground.ready is not NodeState.LOST and not self._is_stranded(pod)

    def _of_seats(self, gang: GangSeen, numbers: Mapping[str, int], now: int) -> list[ev.Event]:
        """What became of the members that have seats."""
        given = numbered(gang.desired, numbers, gang.shapes) if gang.asked and not gang.surplus() else None
        lost, done = self._gone(gang)
        if gang.leaving:
            return self._left(gang, now)
        if not gang.seats:
            return self._emptied(gang, now)
        events: list[ev.Event] = []
        if lost:
            missed = sum(count for (role, _), count in lost.items() if not is_loose(gang, role))
            gang.up = gang.up and not missed
            gang.lost += missed
            if given is not None:
                # Whoever is lost while others get new seats leaves those to them, whether they sit there yet or not.
                gang.asked = False
                events.append(ev.Resized(now, gang.key, given))
        for counts, is_loss in ((lost, True), (done, False)):
            events += drops(gang, counts, numbers, now, is_loss)
        return [*events, *self._settled(gang, numbers, now)]

    def _gone(self, gang: GangSeen) -> tuple[Counts, Counts]:
        """Who has left the seats: members that are lost, and those that are done."""
        lost: Counts = {}
        done: Counts = {}
        for uid, seat in list(gang.seats.items()):
            pod = gang.pods.get(uid)
            if pod is not None and pod.node == seat.node:
                seat.bound = True
            if pod is None or pod.is_over or self._is_stranded(pod):
                del gang.seats[uid]
                if pod is not None and not pod.is_over:
                    self.recharge(pod)
                if seat.leaving:
                    continue
                counts = done if pod is not None and pod.phase == "Succeeded" else lost
                # Nobody keeps a place for a loose one, which may not come again.
                if seat.bound or counts is done or is_loose(gang, seat.role):
                    counts[seat.role, seat.node] = counts.get((seat.role, seat.node), 0) + 1
                    gang.give_up(seat.role, seat.node)
        return lost, done

    def _is_stranded(self, pod: Seen) -> bool:
        """Told to go on a node that does not answer: it may be there for ever, and its place is taken by another."""
        ground = self.grounds.get(pod.node) if pod.deleting else None
        return ground is not None and ground.ready is not NodeState.READY

    def _emptied(self, gang: GangSeen, now: int) -> list[ev.Event]:
        """Nobody is left on its seats: it waits again, as old as it was."""
        gang.clear()
        self.dirty_gangs[gang.key] = None
        return [ev.Evicted(now, gang.key, interrupted=False)]

    def _settled(self, gang: GangSeen, numbers: Mapping[str, int], now: int) -> list[ev.Event]:
        """The answer to a change of seats, and the news that everybody runs."""
        events: list[ev.Event] = []
        if not gang.seats or not gang.is_whole:
            return events
        if gang.asked:
            gang.asked = False
            seats = numbered(gang.desired, numbers, gang.shapes)
            if seats is not None:
                events += resized(gang, seats, now)
        if not gang.up and not gang.lost and all(gang.pods[uid].phase == "Running" for uid in gang.seats):
            gang.up = gang.ran = True
            events.append(ev.Running(now, gang.key))
            if gang.gang is not None and sum(role.want for role in gang.gang.roles) > len(gang.seats):
                # Only now can it grow; that it runs is no news the engine looks at once.
                events.append(ev.Changed(now, gang.gang))
        return events

    def _left(self, gang: GangSeen, now: int) -> list[ev.Event]:
        """A gang on its way out is gone when its last pod is."""
        if gang.seats:
            return []
        why, undone = gang.failed_start, gang.leaving == "undo"
        gang.exposed = gang.in_part(time.monotonic_ns()) if undone and gang.since else 0
        gang.clear()
        gang.away = True
        self.dirty_gangs[gang.key] = None
        for pod in gang.pods.values():
            self.recharge(pod)
        return [ev.Refused(now, gang.key, why=why)] if undone else [ev.Evicted(now, gang.key)]

    # -- the full truth

    def start_over(self) -> None:
        """Nobody has a seat, and the engine knows of nobody; gangs of which nothing is left are forgotten."""
        self.gangs = {key: gang for key, gang in self.gangs.items() if gang.pods or gang.declared is not None}
        for gang in self.gangs.values():
            gang.clear()
            gang.is_entered = False
        for pod in self.pods.values():
            self.recharge(pod)
        self.moved_gangs, self.filling, self.news = {}, {}, []

    def listing(
        self,
        now: int,
        targets: Mapping[str, Written],
        leaving: Mapping[str, str] | None = None,
        away: Mapping[str, Gang] | None = None,
        may: Callable[[list[Fill]], bool] = lambda _: True,
    ) -> Listing:
        """Everything, for the start.

        `targets` are the seats of gangs whose start was written down and not finished, and `may` says whether these can
        still be had; `leaving` are gangs that are being taken off their seats, and for whom; `away` are gangs that had
        to leave and whose pods may not be there.
        """
        self.now = now
        self._of_ground(now)
        self.dirty_gangs = {}
        known = self.known()
        nodes = tuple(ground.node for ground in self.grounds.values() if ground.node is not None)
        numbers = {node.name: at for at, node in enumerate(nodes)}
        jobs = []
        for gang in list(self.gangs.values()):
            found = self.translated(gang, known)
            if found is not None:
                self._seat_again(gang, found, targets.get(gang.key), may)
                jobs.append(self._job(gang, found.gang, numbers, now))
        absent = [(self.gangs.get(key), gang) for key, gang in (away or {}).items()]
        jobs += [job for seen, gang in absent if seen is not None and (job := _absent(seen, gang, now))]
        going = leaving or {}
        jobs = [self._goes_on(job, going[job.gang.name]) if job.gang.name in going else job for job in jobs]
        # Pods got seats meanwhile, so that they are no strangers on their nodes any more.
        self._of_ground(now)
        nodes = tuple(ground.node for ground in self.grounds.values() if ground.node is not None)
        return Listing(now, (self.terrain.pool(),), nodes, queues=tuple(self.queues.all().values()), jobs=tuple(jobs))

    def _goes_on(self, job: Job, for_whom: str) -> Job:
        """A gang that is on its way out goes on leaving."""
        gang = self.gangs[job.gang.name]
        if not gang.seats:
            return job
        gang.leaving, gang.room_for = "evict", for_whom
        # Whether somebody has gone already is seen only where nobody had been lost before.
        gang.left_at, gang.stood = time.monotonic(), gang.least
        leaving = {"state": State.DRAINING, "leaving_for": for_whom, "lost": (), "lost_ranks": ()}
        return Job(job.gang, msgspec.structs.replace(job.life, **leaving))

    def _seat_again(
        self, gang: GangSeen, found: Translated, written: Written | None, may: Callable[[list[Fill]], bool]
    ) -> None:
        """Who is bound sits; the others are given what was written down for them, unless somebody has it by now."""
        gang.is_entered, gang.goes_on = True, False
        gang.gang, gang.kin, gang.awaiting, gang.problems = found.gang, found.kin, found.awaiting, found.problems
        bound = self.seat_bound(gang)
        target = written.of([role.name for role in found.gang.roles]) if written is not None else None
        if target is None:
            return
        seats, gang.desired = dict(gang.seats), [list(where) for where in target.where]
        gang.goes_on = not gang.surplus() and may(gang.fills())
        lost = gang.unclaimed()
        gang.seats = seats
        if not gang.goes_on:
            gang.desired = bound
            return
        gang.shapes = target.shapes
        for role, node in lost:
            # Whoever had it is gone, as it would be had we been there; somebody else may have taken it since.
            gang.give_up(role, node)
            gang.goes_on = False

    def _job(self, gang: GangSeen, known: Gang, numbers: Mapping[str, int], now: int) -> Job:
        seats = numbered(gang.desired, numbers) if gang.desired else ()
        if not seats:
            return Job(known, Life(awaiting=gang.awaiting, since=now))
        running = gang.is_whole and all(gang.pods[uid].phase == "Running" for uid in gang.seats)
        gang.up = running
        state = State.RUNNING if running else State.STARTING
        begun = min((gang.pods[uid].created for uid in gang.seats), default=now)
        life = Life(state, seats=seats, since=now, started=begun, first_started=begun)
        return Job(known, life if gang.goes_on else short(life, known, gang.bound))


def _is_away(gang: GangSeen) -> bool:
    """Whether it had to leave, and its group says that it is still to run."""
    return gang.away and gang.declared is not None and bool(gang.declared.api) and not gang.declared.over


def _absent(seen: GangSeen, gang: Gang, now: int) -> Job | None:
    """A gang that had to leave before we came, where its pods have not been made again."""
    seen.away = not seen.is_entered and not seen.pods
    if not _is_away(seen):
        return None
    seen.is_entered, seen.gang = True, gang
    seen.awaiting = seen.wanted = seen.least
    return Job(gang, Life(awaiting=seen.awaiting, since=now))


def expected_kin(gang: GangSeen) -> Kin | None:
    """What the pods of a declared gang will be like."""
    return expected(gang.declared) if gang.declared is not None else None


def numbered(where: list[Where], numbers: Mapping[str, int], shapes: tuple[int, ...] = ()) -> tuple[Seats, ...] | None:
    """Seats by number; None where a node is not known."""
    if any(node not in numbers for role in where for node, _ in role):
        return None
    shapes = shapes if len(shapes) == len(where) else (0,) * len(where)
    return tuple(
        Seats(tuple(numbers[n] for n, _ in role), tuple(c for _, c in role), shape)
        for role, shape in zip(where, shapes, strict=True)
    )
