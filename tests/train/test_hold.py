"""A group that is being formed when somebody who belongs to it is lost."""

from datetime import timedelta

import pytest
import torch.distributed as dist

from tutti.train import hold


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
