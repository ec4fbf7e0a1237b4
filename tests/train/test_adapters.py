"""Other libraries: their data, loops of theirs with the five verbs, and trainers that own the loop."""

from importlib import import_module

import pytest
import torch

from tests.train.support import claim
from tests.train.test_faults import check_samples, same_on_all
from tutti.train import job

pytestmark = pytest.mark.filterwarnings("ignore")

datasets, pyarrow = import_module("datasets"), import_module("pyarrow")


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(job, "_current", None)
    monkeypatch.delenv("TUTTI_TRAIN_AGENT", raising=False)
    one = job.join()
    one.protect(state={"w": torch.zeros(1)})
    return one


def read_all(alone, data, **options):
    """Everything that the loop gets, without a step to take."""
    model = torch.nn.Linear(1, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.0)
    found = []
    for batch in alone.batches(data, global_batch=4, **options):
        found.append(batch)
        model(torch.ones(1, 1)).sum().backward()
        alone.commit(opt)
    return found


def test_a_stateful_loader_is_taken_apart(alone):
    loader = import_module("torchdata.stateful_dataloader").StatefulDataLoader(
        list(range(10)), batch_size=3, shuffle=True
    )
    batches = read_all(alone, loader)
    assert sorted(torch.cat(batches).tolist()) == list(range(10))
    assert alone.delivery == "exactly-once"


def table_of(columns):
    """A table in memory. Its name is given: what the library would hash for one, it cannot everywhere."""
    return datasets.Dataset(datasets.table.InMemoryTable(pyarrow.table(columns)), fingerprint="tutti")


def test_a_table_of_hugging_face_is_read_once_by_index(alone):
    table = table_of({"x": list(range(10)), "y": [[float(n)] for n in range(10)]})
    batches = read_all(alone, table.with_format("torch"))
    assert sorted(torch.cat([batch["x"] for batch in batches]).tolist()) == list(range(10))
    assert alone.delivery == "exactly-once"


def test_a_stream_of_hugging_face_is_at_least_once(alone):
    stream = table_of({"x": list(range(10))}).to_iterable_dataset()
    batches = read_all(alone, stream, epochs=2)
    assert [batch["x"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] * 2
    assert alone.delivery == "at-least-once"


@pytest.mark.slow
@pytest.mark.parametrize(("data", "loaders"), [("stateful", 2), ("table", 0)])
def test_every_sample_of_another_library_is_trained_on_once_through_a_loss(launch, data, loaders):
    loop = {"samples": 100, "data": data, "loaders": loaders, "faults": {"m1": {"5": "kill"}}, "sleep": 0.02}
    run = launch("--workers", 3, "--max-restarts", 2, loop=loop, warm=["datasets", "torchdata"])
    assert run.finish() == 0, run.said()
    check_samples(run)
    same_on_all(run)
    assert run.counts()["lost"] == 1
    assert run.leftovers() == []


FRAMEWORKS = ["accelerate", "fabric"]
LARGE = {
    "accelerate": "accelerate", "fabric": "lightning_fabric", "hugging_face": "transformers.trainer",
    "lightning": "pytorch_lightning",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_loop_of_another_framework_loses_a_member_and_goes_on(launch, framework):
    runs = []
    for victim in ("m1", "nobody"):
        loop = {"framework": framework, "victim": victim}
        run = launch("--workers", 3, "--max-restarts", 0, loop=loop, script="frameworks.py", warm=[LARGE[framework]])
        assert run.finish() == 0, run.said()
        runs.append(same_on_all(run))
        assert run.leftovers() == []
    assert [(one["world"], one["ledger"], one["level"]) for one in runs] == [
        (world, {"0": [[0, 400]]}, "L2") for world in (2, 3)
    ]
    for name, value in runs[1]["weights"].items():
        torch.testing.assert_close(runs[0]["weights"][name], value, rtol=1e-3, atol=1e-4)
    claim(framework, "L2")


TRAINERS = ["hugging_face", "lightning"]
_calm: dict[tuple[str, str], dict] = {}


def train(launch, workers, loop):
    large = [LARGE[loop["framework"]]]
    return launch("--workers", workers, "--max-restarts", 1, loop=loop, script="trainers.py", warm=large)


def trained(run, epochs=3, batch=12, samples=90):
    """What a trainer has learned: each sample in each epoch once, the same on all members, and its own count right."""
    assert run.finish() == 0, run.said()
    check_samples(run, epochs, batch, samples)
    found = same_on_all(run)
    assert found["step"] == found["counted"] == epochs * -(-samples // batch)
    assert (found["epoch"], found["level"]) == (epochs, "L2")
    assert run.leftovers() == []
    return found


@pytest.fixture
def calm(launch):
    """The same trainer, alone and undisturbed: a batch of three members is its batch."""

    def result(framework, **options):
        key = (framework, str(options))
        if key not in _calm:
            loop = {"framework": framework, "mode": "callback", "batch": 12, **options}
            _calm[key] = trained(train(launch, 1, loop))
        return _calm[key]

    return result


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["callback", "unchanged"])
@pytest.mark.parametrize("framework", TRAINERS)
def test_a_trainer_that_owns_its_loop_loses_a_member_and_gets_another(launch, calm, framework, mode):
    """The lost step is computed again, two go on, and the third comes in the middle of an epoch."""
    loop = {"framework": framework, "mode": mode, "faults": {"m1": 5}, "meet": 10}
    run = train(launch, 3, loop)
    found = trained(run)
    assert [event["world"] for event in run.events("generation")] == [3, 2, 3]
    for name, value in calm(framework)["weights"].items():
        torch.testing.assert_close(found["weights"][name], value, rtol=1e-3, atol=1e-4)
    assert ("attached to" in run.said()) == (mode == "unchanged")
    claim(framework, "L2")


@pytest.mark.slow
@pytest.mark.parametrize("framework", TRAINERS)
def test_pieces_of_a_step_and_clipping_are_those_of_the_whole_batch(launch, framework):
    """Twelve samples by two members in pieces of at most two, against all of them at once."""
    weights = []
    for workers, batch, pieces in ((1, 12, 1), (2, 2, 3)):
        loop = {"framework": framework, "mode": "callback", "batch": batch, "pieces": pieces, "clip": 0.05, "epochs": 1}
        run = train(launch, workers, loop)
        assert run.finish() == 0, run.said()
        weights.append(same_on_all(run)["weights"])
        assert run.results()[0]["ledger"] == {"0": [[0, 90]]}
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-5)
    assert weights[0]["count"].sum() < 1, "clipped"
