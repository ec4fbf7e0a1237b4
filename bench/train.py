"""How fast a training job recovers, resizes and saves, beside others in the same run. The last line is JSON."""

import gc
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import train_rivals as rivals
from bench import train_torchft as torchft
from tutti import train
from tutti.train.agent.channel import Resize
from tutti.train.agent.server import Server
from tutti.train.agent.shelf import Entry, Shelf
from tutti.train.agent.slots import Label
from tutti.train.agent.watch import cpu_s
from tutti.train.bulk import copy_all, uncollected
from tutti.train.hands import with_streaming
from tutti.train.memory import Memory
from tutti.train.snapshot import Camera, lay_out
from tutti.train.state import Protected

GOALS = {
    "kill_to_commit_ms": 150,
    "frozen_over_budget_ms": 100,
    "shrink_ms": 150,
    "grow_ms": 200,
    "snapshot_stall_ms": 20,
    "rollback_ms": 20,
    "reshard_ms": 150,
    "steady_overhead_percent": 3,
    "join_overhead_percent": 3,
}
LOOP = Path(__file__).parent / "train_loop.py"
LIMIT_S = 90.0
Commit = tuple[float, int, int]


class Run:
    """A launcher with the bench loop, a channel, and its story."""

    def __init__(self, options: list[Any], loop: dict[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tutti-bench-", dir="/dev/shm"))
        self.out = self.folder / "out"
        self.out.mkdir()
        self._read: dict[str, tuple[list[Commit], int]] = {}
        self.server = Server(str(self.folder / "channel"))
        environment = {
            **os.environ,
            "LOOP": json.dumps(loop),
            "OUT": str(self.out),
            "TUTTI_TRAIN_HOME": str(self.folder / "home"),
            "TUTTI_CHANNEL": f"unix:{self.folder / 'channel'}",
        }
        words = [sys.executable, "-m", "tutti.train", "--run-id", "b", "--story", self.folder / "story", "--quiet"]
        self.process = subprocess.Popen([*map(str, [*words, *options]), "--", "python", str(LOOP)], env=environment)

    def story(self, event: str) -> list[dict[str, Any]]:
        path = self.folder / "story"
        lines = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
        return [record for record in map(json.loads, lines) if record["event"] == event]

    def commits(self) -> dict[str, list[Commit]]:
        """By member: when, which step, with how many. Only what is new is read: whoever watches takes the processors
        from those it watches.
        """
        for path in self.out.iterdir():
            rows, at = self._read.get(path.name, ([], 0))
            with path.open("rb") as file:
                file.seek(at)
                new = file.read().rpartition(b"\n")[0]
            if new:
                words = (line.split() for line in new.decode().splitlines())
                rows += [(float(row[0]), int(row[1]), int(row[2])) for row in words]
                at += len(new) + 1
            self._read[path.name] = (rows, at)
        return {name: rows for name, (rows, _) in self._read.items()}

    def until(self, ready: Callable[[], Any]) -> Any:
        limit = time.monotonic() + LIMIT_S
        while time.monotonic() < limit:
            self.server.turn(0.005)
            found = ready()
            if found:
                return found
        raise TimeoutError(f"not reached in {LIMIT_S} s")

    def settle(self, world: int, steps: int = 5) -> None:
        """Until `world` members commit together, and have done so for some steps."""
        now = time.time()
        self.until(lambda: self._all_since(now, world, steps))

    def pause_until(self, moment: float, world: int) -> float:
        """From a moment to the first commit after it that all members of the new size have made."""
        self.until(lambda: self._all_since(moment, world, 1))
        firsts = [
            next(row[0] for row in rows if row[0] > moment and row[2] == world) for rows in self._since(moment, world)
        ]
        return (max(firsts) - moment) * 1e3

    def _since(self, moment: float, world: int) -> list[list[Commit]]:
        """What members committed since, in that world; they are in the order of time."""
        late = (itertools.takewhile(lambda row: row[0] > moment, reversed(rows)) for rows in self.commits().values())
        return [found for found in ([row for row in rows if row[2] == world][::-1] for rows in late) if found]

    def _all_since(self, moment: float, world: int, steps: int) -> bool:
        return sum(len(rows) >= steps for rows in self._since(moment, world)) >= world

    def pid(self, rank: int) -> int:
        """The process of a rank of the present generation: those that committed last."""
        newest = self.last_step()
        rows = sorted(self.commits().items(), key=lambda item: int(item[0][1:]))
        active = [name for name, found in rows if found and found[-1][1] >= newest - 1]
        pids = {record["member"]: record["pid"] for record in self.story("started")}
        return int(pids[active[rank]])

    def step_ms(self) -> float:
        """What a step takes when nothing happens."""
        rows = max(self.commits().values(), key=len)
        return statistics.median((b[0] - a[0]) * 1e3 for a, b in itertools.pairwise(rows))

    def last_step(self) -> int:
        return max(rows[-1][1] for rows in self.commits().values() if rows)

    def cpu_ms(self) -> float:
        """Processor time that the launcher and all members have used."""
        pids = [self.process.pid, *(record["pid"] for record in self.story("started"))]
        return sum(map(cpu_s, pids)) * 1e3

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads((self.folder / "home" / "b" / "status.json").read_text())
        return status

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def running(*options: Any, **loop: Any) -> Iterator[Run]:
    run = Run(list(options), loop)
    try:
        yield run
    finally:
        run.close()


def recovery() -> dict[str, float]:
    """Kill, freeze, shrink: four ranks, 50 MB of state, to the first step that the new members have computed and
    committed together. An eighth of the model is trained, so that four ranks on few processors recover and do not
    compute. The middle of several, and the best of them: on a busy machine the first says more about the machine.
    """
    figures: dict[str, list[float]] = {"kill_to_commit": [], "shrink": []}
    with running("--workers", 4, "--max", 5, "--max-restarts", 99, trained=1) as run:
        for number, rank in enumerate((3, 0, 1, 2, 3)):
            run.settle(4)
            moment = time.time()
            os.kill(run.pid(rank), signal.SIGKILL)
            figures["kill_to_commit"].append(run.pause_until(moment, 3))
            run.settle(4)
            figures["shrink"].append(resize(run, f"s{number}", 3))
            resize(run, f"g{number}", 4)
        step_ms = run.step_ms()
        frozen = [freeze(run, rank) for rank in (2, 0, 3, 1, 2)]
    figures["frozen_to_commit"], figures["budget"] = ([pair[place] for pair in frozen] for place in (0, 1))
    figures["frozen_over_budget"] = [total - budget for total, budget in frozen]
    return {**spread(figures), "step_ms": step_ms}


def spread(figures: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The middle and the least of each."""
    middle = {f"{name}_ms": statistics.median(values) for name, values in figures.items()}
    return {**middle, **{f"{name}_best_ms": min(values) for name, values in figures.items()}}


def growing() -> dict[str, float]:
    """From the request to the first commit of one member more, with a standby that is warm."""
    taken: list[float] = []
    with running("--workers", 3, "--max", 5, "--standby", 1, "--max-restarts", 99, trained=1) as run:
        for number in range(5):
            run.settle(3, steps=40)
            taken.append(resize(run, f"w{number}", 4))
            run.settle(4)
            resize(run, f"b{number}", 3)
    return spread({"grow": taken})


def resize(run: Run, name: str, target: int) -> float:
    run.until(lambda: "b" in run.server.talks)
    moment = time.time()
    run.server.ask("b", Resize(name, target, 30.0))
    return run.pause_until(moment, target)


def freeze(run: Run, rank: int) -> tuple[float, float]:
    """From the freeze to the next commit, and how much of it was patience."""
    run.settle(4, steps=30)
    moment = time.time()
    os.kill(run.pid(rank), signal.SIGSTOP)
    total = run.pause_until(moment, 3)
    return total, (run.story("fenced")[-1]["at"] - moment) * 1e3


def memory() -> dict[str, float]:
    """Snapshot and rollback of 200 MiB by one rank alone, in a process started as members are."""
    program = [sys.executable, str(Path(__file__).resolve()), "--alone", "memory"]
    done = subprocess.run(program, env=with_streaming(os.environ), stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def memory_alone() -> dict[str, float]:
    """Beside each rollback, its floor: the same bytes copied by as many threads and nothing else."""
    state = {f"part{number}": torch.rand(2**20) for number in range(50)}
    with Stand(state) as stand:
        stalls = [stand.stall(step) for step in range(22)]
        pairs = [(stand.rollback(), copying_ms(state)) for _ in range(25)][1:]
    model = torch.nn.Sequential(*(torch.nn.Linear(50, 100) for _ in range(500)))
    opt = torch.optim.AdamW(model.parameters())
    torch.stack([parameter.sum() for parameter in model.parameters()]).sum().backward()  # type: ignore[no-untyped-call]
    opt.step()
    with Stand({"model": model, "opt": opt}) as many:
        many_stalls = [many.stall(step) for step in range(8)][2:]
        many_rollbacks = [many.rollback() for _ in range(5)]
    rollbacks, floors = zip(*pairs, strict=True)
    return {
        **spread({"snapshot_stall": stalls[2:], "rollback": rollbacks, "plain_copy": floors}),
        "rollback_over_copy": statistics.median(ours / floor for ours, floor in pairs),
        "snapshot_of_4000_tensors_ms": statistics.median(many_stalls),
        "rollback_of_4000_tensors_ms": statistics.median(many_rollbacks),
        "torch_save_ms": rivals.torch_save_ms(state),
    }


class Stand:
    """A state, changed as a step changes it, its snapshots, and the way back; from reading it to the last byte."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tutti-bench-", dir="/dev/shm"))
        self.protected = Protected()
        self.protected.add({"state": state} if all(map(torch.is_tensor, state.values())) else state)
        leaves, _ = self.protected.read()
        self.tensors = [leaf.tensor for leaf in leaves.values()]
        self.layout = lay_out(leaves, 0, 1)
        entry = Entry("m0-0", len(self.layout.text) + (1 << 20), self.layout.data_bytes, 2)
        self.shelf = Shelf(self.folder)
        self.shelf.reserve(entry)
        self.camera = Camera(self.shelf, entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.camera.close()
        shutil.rmtree(self.folder)

    def stall(self, step: int) -> float:
        torch._foreach_add_(self.tensors, 1.0)
        began = time.perf_counter()
        with uncollected():
            leaves, rest = self.protected.read()
            self.protected.check(leaves)
            assert self.camera.take(Label(1, step, "bench", 0, 0), leaves, self.layout, rest)
        return (time.perf_counter() - began) * 1e3

    def rollback(self) -> float:
        torch._foreach_add_(self.tensors, 1.0)
        began = time.perf_counter()
        with Memory([self.shelf]) as found:
            step = found.steps()[0]
            self.protected.write(found.rest(step), found.reader(step))
        return (time.perf_counter() - began) * 1e3


@cache
def elsewhere(size: int) -> torch.Tensor:
    return torch.rand(size)


def copying_ms(state: dict[str, torch.Tensor]) -> float:
    torch._foreach_add_(list(state.values()), 1.0)
    began = time.perf_counter()
    copy_all(zip(state.values(), elsewhere(50 << 20).chunk(50), strict=True))
    return (time.perf_counter() - began) * 1e3


def reshard() -> dict[str, float]:
    """FSDP2, 200 MiB over four ranks; one is killed, three share it out again from memory."""
    with running("--workers", 4, "--max-restarts", 0, state_mb=200, wrap="fsdp") as run:
        run.settle(4)
        os.kill(run.pid(2), signal.SIGKILL)
        moment = time.time()
        total = run.pause_until(moment, 3)
        formed = run.story("formed")[-1]
        step_ms = run.step_ms()
    return {
        "reshard_ms": formed["brought_s"] * 1e3,
        "fsdp_kill_to_commit_ms": total,
        "fsdp_step_ms": step_ms,
        "dcp_reshard_ms": rivals.dcp_reshard_ms(),
    }


def steady() -> dict[str, float]:
    """200 MiB of state, steps of 100 ms: what the snapshots cost at the interval it chooses, by its own account; and by
    the clock and the processor's time of a step, against a run without any. The better of two runs each.
    """
    taken: dict[int, list[float]] = {0: [], 2: []}
    used: dict[int, list[float]] = {0: [], 2: []}
    costs: dict[str, float] = {}
    for slots in (0, 2, 0, 2):
        with running("--workers", 2, "--slots", slots, state_mb=200, sleep=0.1) as run:
            run.settle(2, steps=10)
            before, began = run.cpu_ms(), run.last_step()
            run.settle(2, steps=25)
            used[slots].append((run.cpu_ms() - before) / (run.last_step() - began))
            taken[slots].append(run.step_ms())
            status = run.status()
            if slots:
                costs = {"steady_overhead_percent": 100 * status["save_s"] * status["rate"] / status["snapshot_every"]}
                costs["steady_interval_steps"] = status["snapshot_every"]
    return {
        **costs,
        "steady_step_ms": min(taken[2]),
        "steady_step_percent": (min(taken[2]) / min(taken[0]) - 1) * 100,
        "steady_cpu_percent": (min(used[2]) / min(used[0]) - 1) * 100,
    }


def feeding() -> dict[str, float]:
    """`batches` against a plain DataLoader over the same samples, alone in this process; by the processor's time, as
    neither waits for anything.
    """
    dataset = torch.utils.data.TensorDataset(torch.rand(16384, 64))
    model = torch.nn.Linear(64, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    job = train.join()
    job.protect(model=model, opt=opt)

    def ours() -> float:
        began = time.process_time()
        for (x,) in job.batches(dataset, global_batch=1024, seed=0):
            model(x).mean().backward()
            job.commit(opt)
        return time.process_time() - began

    def plain() -> float:
        began = time.process_time()
        for (x,) in torch.utils.data.DataLoader(dataset, batch_size=1024, shuffle=True):
            model(x).mean().backward()
            opt.step()
            opt.zero_grad()
        return time.process_time() - began

    # In turns, each pair beside itself: what else the machine does strikes both, and whoever goes first changes. What
    # was imported is not looked through for garbage: that takes longer than an epoch and strikes either by chance.
    ours(), plain()
    gc.collect()
    gc.freeze()
    pairs = [(ours(), plain()) if number % 2 else (plain(), ours())[::-1] for number in range(100)]
    gc.unfreeze()
    return {"join_overhead_percent": (statistics.median(mine / theirs for mine, theirs in pairs) - 1) * 100}


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--alone", "memory"]:
        print(json.dumps(memory_alone()))
        return
    figures: dict[str, float | None] = {}
    wanted = sys.argv[1:]
    for part in (feeding, memory, recovery, growing, reshard, steady):
        if wanted and part.__name__ not in wanted:
            continue
        found = part()
        print(part.__name__, {name: round(value, 1) for name, value in found.items()}, flush=True)
        figures.update(found)
    for name, rival in (
        ("dcp_async_ms", rivals.dcp_async_ms),
        ("torchrun_kill_ms", rivals.torchrun_kill_ms),
        ("torchft_kill_ms", torchft.kill_ms),
    ):
        figures[name] = outcome(rival) if not wanted or "rivals" in wanted else None
    report(figures)


def outcome(rival: Callable[[], float | None]) -> float | None:
    """A rival's figure; one that does not come back is not ours to wait for."""
    try:
        return rival()
    except TimeoutError as error:
        print(f"{rival.__module__}: {error}", flush=True)
        return None


def over(theirs: float | None, ours: float | None) -> float | None:
    return theirs / ours if theirs and ours else None


def report(figures: dict[str, float | None]) -> None:
    """Each figure with its goal, then everything as one line of JSON."""
    ours = figures.get("kill_to_commit_ms")
    ratios = {
        "ratio_torchft": over(figures.get("torchft_kill_ms"), ours),
        "ratio_torchrun": over(figures.get("torchrun_kill_ms"), ours),
        "ratio_dcp": over(figures.get("dcp_reshard_ms"), figures.get("reshard_ms")),
    }
    results = {}
    for name, value in {**figures, **ratios}.items():
        goal = GOALS.get(name)
        met = None if goal is None or value is None else value <= goal
        shown = "not run" if value is None else f"{value:,.1f}"
        print(f"{name:28} {shown:>10}" + (f"   goal {goal}, {'met' if met else 'NOT met'}" if goal else ""))
        results[name] = {"figure": value and round(value, 2), "goal": goal, "met": met}
    print(json.dumps({"schema": "tutti/v1", "bench": "train", "results": results}))


if __name__ == "__main__":
    main()
