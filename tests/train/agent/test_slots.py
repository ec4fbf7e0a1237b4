import os
import signal

import pytest

from tutti.train.agent import slots
from tutti.train.agent.shelf import Entry, Shelf, TooSmall, megabytes
from tutti.train.agent.slots import Busy, Label, NotSealed, Slot


@pytest.fixture
def slot(tmp_path):
    slots.create(tmp_path / "s", 100, 5000)
    slot = Slot(tmp_path / "s", 100)
    yield slot
    slot.close()


def fill(slot, step, data=b"abc"):
    with slot.writing(Label(1, step, "kind", len(data), 2), b"{}") as memory:
        memory[: len(data)] = data


def test_a_slot_is_a_snapshot_only_once_it_is_sealed(slot):
    assert slot.label() is None
    with slot.writing(Label(1, 5, "kind", 3, 2), b"{}") as memory:
        memory[:3] = b"abc"
        assert slot.label() is None
    label = slot.label()
    assert (label.step, label.layout, bytes(slot.data[:3]), slot.table()) == (5, "kind", b"abc", [b"{}"])


def test_a_slot_stays_sealed_for_all_who_look_while_its_checksum_is_noted(slot, tmp_path):
    fill(slot, 5)
    child = os.fork()
    if child == 0:
        theirs = Slot(tmp_path / "s", 100)
        for _ in range(20_000):
            theirs.memory[slots.HAS_DIGEST_AT : slots.HAS_DIGEST_AT + 4] = bytes(4)
            theirs.digest_unless_written()
        os._exit(0)
    seen = set()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        label = slot.label()
        seen.add(label and label.step)
    assert seen == {5}
    assert slot.is_intact(slot.label())


def test_a_writer_that_dies_leaves_no_snapshot_and_no_lock(slot, tmp_path):
    fill(slot, 1)
    child = os.fork()
    if child == 0:
        theirs = Slot(tmp_path / "s", 100)
        with theirs.writing(Label(1, 2, "kind", 3, 2), b"{}"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert slot.label() is None
    with pytest.raises(NotSealed), slot.reading():
        pass
    fill(slot, 3)
    assert slot.label().step == 3


def test_a_pinned_slot_is_never_overwritten(slot, tmp_path):
    fill(slot, 1)
    reader = Slot(tmp_path / "s", 100)
    with reader.reading() as label:
        with pytest.raises(Busy):
            fill(slot, 2)
        assert label.step == 1
    fill(slot, 2)
    reader.close()


def test_a_slot_that_is_given_back_while_it_is_looked_at_is_still_read(slot, tmp_path):
    """Another of its name may be there by then: it is not the one that is locked."""
    fill(slot, 1)
    (tmp_path / "s").unlink()
    slots.create(tmp_path / "s", 100, 5000)
    other = Slot(tmp_path / "s", 100)
    with slot.reading() as label:
        assert (label.step, bytes(slot.data[:3])) == (1, b"abc")
        fill(other, 2)
        with pytest.raises(Busy):
            fill(slot, 3)
    other.close()


def test_two_readers_share_a_slot(slot):
    fill(slot, 1)
    with slot.reading() as one, slot.reading() as other:
        assert one == other == slot.label()


def test_bytes_that_changed_are_noticed(slot):
    fill(slot, 1)
    assert slot.digest_unless_written()
    assert not slot.digest_unless_written(), "once is enough"
    assert slot.is_intact(slot.label())
    slot.data[1] = 0
    assert not slot.is_intact(slot.label())


def test_a_snapshot_larger_than_its_slot_is_refused_before_anything_is_written(slot):
    fill(slot, 1)
    with pytest.raises(ValueError, match="do not fit"), slot.writing(Label(1, 2, "kind", 99_999, 2), b"{}"):
        pass
    assert slot.label().step == 1


def test_slots_that_do_not_fit_are_refused_with_the_numbers(tmp_path):
    shelf = Shelf(tmp_path)
    with pytest.raises(TooSmall, match=r"need .* MiB of memory and .* MiB are free"):
        shelf.reserve(Entry("m0-0", 100, 1 << 50, 2))
    assert list(tmp_path.iterdir()) == []
    assert [megabytes(size) for size in (0, 300 << 10, 3 << 19, 200 << 20)] == [
        "0 MiB",
        "300 KiB",
        "1.5 MiB",
        "200 MiB",
    ]


def test_a_shelf_is_found_again_and_given_back(tmp_path):
    shelf = Shelf(tmp_path)
    old, new = Entry("m0-0", 100, 1000, 2), Entry("m0-1", 100, 1000, 2)
    for entry, step in ((old, 3), (new, 7)):
        shelf.reserve(entry)
        first = next(shelf.open(entry))
        fill(first, step)
        first.close()
    assert Shelf(tmp_path).entries() == [old, new]
    shelf.retire(7, kept=["m0-1"])
    assert shelf.entries() == [new]
    shelf.remove("m0-1")
    assert list(tmp_path.iterdir()) == []
