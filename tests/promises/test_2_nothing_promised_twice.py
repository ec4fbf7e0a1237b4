"""Promise 2. No node and no domain is over-committed, by what runs or by what is told to."""

from hypothesis import given
from hypothesis import strategies as st

from tests.promises.outcomes import carry_out, lived
from tests.worlds import MEDIUM, scenes
from tutti.engine.decide import decide
from tutti.engine.view import View


def least_free(view: View) -> dict[tuple[str, str], int]:
    """What is free of each resource on each node and domain, where it is less than nothing."""
    names = list(view.resources)
    nodes = {
        (node.name, names[r]): int(amount)
        for at, node in enumerate(view.nodes)
        if node is not None
        for r, amount in enumerate(view.class_free[:, view.class_of[at]])
    }
    domains = {(f"domain {at}", r): left for at, free in view.domain_free.items() for r, left in free.items()}
    return {where: left for where, left in {**nodes, **domains}.items() if left < 0}


@given(st.one_of(scenes(), lived(), scenes(MEDIUM)), st.booleans())
def test_carrying_a_plan_out_takes_nothing_that_is_not_there(scene, settle):
    world = scene.world()
    before = least_free(world.view())

    carry_out(world, decide(world.view(), scene.now, scene.policy), scene.now, settle)

    assert least_free(world.view()).items() <= before.items()
