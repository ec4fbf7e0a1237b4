"""The profile against a naive model: every node by itself, every moment by itself."""

from random import Random

import numpy as np
import pytest

from tests.clusters import drawn, gang, seat, submit
from tutti.engine import profile as profiles
from tutti.engine.model import NEVER, SECOND, Shape
from tutti.engine.profile import Ask, Profile
from tutti.engine.view import View

NOW = 10 * SECOND
GPU, CPU = 0, 1
ASKS: list[Ask] = [((GPU, 1),), ((GPU, 2),), ((GPU, 3), (CPU, 1)), ((CPU, 2),), ((GPU, 9),), ()]


class Naive:
    """Who is on which node, from when to when. Everything else is counted from that."""

    def __init__(self, view: View, now: int) -> None:
        self.view = view
        self.now = now
        self.stays: dict[object, tuple[int, int, dict[int, int], Ask]] = {}
        for slot in view.seated:
            job = view.held(slot)
            held = dict(zip(job.life.seats[0].nodes, job.life.seats[0].counts, strict=True))
            ask = tuple((view.resources[name], amount) for name, amount in job.gang.roles[0].shapes[0].ask.items())
            self.stays[job.gang.name] = (
                0,
                int(view.ends[slot, 2]),
                {int(view.line[n]): c for n, c in held.items()},
                ask,
            )

    def free(self, position: int, resource: int, moment: int) -> int:
        node = self.view.nodes[int(self.view.by_line[position])]
        assert node is not None
        name = next(name for name, at in self.view.resources.items() if at == resource)
        used = sum(
            held.get(position, 0) * dict(ask).get(resource, 0)
            for start, end, held, ask in self.stays.values()
            if start <= moment < end
        )
        return node.capacity.get(name, 0) - used

    def members(self, position: int, ask: Ask, start: int, end: int) -> int:
        begins = {stay[0] for stay in self.stays.values()}
        moments = {start, *(moment for moment in begins if start < moment < end)}
        if not ask:
            return 1_000_000
        return max(min(self.free(position, r, at) // amount for r, amount in ask for at in moments), 0)

    def total(self, ask: Ask, start: int, end: int, mask: list[bool]) -> int:
        return sum(self.members(p, ask, start, end) for p in range(len(mask)) if mask[p])

    def moments(self, ask: Ask, chances: list[int], members: int, length: int, mask: list[bool]) -> list[int]:
        return [at for at in chances if self.total(ask, at, at + length, mask) >= members]


class Both:
    """The profile and the model, to which the same things are done."""

    def __init__(self, draw: Random, nodes: int, running: int) -> None:
        world = submit(drawn(" ".join(["8"] * nodes), cpu=4), gang("small", shapes=(Shape({"gpu": 1, "cpu": 1}),)))
        for number in range(running):
            width = draw.randint(1, max(1, nodes // running))
            where = " ".join(f"n{i}" for i in range(nodes) if i % running == number)
            shape = Shape({"gpu": draw.randint(1, 8), "cpu": draw.randint(1, 4)})
            chosen = " ".join(where.split()[:width])
            seat(world, gang(f"g{number}", len(chosen.split()), run_s=draw.randint(11, 90), shapes=(shape,)), chosen)
        self.draw = draw
        self.view = world.view()
        self.nodes = nodes
        self.profile = Profile(self.view, NOW, 100, np.ones(len(self.view.class_weight), np.bool_))
        self.naive = Naive(self.view, NOW)
        self.receipts: list[int] = []
        self.farsighted = draw.choice([0.02, 1.0])

    def some_time(self) -> tuple[int, int]:
        start = NOW + self.draw.choice([0, self.draw.randint(0, 100)]) * SECOND
        return start, self.draw.choice([NEVER, start + self.draw.randint(1, 60) * SECOND, start + SECOND])

    def take(self) -> None:
        """Seat members wherever the model has room for them."""
        ask, (start, end) = self.draw.choice(ASKS[:4]), self.some_time()
        wanted = self.draw.sample(range(self.nodes), self.draw.randint(1, self.nodes))
        room = {p: self.naive.members(p, ask, start, end) for p in wanted}
        held = {p: self.draw.randint(1, most) for p, most in room.items() if most}
        if held:
            positions = np.array(list(held), np.intp)
            counts = np.array(list(held.values()), np.int64)
            receipt = self.profile.take(start, end, positions, counts, ask)
            self.receipts.append(receipt)
            self.naive.stays[receipt] = (start, end, held, ask)

    def give(self) -> None:
        if self.receipts:
            receipt = self.receipts.pop(self.draw.randrange(len(self.receipts)))
            self.profile.give(receipt)
            del self.naive.stays[receipt]

    def mark(self) -> None:
        if self.draw.random() < self.farsighted:
            self.profile.look_ahead()
        self.profile.mark(NOW + self.draw.randint(0, 10_000) * SECOND // 100)

    def isolate(self) -> None:
        self.profile.isolate(np.array([self.draw.randrange(self.nodes)], np.intp))

    def step(self) -> None:
        self.draw.choice([self.take, self.take, self.take, self.give, self.mark, self.mark, self.isolate])()

    def members(self) -> tuple[list[int], list[int]]:
        """How many fit on each node at some time: found, and by the model."""
        ask, (start, end) = self.draw.choice(ASKS), self.some_time()
        first, last = self.profile.slots(start, end)
        fits = self.profile.members(first, last, ask, np.ones(self.profile.count, np.bool_))
        found = fits[self.profile.columns_of(np.arange(self.nodes))].tolist()
        return found, [self.naive.members(p, ask, self.profile.times[first], end) for p in range(self.nodes)]

    def moments(self) -> tuple[list[int], list[int]]:
        """All chances for one request, on the nodes of some classes of the view only: found, and by the model."""
        ask, key = self.draw.choice(ASKS), self.draw.choice([2, 3])
        open_classes = np.arange(len(self.view.class_weight)) % key > 0
        mask = open_classes[self.profile.origins()]
        allowed = open_classes[self.view.class_of[self.view.by_line]].tolist()
        members, length = self.draw.randint(1, 3 * self.nodes), self.draw.choice([5 * SECOND, 40 * SECOND, NEVER])
        after = self.draw.choice([NOW, NOW + 20 * SECOND])
        likely = self.draw.choice([NEVER, self.draw.choice(self.chances(NOW))])
        found = list(self.profile.moments(ask, mask, key, members, length, after, likely))
        return found, self.naive.moments(ask, self.chances(after), members, length, allowed)

    def chances(self, after: int) -> list[int]:
        """Moments from one on that have a row, or would have one if all were laid out."""
        ends = {end for _, end, *_ in self.naive.stays.values() if NOW < end < NEVER}
        return [at for at in (self.profile.times if self.profile.has_future else sorted({NOW, *ends})) if at >= after]

    def check_columns(self) -> None:
        profile, columns = self.profile, self.profile.columns_of(np.arange(self.nodes))
        for column in range(profile.count):
            nodes = np.flatnonzero(columns == column).tolist()
            assert profile.nodes_in(column, self.nodes).tolist() == nodes
            assert profile.weight[column] == len(nodes)
            assert not nodes or profile.positions()[column] == nodes[0]
        assert sorted(profile.times) == profile.times
        assert len(set(profile.rows.tolist())) == len(profile.times)


@pytest.mark.parametrize("seed", range(12))
def test_a_long_story_agrees_with_the_model(seed):
    both = Both(Random(seed), nodes=5, running=3)
    for _ in range(60):
        both.step()
        found, expected = both.members()
        assert found == expected
        found, expected = both.moments()
        assert found == expected
    both.check_columns()


@pytest.mark.parametrize("seed", range(3))
def test_many_slots_agree_with_the_model(seed):
    both = Both(Random(seed), nodes=4, running=2)
    for _ in range(150):
        both.mark()
    for _ in range(15):
        both.step()
        found, expected = both.members()
        assert found == expected
        found, expected = both.moments()
        assert found == expected
    both.check_columns()


@pytest.mark.parametrize("seed", range(20))
def test_what_was_taken_before_the_future_was_laid_out_is_taken_in_it(seed):
    both = Both(Random(seed), nodes=4, running=3)
    for _ in range(4):
        both.draw.choice([both.take, both.isolate])()
    both.profile.look_ahead()
    for _ in range(10):
        found, expected = both.members()
        assert found == expected


@pytest.mark.parametrize("stays", [15, 16, 17])
def test_a_stay_whose_end_is_one_moment_too_many_is_taken_from_its_start_on(stays):
    """From so many moments on all of them are laid out, in the midst of a taking."""
    profile = Profile(drawn("8").view(), NOW, 100, np.ones(1, np.bool_))
    for each in range(stays):
        begin = NOW + 10 * (each + 1) * SECOND
        profile.take(begin, begin + SECOND, np.array([0]), np.array([1]), ((GPU, 8),))
    assert profile.has_future is (stays > 15)
    for each in range(stays):
        begin = NOW + 10 * (each + 1) * SECOND
        room = [profile.members_at(begin + at, ((GPU, 8),), np.ones(1, np.bool_))[0] for at in (-SECOND, 0, SECOND)]
        assert room == [1, 0, 1]


def test_what_was_given_back_is_no_moment_to_wake_up_for():
    both = Both(Random(0), nodes=2, running=1)
    ask, node, one = ((GPU, 1),), np.array([1]), np.array([1])
    ends = [stay[1] for stay in both.naive.stays.values()]
    for start in (NOW, NOW + SECOND):
        both.profile.look_ahead()
        both.profile.give(both.profile.take(start, start + SECOND // 2, node, one, ask))
        assert both.profile.next_moment() == min(ends)


def test_requests_beyond_those_kept_count_of_find_the_same_moments(monkeypatch):
    monkeypatch.setattr(profiles, "MOST_TALLIES", 1)
    both = Both(Random(1), nodes=5, running=3)
    for _ in range(30):
        both.step()
        found, expected = both.moments()
        assert found == expected


def test_a_stay_tried_on_between_two_moments_makes_no_new_chance():
    both = Both(Random(0), nodes=3, running=3)
    profile, seen = both.profile, []
    mask = np.ones(profile.count, np.bool_)
    for moment in profile.moments(((GPU, 1),), mask, "all", 1, 7 * SECOND, NOW):
        seen.append(moment)
        profile.give(profile.take(moment, moment + 7 * SECOND, np.array([0]), np.array([1]), ((GPU, 1),)))

    ends = sorted({stay[1] for stay in both.naive.stays.values()})
    assert seen == both.naive.moments(((GPU, 1),), [NOW, *ends], 1, 7 * SECOND, [True] * 3)
    assert len(profile.times) > len(seen)


def test_giving_back_leaves_everything_as_it_was():
    both = Both(Random(3), nodes=4, running=2)
    both.profile.look_ahead()
    before = both.profile.members(0, 1, ((GPU, 1),), np.ones(both.profile.count, np.bool_))
    before = before[both.profile.columns_of(np.arange(4))]
    for _ in range(20):
        both.take()
    while both.receipts:
        both.give()
    after = both.profile.members(0, 1, ((GPU, 1),), np.ones(both.profile.count, np.bool_))
    assert after[both.profile.columns_of(np.arange(4))].tolist() == before.tolist()


def test_the_same_question_after_a_change_gets_a_new_answer():
    profile = Both(Random(3), nodes=1, running=1).profile
    profile.look_ahead()
    one, at = ((GPU, 1),), np.array([0])

    def free(slot: int) -> int:
        fits = profile.members(slot, slot + 1, one, np.ones(profile.count, np.bool_))
        return int(fits[profile.columns_of(at)[0]])

    now, later = free(0), free(1)
    receipt = profile.take(profile.times[1], NEVER, at, np.array([3]), one)
    assert (later, free(1)) == (8, 5)
    profile.give(receipt)
    assert free(1) == 8
    profile.mark(NOW + 1)
    assert free(1) == now < 8


def test_nodes_of_a_column_stand_in_line_however_they_were_chosen():
    world = drawn("8 8 8 8")
    view = world.view()
    profile = Profile(view, NOW, 100, np.ones(len(view.class_weight), np.bool_))
    profile.take(NOW, NEVER, np.array([3, 1]), np.array([2, 2]), ((GPU, 1),))
    mine, others = (int(profile.columns_of(np.array([position]))[0]) for position in (1, 0))
    assert profile.nodes_in(mine, 9).tolist() == [1, 3]
    assert profile.nodes_in(others, 9).tolist() == [0, 2]
    positions, members = profile.nodes_of(np.array([mine, others]), np.array([2, 1]), np.array([5, 7]))
    assert (positions.tolist(), members.tolist()) == ([1, 3, 0], [5, 5, 7])
    assert [int(profile.positions()[column]) for column in (mine, others)] == [1, 0]


def test_members_that_leave_make_room():
    both = Both(Random(5), nodes=2, running=1)
    mask, one = np.ones(both.profile.count, np.bool_), ((GPU, 1),)
    before = int(both.profile.members(0, 1, one, mask).max())
    receipt = both.profile.take(NOW, NEVER, np.array([0]), np.array([1]), one, -1)
    mask = np.ones(both.profile.count, np.bool_)
    assert int(both.profile.members(0, 1, one, mask)[both.profile.columns_of(np.array([0]))[0]]) >= 1
    both.profile.give(receipt)
    assert int(both.profile.members(0, 1, one, mask).max()) == before
