"""Data sources of other libraries, where they are installed."""

import pytest
import torch

from tutti.train import job


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


def test_a_table_of_hugging_face_is_read_once_by_index(alone):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": list(range(10)), "y": [[float(n)] for n in range(10)]})
    batches = read_all(alone, table.with_format("torch"))
    assert sorted(torch.cat([batch["x"] for batch in batches]).tolist()) == list(range(10))
    assert alone.delivery == "exactly-once"


def test_a_stream_of_hugging_face_is_at_least_once(alone):
    datasets = pytest.importorskip("datasets")
    stream = datasets.Dataset.from_dict({"x": list(range(10))}).to_iterable_dataset()
    batches = read_all(alone, stream, epochs=2)
    assert [batch["x"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] * 2
    assert alone.delivery == "at-least-once"
