"""The example on the page about order and quota is computed by the engine and comes out as printed."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.clusters import drawn, gang, seat, submit
from tutti.engine.model import Queue
from tutti.engine.policy import Policy
from tutti.engine.quota import LN2, Shares

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "order-and-quota.md"
BLOCKS = [
    tomllib.loads(block) for block in re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
]
SITE, GANGS, DUE, SHARES, RECLAIM = BLOCKS
POLICY = Policy()
HALF_LIFE = POLICY.order.half_life


def queue(name, guarantee=0, limit=0, **said):
    """A queue as the page writes it: amounts are cards, what is left out is not set."""
    return Queue(name, guarantee={"gpu": guarantee} if guarantee else {}, limit={"gpu": limit} if limit else {}, **said)


@pytest.fixture
def shares():
    world = drawn(str(SITE["cards"]), *(queue(name, **said) for name, said in SITE["queues"].items()))
    for name, said in GANGS.items():
        least = said["holds"] - said.get("surplus", 0)
        seat(world, gang(f"{name}-runs", least, max=said["holds"], queue=name), f"n0*{said['holds']}")
        submit(world, gang(f"{name}-waits", said["waits"], queue=name))
        # The amount x seconds that so many cards, held for ever, add up to.
        world.use[name].past[0] = -(-said["past"] * HALF_LIFE // LN2)
    return Shares(world.view(), 0, POLICY)


def level(shares, queue):
    """One level of the share of any gang of the queue."""
    below = next((name for name, said in SITE["queues"].items() if said.get("parent") == queue), queue)
    return next(share for _, share, name in shares.share(below) if name == queue)


@pytest.mark.parametrize("queue", DUE["deserved"])
def test_what_a_queue_deserves_and_may_claim(shares, queue):
    assert shares.deserved(queue) == [DUE["deserved"][queue]]
    assert shares.claim(queue) == [DUE["claim"][queue]]


@pytest.mark.parametrize("queue", SHARES["share"])
def test_what_its_share_is(shares, queue):
    assert level(shares, queue) == SHARES["share"][queue]


def test_whose_turn_it_is(shares):
    assert sorted(GANGS, key=shares.share) == SHARES["turns"]["order"]


def test_who_gives_back_to_whom(shares):
    assert RECLAIM["reclaim"] == {
        "product_with_4_more_is_inside_its_guarantee": shares.under_guarantee("product", [4]),
        "product_with_5_more_is_inside_its_guarantee": shares.under_guarantee("product", [5]),
        "vision_gives_back_to_product": shares.over_deserved("vision", claimant="product"),
        "vision_gives_back_to_speech": shares.over_deserved("vision", claimant="speech"),
        "vision_counts_in_quota": shares.counted("vision")[0],
    }
