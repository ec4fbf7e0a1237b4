"""The pages that repeat what the code says agree with it."""

import re
from pathlib import Path

import pytest

from tutti.cli.commands import COMMANDS
from tutti.engine.model import Kind, State, Token

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return (ROOT / name).read_text()


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_every_reason_is_listed_in_the_order_of_its_rank_and_has_a_section():
    text = page("docs/reference/reasons.md")
    listed = [row for row in rows(text) if row[0].startswith("[`")]
    tokens = [str(token) for token in Token]
    assert [re.findall(r"`(\w+)`", row[0])[0] for row in listed] == tokens
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == tokens
    assert {row[1] for row in listed} <= {str(kind) for kind in Kind}


def test_every_state_is_in_the_glossary():
    text = page("docs/reference/glossary.md").partition("## The states")[2].partition("## Actions")[0]
    assert [row[0] for row in rows(text)[2:]] == [str(state) for state in State]


def test_every_command_has_a_section():
    text = page("docs/reference/command.md")
    assert re.findall(r"^### `tutti ([\w-]+)`$", text, re.MULTILINE) == list(COMMANDS)


def test_every_decision_is_on_the_list_under_its_title():
    listed = {row[0]: row[1] for row in rows(page("docs/decisions/README.md"))[2:]}
    for record in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        number, _, title = record.read_text().splitlines()[0].removeprefix("# ").partition(": ")
        assert record.name.startswith(number)
        assert listed[f"[{number}]({record.name})"] == title


@pytest.mark.parametrize("heading", ["Context", "Decision", "What we gave up", "How we would notice that it was wrong"])
def test_every_decision_has_the_four_parts(heading):
    for record in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        assert f"\n## {heading}\n" in record.read_text(), record.name


def test_every_line_of_the_changelog_is_tagged():
    text = page("CHANGELOG.md")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == "Unreleased"
    lines = re.findall(r"^- (.+)$", text, re.MULTILINE)
    assert lines
    assert all(re.match(r"(NEW|CHANGE|FIX|BREAKING|DOCS): \S", line) for line in lines)
