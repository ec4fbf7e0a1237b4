"""A group that is being formed or used, by one thread or by several, when somebody who belongs to it is lost."""

import fcntl
import os
import socket
import threading
from datetime import timedelta
from pathlib import Path

import pytest
import torch
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


LIMIT_S = 60
OUR_OWN = timedelta(minutes=1)


class Slow:
    """A collective that ends when it is told to, and says when somebody waits for it."""

    def __init__(self):
        self.is_waited_for = threading.Event()
        self.may_end = threading.Event()
        self.why = ""

    def wait(self, *_):
        self.is_waited_for.set()
        if not self.may_end.wait(0.001):
            raise RuntimeError("not yet")
        if self.why:
            raise RuntimeError(self.why)

    def is_completed(self):
        return self.may_end.is_set()

    def end(self, why=""):
        self.why = why
        self.may_end.set()


class Gate:
    """A lock that does something whenever somebody has come to it, and counts who has."""

    def __init__(self, then=lambda: None):
        self.lock = threading.Lock()
        self.came = threading.Semaphore(0)
        self.then = then

    def __enter__(self):
        then, self.then = self.then, lambda: None
        then()
        self.came.release()
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


@pytest.fixture
def alone(monkeypatch):
    """A group of one, whose collectives a test makes up."""
    monkeypatch.setattr(hold, "GIVE_UP_S", 0.02)
    return hold.HoldingGroup(dist.HashStore(), 0, 1, OUR_OWN)


@pytest.fixture
def buried(monkeypatch):
    """What is kept for ever, in place of keeping it."""
    found: list[object] = []
    monkeypatch.setattr(hold, "bury", found.append)
    return found


def aside(work):
    """Do it in another thread."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def ended(*threads):
    """Whether these threads and all that take something apart have come to their end."""
    others = [thread for thread in threading.enumerate() if thread.name == "tutti-take-apart"]
    for thread in [*threads, *others]:
        thread.join(LIMIT_S)
    return not any(thread.is_alive() for thread in [*threads, *others])


def begun(group, after=None):
    """A collective under way."""
    slow = Slow()
    return group.begin(hold.HeldWork(group, None, after), lambda _: slow), slow


def pair(monkeypatch, connecting=lambda: None):
    """Two ranks that meet, in this process."""
    store, usual, groups = dist.HashStore(), hold.connect, {}

    def connect(*arguments):
        connecting()
        return usual(*arguments)

    def meet(rank):
        groups[rank] = hold.HoldingGroup(store, rank, 2, OUR_OWN)

    monkeypatch.setattr(hold, "connect", connect)
    assert ended(*(aside(lambda rank=rank: meet(rank)) for rank in (0, 1)))
    return groups[0], groups[1]


def test_a_message_is_waited_for_as_long_as_it_takes(monkeypatch):
    """gloo closes all connections of a group when somebody loses patience with one message."""
    looks = threading.Semaphore(0)
    monkeypatch.setattr(hold, "SLICE", timedelta(milliseconds=5))
    monkeypatch.setattr(hold.HoldingGroup, "is_vain", lambda _: looks.release())
    first, second = pair(monkeypatch)
    got, more = torch.zeros(1), torch.zeros(1)
    waiting = aside(lambda: first.recv([got], 1, 0).wait())
    for _ in range(9):
        assert looks.acquire(timeout=LIMIT_S)
    second.send([torch.ones(1)], 0, 0).wait()
    assert ended(waiting)
    assert (first.failure, got.item()) == ("", 1.0)
    sending = aside(lambda: second.send([torch.ones(1)], 0, 1).wait())
    first.recv([more], 1, 1).wait()
    assert ended(sending)
    assert (second.failure, more.item()) == ("", 1.0)


def test_a_message_from_somebody_who_is_gone_is_a_held_failure(monkeypatch):
    first, second = pair(monkeypatch)
    waiting = aside(lambda: first.recv([torch.zeros(1)], 1, 0).wait())
    second.cut()
    assert ended(waiting)
    assert first.failure


def test_what_other_threads_opened_while_a_group_met_stays_open(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        opened = []
        groups = pair(monkeypatch, lambda: opened.append(socket.create_connection(server.getsockname())))
        accepted = [server.accept()[0] for _ in opened]
        assert all(group._sockets for group in groups)
        for group in groups:
            group.cut()
        assert all(group.barrier().wait() and group.failure for group in groups)
        for mine, theirs in zip(opened, accepted, strict=True):
            mine.sendall(b"still here")
            mine.close()
            theirs.close()


def test_whoever_comes_second_waits_as_long_as_the_first(alone):
    order = []
    held, slow = begun(alone, lambda: order.append("there"))
    held._turn = gate = Gate()
    waiters = [aside(lambda: order.append(held.wait())) for _ in range(2)]
    for _ in waiters:
        assert gate.came.acquire(timeout=LIMIT_S)
    assert not held.is_completed()
    slow.end()
    assert ended(*waiters)
    assert order == ["there", True, True]
    assert held.is_completed()


def test_a_late_failure_of_the_past_does_not_touch_the_present(alone, monkeypatch):
    held, slow = begun(alone)
    late = aside(held.wait)
    assert slow.is_waited_for.wait(LIMIT_S)
    monkeypatch.setattr(hold, "GIVE_UP_S", LIMIT_S)
    alone.fail("somebody is gone")
    monkeypatch.setattr(hold.Ear, "generation", alone.generation + 1)
    present = hold.HoldingGroup(dist.HashStore(), 0, 1, OUR_OWN)
    slow.end("connection closed")
    assert ended(late)
    assert alone.failure == "somebody is gone"
    assert present.failure == ""
    present.barrier().wait()
    assert present.failure == ""


def test_a_failure_fails_every_group_of_its_generation(alone):
    other = hold.HoldingGroup(dist.HashStore(), 0, 1, OUR_OWN)
    held, slow = begun(alone)
    slow.end("connection closed")
    held.wait()
    assert (alone.failure, other.failure) == ("connection closed", "connection closed")


def test_whoever_waits_in_a_group_that_another_thread_gave_up_is_set_free(alone, buried):
    """Also when gloo has lost the news: the group is then never taken apart, because that would wait for it."""
    inner = alone._inner
    held, slow = begun(alone)
    waiting = aside(held.wait)
    assert slow.is_waited_for.wait(LIMIT_S)
    alone.fail("somebody is gone")
    assert ended(waiting)
    assert alone.failure == "somebody is gone"
    assert buried == [inner]


def test_whoever_waits_for_nothing_any_more_is_set_free_at_once(alone, monkeypatch):
    """No connection is left and none of gloo's threads moves: nothing is gained by more patience."""
    monkeypatch.setattr(hold, "GIVE_UP_S", 1e9)
    held, slow = begun(alone)
    waiting = aside(held.wait)
    assert slow.is_waited_for.wait(LIMIT_S)
    monkeypatch.setattr(hold.Ear, "is_vain", staticmethod(lambda: True))
    waiting.join(LIMIT_S)
    assert not waiting.is_alive()
    assert "given up" in alone.failure
    slow.end()


