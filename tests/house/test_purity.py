"""Only what is on the short list is imported where purity is promised."""

from pathlib import Path

import pytest

from tools import purity


@pytest.mark.parametrize(
    ("path", "line", "complaint"),
    [
        pytest.param("engine/place.py", "import numpy as np", None, id="numpy is the tool"),
        pytest.param("engine/place.py", "from .order import turn", None, id="a neighbour"),
        pytest.param("engine/place.py", "from tutti.errors import TuttiError", None, id="our errors"),
        pytest.param("engine/place.py", "import ctypes", "may not import ctypes", id="nobody thought of this one"),
        pytest.param("engine/place.py", "from tutti.drive import loop", "tutti.drive.loop", id="a layer above"),
        pytest.param("engine/place.py", "from ..drive import loop", "tutti.drive.loop", id="a layer above, by dots"),
        pytest.param("engine/place.py", "x = np.random.default_rng()", "numpy.random", id="chance through numpy"),
        pytest.param("engine/place.py", "print('here')", "may not use print", id="a word to the terminal"),
        pytest.param("train/agent/keep.py", "import sqlite3", None, id="the agent has the standard library"),
        pytest.param("train/agent/keep.py", "import torch", "may not import torch", id="the agent has nothing else"),
        pytest.param("errors.py", "import typing", "may not import typing", id="errors import nothing"),
    ],
)
def test_the_short_list(tmp_path: Path, capsys, path, line, complaint):
    target = tmp_path / "src" / "tutti" / path
    target.parent.mkdir(parents=True)
    target.write_text(f"{line}\n")

    code = purity.main(tmp_path / "src")

    said = capsys.readouterr().out
    assert code == (1 if complaint else 0), said
    assert (complaint or "pure") in said


def test_the_house_is_pure(capsys):
    assert purity.main() == 0, capsys.readouterr().out
