"""A run that is interrupted in the midst of a step ends after it, with books that agree with each other."""

import signal

import pytest

from tutti.sim.cluster import plain
from tutti.sim.generate import Drawn, Load
from tutti.sim.interrupts import held_back
from tutti.sim.policies import find_policy
from tutti.sim.record import Record
from tutti.sim.run import Simulation


class Torn(Record):
    """Somebody interrupts while a task is entered, when its name is there and its times are not."""

    def arrive(self, task, width):
        if len(self) == 5:
            self.names.append(task.gang.name)
            signal.raise_signal(signal.SIGINT)
            self.names.pop()
        return super().arrive(task, width)


def test_an_interrupt_in_the_midst_of_a_step_leaves_no_row_half_written():
    simulation = Simulation(Drawn(Load(jobs=50, devices=64)), plain(8, 8, "gpu"), find_policy("easy"), "gpu")
    simulation.record = simulation.cluster.record = Torn()
    with pytest.raises(KeyboardInterrupt):
        simulation.run()
    record = simulation.record
    assert {len(record.column(name)) for name in Record.FIELDS} == {len(record.names)} == {6}


def test_handlers_are_as_before_when_it_is_over():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with held_back() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.came
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held_back() as interrupts:
            signal.raise_signal(signal.SIGINT)
            assert not interrupts.came
    finally:
        signal.signal(signal.SIGINT, before)
