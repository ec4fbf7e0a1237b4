"""Paths of one machine, package indexes and work put off are found."""

import subprocess
from pathlib import Path

import pytest

from tools import words


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        pytest.param("src/a.py", "x = 1", None, id="nothing wrong"),
        pytest.param("docs/a.md", "see ./wor" + "k/ or homewor" + "k/x", None, id="only looks like a path"),
        pytest.param("docs/a.md", "cd /wor" + "k/main", "a path of one machine", id="where somebody's clone was"),
        pytest.param("docs/a.md", "/home/" + "ann/x", "a path of one machine", id="somebody's home"),
        pytest.param("a.toml", "https://py" + "pi.org/x", "a package index", id="where packages come from"),
        pytest.param("src/a.py", "# TO" + "DO", "work put off", id="a note to self in src"),
        pytest.param("src/a.py", "raise NotImplemented" + "Error", "work put off", id="a stub in src"),
        pytest.param("docs/a.md", "TO" + "DO", None, id="a note to self elsewhere"),
    ],
)
def test_forbidden_words(tmp_path: Path, capsys, name, text, complaint):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)

    code = words.main(tmp_path)

    said = capsys.readouterr().out
    assert code == (1 if complaint else 0), said
    assert (complaint or "nothing forbidden") in said
