"""Debian packages are installed also where the machine has never fetched their list."""

import os
import subprocess
from pathlib import Path

import pytest

SYSTEM = Path(__file__).resolve().parents[2] / "tools" / "system"
PROGRAMS = {
    "dpkg-query": "exit 1",
    "id": "echo 0",
    "apt-get": """echo "$1" >> {log}
[[ "$1" == update ]] && exit {update}
grep -q update {log} && exit {after}
exit 100""",
}


def installed(folder: Path, update: int, after: int) -> tuple[str, list[str]]:
    """What the tool says, and what the package manager was asked, where installing works only after an update."""
    log = folder / "log"
    for name, body in PROGRAMS.items():
        program = folder / name
        program.write_text(f"#!/bin/bash\n{body.format(log=log, update=update, after=after)}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [SYSTEM],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, log.read_text().split()


def test_a_machine_without_the_list_of_packages_fetches_it_and_installs(tmp_path: Path) -> None:
    said, asked = installed(tmp_path, update=0, after=0)
    assert asked == ["install", "update", "install"]
    assert "could not" not in said


@pytest.mark.parametrize(("update", "asked"), [(1, ["install", "update"]), (0, ["install", "update", "install"])])
def test_what_cannot_be_installed_is_told(tmp_path: Path, update: int, asked: list[str]) -> None:
    said, did = installed(tmp_path, update, after=100)
    assert did == asked
    assert "could not install them" in said
