"""One future: the real decision pushed forward, and nothing of it leaks back."""

from hypothesis import given

from tests.clusters import drawn, gang, seat, seats, submit
from tests.drive import histories
from tests.drive.first_come import first_come
from tutti.engine import events as ev
from tutti.engine.forecast import roll
from tutti.engine.model import DAY, HOUR, MINUTE, SECOND, Progress, Resizing, Speed, State
from tutti.engine.plan import Evict, Grow, How, Plan, Restart
from tutti.engine.policy import Policy
from tutti.engine.presets import PRESETS
from tutti.engine.record import recorded

FCFS = PRESETS["fcfs"].policy
EASY = PRESETS["easy"].policy


def line(picture="4"):
    """One gang that runs on four cards, three that wait for them."""
    world = seat(drawn(picture), gang("r", 4, run_s=100), "n0*4")
    return submit(world, *(gang(f"w{i}", 4, run_s=50, submitted=i) for i in range(3))).view()


def test_gangs_start_when_the_ones_before_them_end():
    starts = roll(line(), 0, {}, DAY, EASY)
    assert starts.at == {"w0": 100 * SECOND, "w1": 150 * SECOND, "w2": 200 * SECOND}
    assert not starts.cut


def test_drawn_run_times_take_the_place_of_estimates():
    starts = roll(line(), 0, {"r": 30 * SECOND, "w0": 7 * SECOND}, DAY, EASY)
    assert starts.at == {"w0": 30 * SECOND, "w1": 37 * SECOND, "w2": 87 * SECOND}


def test_a_gang_that_should_be_over_ends_next():
    starts = roll(line(), 60 * SECOND, {"r": 30 * SECOND}, DAY, EASY, names={"w0"})
    assert starts.at["w0"] == 60 * SECOND + 1


def test_nothing_is_known_beyond_the_horizon():
    starts = roll(line(), 0, {}, 2 * MINUTE, EASY)
    assert starts.at == {"w0": 100 * SECOND}
    assert starts.reached == 2 * MINUTE


def test_behind_a_gang_nobody_can_estimate_nothing_starts():
    world = submit(seat(drawn("4"), gang("r", 4), "n0*4"), gang("w", 4, run_s=9))
    assert roll(world.view(), 0, {}, DAY, EASY).at == {}


def test_the_future_ends_as_soon_as_everybody_asked_about_has_started():
    starts = roll(line(), 0, {}, DAY, EASY, names={"w0"})
    assert starts.at == {"w0": 100 * SECOND}
    assert starts.reached == 100 * SECOND


def test_a_budget_that_is_spent_is_told():
    starts = roll(line(), 0, {}, DAY, EASY, steps=2)
    assert starts.cut
    assert starts.steps == 2


def test_a_gang_that_is_starting_or_leaving_plays_its_part():
    world = submit(drawn("4 4"), gang("up", 4, run_s=100), gang("off", 4), gang("w", 8, run_s=10))
    world.apply(ev.Starting(0, "up", (seats(world, "n0*4"),)))
    world.apply(ev.Starting(0, "off", (seats(world, "n1*4"),)))
    world.apply(ev.Running(0, "off"))
    world.apply(ev.Leaving(0, "off", by=30 * SECOND))
    starts = roll(world.view(), 0, {"off": 5 * SECOND}, DAY, EASY, names={"w"})
    assert starts.at["w"] == 100 * SECOND


def scripted(view, now, policy, cache=None):
    """Evict the low one for the high one, in the future too."""
    waiting = {view.held(slot).gang.name: view.held(slot) for slot in view.queued}
    seated = {view.held(slot).gang.name: view.held(slot) for slot in view.seated}
    if "high" in waiting and "low" in seated:
        leaving = seated["low"].life.state is State.DRAINING
        return Plan(view.number, now, () if leaving else (Evict("low", how=How.PARK, by=now + 20 * SECOND),))
    return first_come(view, now, policy)


def test_a_victim_takes_its_time_to_leave_and_comes_back_with_what_it_had_done():
    world = seat(drawn("4"), gang("low", 4, run_s=100, submitted=9), "n0*4")
    submit(world, gang("high", 4, run_s=50))
    starts = roll(world.view(), 40 * SECOND, {}, DAY, Policy(), choose=scripted, names={"high", "low"})
    assert starts.at["high"] == 60 * SECOND


def test_work_that_was_not_saved_is_done_again():
    world = submit(seat(drawn("4"), gang("r", 4, run_s=100, submitted=0), "n0*4"), gang("w", 4, submitted=5))
    world.apply(ev.Reported(0, "r", Progress(snapshot_at=30 * SECOND)))
    done: list[int] = []

    def restart_once(view, now, policy, cache=None):
        if not done:
            done.append(now)
            return Plan(view.number, now, (Restart("r"),))
        return first_come(view, now, policy)

    starts = roll(world.view(), 60 * SECOND, {"r": 100 * SECOND}, DAY, Policy(), choose=restart_once)
    assert starts.at["w"] == 130 * SECOND


def test_a_gang_that_grew_ends_sooner_by_its_speed():
    each = gang("e", 2, run_s=100, max=4, resizing=Resizing.LIVE, speed=Speed(((2, 1000), (4, 2000))))
    world = submit(seat(drawn("4"), each, "n0*2"), gang("w", 4))
    grown: list[int] = []

    def grow_once(view, now, policy, cache=None):
        if not grown:
            grown.append(now)
            return Plan(view.number, now, (Grow("e", seats=(seats(view, "n0*4"),)),))
        return first_come(view, now, policy)

    starts = roll(world.view(), 0, {}, DAY, Policy(), choose=grow_once)
    assert starts.at["w"] == 50 * SECOND


@given(history=histories.steps)
def test_any_future_of_any_view_is_deterministic_and_leaves_no_trace(history):
    world = drawn("8 8 8 8")
    for event in histories.events(history):
        world.apply(event)
    submit(world, gang("w", 16, run_s=60), at=world.at)
    view = world.view()
    before = recorded(view)
    draws = {f"g{i}": (i + 1) * HOUR for i in range(3)}
    first = roll(view, world.at, draws, world.at + DAY, Policy(), steps=30)
    assert first == roll(view, world.at, draws, world.at + DAY, Policy(), steps=30)
    assert recorded(view) == before
    assert all(world.at <= start <= world.at + DAY for start in first.at.values())
    assert first.steps <= 30
