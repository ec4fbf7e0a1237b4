"""The import contracts hold, and each of them would notice being broken."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = Path(sys.executable).parent / "lint-imports"
EVERY_PART = ["api", "drive", "engine", "jobs", "kube", "local", "sim", "train", "views", "web"]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the package in which every part of the design exists, be it empty."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for part in EVERY_PART:
        folder = tmp_path / "src" / "tutti" / part
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    agent = tmp_path / "src" / "tutti" / "train" / "agent"
    if not agent.with_suffix(".py").exists():
        agent.mkdir(exist_ok=True)
        (agent / "__init__.py").touch()
    return tmp_path


def lint(house: Path) -> tuple[int, str]:
    done = subprocess.run(
        [LINT, "--no-logo", "--no-cache"],
        cwd=house,
        env={"PYTHONPATH": str(house / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def add(house: Path, module: str, line: str) -> None:
    path = house / "src" / Path(*module.split(".")).with_suffix(".py")
    path.write_text(f"{line}\n")


def test_the_contracts_hold_with_every_part_in_place(house):
    add(house, "tutti.local.intruder", "import tutti.train.agent")
    add(house, "tutti.kube.intruder", "import tutti.drive, tutti.errors")

    code, said = lint(house)

    assert code == 0, said


@pytest.mark.parametrize(
    ("module", "line"),
    [
        pytest.param("tutti.engine.intruder", "import tutti.drive", id="the engine looks up"),
        pytest.param("tutti.engine.intruder", "import time", id="the engine reads a clock"),
        pytest.param("tutti.engine.intruder", "from random import random", id="the engine draws"),
        pytest.param("tutti.engine.intruder", "import os.path", id="the engine touches files"),
        pytest.param("tutti.sim.intruder", "import tutti.local", id="two worlds know each other"),
        pytest.param("tutti.views.intruder", "import tutti.jobs", id="views and jobs know each other"),
        pytest.param("tutti.api.intruder", "import tutti.web", id="the api knows its pages"),
        pytest.param("tutti.train.intruder", "import tutti.engine", id="train needs the scheduler"),
        pytest.param("tutti.train.intruder", "import tutti.errors", id="train needs our errors"),
        pytest.param("tutti.kube.intruder", "import tutti.train.agent", id="kube imports the agent"),
        pytest.param("tutti.local.intruder", "import tutti.train", id="local imports more than the agent"),
        pytest.param("tutti.attic", "x = 1", id="a part nobody planned"),
    ],
)
def test_a_forbidden_import_is_noticed(house, module, line):
    add(house, module, line)

    code, said = lint(house)

    assert code != 0
    assert module.rpartition(".")[2] in said, said
