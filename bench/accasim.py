"""AccaSim on a log, for the race in bench/sim.py: fetched from the package index once, run in a process of its own.

Both keep what came of every job: we in memory, AccaSim in the only way it has, a file.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "1.1.3"
RUN = """
import collections, collections.abc, json, logging, sys, time
# It was written for a Python that still had these names here.
for name in ("Mapping", "MutableMapping", "Iterable", "Sequence", "Callable"):
    setattr(collections, name, getattr(collections.abc, name))
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling
from accasim.base.simulator_class import Simulator
simulator = Simulator("log.swf", "machine.json", EASYBackfilling(FirstFit()), scheduling_output=True,
                      statistics_output=False, show_statistics=False)
begun = time.process_time()
simulator.start_simulation()
print(json.dumps({"seconds": time.process_time() - begun}))
"""


def library() -> Path:
    """Where it lives on this machine; fetched when it is not there."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tutti" / f"bench-accasim-{VERSION}"
    if not (folder / "accasim").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), f"accasim=={VERSION}"]
        subprocess.run(command, check=True)
    return folder


def jobs_per_s(log: Path, nodes: int, jobs: int, each: int = 1) -> float:
    """Jobs per second of processor time under EASY: the first jobs of a log, on nodes of so many processors."""
    lines = [line for line in log.read_text().splitlines() if line.strip() and not line.startswith(";")][:jobs]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "log.swf").write_text("\n".join(lines) + "\n")
        machine = {"groups": {"all": {"core": each}}, "resources": {"all": nodes}, "start_time": 0}
        (place / "machine.json").write_text(json.dumps(machine))
        done = subprocess.run(
            [sys.executable, "-c", RUN],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(library())},
            capture_output=True,
            text=True,
            check=True,
        )
    return len(lines) / float(json.loads(done.stdout.splitlines()[-1])["seconds"])
