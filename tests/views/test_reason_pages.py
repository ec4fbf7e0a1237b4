"""Every reason has a page, and what the page shows is what is printed."""

import re
from pathlib import Path

import pytest

from tests.views.reason_scenes import CASES, NOW
from tutti.engine.explain import explain
from tutti.engine.model import Kind, Token

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference" / "reasons"
NEVER_ALONE = {Token.PARKED, Token.BUDGET_SPENT, Token.STARTING}
"""Reasons that are not given to a gang that simply waits."""


def page(token: Token) -> str:
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", token).lower()
    return (PAGES / f"{name}.md").read_text()


def test_every_reason_has_a_page_and_every_page_a_reason():
    titles = {file.read_text().splitlines()[0] for file in PAGES.glob("*.md")}
    assert titles == {f"# {token}" for token in Token}


def test_every_reason_a_gang_can_wait_for_has_an_example():
    assert set(CASES) == set(Token) - NEVER_ALONE


@pytest.mark.parametrize("token", CASES)
def test_the_example_of_a_page_is_what_is_printed(token):
    case = CASES[token]()
    assert f"$ tutti why llama --view view.json\n{case.page()}\n```" in page(token)


@pytest.mark.parametrize("token", CASES)
def test_the_class_on_a_page_is_the_one_that_is_given(token):
    case = CASES[token]()
    found = explain(case.world.view(), NOW, case.policy, "llama")
    assert (found.token, found.kind) == (token, Kind(re.findall(r"^Class \*\*(\w+)", page(token), re.MULTILINE)[0]))
