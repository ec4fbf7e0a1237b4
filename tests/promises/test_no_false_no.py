"""No gang is turned away that an exhaustive search could seat: several roles, several shapes, few nodes."""

from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.clusters import drawn
from tutti.engine import events as ev
from tutti.engine.decide import decide
from tutti.engine.model import Cap, Gang, Role, Seats, Shape
from tutti.engine.plan import Start
from tutti.engine.policy import Policy
from tutti.engine.view import View

PICTURES = ("4 4", "4 3 2", "a: 4 2 | b: 3 3", "a: 2 2 | b: 4 1 | c: 3", "8 1 1")
asks = st.sampled_from([{"gpu": 1}, {"gpu": 2}, {"gpu": 1, "cpu": 2}, {"gpu": 3}, {"cpu": 3}])


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    """A gang of one to three roles of few members, some of them bound to a rack or to one a node."""
    made = []
    for index in range(draw(st.integers(1, 3))):
        shapes = tuple(Shape(ask) for ask in draw(st.lists(asks, min_size=1, max_size=2)))
        within = draw(st.sampled_from(["", "", "rack"]))
        caps = (Cap("node", 1),) if draw(st.booleans()) else ()
        made.append(Role(f"r{index}", min=draw(st.integers(1, 3)), shapes=shapes, within=within, caps=caps))
    return Gang("g", tuple(made), within=draw(st.sampled_from(["", "", "", "rack"])))


def can_sit(view: View, gang: Gang) -> bool:
    """Whether any choice of shapes lets all members sit; every way is tried."""
    names = list(view.resources)
    free = [[int(a) for a in view.class_free[:, view.class_of[i]]] for i in range(len(view.nodes))]
    racks = [node.place[-1] if node and node.place else None for node in view.nodes]
    for shapes in product(*(role.shapes for role in gang.roles)):
        members = [(r, [shape.ask.get(n, 0) for n in names]) for r, shape in enumerate(shapes)]
        expanded = [entry for entry in members for _ in range(gang.roles[entry[0]].min)]
        if _search(gang, expanded, 0, [row.copy() for row in free], racks, []):
            return True
    return False


def _search(gang: Gang, members: list, at: int, free: list, racks: list, seats: list) -> bool:
    if at == len(members):
        return True
    role, ask = members[at]
    # Members of a role are alike: each sits no further to the left than the one before.
    first = seats[-1][1] if seats and seats[-1][0] == role else 0
    for node in range(first, len(free)):
        if not _allowed(gang, role, node, racks, seats):
            continue
        if all(have >= want for have, want in zip(free[node], ask, strict=True)):
            free[node] = [have - want for have, want in zip(free[node], ask, strict=True)]
            if _search(gang, members, at + 1, free, racks, [*seats, (role, node)]):
                return True
            free[node] = [have + want for have, want in zip(free[node], ask, strict=True)]
    return False


def _allowed(gang: Gang, role: int, node: int, racks: list, seats: list) -> bool:
    rules = gang.roles[role]
    if rules.caps and (role, node) in seats:
        return False
    bound = [other for r, other in seats if gang.within or (r == role and rules.within)]
    if (gang.within or rules.within) and racks[node] is None:
        return False
    return all(racks[other] == racks[node] for other in bound)


@given(st.sampled_from(PICTURES), gangs(), st.lists(st.tuples(st.integers(0, 4), st.integers(1, 2)), max_size=2))
def test_whoever_could_sit_does(picture, gang, used):
    world = drawn(picture, cpu=4)
    assume("rack" not in (gang.within, *(role.within for role in gang.roles)) or ":" in picture)
    for index, (node, cards) in enumerate(used):
        other = Gang(f"o{index}", (Role(shapes=(Shape({"gpu": cards}),)),))
        world.apply(ev.Submitted(0, other))
        at = node % len(world.nodes)
        free = int(world.view().class_free[0, world.view().class_of[at]])
        if free >= cards:
            world.apply(ev.Starting(0, other.name, (Seats((at,), (1,)),)))
        else:
            world.apply(ev.Ended(0, other.name))
    world.apply(ev.Submitted(0, gang))
    view = world.view()

    plan = decide(view, 0, Policy())

    starts = any(isinstance(action, Start) and action.gang == "g" for action in plan.actions)
    assert starts == can_sit(view, gang), dict(plan.answers)
