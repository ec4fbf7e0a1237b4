"""Are these seats right for this gang? Its sizes, what it asks of nodes, and who may sit beside whom."""

from collections import Counter
from collections.abc import Iterable, Iterator

from .estimate import leading_role, sizes
from .model import Coupling, Gang, Job, Near, Node, NodeState, Role, Seats, Shape, SizeRule
from .plan import Grow, Migrate, Repair, Shrink
from .policy import Policy
from .topology import NODE, POOL
from .view import View

Domain = tuple[str, ...] | int | None
"""A path below a pool, a node, or nowhere."""


class Neighbours:
    """Who sits where, as far as conditions between gangs need to know it; it follows the plan."""

    def __init__(self, view: View, policy: Policy, now: int) -> None:
        self.view, self.policy, self.now = view, policy, now
        self.moved: dict[str, tuple[Seats, ...]] = {}
        """Seats that the plan gave, by gang; they replace what the view says."""
        self._came: dict[int, list[tuple[Gang, Role]]] = {}

    def sit(self, gang: Gang, seats: tuple[Seats, ...]) -> None:
        """The gang now has these seats."""
        self.moved[gang.name] = seats
        for role, held in zip(gang.roles, seats, strict=True):
            for node in held.nodes:
                self._came.setdefault(node, []).append((gang, role))

    def faults(self, job: Job, seats: tuple[Seats, ...], fresh: tuple[Seats, ...]) -> Iterator[str]:
        """What is wrong with the nodes that are new to the gang."""
        gang = job.gang
        wide = self.policy.place.one_wide_gang_per_node and len(_nodes(seats)) > 1
        for role, held in zip(gang.roles, fresh, strict=True):
            for node in dict.fromkeys(held.nodes):
                there = self.view.nodes[node]
                assert there is not None
                if problem := self.unfit(there, role.shapes[held.shape]):
                    yield f"node {there.name!r} {problem}"
                if wide and self._spanned(node, gang.name):
                    yield f"node {there.name!r} already carries another gang that spans nodes"
                yield from self._beside(gang, role, node, seats)

    def unfit(self, node: Node, shape: Shape) -> str:
        """Why a node takes no members of a shape, whoever else is there; or nothing."""
        repair, tags = self.policy.repair, set(node.tags)
        if node.state is not NodeState.READY:
            return "takes no new members"
        if sum(fault > self.now - repair.lemon_window for fault in node.faults) >= repair.lemon_after:
            return "has failed too often"
        if any(tags.isdisjoint(group) for group in shape.tags) or not tags.isdisjoint(shape.avoid):
            return "does not have the tags that were asked for"
        if any(tag.startswith("!") and tag not in shape.tolerate for tag in tags):
            return "has a taint that is not tolerated"
        return ""

    def _beside(self, gang: Gang, role: Role, node: int, seats: tuple[Seats, ...]) -> Iterator[str]:
        """Nobody sits near a mark it repels, nor near somebody it repels; what it needs is near."""
        for near in role.repels:
            own = _own_marks(self.view, gang, role, near, node, seats)
            if own or near.mark in self._marks(node, near.level, gang):
                yield f"role {role.name!r} is near {near.mark!r}, which it repels"
        for near in role.needs:
            if near.mark not in self._marks(node, near.level, gang):
                yield f"role {role.name!r} is not near {near.mark!r}, which it needs"
        for near, other in self._repelling(role, gang):
            if any(name == other for at in self._same_domain(node, near.level) for name, _ in self._on(at)):
                yield f"role {role.name!r} is near {other!r}, which repels {near.mark!r}"

    def _repelling(self, role: Role, but: Gang) -> Iterator[tuple[Near, str]]:
        """Seated gangs that repel a mark of this role."""
        if not role.marks:
            return
        seated = [self.view.held(slot).gang for slot in self.view.seated]
        came = [gang for here in self._came.values() for gang, _ in here]
        for gang in {gang.name: gang for gang in (*seated, *came) if gang.name != but.name}.values():
            for near in (near for other in gang.roles for near in other.repels if near.mark in role.marks):
                yield near, gang.name

    def _marks(self, node: int, level: str, but: Gang) -> set[str]:
        """Marks on the node, or in its domain of a level, that others have left."""
        found: set[str] = set()
        for near in self._same_domain(node, level):
            there = self.view.nodes[near]
            found.update(there.foreign_marks if there is not None else ())
            found.update(mark for name, role in self._on(near) if name != but.name for mark in role.marks)
        return found

    def _same_domain(self, node: int, level: str) -> Iterable[int]:
        if level == NODE:
            return (node,)
        mine = domain_of(self.view, node, level)
        return (
            at for at in range(len(self.view.nodes)) if mine is not None and domain_of(self.view, at, level) == mine
        )

    def _on(self, node: int) -> Iterator[tuple[str, Role]]:
        """Who sits on a node, role by role."""
        if self.view.nodes[node] is None:
            return
        for slot, role, _ in self.view.loads[self.view.class_of[node]]:
            job = self.view.held(slot)
            yield job.gang.name, job.gang.roles[role]
        yield from ((gang.name, role) for gang, role in self._came.get(node, ()))

    def _spanned(self, node: int, but: str) -> bool:
        """Whether another gang that spans several nodes sits on this one."""
        for slot, _, _ in self.view.loads[self.view.class_of[node]]:
            job = self.view.held(slot)
            if job.gang.name != but and len(_nodes(self.moved.get(job.gang.name, job.life.seats))) > 1:
                return True
        came = {gang.name for gang, _ in self._came.get(node, ())} - {but}
        return any(len(_nodes(self.moved[name])) > 1 for name in came)


