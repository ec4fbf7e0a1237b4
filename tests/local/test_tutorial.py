"""The tutorial of one box, typed in line by line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.stage import box

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "one-box.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def steps() -> list[tuple[str, list[str]]]:
    """Every command with the output that the page shows for it."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(PAGE.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def pattern(line: str) -> str:
    """A line of the page as it may really look: numbers differ, `...` stands for anything, widths may vary."""
    parts = [re.escape(re.sub(r"\s+", " ", part)) for part in line.strip().split("...")]
    return ".*".join(re.sub(r"\d+", r"\\d+", part) for part in parts)


@pytest.mark.slow
def test_every_line_does_what_the_page_says():
    with box("4", start=False) as made:
        bin_folder = made.path / "bin"
        bin_folder.mkdir()
        command = bin_folder / "tutti"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tutti "$@"\n')
        command.chmod(0o755)
        env = {**os.environ, **made.env, "TUTTI_HOME": str(made.path), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
        env |= {"TUTTI_DEVICES": "4", "COLUMNS": "200", "TERM": "dumb"}
        try:
            for line, expected in steps():
                done = subprocess.run(
                    ["bash", "-c", line],
                    env=env,
                    cwd=made.path,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                said = [re.sub(r"\s+", " ", text).strip() for text in (done.stdout + done.stderr).splitlines()]
                assert done.returncode == 0, (line, said)
                for wanted in expected:
                    assert any(re.fullmatch(pattern(wanted), text) for text in said) or wanted == "...", (
                        line,
                        wanted,
                        said,
                    )
        finally:
            subprocess.run([str(command), "stop"], env=env, capture_output=True, timeout=60, check=False)
