"""Members that run and get nowhere: who is blamed, and when."""

import pytest

from tutti.train.agent.hang import LEAST_S, MOST_S, Hangs, Sight, last_of


def scene(now, *waits, step=1, cpu=0.0):
    """Members a, b, c ...; those with a time wait since then."""
    return now, [Sight(name, step, since, cpu) for name, since in zip("abcd", waits, strict=False)]


def test_the_last_is_the_one_that_alone_does_not_wait():
    last = last_of(scene(9, 5.0, 0.0, 5.0)[1])
    assert last
    assert last.name == "b"
    assert last_of(scene(9, 5.0, 0.0, 0.0)[1]) is None, "two compute: nobody waits for one"
    assert last_of(scene(9, 5.0, 5.0, 5.0)[1]) is None, "all wait: nobody can be blamed"
    assert last_of(scene(9, 0.0)[1]) is None, "alone"


def test_patience_is_long_until_it_is_learned_and_then_a_multiple_of_what_is_usual():
    hangs = Hangs()
    assert hangs.allowed_s == MOST_S
    for step in range(20):
        hangs.look(*scene(100.0 * step + 7, 100.0 * step + 1, 0.0, step=step))
        assert hangs.look(*scene(100.0 * step + 8, 100.0 * step + 7.5, 100.0 * step + 7.5, step=step)) is None
    assert hangs.allowed_s == pytest.approx(60.0)
    quick = Hangs()
    for step in range(20):
        quick.look(*scene(float(step), step - 0.001, 0.0, step=step))
    assert quick.allowed_s == LEAST_S


def test_an_idle_one_is_stalled_and_a_busy_one_is_only_named():
    for used, is_idle in ((0.1, True), (500.0, False)):
        hangs = Hangs()
        hangs.look(*scene(1.0, 1.0, 0.0))
        stall = hangs.look(*scene(2 + MOST_S, 1.0, 0.0, cpu=used))
        assert stall
        assert (stall.name, stall.is_idle) == ("b", is_idle)


def test_a_limit_of_the_users_own_counts_for_busy_ones_too():
    hangs = Hangs(limit_s=2.0)
    assert hangs.look(*scene(2.0, 1.0, 0.0)) is None
    stall = hangs.look(*scene(3.5, 1.0, 0.0, cpu=99.0))
    assert stall
    assert (stall.name, stall.is_idle, stall.waited_s) == ("b", True, 2.5)
