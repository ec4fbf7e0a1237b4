"""Other libraries, where they are installed: data sources, and loops with the five verbs in them."""

import importlib.util
from pathlib import Path

import pytest
import torch

from tests.train.support import claim
from tests.train.test_faults import same_on_all
from tutti.train import job

pytestmark = pytest.mark.filterwarnings("ignore")


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
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    loader = torchdata.StatefulDataLoader(list(range(10)), batch_size=3, shuffle=True)
    batches = read_all(alone, loader)
    assert sorted(torch.cat(batches).tolist()) == list(range(10))
    assert alone.delivery == "exactly-once"


def table_of(datasets, columns):
    """A table in memory. Its name is given: what the library would hash for one, it cannot everywhere."""
    pyarrow = pytest.importorskip("pyarrow")
    return datasets.Dataset(datasets.table.InMemoryTable(pyarrow.table(columns)), fingerprint="tutti")


def test_a_table_of_hugging_face_is_read_once_by_index(alone):
    datasets = pytest.importorskip("datasets")
    table = table_of(datasets, {"x": list(range(10)), "y": [[float(n)] for n in range(10)]})
    batches = read_all(alone, table.with_format("torch"))
    assert sorted(torch.cat([batch["x"] for batch in batches]).tolist()) == list(range(10))
    assert alone.delivery == "exactly-once"


def test_a_stream_of_hugging_face_is_at_least_once(alone):
    datasets = pytest.importorskip("datasets")
    stream = table_of(datasets, {"x": list(range(10))}).to_iterable_dataset()
    batches = read_all(alone, stream, epochs=2)
    assert [batch["x"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] * 2
    assert alone.delivery == "at-least-once"


FRAMEWORKS = ["accelerate", "fabric"]


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_loop_of_another_framework_loses_a_member_and_goes_on(launch, framework):
    found = importlib.util.find_spec({"fabric": "lightning_fabric"}.get(framework, framework))
    if found is None or found.origin is None:
        pytest.skip(f"{framework} is not installed")
    path = [str(Path(found.origin).parents[1])]
    runs = []
    for victim in ("m1", "nobody"):
        loop = {"framework": framework, "victim": victim, "path": path}
        run = launch("--workers", 3, "--max-restarts", 0, loop=loop, script="frameworks.py")
        assert run.finish() == 0, run.said()
        runs.append(same_on_all(run))
        assert run.leftovers() == []
    assert [(one["world"], one["ledger"], one["level"]) for one in runs] == [
        (world, {"0": [[0, 400]]}, "L2") for world in (2, 3)
    ]
    for name, value in runs[1]["weights"].items():
        torch.testing.assert_close(runs[0]["weights"][name], value, rtol=1e-3, atol=1e-4)
    claim(framework, "L2")
