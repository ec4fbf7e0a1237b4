"""The scheduler's own pages, and who may read them; the lease and its fence."""

import json

import pytest

from tools.control_plane.stage import gang, node
from tutti.kube.api import Fenced
from tutti.kube.lease import Lease
from tutti.kube.metrics import METRICS
from tutti.kube.serve import Pages


def test_pages_are_for_those_who_may(play):
    async def scene(play):
        await play.stage.make(node("n0"))
        await play.stage.make(*gang("a", 2))
        async with play.scheduler() as scheduler:
            await play.until_told("a", "False")
            pages = Pages(scheduler, None, scheduler.api)
            assert (await pages.page("GET", "/v1/gangs")).status.startswith("401")
            assert (await pages.page("GET", "/v1/gangs", "nonsense")).status.startswith("401")
            assert (await pages.page("POST", "/v1/gangs", play.rig.admin)).status.startswith("405")
            found = json.loads((await pages.page("GET", "/v1/gangs", play.rig.admin)).body)
            assert found["gangs"][0]["gang"] == "default/a"
            why = json.loads((await pages.page("GET", "/v1/gangs/default/a", play.rig.admin)).body)
            assert why["schema"] == "tutti/v1"
            assert "n0" in (await pages.page("GET", "/v1/nodes", play.rig.tutti)).body
            assert (await pages.page("GET", "/v1/gangs/default/none", play.rig.admin)).status.startswith("404")
            text = (await pages.page("GET", "/metrics")).body
            assert all(f"# TYPE {metric.name} " in text for metric in METRICS)
            assert (await pages.page("GET", "/readyz")).status.startswith("200")

    play(scene)


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def lease(control_plane):
    from tutti.kube.api import Api
    from tutti.kube.credentials import from_file

    clock = Clock()
    made = Lease(Api(from_file(control_plane.kubeconfig())), "default", "test", "me", 15.0, clock)
    made.held_until = clock.now + 10
    yield made, clock
    made.api.close()


def test_nothing_is_written_once_the_lease_could_be_taken(lease):
    held, clock = lease
    held.fence()
    clock.now += 10.1
    with pytest.raises(Fenced):
        held.fence()


def test_a_candidate_trusts_only_its_own_clock(lease):
    held, clock = lease
    # The holder's clock is a day behind; what counts is how long we ourselves have seen it unchanged.
    said = {"holderIdentity": "other", "renewTime": "2020-01-01T00:00:00Z", "leaseDurationSeconds": 15}
    assert not held._is_free(said)
    clock.now += 14
    assert not held._is_free(said)
    clock.now += 2
    assert held._is_free(said)
    assert not held._is_free(said | {"renewTime": "2020-01-01T00:00:02Z"})
