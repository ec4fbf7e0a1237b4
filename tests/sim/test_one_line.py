"""Gangs that only join the line cost no decision, and nothing comes out differently for it."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tutti.drive.ledger import Ledger
from tutti.drive.loop import Keyed, is_one_line
from tutti.engine.presets import PRESETS
from tutti.sim.cluster import plain
from tutti.sim.intake import Cut, Estimates, EstimateSource, Tasks
from tutti.sim.run import Simulation
from tutti.sim.traces.log import Log, Row

SECOND = 1_000_000
ROWS = [Row(f"j{n:03}", n * 37 * SECOND, (n * 7919 % 900 + 5) * SECOND, n * 31 % 7 + 1) for n in range(160)]


def play(policy: str, skips: bool) -> tuple[int, Sequence[Sequence[int]], dict[str, int]]:
    """Decisions taken, what came of every job, and where device time went."""
    log = Log("made", "made", list(ROWS))
    tasks = Tasks(log, Cut("slot", 1, whole_nodes=False), Estimates(EstimateSource.EXACT))
    ledger = Ledger("slot")
    simulation = Simulation(tasks, plain(8, 1, "slot"), PRESETS[policy].policy, "slot", ledger=ledger)
    simulation.driver._is_one_line &= skips
    decisions = Counter[str]()
    act = simulation.driver._act

    def counted(now: int) -> list[Keyed]:
        decisions["all"] += 1
        return act(now)

    simulation.driver._act = counted  # type: ignore[method-assign]
    record = simulation.run()
    report = ledger.report(simulation.driver.world, simulation.now)
    return decisions["all"], (record.started, record.ended, record.promised), report.total


@pytest.mark.parametrize("policy", ["easy", "easy-sjbf", "fcfs"])
def test_fewer_decisions_same_outcome(policy: str) -> None:
    few, record, ledger = play(policy, skips=True)
    many, same_record, same_ledger = play(policy, skips=False)
    assert few < many
    assert record == same_record
    assert ledger == same_ledger


def test_only_lines_by_age_without_taking_back() -> None:
    lines = {name for name, preset in PRESETS.items() if is_one_line(preset.policy)}
    assert lines == {"fcfs", "easy", "easy-sjbf"}
