"""A group that is being formed when somebody who belongs to it is lost."""

import fcntl
import os
from datetime import timedelta

import pytest
import torch.distributed as dist

from tutti.local.keeper.locks import is_held
from tutti.train import hold, sockets


def test_whoever_waits_for_somebody_who_never_comes_hears_of_it(monkeypatch):
    """gloo itself would wait for the whole of its patience."""
    answers = iter([False, False, True])
    monkeypatch.setattr(hold.Ear, "is_vain", staticmethod(lambda: next(answers)))
    with pytest.raises(RuntimeError, match="replaced while it connected"):
        hold.HoldingGroup(dist.HashStore(), 0, 2, timedelta(minutes=30))


def test_what_gloo_says_of_its_own_failure_is_kept():
    with pytest.raises(RuntimeError, match="nobody wrote"):
        hold.HoldingGroup(dist.HashStore(), 0, 2, timedelta(milliseconds=50))


def test_a_group_that_meets_computes():
    group = hold.HoldingGroup(dist.HashStore(), 0, 1, timedelta(minutes=1))
    group.barrier().wait()
    assert group.failure == ""


def test_a_number_that_means_a_locked_file_by_now_is_not_held_on_to(tmp_path):
    """gloo closes its connections itself, and the next file that is opened may get the number of one of them."""
    locked = os.open(tmp_path / "slot", os.O_RDWR | os.O_CREAT)
    fcntl.flock(locked, fcntl.LOCK_EX)
    sockets.shut({locked: os.fstat(locked).st_ino})
    os.close(locked)
    assert not is_held(str(tmp_path / "slot"))


def test_only_groups_of_the_past_are_cut(monkeypatch):
    """The agent's word comes in another thread, and the next group may be there already."""
    cut = []
    groups = []
    for generation in (1, 2):
        monkeypatch.setattr(hold.Ear, "generation", generation)
        groups.append(hold.HoldingGroup(dist.HashStore(), 0, 1, timedelta(minutes=1)))
        monkeypatch.setattr(groups[-1], "cut", lambda number=generation: cut.append(number))
    hold.cut_before(2)
    assert cut == [1]


def test_nothing_is_begun_in_a_group_that_the_agent_has_replaced(monkeypatch):
    group = hold.HoldingGroup(dist.HashStore(), 0, 1, timedelta(minutes=1))
    monkeypatch.setattr(hold.Ear, "is_vain", staticmethod(lambda: True))
    group.barrier().wait()
    assert group.failure == hold.OVERTAKEN
