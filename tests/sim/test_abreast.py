"""Several plays at once come out as one after the other would, and nobody is left behind."""

import os
import signal
import time
from functools import partial
from multiprocessing import active_children

import pytest

from tutti.engine.presets import PRESETS
from tutti.errors import Misused
from tutti.sim.abreast import Play, play_all
from tutti.sim.experiment import Case, Options, Outcome, prepare
from tutti.sim.generate import Drawn, Load

NAMES = ("fcfs", "easy", "balanced")


def silent(policy: str, done: int, total: int) -> None:
    """Nobody looks."""


def case(jobs: int = 300, seed: int = 7) -> Case:
    return prepare(Drawn(Load(jobs=jobs, devices=16, load=0.9, seed=seed)).log(), Options())


def plays(jobs: int = 300) -> list[Play]:
    return [Play(lambda: case(jobs), PRESETS[name].policy) for name in NAMES]


def starts(found: list[Outcome]) -> list[tuple[str, list[int]]]:
    return [(outcome.policy.name, outcome.record.started.tolist()) for outcome in found]


def test_plays_at_once_come_out_as_one_after_the_other_would():
    in_turn, abreast = play_all(plays(), silent, at_once=1), play_all(plays(), silent, at_once=2)
    assert [outcome.policy.name for outcome in abreast] == list(NAMES)
    assert starts(abreast) == starts(in_turn)
    assert [outcome.report for outcome in abreast] == [outcome.report for outcome in in_turn]


def test_progress_of_each_is_told():
    heard = []
    play_all(plays(600), lambda *word: heard.append(word), at_once=3)
    assert {policy for policy, _, _ in heard} == set(NAMES)
    assert {total for _, _, total in heard} == {600}


def test_an_interrupt_leaves_what_had_begun_and_nobody_behind():
    def interrupt(*_word: object) -> None:
        raise KeyboardInterrupt

    found = play_all(plays(4000), interrupt, at_once=2)
    assert {outcome.policy.name for outcome in found} <= set(NAMES[:2])
    assert any(outcome.interrupted for outcome in found)
    assert active_children() == []


def test_an_interrupt_before_anything_was_played_is_one():
    def endless(tells: bool) -> Case:
        if tells:
            os.kill(os.getppid(), signal.SIGUSR1)
        time.sleep(60)
        return case()

    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            play_all(
                [Play(partial(endless, name == "easy"), PRESETS[name].policy) for name in NAMES], silent, at_once=2
            )
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert active_children() == []


def test_what_is_wrong_with_one_is_said_as_if_it_had_been_played_here():
    def broken() -> Case:
        raise Misused("no such cluster", where="line 3")

    with pytest.raises(Misused, match="no such cluster") as failure:
        play_all([*plays(), Play(broken, PRESETS["easy"].policy)], silent, at_once=2)
    assert failure.value.where == "line 3"
    assert active_children() == []


def test_one_that_is_killed_is_told_of():
    def killed() -> Case:
        os.kill(os.getpid(), signal.SIGKILL)
        return case()

    with pytest.raises(RuntimeError, match="without a word"):
        play_all([Play(killed, PRESETS["easy"].policy), *plays()], silent, at_once=2)
    assert active_children() == []
