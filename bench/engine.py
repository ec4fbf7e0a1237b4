"""How fast the engine decides. Prints each figure with its goal; the last line is JSON.

Times are processor time of this one process, so that neighbours on a shared machine are not counted.
"""

import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from tutti.engine import events as ev
from tutti.engine.cache import Cache
from tutti.engine.decide import decide
from tutti.engine.model import HOUR, MINUTE, Estimate, Gang, Node, Pool, Queue, Role, Seats, Shape, Source
from tutti.engine.plan import Plan, Reserve, Start
from tutti.engine.policy import ALL, Order, Policy, Reservation, Term
from tutti.engine.world import World

GOALS = {
    "event_ms_p50": 1,
    "event_ms_p99": 5,
    "event_quiet_us": 100,
    "view_us": 100,
    "plan_100_ms": 100,
    "plan_2000_s": 1.0,
    "plan_2000_rack_s": 2.0,
    "plan_2000_worst_s": 6.0,
    "plan_slurm_s": 0.4,
    "gang_10000_ms": 50,
    "no_fit_ms": 20,
    "nodes_growth": 2.3,
    "queue_growth": 2.6,
    "peak_mb": 300,
}
LINE = Order(terms=(Term.PRIORITY, Term.AGE), fair_share=False)
EASY = Policy(name="easy", order=LINE, reserve=Reservation(depth=1, backfill=Term.AGE, max_wait=0))


def conservative(depth: int) -> Policy:
    """Reserve for the first so many gangs."""
    return Policy(name="deep", order=LINE, reserve=Reservation(depth=depth, backfill=Term.AGE, max_wait=0))


def gang(name: str, members: int, gpus: int, length: int, at: int = 0, within: str = "") -> Gang:
    """A rigid gang whose members sit on nodes of their own."""
    role = Role(min=members, shapes=(Shape({"gpu": gpus}),), within=within)
    return Gang(name, (role,), submitted=at, estimate=Estimate(limit=length, source=Source.DECLARED))


def cluster(nodes: int, rack: int = 32) -> World:
    """Nodes of eight devices in racks."""
    world = World()
    world.apply(ev.QueueSet(0, Queue("default")))
    world.apply(ev.PoolSet(0, Pool("default", ("rack",))))
    for i in range(nodes):
        world.apply(ev.NodeSeen(0, Node(f"n{i}", {"gpu": 8}, place=(f"r{i // rack}",))))
    return world


def start(world: World, name: str, nodes: list[int], gpus: int, length: int) -> None:
    """Put a running gang on these nodes, one member each."""
    world.apply(ev.Submitted(0, gang(name, len(nodes), gpus, length)))
    world.apply(ev.Starting(0, name, (Seats(tuple(nodes), (1,) * len(nodes)),)))
    world.apply(ev.Running(0, name))


def busy(nodes: int, seed: int, own_class: bool = False) -> World:
    """Every node is full of gangs that end at different times."""
    draw = random.Random(seed)
    world = cluster(nodes)
    at = number = 0
    while at < nodes:
        width = 1 if own_class else min(draw.choice((1, 1, 2, 4, 8, 16, 32, 64)), nodes - at)
        for part in draw.choice(((8,), (8,), (4, 4), (4, 2, 2))):
            start(world, f"run{number}", list(range(at, at + width)), part, draw.randrange(1, 2000) * MINUTE)
            number += 1
        at += width
    return world


def queue_up(world: World, gangs: int, seed: int, racks: bool = False, widest: int = 64) -> None:
    """Gangs of 1 to 64 members with 1, 2, 4 or 8 devices each."""
    draw = random.Random(seed)
    for i in range(gangs):
        width = min(draw.choice((1, 1, 2, 4, 8, 16, 32, 64)), widest)
        within = "rack" if racks and i % 2 and width <= 32 else ""
        job = gang(f"wait{i}", width, draw.choice((1, 2, 4, 8)), draw.randrange(5, 1440) * MINUTE, i, within)
        world.apply(ev.Submitted(1, job))


def timed(work: Callable[[], Plan]) -> tuple[float, Plan]:
    """Seconds and what came of it."""
    begin = time.process_time()
    plan = work()
    return time.process_time() - begin, plan


def plan_time(world: World, depth: int, promised: int) -> float:
    """Seconds for one decision that must promise so many gangs a start."""
    view = world.view()
    seconds, plan = timed(lambda: decide(view, 1, conservative(depth)))
    given = sum(isinstance(action, Reserve | Start) for action in plan.actions)
    assert given >= promised, (given, promised)
    return seconds


def median(runs: int, measure: Callable[[int], float]) -> float:
    """The middle one of several runs with different seeds."""
    return statistics.median(measure(seed) for seed in range(runs))


def deep(nodes: int, gangs: int, depth: int, seed: int, *, racks: bool = False, own_class: bool = False) -> float:
    """One deep plan over a busy cluster."""
    world = busy(nodes, seed, own_class)
    queue_up(world, gangs, seed, racks)
    return plan_time(world, depth, gangs if depth == ALL else depth)


