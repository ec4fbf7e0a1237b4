"""Worlds that Hypothesis thinks of: clusters, queues and gangs in all their kinds, and what has happened to them.

A scene is the list of events that leads to a world, a moment and a policy. It prints as a text to be read again, builds
as many equal worlds as a test wants, and shrinks to the few events that matter.
"""

from functools import cache
from typing import NamedTuple

import msgspec
from hypothesis import strategies as st

from tests.clusters import LEVELS
from tutti.engine import events as ev
from tutti.engine.check import Rule, check
from tutti.engine.model import (
    NEVER,
    SECOND,
    Arrange,
    Bound,
    Cap,
    Coupling,
    Domain,
    Estimate,
    Gang,
    Near,
    Node,
    NodeState,
    OnLoss,
    Pool,
    Progress,
    Queue,
    Resizing,
    Role,
    Seats,
    Segment,
    Shape,
    SizeRule,
    Source,
    Speed,
    State,
    Window,
)
from tutti.engine.plan import Plan, Start
from tutti.engine.policy import Break, Order, Policy, Reclaim, Reservation, Term
from tutti.engine.view import View
from tutti.engine.world import World


class Scene(NamedTuple):
    """How a world came about, and what is asked about it."""

    events: tuple[ev.Event, ...]
    now: int
    policy: Policy = Policy()

    def __repr__(self) -> str:
        parts = (self.events, self.now, self.policy)
        return f"Scene.read({msgspec.json.encode(parts).decode()!r})"

    @classmethod
    def read(cls, text: str) -> "Scene":
        """The scene that was printed so."""
        return cls(*msgspec.json.decode(text, type=tuple[tuple[ev.AnyEvent, ...], int, Policy]))

    def world(self) -> World:
        """The world after all events."""
        world = World()
        for event in self.events:
            world.apply(event)
        return world

    def view(self) -> View:
        """The world after all events, as the planner sees it."""
        return self.world().view()


class Reach(NamedTuple):
    """How much of the model a scene may use."""

    nodes: int = 6
    running: int = 4
    waiting: int = 5
    plain: bool = False
    """One role, one shape, one size, and nothing that only the full planner understands."""
    invalid: bool = False
    """Some gangs are nonsense."""
    focus: tuple[str, ...] = ()
    """Oddities that every node, queue, role and gang shows that can."""


SMALL = Reach()
MEDIUM = Reach(nodes=16, running=10, waiting=12)
PLAIN = Reach(nodes=5, running=4, waiting=5, plain=True)
NONSENSE = Reach(invalid=True)

amounts = st.sampled_from([4, 8, 8, 2, 3])
asked = st.sampled_from([1, 2, 1, 2, 1, 3, 2, 4, 8])
seconds = st.sampled_from([1, 10, 30, 60, 100, 600, 3600]).map(lambda s: s * SECOND)
rarely = st.sampled_from([False, False, False, False, True])
often = st.sampled_from([True, True, False])


@cache
def some(reach: Reach, *features: str) -> st.SearchStrategy[set[str]]:
    """Up to two of these, none of them half of the time, and those in focus."""
    always = set(features) & set(reach.focus)
    few = st.lists(st.sampled_from([*("",) * (2 * len(features)), *features]), max_size=2)
    return few.map(always.union)


