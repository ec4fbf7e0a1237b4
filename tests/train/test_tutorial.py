"""The tutorial, executed: the two programs in it run, and differ by no more than ten lines. So does the how-to page of
pipelines.
"""

import difflib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.train.stage import SOURCE

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "tutorial" / "elastic-training.md"


@pytest.fixture
def programs(tmp_path):
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    return dict(blocks)


def python(folder, *words, **options):
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "TUTTI_TRAIN_HOME": str(folder / "h"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_ten_lines_make_a_loop_elastic(programs):
    before, after = (programs[name].splitlines() for name in ("plain.py", "elastic.py"))
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert 0 < len(changed) <= 10


def test_alone_it_still_runs(programs, tmp_path):
    process = python(tmp_path, "elastic.py")
    try:
        out, err = process.communicate(timeout=200)
    finally:
        process.kill()
        process.wait()
    assert "rank 0 of 1: 256 steps" in out, err


def test_four_members_one_is_killed_and_the_rest_finishes(programs, tmp_path):
    longer = (
        programs["elastic.py"]
        .replace("global_batch=64", "global_batch=64, epochs=2")
        .replace("    job.commit(opt)", "    job.commit(opt); import time; time.sleep(0.01)")
    )
    (tmp_path / "elastic.py").write_text(longer)
    process = python(tmp_path, "-m", "tutti.train", "--workers", "4", "--story", "story", "--", "python", "elastic.py")
    try:
        story = tmp_path / "story"
        limit = time.monotonic() + 120
        while not story.exists() or '"formed"' not in story.read_text():
            assert time.monotonic() < limit
            time.sleep(0.02)
        (pid,) = re.findall(r'"member": "m2", "pid": (\d+)', story.read_text())
        os.kill(int(pid), signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert "512 steps" in out
    assert "m2 is gone: killed by signal 9" in err
    assert list((tmp_path / "h").iterdir()) == []


def test_the_pipeline_of_the_page_runs(launch, tmp_path):
    (text,) = re.findall(
        r"```python\n# stages.py\n(.*?)```", (DOCS / "how-to" / "train-pipelines.md").read_text(), re.DOTALL
    )
    (tmp_path / "stages.py").write_text(text)
    run = launch("--workers", 4, script=tmp_path / "stages.py")
    assert run.finish() == 0, run.said()
    # Two may print at once, and share a line.
    said = run.log.read_text()
    assert all(f"rank {rank} of 4, stage {rank % 2} of 2: 69 steps" in said for rank in range(4)), said
