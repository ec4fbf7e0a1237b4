"""Bad input and limits: a clear sentence, and the state as it was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.train.stage import SOURCE
from tutti.train import TrainError, agree, job, join, plain, recover, status
from tutti.train.agent.shelf import Entry, Shelf
from tutti.train.agent.slots import Label
from tutti.train.errors import AlreadyJoined, DataChanged, NotProtected, OtherRun, StateChanged
from tutti.train.hands import undisturbed
from tutti.train.launch import main
from tutti.train.memory import Memory
from tutti.train.snapshot import Camera, lay_out
from tutti.train.state import Protected
from tutti.train.sync import remembered_steps
from tutti.train.zygote import end_with_parent


@pytest.fixture
def alone(monkeypatch):
    """A job of one, as on a laptop."""
    monkeypatch.setattr(job, "_current", None)
    monkeypatch.delenv("TUTTI_TRAIN_AGENT", raising=False)
    return join()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 1)


@pytest.fixture
def opt(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


class Growing(torch.utils.data.Dataset):
    def __init__(self):
        self.length = 8

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.ones(3)


def run(alone, model, opt, dataset, body=lambda: None, **options):
    for batch in alone.batches(dataset, global_batch=4, **options):
        model(batch).mean().backward()
        body()
        alone.commit(opt)


def test_alone_it_is_a_plain_loop(alone, model, opt):
    alone.protect(model=model, opt=opt)
    run(alone, model, opt, Growing(), epochs=2)
    assert (alone.step, alone.rank, alone.world, alone.generation, alone.level) == (4, 0, 1, 0, "L0")
    assert alone.course.ledger.epochs == {0: [(0, 8)], 1: [(0, 8)]}


@pytest.mark.parametrize("numerics", ["fast", "ordered"])
def test_pieces_of_a_step_give_the_gradient_of_the_whole_batch(monkeypatch, numerics):
    """Seven samples in pieces of different sizes: each counts the same, whoever computes it."""
    weights = []
    for options in ({"microbatch": 2}, {"microbatch": 0}):
        monkeypatch.setattr(job, "_current", None)
        one = join()
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        one.protect(model=model, opt=opt)
        data = torch.arange(42.0).reshape(14, 3)
        ordered = {"numerics": "ordered", "logical": 3 if options["microbatch"] else 1}
        for batch in one.batches(data, global_batch=7, seed=1, **(options if numerics == "fast" else ordered)):
            (model(batch) ** 2).mean().backward()
            one.commit(opt)
        weights.append(model.weight.detach().clone())
    in_pieces, at_once = weights
    assert torch.allclose(in_pieces, at_once, rtol=1.3e-6, atol=1e-5)


def test_a_second_join_is_refused(alone):
    with pytest.raises(AlreadyJoined, match="twice"):
        join()


def test_batches_before_protect_are_refused(alone):
    with pytest.raises(NotProtected, match="before protect"):
        alone.batches(Growing(), global_batch=4)


def test_commit_outside_the_loop_is_refused(alone, opt):
    with pytest.raises(TrainError, match="outside"):
        alone.commit(opt)


def test_a_body_that_forgets_to_commit_is_told(alone, model, opt):
    alone.protect(model=model, opt=opt)
    loop = alone.batches(Growing(), global_batch=4)
    next(loop)
    with pytest.raises(TrainError, match=r"without job\.commit"):
        next(loop)


def test_a_batch_is_committed_once_and_a_second_time_changes_nothing(alone, model, opt):
    alone.protect(model=model, opt=opt)
    loop = alone.batches(Growing(), global_batch=4)
    model(next(loop)).sum().backward()
    assert alone.commit(opt)
    before = [one.clone() for one in model.parameters()]
    with pytest.raises(TrainError, match="twice for one batch"):
        alone.commit(opt)
    assert all(torch.equal(one, was) for one, was in zip(model.parameters(), before, strict=True))


def test_a_dataset_that_changes_its_length_is_refused_and_the_step_is_kept(alone, model, opt):
    alone.protect(model=model, opt=opt)
    data = Growing()
    with pytest.raises(DataChanged, match="8 samples when the run began and now has 9"):
        run(alone, model, opt, data, body=lambda: setattr(data, "length", 9))
    assert alone.step == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({"global_batch": 0}, "at least one sample", id="no batch"),
        pytest.param({}, "either global_batch", id="nothing said about the batch"),
        pytest.param({"global_batch": 1.5}, r"global_batch=1\.5: it is a whole number", id="half a sample"),
        pytest.param({"global_batch": 4, "microbatch": -1}, "microbatch=-1: it is", id="less than nothing"),
        pytest.param({"global_batch": 4, "batch_per_member": 4}, "not both", id="two batches"),
        pytest.param({"global_batch": 4, "lr_rule": "linear"}, "has no reason", id="a rule without a reason"),
        pytest.param({"batch_per_member": 4, "lr_rule": "cubic"}, "'linear' or 'sqrt'", id="a rule unknown"),
        pytest.param({"batch_per_member": 4, "numerics": "ordered"}, "ordered numerics need a", id="not in order"),
        pytest.param({"global_batch": 4, "numerics": "exact"}, "'fast' or 'ordered'", id="numerics unknown"),
        pytest.param(
            {"global_batch": 4, "numerics": "ordered", "logical": 0}, "at least one logical rank", id="no logical rank"
        ),
    ],
)
def test_batches_that_cannot_be_dealt_are_refused(alone, model, options, says):
    alone.protect(model=model)
    with pytest.raises(DataChanged, match=says):
        next(alone.batches(Growing(), **options))


def test_what_is_neither_a_dataset_nor_a_stream_is_refused(alone, model):
    alone.protect(model=model)
    with pytest.raises(DataChanged, match="a int is neither"):
        next(alone.batches(7, global_batch=1))


def test_an_empty_stream_is_refused(alone, model):
    alone.protect(model=model)
    with pytest.raises(DataChanged, match="gave no samples"):
        next(alone.batches(iter([]), global_batch=1))


@pytest.mark.parametrize(
    ("things", "says"),
    [
        pytest.param({}, "given nothing", id="nothing"),
        pytest.param({"x": 3}, "neither a tensor nor has a state_dict", id="a number"),
        pytest.param({"a/b": torch.zeros(1)}, "no slash", id="a name with a slash"),
    ],
)
def test_what_cannot_be_protected_is_refused(alone, things, says):
    with pytest.raises(TrainError, match=says):
        alone.protect(**things)


def test_a_step_that_raises_leaves_the_state_of_the_last_commit(alone, model, opt):
    alone.protect(model=model, opt=opt)
    before = []

    def body():
        if alone.step == 1:
            before.append(model.weight.detach().clone())
            raise ValueError("from the user")

    with pytest.raises(ValueError, match="from the user"):
        run(alone, model, opt, Growing(), body=body)
    assert torch.equal(model.weight, before[0])
    assert (alone.step, alone.course.cursor) == (1, 4)


def test_a_model_that_changes_its_shape_is_refused():
    protected = Protected()
    state = {"w": torch.zeros(3)}
    protected.add({"state": state})
    protected.check(protected.read()[0])
    state["w"] = torch.zeros(4)
    with pytest.raises(StateChanged, match="changed its shape"):
        protected.check(protected.read()[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: setattr(model.weight, "data", torch.zeros(1, 9)), r"model/weight was \[1, 2\] and is \[1, 9\]"),
        (lambda model: model.register_buffer("new", torch.zeros(3)), r"model/new was not there and is \[3\]"),
        (lambda model: delattr(model, "bias"), r"model/bias was \[1\] and is not there"),
    ],
)
def test_a_tensor_that_changes_its_shape_is_named_at_the_commit(change, words):
    """Also where no snapshot is due for long."""
    model, protected = torch.nn.Linear(2, 1), Protected()
    protected.add({"model": model})
    protected.glance()
    change(model)
    with pytest.raises(StateChanged, match=words):
        protected.look()


def test_a_buffer_that_is_not_part_of_the_state_may_change():
    model, protected = torch.nn.Linear(2, 1), Protected()
    model.register_buffer("cache", torch.zeros(1), persistent=False)
    protected.add({"model": model})
    protected.look()
    model.cache = torch.zeros(7)
    protected.look()
    assert [name for name in protected._shapes if "cache" in name] == []


def test_a_step_that_fails_by_a_changed_shape_says_so(alone, model, opt):
    """Also where nobody has looked at the model before it."""
    alone.protect(model=model, opt=opt)

    def body():
        if alone.step == 1:
            model.weight.data = torch.zeros(1, 9)
            alone.protected._next_glance = 1e18

    with pytest.raises(StateChanged, match=r"model/weight was \[1, 3\] and is \[1, 9\]"):
        run(alone, model, opt, Growing(), body=body)


def test_state_that_is_not_plain_is_named_by_its_place():
    with pytest.raises(StateChanged, match="state/sched/rule holds a function"):
        plain.dumps({"sched": {"rule": test_a_second_join_is_refused}})


def test_plain_state_comes_back_as_it_was():
    value = {"a": (1, 2.5, None), 3: [True, {"x": "y"}], "nan": float("inf"), "ref": plain.Ref("m/w")}
    assert plain.loads(plain.dumps(value)) == value


def test_a_snapshot_of_another_model_is_refused_and_kept(tmp_path):
    folder = tmp_path / "run" / "slots"
    folder.mkdir(parents=True)
    protected = Protected()
    protected.add({"state": {"w": torch.zeros(3)}})
    leaves, rest = protected.read()
    layout = lay_out(leaves, 0, 1)
    shelf, entry = Shelf(folder), Entry("m0-0", 4096, layout.data_bytes, 2)
    shelf.reserve(entry)
    camera = Camera(shelf, entry)
    camera.take(Label(1, 3, "theirs", 0, 0), leaves, layout, {"things": rest, "course": {}})
    camera.close()
    with Memory([shelf]) as memory:
        with pytest.raises(OtherRun, match="run 'run' has snapshots of another model"):
            remembered_steps(memory, "ours")
        assert memory.steps() == [3]


def test_ranks_that_disagree_about_the_data_are_stopped_before_the_step_counts():
    votes = [agree.Vote(1, 1, 0, 0, 4, 100, 7, -1).row(), agree.Vote(1, 1, 0, 0, 3, 100, 7, -1).row()]
    with pytest.raises(DataChanged, match=r"read 7 samples where the step has 8.*by rank: \[4, 3\]"):
        agree.judge(votes, 8, 200)
    votes[1] = agree.Vote(1, 1, 0, 0, 4, 101, 7, -1).row()
    with pytest.raises(DataChanged, match="not the same ones"):
        agree.judge(votes, 8, 200)
    votes[1] = agree.Vote(1, 1, 0, 0, 4, 100, 8, -1).row()
    with pytest.raises(DataChanged, match="different steps"):
        agree.judge(votes, 8, 200)


def test_status_of_what_is_not_there_is_said_and_has_its_own_code(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TUTTI_TRAIN_HOME", str(tmp_path))
    assert main(["status", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"schema": "tutti/v1", "runs": []}
    assert main(["status", "gone", "-o", "json"]) == 3
    assert "no run 'gone' here" in capsys.readouterr().err
    assert main(["status"]) == 0
    assert capsys.readouterr().out == "no runs here\n"


@pytest.mark.parametrize(
    ("memory_bytes", "step", "says"),
    [
        pytest.param(0, -1, "none of its state is in memory", id="nothing"),
        pytest.param(3 << 20, 7, "3.0 MiB of its state is in memory, step 7 or later", id="a step"),
        pytest.param(3 << 20, -1, "3.0 MiB of its state is in memory\n  go on: --run-id r", id="its words are lost"),
    ],
)
def test_what_is_left_of_a_dead_run_is_told(memory_bytes, step, says):
    dead = {"run": "r", "run_id": "r", "is_running": False, "memory_bytes": memory_bytes, "snapshot_step": step}
    assert says in status.sentence(dead)
    assert "tutti train clean r" in status.sentence(dead)


def test_the_bill_says_what_each_member_must_ask_for(capsys):
    assert main(["bill", "3GB", "--workers", "8", "--domains", "2", "--sharded", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_bytes"] == int(2 * 2 * 3e9 * 1.34)
    assert main(["bill", "200MiB", "--workers", "4"]) == 0
    assert "536 MiB for the snapshots of 200 MiB of state: add 134 MiB" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["bill", "much"])
    assert "'much' is not an amount of memory" in capsys.readouterr().err


def test_a_state_whose_snapshots_will_not_fit_is_refused_before_anybody_starts(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TUTTI_TRAIN_HOME", str(tmp_path))
    assert main(["--workers", "2", "--state", "900TB", "--", "true"]) == 125
    said = capsys.readouterr().err
    assert "need 2,300,262,451 MiB of memory and" in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def launched(tmp_path, *words):
    """The launcher as a program of its own: it adopts the orphans of the process it runs in."""
    return subprocess.Popen(
        [sys.executable, "-m", "tutti.train", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "TUTTI_TRAIN_HOME": str(tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_members_that_cannot_be_started_leave_nothing(tmp_path):
    """An interpreter that ends at once stands for one that has no torch."""
    python, loop = tmp_path / "python", tmp_path / "loop.py"
    python.symlink_to("/bin/false")
    loop.write_text("")
    with launched(tmp_path, "--run-id", "x", "--", python, loop) as process:
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 125
    assert said.endswith(f"can {python} import torch?\n")
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_anybody_has_begun_ends_it_at_once_and_leaves_nothing(tmp_path, number):
    """An interpreter that never gets warm stands for a slow one."""
    python, loop = tmp_path / "python", tmp_path / "loop.py"
    python.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid\nexec sleep 600\n")
    python.chmod(0o700)
    loop.write_text("")
    with launched(tmp_path, "--run-id", "x", "--", python, loop) as process:
        limit = time.monotonic() + 60
        while not (tmp_path / "pid").exists():
            assert time.monotonic() < limit
            time.sleep(0.01)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert said == "tutti train: it was ended before it had begun\n"
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert list((tmp_path / "home").iterdir()) == []


def test_a_signal_while_the_first_process_starts_is_heard_when_it_can_be_ended():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with undisturbed():
            signal.raise_signal(signal.SIGTERM)
            assert heard == []
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_member_whose_launcher_is_gone_before_it_begins_ends():
    child = os.fork()
    if child == 0:
        end_with_parent(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_home_that_cannot_be_is_said_in_one_line(capsys, monkeypatch):
    monkeypatch.setenv("TUTTI_TRAIN_HOME", "/proc/x")
    assert main(["--", "true"]) == 125
    said = capsys.readouterr().err
    assert said.startswith("error: /proc/x/r-")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param(["--workers", "3", "--sizes", "2,4", "--", "x"], "legal sizes are 2", id="an illegal size"),
        pytest.param(["--workers", "2"], "no command", id="no command"),
        pytest.param(["--workers", "many", "--", "x"], "not a number of members", id="no number"),
        pytest.param(["--nnodes", "2", "--", "x"], "say where the machines meet", id="two machines"),
        pytest.param(["--virtual-local-rank", "--", "x"], "LOCAL_RANK of its own", id="one local rank for all"),
        pytest.param(["--domains", "0", "--", "x"], "--domains 0: it is at least 1", id="no domain"),
        pytest.param(["--workers", "2", "--domains", "3", "--", "x"], "in at most 2 failure", id="thin domains"),
        pytest.param(["--slots", "-1", "--", "x"], "--slots -1: it is at least 0", id="slots below none"),
        pytest.param(["--grace", "nan", "--", "x"], "--grace nan: it is at least 0", id="no time"),
        pytest.param(["--workers", "0", "--", "x"], "at least one member", id="no members"),
        pytest.param(["--workers", "4:2", "--", "x"], "at least 4 members and at most 2", id="a range upside down"),
        pytest.param(["--workers", "2", "--min", "3", "--", "x"], "at least 3 members and at most 2", id="min above"),
        pytest.param(["--workers", "9999", "--", "x"], "at most 256 members", id="more than one machine runs"),
        pytest.param(["--", "python", "gone.py"], "there is no program gone.py", id="no script"),
        pytest.param(["--", "no-such-program"], "there is no program 'no-such-program'", id="no program"),
        pytest.param(["--durable", "/proc/x", "--", "true"], "--durable /proc/x: No such file", id="no folder"),
        pytest.param(["--no-python", "-m", "x"], "exclude each other", id="a module without Python"),
        pytest.param(["--run-id", "a/b", "--", "true"], "cannot name a run", id="a name that is a path"),
        pytest.param(["--story", "/gone/s", "--", "true"], "--story /gone/s: there is no folder /gone", id="no shelf"),
    ],
)
def test_the_launcher_refuses_in_one_line(capsys, argv, says):
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("why", "short"),
    [
        pytest.param("[/a/b/pair.cc:561] Connection closed by peer [127.0.0.1]:5. This is typically caused by a remote "
                     "worker.\nmore", "Connection closed by peer [127.0.0.1]:5.", id="gloo's"),
        pytest.param("m2 did not come", "m2 did not come", id="ours"),
        pytest.param("[m2] did not come", "[m2] did not come", id="not a place"),
    ],
)  # fmt: skip
def test_what_a_library_says_is_told_in_short(why, short):
    assert recover.in_short(why) == short


def test_an_exception_has_the_present_rank_before_each_line_once(capsys, monkeypatch):
    monkeypatch.setattr("sys.excepthook", sys.__excepthook__)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "0")
    member = job.Job(None, 0, 0)
    member.group.form_alone()
    member.group.form_alone()
    job.watch_exceptions(member)
    member.set_place(3, 4)
    sys.excepthook(ValueError, ValueError("wrong"), None)
    member.group.dissolve()
    assert capsys.readouterr().err == "[rank3]: ValueError: wrong\n"
