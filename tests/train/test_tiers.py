"""Memory, then a durable folder: complete steps only, equal to what torch's own checkpoints give."""

import resource
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from tests.train.support import claim
from tests.train.test_faults import check_samples, same_on_all
from tutti.train import persist, plain, snapshot
from tutti.train.agent.cabinet import Cabinet
from tutti.train.agent.exits import Exit
from tutti.train.agent.shelf import Entry, Shelf
from tutti.train.agent.slots import Label, Slot
from tutti.train.boxes import Box, whole
from tutti.train.errors import OtherRun
from tutti.train.memory import Memory
from tutti.train.snapshot import Camera, lay_out, writable
from tutti.train.state import Leaf, Protected

WRAPS = ["ddp", "fsdp"]
SHAPES = {"model/wide": (13, 7), "model/deep": (5, 3, 2), "opt/step": ()}


def rows(count, rank, world):
    each = -(-count // world)
    return min(count, rank * each), min(count, (rank + 1) * each)


def box_of(shape, rank, world):
    low, high = rows(shape[0], rank, world)
    return Box((low, *(0 for _ in shape[1:])), (high - low, *shape[1:]))


def shard(full, rank, world):
    """What a rank of a sharded model has: rows of the large tensors, all of the small one."""
    leaves = {}
    for name, shape in SHAPES.items():
        box = box_of(shape, rank, world) if shape else whole(shape)
        tensor = full[name][box.within(whole(shape))].clone() if shape else full[name].clone()
        leaves[name] = Leaf(name, tensor, shape, box, is_shared=not shape)
    return leaves


@pytest.fixture
def full():
    torch.manual_seed(0)
    return {name: torch.rand(shape) for name, shape in SHAPES.items()}


def fill(shelf, full, step, world=4, generation=1, skip=()):
    """Snapshots of all ranks but some."""
    refs = {name: plain.Ref(name) for name in SHAPES}
    things = {
        "model": {"wide": refs["model/wide"], "deep": refs["model/deep"]},
        "opt": {"step": refs["opt/step"], "lr": 0.5},
    }
    for rank in range(world):
        if rank in skip:
            continue
        leaves = shard(full, rank, world)
        layout = lay_out(leaves, rank, world)
        entry = Entry(f"m{rank}-0", 8192, layout.data_bytes, 2)
        if entry not in shelf.entries():
            shelf.reserve(entry)
        camera = Camera(shelf, entry)
        assert camera.take(
            Label(generation, step, "kind", 0, 0), leaves, layout, {"things": things, "course": {"step": step}}
        )
        camera.close()


@pytest.mark.parametrize("world", [1, 2, 3, 4, 6, 8])
def test_shards_for_another_world_are_those_a_checkpoint_gives(tmp_path, full, world):
    shelf = Shelf(tmp_path / "slots")
    shelf.folder.mkdir()
    fill(shelf, full, 7)
    assert persist.persist([shelf], tmp_path / "durable") == 7
    oracle: Any = {
        "model": {"wide": torch.empty(13, 7), "deep": torch.empty(5, 3, 2)},
        "opt": {"step": torch.empty(()), "lr": 0.0},
    }
    with persist.alone():
        dcp.load(oracle, checkpoint_id=tmp_path / "durable" / "step-000000007", no_dist=True)
    assert oracle["opt"]["lr"] == 0.5
    with Memory([shelf]) as memory:
        reader = memory.reader(7)
        for rank in range(world):
            for name, shape in SHAPES.items():
                box = box_of(shape, rank, world) if shape else whole(shape)
                ours, part = torch.empty(box.sizes), name.split("/")
                reader(name, ours, box)
                reader.settle()
                theirs = oracle[part[0]][part[1]]
                assert torch.equal(ours, theirs[box.within(whole(shape))] if shape else theirs)
    durable = persist.Durable(tmp_path / "durable", 7)
    target = torch.empty(4, 7)
    durable("model/wide", target, Box((9, 0), (4, 7)))
    assert torch.equal(target, full["model/wide"][9:13])
    assert durable.rest()["course"] == {"step": 7}


def mesh_leaves(full, rank, tensor, stages):
    """What a rank of a grid has: the layers of its stage, each cut along its last dimension."""
    stage, column = divmod(rank, tensor)
    leaves = {}
    for number, (name, shape) in enumerate(GRID.items()):
        if number * stages // len(GRID) != stage:
            continue
        axis = len(shape) - 1
        low, high = rows(shape[axis], column, tensor)
        box = Box((*(0 for _ in shape[:axis]), low), (*shape[:axis], high - low))
        leaves[name] = Leaf(name, full[name][box.within(whole(shape))].clone(), shape, box, is_shared=False)
    return leaves


GRID = {"model/first": (4, 10), "model/second": (10,), "model/third": (6, 9), "model/last": (3, 2, 5)}


@pytest.mark.parametrize(("before", "after"), [((2, 2), (4, 1)), ((1, 4), (3, 1)), ((4, 1), (1, 2)), ((2, 1), (2, 4))])
def test_another_grid_of_tensor_and_pipeline_ranks_reads_what_a_checkpoint_gives(tmp_path, before, after):
    """Columns of layers on the ranks of stages, read by ranks of another grid; torch's own checkpoint is the oracle."""
    full = {name: torch.rand(shape) for name, shape in GRID.items()}
    shelf = Shelf(tmp_path / "slots")
    shelf.folder.mkdir()
    for rank in range(before[0] * before[1]):
        leaves = mesh_leaves(full, rank, *before)
        layout = lay_out(leaves, rank, before[0] * before[1])
        entry = Entry(f"m{rank}-0", 8192, layout.data_bytes, 2)
        shelf.reserve(entry)
        camera = Camera(shelf, entry)
        things = {"model": {name.split("/")[1]: plain.Ref(name) for name in leaves}}
        assert camera.take(Label(1, 5, "grid", 0, 0), leaves, layout, {"things": things, "course": {}})
        camera.close()
    assert persist.persist([shelf], tmp_path / "durable") == 5
    oracle: Any = {"model": {name.split("/")[1]: torch.empty(shape) for name, shape in GRID.items()}}
    with persist.alone():
        dcp.load(oracle, checkpoint_id=tmp_path / "durable" / "step-000000005", no_dist=True)
    with Memory([shelf]) as memory:
        reader = memory.reader(5)
        for rank in range(after[0] * after[1]):
            for name, leaf in mesh_leaves(full, rank, *after).items():
                ours = torch.empty(leaf.box.sizes)
                reader(name, ours, leaf.box)
                reader.settle()
                assert torch.equal(ours, oracle["model"][name.split("/")[1]][leaf.box.within(whole(leaf.shape))])


def test_a_step_that_is_not_complete_is_not_a_step(tmp_path, full):
    shelf = Shelf(tmp_path)
    fill(shelf, full, 3)
    newer = {name: tensor + 1 for name, tensor in full.items()}
    fill(shelf, newer, 4, skip=(2,))
    with Memory([shelf]) as memory:
        assert memory.steps() == [3]
        target = torch.empty(13, 7)
        reader = memory.reader(3)
        reader("model/wide", target, whole((13, 7)))
        reader.settle()
    assert torch.equal(target, full["model/wide"])


def test_a_tensor_that_did_not_change_is_not_copied_again(tmp_path, monkeypatch):
    """Each slot is compared with what it holds itself; a write that torch does not count is still noticed."""
    copied: list[list[str]] = []
    state = {"still": torch.ones(64), "moving": torch.ones(64), "sly": torch.ones(64)}
    usual = snapshot.copy_parts

    def counting(frame, parts):
        copied.append(sorted(frame.layout.parts[at].name.removeprefix("s/") for at in parts))
        usual(frame, parts)

    monkeypatch.setattr(snapshot, "copy_parts", counting)
    protected = Protected()
    protected.add({"s": state})
    leaves, rest = protected.read()
    layout = lay_out(leaves, 0, 1)
    shelf, entry = Shelf(tmp_path), Entry("m0-0", 8192, layout.data_bytes, 2)
    shelf.reserve(entry)
    camera = Camera(shelf, entry)
    for step in range(6):
        state["moving"].add_(1)
        state["sly"].data.numpy()[:] = step
        assert camera.take(Label(1, step, "kind", 0, 0), leaves, layout, {"things": rest})
    camera.close()
    # Two slots in turn: the first time all of it, then what differs from what the slot holds.
    assert copied == [["moving", "sly", "still"]] * 2 + [["moving", "sly"]] * 4
    with Memory([shelf]) as memory:
        assert memory.steps() == [5, 4]
        protected.write(memory.rest(4)["things"], memory.reader(4))
    assert [state[name][0].item() for name in ("still", "moving", "sly")] == [1, 6, 4]


def test_a_generation_is_known_by_what_it_kept(tmp_path, full):
    """The journal may have had no room for it, and its number must not come again."""
    cabinet = Cabinet(tmp_path)
    assert cabinet.newest_generation() == 0
    fill(Shelf(tmp_path), full, 3, generation=7)
    fill(Shelf(tmp_path), full, 4, generation=6)
    assert cabinet.newest_generation() == 7


def test_where_no_step_is_complete_nothing_is_said_to_be_written(tmp_path, full, capsys):
    shelf = Shelf(tmp_path / "slots")
    shelf.folder.mkdir()
    fill(shelf, full, 3, skip=(1,))
    assert persist.main([str(tmp_path), str(tmp_path / "durable")]) == 1
    assert capsys.readouterr().err == "no step is complete in the memory of this machine\n"


def test_parts_of_two_generations_are_never_mixed(tmp_path, full):
    shelf = Shelf(tmp_path)
    fill(shelf, full, 3, generation=1, skip=(1,))
    fill(shelf, full, 3, generation=2, skip=(0, 2, 3))
    with Memory([shelf]) as memory:
        assert memory.steps() == []


def test_a_snapshot_whose_bytes_changed_is_not_restored(tmp_path, full):
    shelf = Shelf(tmp_path)
    fill(shelf, full, 3)
    slot = next(slot for slot in shelf.open(shelf.entries()[0]) if slot.label())
    assert slot.digest_unless_written()
    assert not slot.digest_unless_written()
    slot.data[5] ^= 1
    with Memory([shelf], is_checked=True) as memory:
        assert memory.steps() == []
        assert len(memory.broken) == 1
    slot.close()


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path, full, capsys):
    shelf = Shelf(tmp_path / "slots")
    shelf.folder.mkdir()
    fill(shelf, full, 3)
    (tmp_path / "file").write_text("in the way")
    assert persist.main([str(tmp_path), str(tmp_path / "file" / "x")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Not a directory (")
    assert len(said.splitlines()) == 1


def test_a_full_disk_is_said_in_one_line_and_leaves_what_was_there(tmp_path, full, capsys):
    """A limit on the size of files fails in the middle of a write, as a full disk does."""
    shelf = Shelf(tmp_path / "slots")
    shelf.folder.mkdir()
    fill(shelf, full, 3)
    assert persist.main([str(tmp_path), str(tmp_path / "durable")]) == 0
    fill(shelf, {name: tensor + 1 for name, tensor in full.items()}, 4)
    capsys.readouterr()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, usual[1]))
    try:
        code = persist.main([str(tmp_path), str(tmp_path / "durable")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    said = capsys.readouterr().err
    assert code == 1
    assert said.startswith("File too large (")
    assert len(said.splitlines()) == 1
    assert [path.name for path in (tmp_path / "durable").iterdir()] == ["step-000000003"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        pytest.param({"wide": (13, 7), "deep": (5, 3, 2)}, "", id="the same"),
        pytest.param({"wide": (13, 1), "deep": (5, 3, 2)}, r"model.wide is \[13, 7\] of .* and \[13, 1\]", id="shape"),
        pytest.param({"wide": (13, 7)}, "model.deep is .* there and missing here", id="less"),
        pytest.param({"wide": (13, 7), "deep": (5, 3, 2), "head": (2,)}, "model.head is missing there", id="more"),
    ],
)
def test_a_folder_with_another_model_is_refused_before_anything_is_read(tmp_path, full, state, words):
    shelf = Shelf(tmp_path / "slots")
    shelf.folder.mkdir()
    fill(shelf, full, 3)
    persist.persist([shelf], tmp_path / "durable")
    protected = Protected()
    protected.add({"model": {name: torch.zeros(shape) for name, shape in state.items()}})
    durable = persist.Durable(tmp_path / "durable", 3)
    with pytest.raises(OtherRun, match=words) if words else nullcontext():
        durable.check(protected.lasting(), is_part=False)


def test_what_was_just_written_stays_beside_newer_steps_of_a_run_that_went_on_elsewhere(tmp_path, full):
    shelf = Shelf(tmp_path / "slots")
    shelf.folder.mkdir()
    for step in (7, 8, 3):
        fill(shelf, full, step)
        persist.persist([shelf], tmp_path / "durable")
        for entry in shelf.entries():
            shelf.remove(entry.member)
    assert persist.saved_steps(tmp_path / "durable") == [8, 7, 3]


@pytest.mark.slow
@pytest.mark.parametrize(("wrap", "tier"), list(zip(WRAPS, ["disk", "durable"], strict=True)))
def test_a_run_goes_on_from_a_folder_when_memory_is_gone(launch, tmp_path, wrap, tier):
    loop = {"samples": 300, "batch": 12, "epochs": 2, "sleep": 0.03, "wrap": wrap}
    durable = [f"--{tier}", tmp_path / "durable"]
    run = launch("--workers", 3, *durable, loop=loop)
    run.wait_step(8)
    run.signal()
    assert run.finish() == Exit.PREEMPTED, run.said()
    assert run.leftovers() == []
    (kept,) = persist.saved_steps(tmp_path / "durable")
    assert kept >= 8
    again = launch("--workers", 2, *durable, loop={**loop, "sleep": 0.0})
    assert again.finish() == 0, again.said()
    first = again.events("formed")[0]
    assert (first["source"], first["step"]) == (tier, kept)
    check_samples(again, epochs=2, samples=300)
    same_on_all(again)
    claim(wrap, "L1")


class Shown(Slot):
    """A slot of which only the label matters."""

    def __init__(self, step, generation):
        self._label = Label(generation, step, "", 0, 0)

    def label(self):
        return self._label


@pytest.mark.parametrize(
    ("held", "complete", "best"),
    [
        pytest.param([(131, 54), (132, 54)], (132, 54), 0, id="the older one goes"),
        pytest.param([(131, 54), (132, 54)], (131, 54), 1, id="not the one that is complete"),
        pytest.param([(7, 91), (7, 92)], (7, 91), 1, id="a newer generation that never was whole goes"),
        pytest.param([(7, 91), (7, 92)], (7, 92), 0, id="once it is whole the older one goes"),
        pytest.param([(7, 91), (8, 91)], (-1, -1), 0, id="nothing is known: the newest stays"),
        pytest.param([(-1, -1), (8, 91)], (-1, -1), 0, id="an empty one is written first"),
    ],
)
def test_the_part_of_what_is_complete_is_never_written_over(held, complete, best):
    assert writable([Shown(*one) for one in held], complete) == [best]