def malformed(view: View, gang: Gang, seats: tuple[Seats, ...]) -> str:
    """Why these are no seats at all, or nothing."""
    if len(seats) != len(gang.roles):
        return f"it has {len(gang.roles)} roles and gets seats for {len(seats)}"
    for role, held in zip(gang.roles, seats, strict=True):
        if len(held.nodes) != len(held.counts) or any(count <= 0 for count in held.counts):
            return f"the seats of role {role.name!r} are malformed"
        if not 0 <= held.shape < max(len(role.shapes), 1) or (held.nodes and not role.shapes):
            return f"role {role.name!r} has no such shape"
        if any(not 0 <= node < len(view.nodes) or view.nodes[node] is None for node in held.nodes):
            return f"role {role.name!r} is seated on a node that is not there"
    return ""


def wrong_sizes(job: Job, seats: tuple[Seats, ...]) -> Iterator[str]:
    """Roles that have too few, too many or an illegal number of members."""
    told = job.life.progress.legal_sizes if job.life.progress is not None else ()
    for at, (role, held) in enumerate(zip(job.gang.roles, seats, strict=True)):
        low, _, high = sizes(role, held.shape)
        done = job.life.done[at] if at < len(job.life.done) else 0
        loose, spare = role.coupling is Coupling.LOOSE, bool(role.spare_for and job.life.lost)
        rule = SizeRule() if loose or spare else role.rule
        low, high = 0 if loose or spare else low, high - done if loose else max(high, _had(job, at))
        if not low <= held.members <= high:
            yield f"role {role.name!r} has {held.members} members, not {low} to {high}"
        elif held.members and not legal(rule, held.members):
            yield f"role {role.name!r} has {held.members} members, which its size rule forbids"
        elif told and at == leading_role(job.gang) and held.members not in told:
            yield f"role {role.name!r} has {held.members} members, which the job says it cannot have"
    if not any(held.nodes for held in seats):
        yield "it gets no seat at all"


def _had(job: Job, role: int) -> int:
    """What a role may keep although it is too much: its owner made the gang smaller, and it has not shrunk yet."""
    if not job.gang.sheds:
        return 0
    return sum(held[role].members for held in (job.life.seats, job.life.lost) if role < len(held))


def legal(rule: SizeRule, size: int) -> bool:
    """Whether a size satisfies every part of a rule."""
    return (
        size % max(rule.multiple, 1) == 0
        and not (rule.power_of_two and size & (size - 1))
        and (not rule.sizes or size in rule.sizes)
        and size * rule.member_bytes >= rule.state_bytes
        and (rule.batch <= 0 or rule.batch % size == 0)
    )


