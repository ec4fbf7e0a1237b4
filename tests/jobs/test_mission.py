"""Jobs people have, all the way to the decision: groups stay together, rigid stays rigid, loose trickles in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.golden_files import HERE
from tutti.engine import events as ev
from tutti.engine.check import check
from tutti.engine.decide import decide
from tutti.engine.model import Coupling, Gang, Node, NodeState, Pool, Queue, Resizing, Role, Shape
from tutti.engine.plan import Grow, Shrink, Start
from tutti.engine.presets import PRESETS
from tutti.engine.world import World
from tutti.jobs.counted import counted
from tutti.jobs.understand import understand, understand_text

POLICY = PRESETS["balanced"].policy


def world_of(*nodes, cpus=64_000):
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    world.apply(ev.PoolSet(0, Pool("default", ())))
    for number, gpus in enumerate(nodes):
        world.apply(ev.NodeSeen(0, Node(f"n{number}", {"gpu": gpus, "cpu": cpus})))
    return world


def started(world, gang):
    world.apply(ev.Submitted(0, counted(gang, world.view().resources)))
    starts = [action for action in decide(world.view(), 0, POLICY).actions if isinstance(action, Start)]
    assert starts, "it does not start"
    return starts[0].seats


@pytest.mark.parametrize("free", [(8, 8, 8), (6, 8, 5, 8), (8, 4, 4, 8)])
def test_a_tensor_group_of_eight_is_on_one_node_in_every_run(free):
    line = ["python", "pretrain_gpt.py", "--tensor-model-parallel-size", "8"]
    found = understand(line, {"workers": 16})
    assert found.tensor_group == 8
    (seats,) = started(world_of(*free), found.gang)
    assert seats.counts == (8, 8)


def test_whole_replicas_of_a_sliced_model_only():
    """Tensor 4 x pipeline 2, thirty cards on offer: twenty-four are taken."""
    line = ["python", "pretrain_gpt.py", "--tensor-model-parallel-size", "4", "--pipeline-model-parallel-size", "2"]
    found = understand(line, {"workers": "8:30"})
    assert found.legal_sizes == (8, 16, 24)
    (seats,) = started(world_of(8, 8, 8, 6), found.gang)
    assert seats.members == 24


def test_parameter_servers_start_with_three_cards_and_workers_trickle_in():
    gang = understand_text((HERE / "jobs" / "ps.toml").read_text(), "ps.toml").gang
    ps, worker = gang.roles
    assert (ps.coupling, worker.coupling) == (Coupling.GANG, Coupling.LOOSE)
    world = world_of(3)
    seats = started(world, gang)
    assert [seat.members for seat in seats] == [2, 3]
    world.apply(ev.Starting(0, gang.name, seats))
    world.apply(ev.Running(0, gang.name))
    sizes = []
    for more in (2, 1, 8):
        world.apply(ev.NodeSeen(1, Node(f"more{more}", {"gpu": more, "cpu": 64_000})))
        (grow,) = decide(world.view(), 2, POLICY).actions
        assert isinstance(grow, Grow)
        assert grow.seats[0] == seats[0]
        sizes.append(grow.seats[1].members)
        world.apply(ev.Resized(2, gang.name, grow.seats))
    assert sizes == [5, 6, 8]


def test_a_script_without_our_library_is_rigid_and_restarts_from_its_own_checkpoint():
    found = understand(["torchrun", "--nnodes", "2", "--nproc-per-node", "4", "train.py"])
    assert (found.elastic_class, found.elastic_level) == ("rigid", "L0")
    assert found.gang.resizing is Resizing.NONE


@given(st.lists(st.integers(1, 8), min_size=2, max_size=6), st.integers(1, 4), st.booleans(), st.integers(0, 5))
def test_a_rigid_gang_is_never_resized(free, nodes, elastic_beside, lost):
    """Five plans of each of two hundred worlds, in which nodes are lost and come: a thousand plans."""
    world = world_of(*free)
    gang = understand(["torchrun", "--nnodes", str(nodes), "--nproc-per-node", "1", "train.py"], {"name": "rigid"}).gang
    world.apply(ev.Submitted(0, gang))
    if elastic_beside:
        other = understand(
            ["torchrun", "--nnodes", "1:8", "--nproc-per-node", "1", "train.py"], {"name": "elastic"}
        ).gang
        world.apply(ev.Submitted(0, other))
    for moment in range(1, 6):
        if moment == 3:
            world.apply(ev.NodeTurned(moment, f"n{lost % len(free)}", NodeState.LOST))
        if moment == 4:
            world.apply(ev.NodeSeen(moment, Node("more", {"gpu": 8, "cpu": 64_000})))
        for action in decide(world.view(), moment * 3_600_000_000, POLICY).actions:
            assert not (isinstance(action, Grow | Shrink) and action.gang == "rigid")
            if isinstance(action, Start):
                world.apply(ev.Starting(moment, action.gang, action.seats))
                world.apply(ev.Running(moment, action.gang))


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.integers(2, 6),
    st.integers(1, 4),
    st.sampled_from(["group", "within"]),
)
def test_groups_of_a_node_are_whole_and_start_whenever_they_fit(free, size, groups, how):
    """Against counting by hand: so many whole groups fit as the nodes hold."""
    world = world_of(*free)
    wanted = (
        {"group": f"{size}@node", "workers": size * groups} if how == "group" else {"within": "node", "workers": size}
    )
    gang = understand(["python", "train.py"], {"name": "grouped", **wanted}).gang
    world.apply(ev.Submitted(0, gang))
    plan = decide(world.view(), 0, POLICY)
    starts = [action for action in plan.actions if isinstance(action, Start)]
    room = sum(gpus // size for gpus in free)
    assert bool(starts) is (room >= (groups if how == "group" else 1))
    assert check(world.view(), plan, POLICY) == []
    for start in starts:
        assert all(count % size == 0 for count in start.seats[0].counts)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 6), st.booleans())
def test_an_elastic_role_of_one_node_starts_on_the_best_one_and_grows_only_there(free, low, more, live):
    """Against counting by hand: it starts whenever one node holds its minimum, as large as that node lets it."""
    world = world_of(*free)
    resize = {"resize": "live"} if live else {}
    wanted = {"within": "node", "workers": f"{low}:{low + more}", **resize}
    world.apply(ev.Submitted(0, understand(["python", "train.py"], {"name": "one", **wanted}).gang))
    plan = decide(world.view(), 0, POLICY)
    starts = [action for action in plan.actions if isinstance(action, Start)]
    assert check(world.view(), plan, POLICY) == []
    assert bool(starts) is (max(free) >= low)
    if not starts:
        return
    (seats,) = starts[0].seats
    assert len(seats.nodes) == 1
    assert seats.members == min(low + more, max(free))
    world.apply(ev.Starting(0, "one", starts[0].seats))
    world.apply(ev.Running(0, "one"))
    world.apply(ev.NodeSeen(1, Node("roomy", {"gpu": 64, "cpu": 64_000})))
    later = decide(world.view(), 3600 * 1_000_000, POLICY)
    assert check(world.view(), later, POLICY) == []
    for action in later.actions:
        assert not isinstance(action, Grow) or action.seats[0].nodes == seats.nodes


@given(st.lists(st.integers(1, 8), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_two_roles_of_one_node_are_together_or_wait(free, first, second, elastic):
    world = world_of(*free)
    one = (Shape({"gpu": 1}),)
    roles = Role("a", first, first, first, one), Role("b", second, second + 2 * elastic, second + 2 * elastic, one)
    world.apply(ev.Submitted(0, Gang("both", roles, within="node")))
    plan = decide(world.view(), 0, POLICY)
    assert check(world.view(), plan, POLICY) == []
    assert any(isinstance(action, Start) for action in plan.actions) is (max(free) >= first + second)
