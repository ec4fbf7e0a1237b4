"""`make` offers only what works, and says plainly what does not work yet."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import targets

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    *["venv", "demo", "test", "check", "soak", "operators", "validate", "system", "clean", "help"],
    *["bench-engine", "bench-sim", "bench-local", "bench-kube", "bench-train"],
]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A clone with nothing in it but the Makefile."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    return tmp_path


def test_every_target_is_listed(bare, capsys):
    targets.main(bare)
    listed = capsys.readouterr().out
    assert [name for name in NAMES if f"make {name} " not in listed] == []


def test_a_target_without_its_script_is_not_listed_as_working(bare, capsys):
    (bare / "bench").mkdir()
    (bare / "bench" / "engine.py").touch()

    targets.main(bare)

    working, _, coming = capsys.readouterr().out.partition("not there yet:")
    assert "make bench-engine" in working
    assert "make bench-sim" in coming
    assert "make demo" in coming


@pytest.mark.parametrize("name", ["demo", "soak", "validate", "bench-kube"])
def test_a_target_without_its_script_says_so(bare, name):
    # -o: take the environment as made.
    command = ["make", "-o", "venv", "-o", "venv-base", name]
    outer = {"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}
    environment = {key: value for key, value in os.environ.items() if key not in outer}
    done = subprocess.run(command, cwd=bare, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"make {name}: not there yet" in done.stdout