def event_times(waiting: int, rounds: int) -> list[float]:
    """Seconds for one event and its decision, again and again: a gang ends, a gang arrives."""
    draw = random.Random(1)
    world = cluster(1000)
    for i in range(200):
        start(world, f"run{i}", list(range(i * 5, i * 5 + 5)), 8, draw.randrange(60, 6000) * MINUTE)
    for i in range(waiting):
        width = draw.choice((6, 8, 16, 32, 64))
        world.apply(ev.Submitted(0, gang(f"wait{i}", width, 8, draw.randrange(60, 600) * MINUTE, i)))
    cache, spent, running = Cache(), [], [f"run{i}" for i in range(200)]
    for number in range(rounds):
        now = number * MINUTE // 4 + 1
        spent.append(_one_event(world, cache, draw, now, number, running, waiting))
    return spent


def _one_event(
    world: World, cache: Cache, draw: random.Random, now: int, number: int, running: list[str], waiting: int
) -> float:
    event: ev.Event
    if number % 2 and running:
        event = ev.Ended(now, running.pop(draw.randrange(len(running))))
    else:
        width = draw.choice((6, 8, 16, 32, 64)) if waiting else 1
        event = ev.Submitted(now, gang(f"new{number}", width, 8, draw.randrange(60, 600) * MINUTE, now))
    begin = time.process_time()
    world.apply(event)
    plan = decide(world.view(), now, EASY, cache).without_answers()
    spent = time.process_time() - begin
    for action in plan.actions:
        if isinstance(action, Start):
            world.apply(ev.Starting(now, action.gang, action.seats))
            world.apply(ev.Running(now, action.gang))
            running.append(action.gang)
        elif isinstance(action, Reserve):
            world.apply(ev.Promised(now, action.gang, action.promise))
    return spent


def view_time(world: World) -> float:
    """Seconds for a view while somebody still looks at the one before, so that nothing is shared."""
    kept, spent = world.view(), []
    for i in range(200):
        world.apply(ev.Held(i, "nobody"))
        begin = time.process_time()
        world.let_go()
        kept = world.view()
        spent.append(time.process_time() - begin)
    assert kept.number == world.version
    return statistics.median(spent)


def one_gang(nodes: int, members: int) -> float:
    """Seconds to place one gang over as many nodes."""
    world = cluster(nodes)
    world.apply(ev.Submitted(0, gang("wide", members, 8, HOUR)))
    view = world.view()
    seconds, plan = timed(lambda: decide(view, 1, EASY))
    assert isinstance(plan.actions[0], Start)
    return seconds


def no_fit(seed: int) -> float:
    """Seconds to say no, with its reason, to a 512-member gang on 1,000 nodes of which 500 are busy."""
    world = cluster(1000)
    start(world, "run", list(range(500)), 8, (seed + 1) * HOUR)
    world.apply(ev.Submitted(0, gang("wide", 512, 8, HOUR)))
    view = world.view()
    seconds, plan = timed(lambda: decide(view, 1, EASY))
    assert "wide" in plan.answers
    return seconds


def slurm_sized(seed: int) -> float:
    """All of 2,000 gangs on 256 nodes."""
    world = busy(256, seed)
    queue_up(world, 2000, seed)
    return plan_time(world, ALL, 2000)


def peak_mb() -> float:
    """Memory of the largest case, in a process of its own."""
    code = "import bench.engine as b; b.deep(10_000, 2000, b.ALL, 0); print(b.max_rss())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def max_rss() -> float:
    """The most memory this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def figures() -> dict[str, float]:
    """All of them."""
    events = sorted(event_times(200, 400))
    quiet = sorted(event_times(0, 300))
    base = median(3, lambda seed: deep(10_000, 2000, ALL, seed))
    world = busy(10_000, 0)
    return {
        "event_ms_p50": 1e3 * events[len(events) // 2],
        "event_ms_p99": 1e3 * events[len(events) * 99 // 100],
        "event_quiet_us": 1e6 * quiet[len(quiet) // 2],
        "view_us": 1e6 * view_time(world),
        "plan_100_ms": 1e3 * median(3, lambda seed: deep(10_000, 2000, 100, seed)),
        "plan_2000_s": base,
        "plan_2000_rack_s": median(3, lambda seed: deep(10_000, 2000, ALL, seed, racks=True)),
        "plan_2000_worst_s": deep(10_000, 2000, ALL, 0, own_class=True),
        "plan_slurm_s": median(3, slurm_sized),
        "gang_10000_ms": 1e3 * median(3, lambda _: one_gang(10_000, 10_000)),
        "no_fit_ms": 1e3 * median(5, no_fit),
        "nodes_growth": base / median(3, lambda seed: deep(5_000, 2000, ALL, seed)),
        "queue_growth": base / median(3, lambda seed: deep(10_000, 1000, ALL, seed)),
        "peak_mb": peak_mb(),
    }


def main() -> None:
    """Print the table and the JSON line."""
    found = figures()
    report = {
        name: {"value": round(found[name], 3), "goal": goal, "met": found[name] <= goal} for name, goal in GOALS.items()
    }
    for name, row in report.items():
        print(f"{name:20} {row['value']:>10} goal {row['goal']:>6} {'met' if row['met'] else 'MISSED'}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