def test_nobody_is_given_up_whose_threads_move(alone, monkeypatch):
    looks = threading.Semaphore(0)
    monkeypatch.setattr(hold, "GIVE_UP_S", 1e9)
    monkeypatch.setattr(sockets, "is_idle", lambda _: looks.release())
    held, slow = begun(alone)
    waiting = aside(held.wait)
    monkeypatch.setattr(hold.Ear, "is_vain", staticmethod(lambda: True))
    for _ in range(5):
        assert looks.acquire(timeout=LIMIT_S)
    assert waiting.is_alive()
    slow.end()
    assert ended(waiting)
    assert alone.failure == ""


def test_the_threads_of_gloo_are_known_by_their_name(alone):
    alone.allreduce([torch.ones(1)], dist.AllreduceOptions()).wait()
    # Whoever computed it had a name before; the others of the group may still be about to take theirs.
    assert any(hold.WORKERS in path.read_text() for path in Path("/proc/self/task").glob("*/comm"))
    assert not sockets.is_idle("no such thread")


def test_a_connection_remains_until_it_is_closed():
    with socket.socket() as one:
        known = {one.fileno(): os.fstat(one.fileno()).st_ino}
        assert sockets.remaining(known)
    assert not sockets.remaining(known)


def test_a_group_whose_collectives_end_is_taken_apart(alone, buried, monkeypatch):
    monkeypatch.setattr(hold, "GIVE_UP_S", LIMIT_S)
    held, slow = begun(alone)
    alone.fail("somebody is gone")
    slow.end("connection closed")
    assert ended()
    assert buried == []
    held.wait()
    assert alone.failure == "somebody is gone"


COLLECTIVES = [
    pytest.param(lambda group: group.allreduce([torch.ones(2)]), id="all-reduce"),
    pytest.param(lambda group: group._reduce_scatter_base(torch.ones(2), torch.ones(2)), id="reduce-scatter"),
    pytest.param(lambda group: group._reduce_scatter_base(torch.ones(2), torch.ones(2), most()), id="of the most"),
]


def most():
    options = dist.ReduceScatterOptions()
    options.reduceOp = dist.ReduceOp.MAX
    return options


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_group_is_given_up_while_a_collective_is_entered(alone, collective):
    alone._starting = Gate(lambda: alone.fail("somebody is gone"))
    assert collective(alone).wait()
    assert alone.failure == "somebody is gone"
    assert collective(alone).wait()


def test_what_was_just_started_is_known_to_whoever_gives_the_group_up(alone, monkeypatch):
    """The other thread comes while the collective is being started, and waits until it is in the books."""
    kept, slow, others = [], Slow(), []
    monkeypatch.setattr(hold, "take_apart", lambda things, under_way=None: kept.append((things, under_way)))
    alone._starting = gate = Gate()

    def start(_inner):
        others.append(aside(lambda: alone.fail("somebody is gone")))
        for _ in range(2):
            assert gate.came.acquire(timeout=LIMIT_S)
        return slow

    inner = alone._inner
    held = alone.begin(hold.HeldWork(alone, None), start)
    assert ended(*others)
    assert kept == [([inner], [slow])]
    assert not held.is_completed()


def test_a_process_waits_as_long_as_one_of_its_threads_does(alone, monkeypatch):
    noted: list[bool] = []
    monkeypatch.setattr(hold.Ear, "note", staticmethod(noted.append))
    both = [begun(alone) for _ in range(2)]
    waiters = [aside(held.wait) for held, _ in both]
    assert all(slow.is_waited_for.wait(LIMIT_S) for _, slow in both)
    for thread, (_, slow) in zip(waiters, both, strict=True):
        slow.end()
        assert ended(thread)
    assert noted == [True, False]


def test_outside_of_a_step_a_failure_is_thrown_each_time(alone, monkeypatch):
    monkeypatch.setattr(hold.HoldingGroup, "is_holding", False)
    held, slow = begun(alone)
    slow.end("connection closed")
    with pytest.raises(RuntimeError, match="connection closed"):
        held.wait()
    with pytest.raises(RuntimeError, match="connection closed"):
        alone.barrier()
