"""Ctrl-C while something must become whole."""

import signal

import pytest

from tutti.cli.interrupt import Interrupt


@pytest.fixture(autouse=True)
def _as_it_was():
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


def test_one_that_came_meanwhile_counts_as_soon_as_it_may():
    interrupt = Interrupt()
    interrupt.hold()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupt.let()
    interrupt.let()


def test_a_second_one_does_not_wait():
    interrupt = Interrupt()
    interrupt.hold()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    interrupt.forget()


def test_without_one_everything_is_as_before():
    interrupt = Interrupt()
    interrupt.hold()
    interrupt.let()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
