"""Long functions, long files and vague names are found."""

from pathlib import Path

import pytest

from tools import shape


def function(lines: int, docstring: str = "") -> str:
    body = [f'    """{docstring}"""'] if docstring else []
    return "\n".join(["def f():", *body, *["    pass"] * (lines - 1)]) + "\n"


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        pytest.param("place.py", function(9), None, id="a short function"),
        pytest.param("place.py", function(9, "What is promised.\n\n\n\n\n"), None, id="docstrings are free"),
        pytest.param("place.py", function(61), "f has 61 lines", id="a long function"),
        pytest.param("place.py", function(10), "the median function has 10 lines", id="no function is short"),
        pytest.param("place.py", "x = 1\n" * 600, "600 lines; keep it under 600", id="a long file"),
        pytest.param("utils.py", "", "name it for the question", id="a vague name"),
    ],
)
def test_what_is_too_big_is_named(tmp_path: Path, capsys, name, text, complaint):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / name).write_text(text)

    code = shape.main(tmp_path)

    said = capsys.readouterr().out
    assert code == (1 if complaint else 0), said
    assert (complaint or "1 files") in said
