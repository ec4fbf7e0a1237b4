"""In CI, a test that was left out fails the run unless the list allows it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, allowed: str, ci: str, *options: str) -> subprocess.CompletedProcess[str]:
    tests = folder / "tests"
    tests.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (tests / "conftest.py").write_text("from tools.skips import pytest_sessionfinish\n")
    (tests / "allowed-skips.txt").write_text(allowed)
    (tests / "test_it.py").write_text("import pytest\ndef test_gpu(): pytest.skip('no GPU')\ndef test_ok(): pass\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TUTTI_CI": ci}
    command = [sys.executable, "-m", "pytest", "-q", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("allowed", "ci", "code"),
    [
        pytest.param("", "", 0, id="at a desk it is only named"),
        pytest.param("", "1", 1, id="in CI it fails"),
        pytest.param("# none\ntests/test_it.py::test_gpu  needs a GPU\n", "1", 0, id="unless it is on the list"),
    ],
)
@pytest.mark.parametrize("options", [[], ["-n", "1"]], ids=["alone", "with workers"])
def test_a_skip(tmp_path, allowed, ci, code, options):
    done = run(tmp_path, allowed, ci, *options)
    assert done.returncode == code, done.stdout
    assert "left out: tests/test_it.py::test_gpu" in done.stdout
