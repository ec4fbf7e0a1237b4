"""Broken links and lost pages are found; good ones pass."""

from pathlib import Path

import pytest

from tools import links

GOOD = {
    "README.md": "[docs](docs/README.md) [out](https://example.com) `[not a link](nowhere.md)`",
    "docs/README.md": "# Index\n\n## What & why\n[a page](how-to/page.md#two-words)\n[up here](#what--why)",
    "docs/how-to/page.md": "# Page\n\n## Two words\n\n```\n[in code](nowhere.md)\n```\n",
}


def write(root: Path, pages: dict[str, str]) -> None:
    for name, text in pages.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_sound_set_of_pages_passes(tmp_path, capsys):
    write(tmp_path, GOOD)
    assert links.main(tmp_path) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("pages", "complaint"),
    [
        pytest.param({"README.md": "[gone](docs/gone.md)"}, "docs/gone.md does not exist", id="no such file"),
        pytest.param({"README.md": '<img src="pictures/a.svg">'}, "pictures/a.svg", id="no such picture"),
        pytest.param({"README.md": "[x](docs/README.md#nope)"}, "no such heading", id="no such heading"),
        pytest.param({"docs/lost.md": "# Lost"}, "docs/lost.md: no page leads here", id="a page nobody links to"),
        pytest.param({"README.md": "[x](../..)"}, "leaves the repository", id="a link out of the repository"),
    ],
)
def test_what_is_broken_is_named(tmp_path, capsys, pages, complaint):
    write(tmp_path, GOOD | pages)
    assert links.main(tmp_path) == 1
    assert complaint in capsys.readouterr().out


def test_repeated_headings_are_numbered(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n# A b c\n")
    assert links.anchors(page) == {"a-b-c", "a-b-c-1"}