def apart(view: View, gang: Gang, seats: tuple[Seats, ...]) -> Iterator[str]:
    """Members that should be in one domain and are not, or are too many in one."""
    for role, held in zip(gang.roles, seats, strict=True):
        yield from _role_apart(view, role, held)
    tight = [held for role, held in zip(gang.roles, seats, strict=True) if role.coupling is Coupling.GANG]
    if gang.within and not _in_one(view, _nodes(tight), gang.within):
        yield f"its roles are not together in one {gang.within}"


def _role_apart(view: View, role: Role, held: Seats) -> Iterator[str]:
    if role.within and not _in_one(view, set(held.nodes), role.within):
        yield f"role {role.name!r} is not in one {role.within}"
    for cap in role.caps:
        counts = _by_domain(view, held, cap.level)
        counts.pop(None, None)
        if max(counts.values(), default=0) > cap.members:
            yield f"role {role.name!r} has more than {cap.members} members in one {cap.level}"
    if role.segment is not None and role.segment.members > 1:
        parts = _by_domain(view, held, role.segment.level)
        if None in parts or any(count % role.segment.members for count in parts.values()):
            yield f"role {role.name!r} has a segment that is not in one {role.segment.level}"


def _own_marks(view: View, gang: Gang, role: Role, near: Near, node: int, seats: tuple[Seats, ...]) -> int:
    """Members of the gang itself, beside one of this role on a node, that leave a mark near it."""
    here, count = domain_of(view, node, near.level), -int(near.mark in role.marks)
    for other, held in zip(gang.roles, seats, strict=True):
        if near.mark in other.marks:
            count += _by_domain(view, held, near.level)[here]
    return max(count, 0) if here is not None else 0


def _in_one(view: View, nodes: set[int], level: str) -> bool:
    domains = {domain_of(view, node, level) for node in nodes}
    return len(domains) <= 1 and None not in domains


def _by_domain(view: View, held: Seats, level: str) -> Counter[Domain]:
    found: Counter[Domain] = Counter()
    for node, count in zip(held.nodes, held.counts, strict=True):
        found[domain_of(view, node, level)] += count
    return found


def domain_of(view: View, node: int, level: str) -> Domain:
    """The domain of a node at a level: a path below its pool, the node itself, or None where there is no such level."""
    there = view.nodes[node]
    if there is None:
        return None
    if level == POOL:
        return (there.pool,)
    pool = view.topology.pools.get(there.pool)
    names = pool.levels if pool is not None else ()
    for depth in range(len(there.place)):
        if level == (names[depth] if depth < len(names) else f"level{depth + 1}"):
            return (there.pool, *there.place[: depth + 1])
    return node if level == NODE else None


def moved_wrongly(job: Job, action: Grow | Shrink | Repair | Migrate, before: tuple[Seats, ...]) -> Iterator[str]:
    """Survivors that lose their rank or their seat where they should keep it."""
    for role, old, new in zip(job.gang.roles, before, action.seats, strict=True):
        had, has = members_by_node(old), members_by_node(new)
        keeps = all(has[node] >= count for node, count in had.items())
        if isinstance(action, Grow | Repair) and not keeps and not (role.spare_for and job.life.lost):
            yield f"role {role.name!r} does not keep the seats it has"
        if isinstance(action, Grow) and role.coupling is Coupling.GANG and _ranks(new)[: old.members] != _ranks(old):
            yield f"role {role.name!r} does not keep its ranks"
        if isinstance(action, Shrink) and any(had[node] < count for node, count in has.items()):
            yield f"role {role.name!r} gets new seats although the gang shrinks"


def newcomers(seats: tuple[Seats, ...], before: tuple[Seats, ...]) -> tuple[Seats, ...]:
    """The part of the seats that was not held before."""
    if not before:
        return seats
    found = []
    for new, old in zip(seats, before, strict=True):
        more = members_by_node(new) - members_by_node(old)
        found.append(Seats(tuple(more), tuple(more.values()), new.shape))
    return tuple(found)


def members_by_node(held: Seats) -> Counter[int]:
    """How many members sit on each node."""
    found: Counter[int] = Counter()
    for node, count in zip(held.nodes, held.counts, strict=False):
        found[node] += count
    return found


def _ranks(held: Seats) -> list[int]:
    return [node for node, count in zip(held.nodes, held.counts, strict=True) for _ in range(count)]


def _nodes(seats: Iterable[Seats]) -> set[int]:
    return {node for held in seats for node in held.nodes}
