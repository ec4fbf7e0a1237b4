"""The properties are worth something: bugs put into the planner on purpose are each found by one of them."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from tests.promises.outcomes import carry_out, lived
from tests.promises.test_the_obvious_way import placed
from tests.worlds import MEDIUM, PLAIN, SMALL, Builder, Reach, Scene, scenes
from tutti.engine import (
    answers,
    bounds,
    company,
    decide,
    desk,
    place,
    profile,
    quota,
    reclaim,
    releases,
    reserve,
    spoken_for,
    topology,
)
from tutti.engine import events as ev
from tutti.engine.check import Rule, check
from tutti.engine.model import HOUR, NEVER, SECOND, Estimate, Gang, Node, Queue, Role, Seats, Shape, Source
from tutti.engine.order import Turns
from tutti.engine.place import Seating
from tutti.engine.policy import Policy
from tutti.engine.slow import decide_slow
from tutti.engine.together import seat_roles
from tutti.engine.whole import moments

LOOK = settings(
    max_examples=3000,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
CROWDED = Reach(nodes=3, running=5, waiting=6)
HURRIED = CROWDED._replace(focus=("priority", "min_run"))
COUNTED = SMALL._replace(focus=("max_running",))
LIMITED = SMALL._replace(focus=("limit",))
SHY = SMALL._replace(focus=("marks", "repels"))
ANY = st.one_of(scenes(SMALL), lived(SMALL), scenes(MEDIUM), scenes(CROWDED))


@st.composite
def pledged(draw: st.DrawFn) -> Scene:
    """A gang waits for those it takes the place of; some of them have left, and another one comes."""
    built, nodes, now = Builder(), draw(st.integers(2, 4)), HOUR
    built.add(ev.QueueSet(0, Queue("default")), *(ev.NodeSeen(0, Node(f"n{at}", {"gpu": 8})) for at in range(nodes)))
    for at in range(nodes):
        built.seat(_gang(f"low{at}", 1, 0), 0, at)
    built.add(ev.Submitted(now, _gang("high", nodes, 9)))
    built.events += carry_out(built.world, decide.decide(built.world.view(), now, Policy()), now)
    built.add(*(ev.Evicted(now + SECOND, f"low{at}") for at in range(draw(st.integers(0, nodes - 1)))))
    built.add(ev.Submitted(now + SECOND, _gang("late", 1, draw(st.integers(0, 8)))))
    return Scene(tuple(built.events), now + 2 * SECOND)


@st.composite
def promised_a_turn(draw: st.DrawFn) -> Scene:
    """The first in line waits for a node that another queue uses; who comes after it finds a node that it can spare."""
    built, turns, free, now = Builder(), draw(st.integers(1, 2)), draw(st.integers(1, 2)), HOUR
    built.add(ev.QueueSet(0, Queue("default", max_running=turns)), ev.QueueSet(0, Queue("other")))
    built.add(*(ev.NodeSeen(0, Node(f"n{at}", {"gpu": 8})) for at in range(turns + 1 + free)))
    built.seat(_gang("theirs", 2, 0, hours=2, queue="other"), 0, 0)
    if turns > 1:
        built.seat(_gang("ours", 1, 0, hours=9), 0, 2)
    built.add(ev.Submitted(now, _gang("first", free + 1, 0, hours=1)))
    built.add(ev.Submitted(now + SECOND, _gang("late", 1, 0, hours=draw(st.integers(1, 9)))))
    return Scene(tuple(built.events), now + 2 * SECOND)


def _gang(name: str, members: int, priority: int, hours: int = 0, queue: str = "default") -> Gang:
    runs = Estimate(limit=hours * HOUR, source=Source.DECLARED) if hours else Estimate()
    role = Role(min=members, shapes=(Shape({"gpu": 8}),))
    return Gang(name, (role,), queue=queue, priority=priority, estimate=runs)


def broken_rules(scene: Scene) -> set[Rule]:
    """What the check finds in the plan for a scene."""
    view = scene.view()
    return {found.rule for found in check(view, decide.decide(view, scene.now, scene.policy), scene.policy)}


def differs(scene: Scene) -> bool:
    """Whether the planner decides otherwise than the obvious way."""
    view = scene.view()
    return placed(decide.decide(view, scene.now, scene.policy)) != placed(decide_slow(view, scene.now, scene.policy))


def is_restless(scene: Scene) -> bool:
    """Whether something is left to do before the plan said it would be."""
    world = scene.world()
    plan = decide.decide(world.view(), scene.now, scene.policy)
    for _ in range(4):
        carry_out(world, plan, scene.now)
        plan = decide.decide(world.view(), scene.now, scene.policy)
    return any(
        decide.decide(world.view(), moment, scene.policy).actions
        for moment in (scene.now + 1, scene.now + 10**9, scene.now + 10**10)
        if moment < plan.wake_at
    )


def breaks(rule: Rule) -> Callable[[Scene], bool]:
    """The check names this rule."""
    return lambda scene: rule in broken_rules(scene)


# -- the bugs: each takes pytest's monkeypatch and puts itself into the planner


def one_too_many(patch):
    real = profile.Profile.members
    patch.setattr(profile.Profile, "members", lambda *args: np.where(real(*args) > 0, real(*args) + 1, 0))


def a_role_forgotten(patch):

    def forgetful(*args):
        found = seat_roles(*args)
        return [*found[:-1], Seating.empty()] if found else found

    patch.setattr(decide, "seat_roles", forgetful)


def domains_ignored(patch):
    patch.setattr(place, "_level", lambda *_: "")


def tags_ignored(patch):
    patch.setattr(topology.Topology, "eligible", lambda self, *_: np.ones(len(self.kinds), np.bool_))


def health_ignored(patch):
    patch.setattr(desk, "usable", lambda view, *_: (view.class_weight > 0, 1 << 62))


def sizes_ignored(patch):
    patch.setattr(place.Outlook, "size", lambda self, want: min(self.capacity(), want.want + 1))


def gates_left_open(patch):
    patch.setattr(decide, "gate", lambda *_: None)


def limits_ignored(patch):
    patch.setattr(quota.Shares, "blocked", lambda *_: None)
    promised_turns_given_away(patch)


def gangs_not_counted(patch):
    patch.setattr(bounds.Tally, "crowd", lambda *_: None)
    promised_turns_given_away(patch)


def promised_turns_given_away(patch):
    patch.setattr(spoken_for.SpokenFor, "taken", lambda *_: None)


def windows_ignored(patch):
    patch.setattr(company, "_in_window", lambda desk, *_: np.zeros(desk.profile.count, np.bool_))


def pledges_skipped(patch):
    patch.setattr(reserve, "_hold", lambda *_: None)


def minimum_run_time_ignored(patch):
    patch.setattr(reclaim, "may_be_interrupted", lambda *_: True)


def marks_ignored(patch):
    patch.setattr(company, "_near", lambda desk, *_: np.zeros(desk.profile.count, np.bool_))


def an_answer_dropped(patch):
    real = answers.Answers._waiting
    patch.setattr(answers.Answers, "_waiting", lambda self: dict(list(real(self).items())[1:]))


def ends_taken_for_now(patch):
    """Promises as if everybody who runs were gone the next moment."""
    real = releases.expected
    patch.setattr(releases, "expected", lambda view, now, percent: np.minimum(real(view, now, percent), now + 1))


def seats_listed_twice(patch):
    real = desk.Desk.seats

    def doubled(self, need, seating):
        seats = real(self, need, seating)
        return Seats(seats.nodes[:1] * len(seats.nodes), seats.counts, seats.shape)

    patch.setattr(desk.Desk, "seats", doubled)


def the_last_first(patch):
    patch.setattr(decide, "Turns", lambda *args: list(Turns(*args))[::-1])


def the_roomiest_node(patch):
    real = place.Outlook._left
    patch.setattr(place.Outlook, "_left", lambda *args: -real(*args))


def promises_one_late(patch):
    """The first moment that would do is passed over."""

    def late(*args):
        found = moments(*args)
        next(found, None)
        return found

    patch.setattr(reserve, "moments", late)


def nothing_wakes(patch):
    patch.setattr(desk.Desk, "wake", lambda *_: None)
    patch.setattr(desk.Desk, "wake_at", NEVER, raising=False)


@pytest.mark.parametrize(
    ("bug", "caught", "worlds"),
    [
        pytest.param(one_too_many, breaks(Rule.ROOM), ANY, id="over-committed by one"),
        pytest.param(a_role_forgotten, breaks(Rule.SIZE), ANY, id="a role is forgotten"),
        pytest.param(domains_ignored, breaks(Rule.FIT), ANY, id="a required domain is ignored"),
        pytest.param(tags_ignored, breaks(Rule.FIT), ANY, id="tags and taints are ignored"),
        pytest.param(health_ignored, breaks(Rule.FIT), ANY, id="lost nodes are used"),
        pytest.param(sizes_ignored, breaks(Rule.SIZE), ANY, id="an illegal size"),
        pytest.param(gates_left_open, breaks(Rule.QUOTA), ANY, id="held gangs are started"),
        pytest.param(limits_ignored, breaks(Rule.QUOTA), scenes(LIMITED), id="limits are ignored"),
        pytest.param(gangs_not_counted, breaks(Rule.QUOTA), scenes(COUNTED), id="running gangs are not counted"),
        pytest.param(
            promised_turns_given_away,
            breaks(Rule.PROMISE),
            promised_a_turn(),
            id="a turn that is promised is given away",
        ),
        pytest.param(windows_ignored, breaks(Rule.PROMISE), ANY, id="maintenance is ignored"),
        pytest.param(pledges_skipped, breaks(Rule.PROMISE), pledged(), id="a pledge is skipped"),
        pytest.param(
            minimum_run_time_ignored,
            breaks(Rule.RECLAIM),
            scenes(HURRIED),
            id="taken inside the minimum run time",
        ),
        pytest.param(
            marks_ignored,
            breaks(Rule.FIT),
            scenes(SHY),
            id="neighbours that repel each other",
        ),
        pytest.param(an_answer_dropped, breaks(Rule.ANSWER), ANY, id="an answer is dropped"),
        pytest.param(ends_taken_for_now, breaks(Rule.ROOM), ANY, id="promises before anybody ends"),
        pytest.param(seats_listed_twice, breaks(Rule.ROOM), ANY, id="all members on the first node"),
        pytest.param(the_last_first, differs, scenes(PLAIN._replace(nodes=2)), id="the last in line goes first"),
        pytest.param(the_roomiest_node, differs, scenes(PLAIN), id="the worst fitting node is taken"),
        pytest.param(promises_one_late, differs, scenes(PLAIN), id="promises later than need be"),
        pytest.param(nothing_wakes, is_restless, ANY, id="nobody is woken"),
    ],
)
def test_a_bug_is_caught(monkeypatch, bug, caught, worlds):
    bug(monkeypatch)

    assert caught(find(worlds, caught, settings=LOOK)), "what was found is the same when it is looked at again"
