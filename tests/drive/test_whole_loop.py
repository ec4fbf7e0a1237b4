"""The loop with the real decision and the real checker over a small world where things break."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clusters import drawn, gang
from tests.drive.toy import Toy
from tutti.drive.account import Counting
from tutti.drive.estimates import History
from tutti.drive.ledger import Ledger
from tutti.drive.loop import Driver
from tutti.drive.notice import Notice, Trouble
from tutti.engine import events as ev
from tutti.engine.model import DAY, HOUR, MINUTE, SECOND, NodeState, OnLoss, Queue, Resizing
from tutti.engine.presets import PRESETS

gangs = st.lists(
    st.tuples(
        st.integers(1, 6),  # members
        st.sampled_from([1, 2, 4]),  # cards each
        st.integers(1, 400),  # seconds it really runs
        st.booleans(),  # has a limit
        st.integers(0, 600),  # submitted at, seconds
        st.sampled_from(["team", "lab"]),
        st.sampled_from(list(OnLoss)),
        st.integers(0, 2),  # priority
        st.sampled_from(list(Resizing)),
    ),
    min_size=1,
    max_size=12,
)
faults = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 900), st.integers(10, 300)), max_size=3)


def played(preset, submitted, broken, until=10 * DAY):
    """Everything submitted, some nodes lost for a while, until nothing happens any more."""
    world = drawn("a: 8 8 | b: 8 8", Queue("team", guarantee={"gpu": 16}), Queue("lab"))
    notices: list[Notice] = []
    starts: list[ev.Event] = []
    driver = Driver(
        PRESETS[preset].policy,
        world,
        ledger=Ledger(counting=Counting.RUN_TIME),
        history=History(),
        tell=notices.append,
        watch=[lambda event, touched: starts.append(event) if isinstance(event, ev.Starting) else None],
    )
    lengths = {f"g{i}": each[2] * SECOND for i, each in enumerate(submitted)}
    toy = Toy(driver, lengths.__getitem__)
    for i, (members, cards, run_s, limited, at_s, queue, on_loss, priority, resizing) in enumerate(submitted):
        each = gang(
            f"g{i}",
            members,
            cards,
            run_s=2 * run_s if limited else 0,
            max=members + (2 if resizing is not Resizing.NONE else 0),
            queue=queue,
            priority=priority,
            on_loss=on_loss,
            resizing=resizing,
            submitted=at_s * SECOND,
            restart_limit=1000,
        )
        toy.at(at_s * SECOND, ev.Submitted(at_s * SECOND, each))
    for node, at_s, down_s in broken:
        name = f"{'ab'[node // 2]}{node % 2}"
        toy.at(at_s * SECOND, ev.NodeTurned(at_s * SECOND, name, NodeState.LOST, fault=True))
        back = (at_s + down_s) * SECOND
        toy.at(back, ev.NodeTurned(back, name, NodeState.READY))
    toy.play(until)
    return toy, driver, notices, starts


@pytest.mark.parametrize("preset", ["fcfs", "easy", "conservative", "balanced", "rigid", "fair", "throughput"])
@settings(max_examples=20)
@given(submitted=gangs)
def test_everything_submitted_finishes_once_and_nothing_is_ever_stopped(preset, submitted):
    toy, driver, notices, _ = played(preset, submitted, [])
    bad = [notice for notice in notices if notice.trouble in {Trouble.VIOLATION, Trouble.CRASHED, Trouble.NOT_ENTERED}]
    assert not bad
    assert sorted(toy.finished) == sorted(f"g{i}" for i in range(len(submitted)))
    assert not driver.world.slots


@pytest.mark.parametrize("preset", ["balanced", "easy"])
@settings(max_examples=25)
@given(submitted=gangs, broken=faults)
def test_nothing_is_lost_when_nodes_are_and_the_ledger_closes(preset, submitted, broken):
    toy, driver, notices, _ = played(preset, submitted, broken)
    bad = [notice for notice in notices if notice.trouble in {Trouble.VIOLATION, Trouble.CRASHED, Trouble.NOT_ENTERED}]
    assert not bad
    ended = set(driver.intake.outcomes.ended)
    assert ended | set(driver.world.slots) == {f"g{i}" for i in range(len(submitted))}
    assert driver.ledger is not None
    report = driver.ledger.report(driver.world, toy.now + HOUR)
    assert sum(report.total.values()) == report.installed == 32 * (toy.now + HOUR)


def test_a_quiet_world_asks_for_nothing():
    toy, driver, _, starts = played("balanced", [(4, 2, 30, True, 0, "lab", OnLoss.RESTART, 0, Resizing.NONE)], [])
    assert len(starts) == 1
    assert driver.step((), toy.now + MINUTE) == []
