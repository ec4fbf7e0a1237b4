"""The ledger closes: what was spent is what was installed, at every moment and in every history."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from tests.clusters import drawn, gang, seats
from tests.drive import histories
from tutti.drive.account import Counting, Spent
from tutti.drive.ledger import Ledger, LedgerState
from tutti.engine import events as ev
from tutti.engine.model import (
    MINUTE,
    SECOND,
    Gang,
    NodeState,
    Pledge,
    Progress,
    Promise,
    Role,
    Seats,
    Shape,
    State,
    Token,
)
from tutti.engine.plan import Reason
from tutti.engine.world import World


class Book:
    """A ledger over drawn nodes."""

    def __init__(self, picture="8", counting=Counting.STEPS, **parts):
        self.world = drawn(picture, **parts)
        self.ledger = Ledger(counting=counting)
        self.ledger.open(self.world, 0)

    def enter(self, *events):
        for event in events:
            touched = self.ledger.through(self.world, event)
            assert not touched.note, touched.note
        return self

    def run(self, each, *where, at=0, up=0):
        """Start a gang at one moment and have it run from another."""
        taken = tuple(seats(self.world, text) for text in where)
        return self.enter(ev.Submitted(at, each), ev.Starting(at, each.name, taken), ev.Running(max(up, at), each.name))

    def seconds(self, until_s):
        """Non-zero categories in device-seconds."""
        total = self.ledger.report(self.world, until_s * SECOND).total
        return {what: amount / SECOND for what, amount in total.items() if amount}


def told(name, at_s, step, rate_milli=1000, **fields):
    return ev.Reported(at_s * SECOND, name, Progress(step, rate_milli=rate_milli, **fields))


def installed(world):
    """Devices that exist, counted the slow way; a device that is held exists."""
    held: dict[int, int] = {}
    for slot in world.seated:
        job = world.job_in(slot)
        for role, sat in zip(job.gang.roles, job.life.seats, strict=True):
            for node, count in zip(sat.nodes, sat.counts, strict=True):
                held[node] = held.get(node, 0) + count * role.shapes[sat.shape].ask.get("gpu", 0)
    capacity = {at: world.nodes[at].capacity["gpu"] for at in world.node_index.values()}
    return sum(capacity.values()), sum(max(capacity[at], held.get(at, 0)) for at in capacity)


@pytest.mark.parametrize("counting", list(Counting))
@given(history=histories.steps)
def test_every_device_microsecond_is_booked_once(counting, history):
    world = drawn("8 8 8 8")
    ledger = Ledger(counting=counting)
    ledger.open(world, 0)
    least = most = 0
    for event in histories.events(history):
        low, high = installed(world)
        least += low * (event.at - ledger.at)
        most += high * (event.at - ledger.at)
        ledger.through(world, event)
        ledger.answered(world, histories.answers(history).get, event.at)
        report = ledger.report(world, event.at)
        assert sum(report.total.values()) == report.installed
        assert least <= report.installed <= most
        assert all(amount >= 0 for amount in report.total.values())
        for sheet in report.queues.values():
            assert all(report.total[what] >= amount for what, amount in sheet.items())
        assert all(amount >= 0 for sheet in report.gangs.values() for amount in sheet.values())


@given(history=histories.steps)
def test_the_same_events_give_the_same_ledger_however_often_it_is_read(history):
    books = []
    for curious in (False, True):
        world, ledger = drawn("8 8 8 8"), Ledger()
        ledger.open(world, 0)
        for event in histories.events(history):
            ledger.through(world, event)
            if curious:
                ledger.report(world, event.at)
        books.append(ledger.report(world, ledger.at + 10))
    assert books[0] == books[1]


def test_a_job_that_says_nothing_is_unknown_even_when_it_finishes():
    book = Book("4").run(gang("a", 4), "n0*4").enter(ev.Ended(10 * SECOND, "a"))
    assert book.seconds(10) == {"unknown": 40}
    report = book.ledger.report(book.world, 10 * SECOND)
    assert (report.goodput_ppm, report.goodput_known_ppm) == (0, 0)


def test_where_progress_is_known_running_is_useful():
    book = Book("4", Counting.RUN_TIME).run(gang("a", 2), "n0*2", up=2 * SECOND)
    book.enter(ev.Ended(10 * SECOND, "a"))
    assert book.seconds(10) == {"held-starting": 4, "useful-kept": 16, "no-demand": 20}


def test_steps_make_time_useful_and_the_time_before_the_first_is_start_up():
    book = Book("4").run(gang("a", 4), "n0*4").enter(told("a", 10, 6), told("a", 20, 16))
    assert book.seconds(20) == {"start-up": 16, "useful-kept": 64}


def test_a_job_that_spins_without_steps_scores_nothing():
    book = Book("4").run(gang("a", 4), "n0*4").enter(told("a", 10, 10), told("a", 20, 10), told("a", 30, 10))
    assert book.seconds(30) == {"useful-kept": 40, "degraded": 80}


def test_slow_steps_are_degraded_against_the_gangs_own_best():
    book = Book("4").run(gang("a", 4), "n0*4").enter(told("a", 10, 10), told("a", 20, 15, rate_milli=500))
    assert book.seconds(20) == {"useful-kept": 60, "degraded": 20}


def test_a_snapshot_that_stops_the_job_is_booked_as_stall():
    book = Book("4").run(gang("a", 4), "n0*4")
    book.enter(told("a", 10, 10), told("a", 20, 18, snapshot_at=15 * SECOND, save_cost=2 * SECOND))
    assert book.seconds(20) == {"useful-kept": 72, "snapshot-stall": 8}


def test_the_slow_time_after_a_change_of_size_is_the_price_of_the_change():
    book = Book("8").run(gang("a", 4, max=8), "n0*4").enter(told("a", 10, 10))
    book.enter(ev.Resized(10 * SECOND, "a", (seats(book.world, "n0*8"),)), told("a", 20, 15))
    assert book.seconds(20) == {"useful-kept": 80, "resize": 40, "no-demand": 40}


def test_work_no_snapshot_covers_is_lost_where_it_was_earned():
    book = Book("4").run(gang("a", 4), "n0*4")
    book.enter(told("a", 10, 10, snapshot_at=6 * SECOND), told("a", 20, 20), ev.Evicted(20 * SECOND, "a"))
    assert book.seconds(20) == {"useful-kept": 24, "useful-later-lost": 56}


def test_a_parked_gang_loses_nothing():
    book = Book("4").run(gang("a", 4, parkable=True), "n0*4")
    book.enter(told("a", 10, 10), ev.Evicted(10 * SECOND, "a", parked=True))
    assert book.seconds(10) == {"useful-kept": 40}


def test_a_job_that_went_back_loses_the_steps_it_repeats():
    book = Book("4").run(gang("a", 4), "n0*4").enter(told("a", 10, 10), told("a", 20, 7))
    assert book.seconds(20) == {"useful-kept": 28, "useful-later-lost": 12, "degraded": 40}


def test_a_run_that_begins_again_counts_from_its_snapshot():
    book = Book("4").run(gang("a", 4), "n0*4")
    book.enter(told("a", 10, 10, snapshot_at=10 * SECOND), told("a", 20, 20), ev.Evicted(20 * SECOND, "a"))
    again = (seats(book.world, "n0*4"),)
    book.enter(ev.Starting(20 * SECOND, "a", again), ev.Running(20 * SECOND, "a"), told("a", 30, 15))
    assert book.seconds(30) == {"useful-kept": 60, "useful-later-lost": 40, "start-up": 20}


@pytest.mark.parametrize(
    ("state", "kept"), [(State.FINISHED, 40), (State.FAILED, 0), (State.CANCELLED, 0), (State.LOST, 0)]
)
def test_what_is_left_of_work_never_saved(state, kept):
    book = Book("4").run(gang("a", 4), "n0*4").enter(told("a", 10, 10), ev.Ended(10 * SECOND, "a", state))
    assert book.seconds(10).get("useful-kept", 0) == kept


def test_the_last_steps_of_a_finished_job_count_if_it_knew_its_length():
    book = Book("4").run(gang("a", 4), "n0*4")
    book.enter(told("a", 10, 10, steps=14), ev.Ended(15 * SECOND, "a"))
    assert book.seconds(15) == {"useful-kept": 56, "unknown": 4}


def test_the_backend_says_how_much_of_a_run_was_kept():
    book = Book("4", Counting.RUN_TIME).run(gang("a", 4), "n0*4")
    book.enter(ev.Evicted(10 * SECOND, "a", kept=7 * SECOND))
    assert book.seconds(10) == {"useful-kept": 28, "useful-later-lost": 12}


def test_costs_only_the_keeper_knows_can_be_charged():
    book = Book("4", Counting.RUN_TIME).run(gang("a", 4), "n0*4")
    book.ledger.charge(book.world, "a", Spent.START_UP, 3 * SECOND, 10 * SECOND)
    assert book.seconds(10) == {"useful-kept": 28, "start-up": 12}


def test_a_broken_gang_holds_degraded_and_is_repaired_at_the_price_of_a_resize():
    book = Book("4 4", Counting.RUN_TIME).run(gang("a", 4), "n0*2 n1*2")
    book.enter(ev.MemberLost(10 * SECOND, "a", 0, (1,), (2,)))
    book.enter(ev.Resized(20 * SECOND, "a", (seats(book.world, "n0*4"),)), ev.Running(25 * SECOND, "a"))
    assert book.seconds(30) == {"useful-kept": 60, "degraded": 20, "resize": 20, "no-demand": 140}


def insured():
    """Three workers and a spare for them."""
    card = (Shape({"gpu": 1}),)
    return Gang("a", (Role("worker", 3, shapes=card), Role("spare", 1, shapes=card, spare_for="worker")))


def test_a_spare_that_stands_by_is_idle_whatever_its_gang_does_and_counts_when_it_steps_in():
    book = Book("4 4", Counting.RUN_TIME).run(insured(), "n0*2 n1", "n1", up=2 * SECOND)
    assert book.seconds(10) == {"held-starting": 6, "useful-kept": 24, "reserved-idle": 10, "no-demand": 40}
    book.enter(ev.MemberLost(10 * SECOND, "a", 0, (0,), (1,)))
    book.enter(ev.Resized(15 * SECOND, "a", (seats(book.world, "n0 n1*2"), Seats())))
    book.enter(ev.Running(20 * SECOND, "a"), ev.Ended(30 * SECOND, "a"))
    report = book.ledger.report(book.world, 30 * SECOND)
    spent = {"useful-kept": 24 + 30, "held-starting": 6, "degraded": 10, "resize": 15, "reserved-idle": 10 + 5}
    assert {what: amount // SECOND for what, amount in report.gangs["a"].items()} == spent
    assert sum(report.total.values()) == report.installed == 240 * SECOND


def test_a_spare_earns_nothing_by_the_steps_of_the_others_and_is_no_part_of_their_size():
    book = Book("4", Counting.STEPS).run(insured(), "n0*3", "n0").enter(told("a", 10, 10), told("a", 20, 20))
    assert book.seconds(20) == {"useful-kept": 60, "reserved-idle": 20}
    assert [members for members, _, _ in book.ledger.speeds("a")] == [3]


def test_nodes_out_of_service_are_broken_and_others_work_is_foreign():
    book = Book("4x 4q 4d 4-1", Counting.RUN_TIME).run(gang("a", 2), "n2*2")
    assert book.seconds(10) == {"broken": 100, "useful-kept": 20, "foreign": 10, "no-demand": 30}


def test_a_lost_node_takes_its_members_time_with_it():
    book = Book("4 4", Counting.RUN_TIME).run(gang("a", 4), "n0*2 n1*2")
    book.enter(ev.NodeTurned(10 * SECOND, "n1", NodeState.LOST))
    assert book.seconds(20) == {"useful-kept": 40, "no-demand": 40 + 20, "degraded": 20, "broken": 40}


IDLE = [
    pytest.param(Token.NO_CAPACITY, {"fragmented-idle": 80}, id="wanted, but it does not fit"),
    pytest.param(Token.QUOTA_REACHED, {"quota-idle": 80}, id="wanted, but a limit forbids it"),
    pytest.param(Token.HELD, {"no-demand": 80}, id="the only one who waits is on hold"),
]


@pytest.mark.parametrize(("token", "expected"), IDLE)
def test_why_devices_are_idle(token, expected):
    book = Book("4 4").enter(ev.Submitted(0, gang("wide", 1, 8)))
    book.ledger.answered(book.world, {"wide": Reason(token)}.get, 0)
    assert book.seconds(10) == expected


def test_devices_kept_for_somebody_are_reserved_only_as_far_as_they_are_free():
    book = Book("4 4", Counting.RUN_TIME).run(gang("a", 3), "n0*3").enter(ev.Submitted(0, gang("b", 8)))
    book.enter(ev.Promised(0, "b", Promise(MINUTE, 2 * MINUTE, (seats(book.world, "n0*4 n1*4"),), 0)))
    book.ledger.answered(book.world, {"b": Reason(Token.USED_BY_OTHERS)}.get, 0)
    assert book.seconds(10) == {"useful-kept": 30, "reserved-idle": 50}
    book.enter(ev.Promised(10 * SECOND, "b", None))
    book.enter(ev.Pledged(10 * SECOND, "b", Pledge((seats(book.world, "n1*4"),), ("a",), 0, MINUTE)))
    assert book.seconds(20) == {"useful-kept": 60, "reserved-idle": 90, "fragmented-idle": 10}


def test_only_as_much_is_fragmented_as_somebody_wants():
    book = Book("4 4 4").enter(ev.Submitted(0, gang("a", 1, 5)))
    book.ledger.answered(book.world, {"a": Reason(Token.NO_CAPACITY)}.get, 0)
    assert book.seconds(10) == {"fragmented-idle": 50, "no-demand": 70}


def test_without_gpus_the_main_resource_counts():
    book = Book("4", resource="cpu")
    assert book.seconds(10) == {"no-demand": 40}
    assert book.ledger.resource == "cpu"


def test_sheets_of_queues_and_gangs_add_up():
    book = Book("8", Counting.RUN_TIME).run(gang("a", 2, queue="x"), "n0*2").run(gang("b", 4, queue="y"), "n0*4")
    book.enter(ev.Ended(5 * SECOND, "a"))
    report = book.ledger.report(book.world, 10 * SECOND)
    assert report.gangs == {"a": {"useful-kept": 10 * SECOND}, "b": {"useful-kept": 40 * SECOND}}
    assert report.queues == {"x": {"useful-kept": 10 * SECOND}, "y": {"useful-kept": 40 * SECOND}}
    assert report.goodput_ppm == 625_000


def test_a_stored_ledger_goes_on_where_it_stopped():
    book = Book("8").run(gang("a", 4), "n0*4").enter(told("a", 10, 10))
    stored = msgspec.json.encode(book.ledger.state())
    again = Ledger()
    again.restore(msgspec.json.decode(stored, type=LedgerState))
    again.open(World.load(book.world.listing()), 15 * SECOND)
    again.through(book.world, told("a", 20, 20))
    report = again.report(book.world, 20 * SECOND)
    assert report.total["useful-kept"] == 80 * SECOND
    assert sum(report.total.values()) == report.installed == 160 * SECOND


@pytest.mark.parametrize(
    ("ended", "kept"),
    [
        pytest.param({}, {"useful-later-lost": 40}, id="nobody knows of its end: lost"),
        pytest.param({"a": State.FINISHED}, {"useful-kept": 40}, id="it had finished"),
    ],
)
def test_a_gang_that_ended_after_the_ledger_was_stored(ended, kept):
    book = Book("8").run(gang("a", 4), "n0*4").enter(told("a", 10, 10))
    again = Ledger()
    again.restore(book.ledger.state(), ended)
    book.world.apply(ev.Ended(11 * SECOND, "a"))
    again.open(book.world, 15 * SECOND)
    report = again.report(book.world, 20 * SECOND)
    assert report.gangs["a"] == {what: amount * SECOND for what, amount in kept.items()}
    assert sum(report.total.values()) == report.installed == 160 * SECOND


def test_the_reference_page_names_every_category():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "ledger.md").read_text()
    assert [what for what in Spent if f"`{what.value}`" not in page] == []