@cache
def up_to(most: int) -> st.SearchStrategy[int]:
    """A number up to so many, rather more than fewer, that shrinks to few."""
    return st.sampled_from([0, *range(1, most + 1), *range(most // 2 + 1, most + 1)])


@cache
def one_of(*names: str) -> st.SearchStrategy[str]:
    """One of these names, or the empty one where there are none."""
    return st.sampled_from(names or ("",))


@cache
@st.composite
def nodes(draw: st.DrawFn, reach: Reach) -> tuple[Pool, list[Node]]:
    """A pool of up to three levels and the nodes in it."""
    depth = draw(st.integers(0, 1 if reach.plain else 3))
    count = draw(up_to(reach.nodes)) or 2
    return Pool("default", LEVELS[depth]), [draw(node(f"n{index}", depth, reach)) for index in range(count)]


@cache
@st.composite
def node(draw: st.DrawFn, name: str, depth: int, reach: Reach) -> Node:
    """A node, now and then with a second resource, tags, foreign use or faults."""
    place = tuple(draw(one_of("aaa", "aab", "aba", "baa", "bbb"))[:depth])
    odd = draw(some(reach, "no cpu", "fast", "odd", "foreign", "faults"))
    capacity = {"gpu": draw(amounts)} if "no cpu" in odd else {"gpu": draw(amounts), "cpu": 8}
    tags = tuple(tag for tag, word in (("fast", "fast"), ("!odd", "odd")) if word in odd)
    foreign = {"gpu": draw(st.integers(1, capacity["gpu"]))} if "foreign" in odd else {}
    faults = tuple(range(draw(st.integers(1, 3)))) if "faults" in odd else ()
    return Node(name, capacity, place=place, tags=tags, foreign=foreign, faults=faults)


@cache
@st.composite
def queues(draw: st.DrawFn, reach: Reach) -> list[Queue]:
    """One to three queues, the last of them possibly below the second."""
    return [draw(queue(name, reach)) for name in ("qa", "qb", "qc")[: draw(st.integers(1, 3))]]


QUEUE = ("below", "guarantee", "limit", "user", "closed", "strict", "max_wait", "estimate", "slice", "max_running",
         "bounds")  # fmt: skip
bounds = st.builds(
    Bound,
    users=st.sampled_from([(), ("u",), ("*",), ("v", "*")]),
    groups=st.sampled_from([(), ("g",), ("h", "g"), ("*",)]),
    max_running=st.sampled_from([None, 1, 2]),
    limit=st.sampled_from([{}, {"gpu": 3}, {"gpu": 8}]),
)


@cache
@st.composite
def queue(draw: st.DrawFn, name: str, reach: Reach) -> Queue:
    """A queue, now and then with a guarantee, limits or manners of its own."""
    odd = draw(some(reach, *QUEUE))
    few = st.integers(0, 12).map(lambda amount: {"gpu": amount})
    return Queue(
        name,
        parent="qb" if name == "qc" and "below" in odd else "",
        guarantee=draw(few) if "guarantee" in odd else {},
        limit=draw(few) if "limit" in odd else {},
        user_limit=draw(few) if "user" in odd else {},
        max_running=draw(st.sampled_from([1, 2, 3, 0])) if "max_running" in odd else None,
        bounds=tuple(draw(st.lists(bounds, min_size=1, max_size=2))) if "bounds" in odd else (),
        weight=draw(st.integers(0, 3)),
        closed="closed" in odd and name != "qa",
        strict="strict" in odd,
        max_wait=draw(seconds) if "max_wait" in odd else 0,
        default_estimate=draw(seconds) if "estimate" in odd else 0,
        slice=draw(seconds) if "slice" in odd else 0,
    )


estimates = st.one_of(
    st.just(Estimate()),
    seconds.map(lambda limit: Estimate(limit, source=Source.DECLARED)),
    st.tuples(seconds, seconds, seconds).map(sorted).map(lambda s: Estimate(s[2], s[0], s[1], Source.HISTORY)),
)


@cache
@st.composite
def shapes(draw: st.DrawFn, reach: Reach) -> Shape:
    """What a member asks for, and of which nodes."""
    odd = draw(some(reach, "cpu", "fast", "either", "avoid", "tolerate", "tolerate"))
    ask = {"gpu": draw(asked), **({"cpu": draw(asked)} if "cpu" in odd else {})}
    tags = (("fast",),) if "fast" in odd else (("fast", "slow"),) if "either" in odd else ()
    avoid = ("fast",) if "avoid" in odd else ()
    return Shape(ask, tags, avoid, ("!odd",) if "tolerate" in odd else ())


rules = st.one_of(
    st.just(SizeRule()),
    st.builds(SizeRule, multiple=st.integers(1, 3)),
    st.builds(SizeRule, power_of_two=st.just(True)),
    st.builds(SizeRule, sizes=st.lists(st.integers(1, 8), min_size=1, max_size=3).map(tuple)),
    st.builds(SizeRule, batch=st.sampled_from([4, 6, 8])),
    st.builds(SizeRule, state_bytes=st.integers(1, 8), member_bytes=st.integers(1, 4)),
)
marks = st.sampled_from(["port", "db"])
nears = st.builds(Near, mark=marks, level=st.sampled_from(["node", "node", "rack"]))


ROLE = ("size", "size", "want", "shapes", "loose", "rule", "within", "within", "near", "segment", "caps", "spread",
        "marks", "repels", "needs")  # fmt: skip


@cache
@st.composite
def roles(draw: st.DrawFn, name: str, levels: tuple[str, ...], reach: Reach) -> Role:
    """A role of any kind."""
    low, odd = draw(st.integers(1, 3)), draw(some(reach, *ROLE))
    want = low + draw(st.integers(0, 2)) if "want" in odd or "size" in odd else 0
    level, inner = one_of(*levels), one_of("node", *levels)
    return Role(
        name,
        min=low,
        want=want,
        max=want + draw(st.integers(0, 2)) if "size" in odd else 0,
        shapes=(draw(shapes(reach)), *((draw(shapes(reach)),) if "shapes" in odd else ())),
        coupling=Coupling.LOOSE if "loose" in odd else Coupling.GANG,
        rule=draw(rules) if "rule" in odd else SizeRule(),
        within=draw(level) if "within" in odd else "",
        near=draw(level) if "near" in odd else "",
        segment=Segment(draw(inner), draw(st.integers(1, 2))) if "segment" in odd else None,
        caps=(Cap(draw(inner), draw(st.integers(1, 3))),) if "caps" in odd else (),
        arrange=Arrange.SPREAD if "spread" in odd else Arrange.PACK,
        marks=(draw(marks),) if "marks" in odd else (),
        repels=(draw(nears),) if "repels" in odd else (),
        needs=(draw(nears),) if "needs" in odd else (),
    )


@cache
@st.composite
def plain_roles(draw: st.DrawFn, levels: tuple[str, ...], reach: Reach) -> Role:
    """A role that the naive planner understands."""
    odd = draw(some(reach, "caps", "within"))
    caps = (Cap("node", draw(st.integers(1, 2))),) if "caps" in odd else ()
    within = draw(one_of(*levels)) if "within" in odd else ""
    return Role(min=draw(st.integers(1, 4)), shapes=(draw(shapes(reach)),), within=within, caps=caps)


@cache
@st.composite
def gangs(draw: st.DrawFn, name: str, levels: tuple[str, ...], queue_names: tuple[str, ...], reach: Reach) -> Gang:
    """A gang that stands in one of the queues."""
    count = 1 if reach.plain else draw(st.sampled_from([1, 1, 1, 2, 3]))
    made = tuple(
        draw(plain_roles(levels, reach) if reach.plain else roles(f"r{i}", levels, reach)) for i in range(count)
    )
    odd = draw(some(reach, "max_wait", "user", "stays", "priority", "groups", "counts_as"))
    gang = Gang(
        name,
        made,
        queue=draw(one_of(*queue_names)),
        user="v" if "user" in odd else "u",
        groups=draw(st.sampled_from([("g",), ("h",), ("i", "g")])) if "groups" in odd else (),
        counts_as=draw(st.sampled_from(["app", "other"])) if "counts_as" in odd else "",
        priority=draw(st.integers(0, 2)) if "priority" in odd else 0,
        submitted=draw(st.integers(0, 100)) * SECOND,
        estimate=draw(estimates),
        max_wait=draw(seconds) if "max_wait" in odd else 0,
        preemptible="stays" not in odd,
    )
    return gang if reach.plain else draw(elaborate(gang, levels, reach))


GANG = ("within", "switch", "parkable", "live", "restart", "speed", "deadline", "downtime", "min_run", "after",
        "begin", "unsupported")  # fmt: skip


@st.composite
def elaborate(draw: st.DrawFn, gang: Gang, levels: tuple[str, ...], reach: Reach) -> Gang:
    """The gang with more of what a gang may say of itself."""
    odd = draw(some(reach, *GANG))
    level = one_of(*levels)
    return msgspec.structs.replace(
        gang,
        within=draw(level) if "within" in odd else "",
        domain_ask={draw(level): {"switch": 1}} if "switch" in odd and levels else {},
        parkable="parkable" in odd,
        resizing=Resizing.LIVE if "live" in odd else Resizing.RESTART if "restart" in odd else Resizing.NONE,
        speed=Speed(((1, 1000), (2, 1900), (4, 3500))) if "speed" in odd else Speed(),
        on_loss=draw(st.sampled_from(OnLoss)),
        begin=draw(seconds) if "begin" in odd else 0,
        deadline=draw(seconds) if "deadline" in odd else NEVER,
        downtime_cost=draw(st.integers(0, 3)) if "downtime" in odd else 0,
        min_run=draw(seconds) if "min_run" in odd else 0,
        after=("ghost",) if "after" in odd else (),
        unsupported="field" if "unsupported" in odd else "",
    )


broken_roles = st.builds(
    Role,
    min=st.sampled_from([-1, 0, 1, 5, 1 << 60]),
    want=st.sampled_from([-1, 0, 2]),
    max=st.sampled_from([-3, 0, 2, 1 << 61]),
    shapes=st.lists(
        st.builds(
            Shape,
            ask=st.dictionaries(st.sampled_from(["gpu", "tpu"]), st.sampled_from([-1, 0, 1, 1 << 62]), max_size=2),
        ),
        max_size=2,
    ).map(tuple),
    within=st.sampled_from(["", "rack", "moon"]),
    near=st.sampled_from(["", "moon"]),
    segment=st.one_of(
        st.none(), st.builds(Segment, level=st.sampled_from(["rack", "moon"]), members=st.integers(-1, 9))
    ),
    caps=st.lists(st.builds(Cap, level=st.sampled_from(["node", "moon"]), members=st.integers(-1, 2)), max_size=1).map(
        tuple
    ),
    rule=st.builds(
        SizeRule,
        multiple=st.integers(-1, 3),
        sizes=st.lists(st.integers(-1, 3), max_size=2).map(tuple),
        batch=st.integers(-1, 3),
    ),
    repels=st.lists(st.builds(Near, mark=marks, level=st.just("moon")), max_size=1).map(tuple),
)
nonsense = st.builds(
    Gang,
    name=st.just("x"),
    roles=st.lists(broken_roles, max_size=2).map(tuple),
    queue=st.sampled_from(["qa", "nowhere"]),
    priority=st.integers(-(1 << 61), 1 << 61),
    estimate=st.builds(Estimate, st.sampled_from([-5, 0, NEVER, 1 << 63]), st.integers(-1, 5)),
    domain_ask=st.dictionaries(st.sampled_from(["rack", "moon"]), st.just({"switch": -1}), max_size=1),
    after=st.sampled_from([(), ("x",), ("",)]),
)  # fmt: skip


policies = st.builds(
    Policy,
    order=st.builds(
        Order,
        terms=st.lists(st.sampled_from(Term), min_size=1, max_size=3, unique=True).map(tuple),
        fair_share=st.booleans(),
        strict=rarely,
    ),
    reserve=st.builds(
        Reservation,
        depth=st.sampled_from([-1, 0, 1, 1, 2]),
        backfill=st.sampled_from([Term.AGE, Term.SHORTEST, Term.SMALLEST]),
        quantile=st.sampled_from([50, 90, 100]),
        lend=st.sampled_from([0, 10 * SECOND, 1800 * SECOND]),
        max_wait=st.sampled_from([0, 50 * SECOND, 86_400 * SECOND]),
        breaks=st.sampled_from([Reservation().breaks, Reservation().breaks, (), (Break.HIGHER_PRIORITY,)]),
    ),
    reclaim=st.builds(
        Reclaim, st.booleans(), st.booleans(), st.booleans(), st.booleans(),
        min_run=st.sampled_from([600 * SECOND, 0]), grace=st.sampled_from([120 * SECOND, 5 * SECOND]),
    ),
)  # fmt: skip
plain_policies = st.builds(
    Policy,
    order=st.builds(Order, fair_share=st.booleans(), strict=rarely),
    reserve=st.builds(
        Reservation,
        depth=st.sampled_from([-1, 0, 1, 1, 2]),
        backfill=st.sampled_from([Term.AGE, Term.SHORTEST, Term.SMALLEST]),
        quantile=st.sampled_from([50, 90, 100]),
        max_wait=st.sampled_from([0, 0, 50 * SECOND]),
        breaks=st.sampled_from([Reservation().breaks, Reservation().breaks, (), (Break.HIGHER_PRIORITY,)]),
    ),
    reclaim=st.just(Reclaim(surplus=False, priority=False, quota=False)),
)


class Builder:
    """Applies events as they are drawn, so that later ones can depend on the world they lead to."""

    def __init__(self) -> None:
        self.world = World()
        self.events: list[ev.Event] = []

    def add(self, *events: ev.Event) -> None:
        for event in events:
            self.world.apply(event)
            self.events.append(event)

    def seat(self, gang: Gang, at: int, turn: int) -> bool:
        """Submit a gang and seat it on the first nodes, counted from some node, that will have it."""
        self.add(ev.Submitted(at, gang))
        seats = first_seats(self.world.view(), gang, at, turn)
        if seats is not None:
            self.add(ev.Starting(at, gang.name, seats), ev.Running(at, gang.name))
        return seats is not None


OF_SEATS = {Rule.WHOLE, Rule.ROOM, Rule.SIZE, Rule.FIT}


def first_seats(view: View, gang: Gang, at: int, turn: int) -> tuple[Seats, ...] | None:
    """Seats at the minimum on the first nodes that will do; None where this simple search finds none."""
    everywhere = [i for i, node in enumerate(view.nodes) if node is not None]
    everywhere = everywhere[turn % len(everywhere) :] + everywhere[: turn % len(everywhere)]
    inside = {view.nodes[i].place[:depth] for i in everywhere for depth in range(4)}  # type: ignore[union-attr]
    for place in sorted(inside, key=lambda p: (len(p), p)):
        among = [i for i in everywhere if view.nodes[i].place[: len(place)] == place]  # type: ignore[union-attr]
        seats = filled(view, gang, among)
        plan = Plan(view.number, at, (Start(gang.name, seats=seats),)) if seats else None
        if seats and plan and not OF_SEATS & {broken.rule for broken in check(view, plan, Policy(), at)}:
            return seats
    return None


def filled(view: View, gang: Gang, among: list[int]) -> tuple[Seats, ...] | None:
    """Members one after the other on the first node of the list that still has room for one."""
    left = {i: dict(zip(view.resources, view.class_free[:, view.class_of[i]].tolist(), strict=True)) for i in among}
    found = []
    for role in gang.roles:
        ask = role.shapes[0].ask
        runs: dict[int, int] = {}
        for _ in range(role.min):
            node = next((i for i in among if all(left[i].get(r, 0) >= a for r, a in ask.items())), None)
            if node is None:
                return None
            runs[node] = runs.get(node, 0) + 1
            for resource, amount in ask.items():
                left[node][resource] -= amount
        found.append(Seats(tuple(runs), tuple(runs.values())))
    return tuple(found)


@st.composite
def scenes(draw: st.DrawFn, reach: Reach = SMALL) -> Scene:
    """Some nodes and queues, gangs that run and gangs that wait, and a few things that have happened since."""
    built = Builder()
    pool, made = draw(nodes(reach))
    built.add(ev.PoolSet(0, pool), *(ev.NodeSeen(0, node) for node in made))
    tenants = draw(queues(reach))
    built.add(*(ev.QueueSet(0, queue) for queue in tenants))
    if pool.levels and not reach.plain:
        paths = sorted({node.place[:depth] for node in made for depth in range(1, len(node.place) + 1)})
        built.add(*(ev.DomainSet(0, Domain("default", path, {"switch": draw(st.integers(0, 2))})) for path in paths))
    names = tuple(queue.name for queue in tenants)
    for index in range(draw(up_to(reach.running))):
        gang = draw(gangs(f"g{index}", pool.levels, names, reach))
        built.seat(gang, draw(st.integers(0, 100)) * SECOND, draw(st.integers(0, reach.nodes)))
    for index in range(draw(up_to(reach.waiting)) or 1):
        draw(waiting(built, f"w{index}", pool.levels, names, reach))
    now = draw(st.sampled_from([100, 130, 200, 1000])) * SECOND
    for _ in range(draw(st.integers(0, 3))):
        draw(mishaps(built, now, reach))
    return Scene(tuple(built.events), now, draw(plain_policies if reach.plain else policies))


@st.composite
def waiting(
    draw: st.DrawFn, built: Builder, name: str, levels: tuple[str, ...], names: tuple[str, ...], reach: Reach
) -> None:
    """A gang that was submitted and waits, perhaps held, backing off or missing members."""
    if reach.invalid and draw(often):
        built.add(ev.Submitted(0, msgspec.structs.replace(draw(nonsense), name=name)))
        return
    gang = draw(gangs(name, levels, names, reach))
    odd, at = draw(some(reach, "missing", "held", "refused", "evicted")), gang.submitted
    built.add(ev.Submitted(at, gang, awaiting=1 if "missing" in odd else 0))
    seats = first_seats(built.world.view(), gang, at, 0) if odd & {"refused", "evicted"} else None
    if seats:
        built.add(ev.Starting(at, name, seats))
        if "refused" in odd:
            built.add(ev.Refused(100 * SECOND, name, not_before=100 * SECOND + draw(seconds), why="no answer"))
        else:
            built.add(ev.Evicted(100 * SECOND, name, parked=gang.parkable, kept=draw(seconds)))
    if "held" in odd:
        built.add(ev.Held(at, name))


def touchable(world: World, reach: Reach) -> list[str]:
    """Nodes something may happen to; what becomes of gangs on broken nodes is beyond the naive planner."""
    idle = [name for name, at in world.node_index.items() if not world.classes.load(at)]
    return sorted(idle if reach.plain and idle else world.node_index)


@st.composite
def mishaps(draw: st.DrawFn, built: Builder, now: int, reach: Reach) -> None:
    """Something that happened before now: to a node, to a member, to a gang's plans."""
    world = built.world
    node = draw(st.sampled_from(touchable(world, reach)))
    seated = sorted(job.gang.name for slot in world.seated if (job := world.jobs[slot]))
    turned = st.sampled_from([NodeState.DRAINING, NodeState.QUARANTINED, NodeState.LOST])
    kinds = ["node", "window"] if not reach.plain or not world.classes.load(world.node_index[node]) else ["window"]
    if seated:
        kinds += ["ended", "leaving", "estimated"]
        kinds += [] if reach.plain else ["member", "progress", "interrupted", "smaller", "joined"]
    kind = draw(st.sampled_from(kinds))
    at = draw(st.integers(100, now // SECOND)) * SECOND
    gang = draw(st.sampled_from(seated)) if seated else ""
    if kind == "node":
        built.add(ev.NodeTurned(at, node, draw(turned), now + draw(seconds), fault=draw(st.booleans())))
    elif kind == "window":
        start = now + draw(st.integers(-50, 100)) * SECOND
        allow = draw(st.sampled_from([(), (), ("queue:qa",), ("user:u",)]))
        built.add(ev.WindowSet(at, Window("upkeep", start, start + draw(seconds), (node,), allow)))
    elif kind == "ended":
        built.add(ev.Ended(at, gang, draw(st.sampled_from([State.FINISHED, State.FAILED]))))
    elif kind == "leaving":
        built.add(ev.Leaving(at, gang, by=now + draw(seconds) - 20 * SECOND))
    elif kind == "estimated":
        built.add(ev.Estimated(at, gang, draw(estimates)))
    elif kind == "progress":
        steps, rate = draw(st.integers(0, 50)), draw(st.integers(0, 900))
        built.add(ev.Reported(at, gang, Progress(draw(st.integers(0, 50)), steps, rate, at, at)))
    elif kind == "smaller":
        built.add(ev.Changed(at, made_smaller(built.world, gang)))
    elif kind == "joined":
        built.add(ev.Changed(at, with_another(built.world, gang, draw(roles("late", (), reach)))))
    else:
        draw(losses(built, gang, at))


def made_smaller(world: World, name: str) -> Gang:
    """A running gang whose owner would like to see it with one member of each role."""
    job = world.jobs[world.slots[name]]
    assert job is not None
    roles = tuple(msgspec.structs.replace(role, min=1, want=1, max=1) for role in job.gang.roles)
    return msgspec.structs.replace(job.gang, roles=roles, resizing=Resizing.LIVE, sheds=True)


def with_another(world: World, name: str, role: Role) -> Gang:
    """A running gang that members of another kind have come to, for whom nobody waits."""
    job = world.jobs[world.slots[name]]
    assert job is not None
    mine = job.gang.roles
    late = msgspec.structs.replace(role, name=f"late{len(mine)}", min=0, coupling=Coupling.LOOSE, segment=None)
    return msgspec.structs.replace(job.gang, roles=(*mine, late))


@st.composite
def losses(draw: st.DrawFn, built: Builder, gang: str, at: int) -> None:
    """A member of a running gang is gone."""
    job = built.world.jobs[built.world.slots[gang]]
    assert job is not None
    role = draw(st.integers(0, len(job.life.seats) - 1))
    if job.life.seats[role].nodes:
        built.add(ev.MemberLost(at, gang, role, job.life.seats[role].nodes[:1], (1,)))
