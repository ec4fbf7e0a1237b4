"""Pages that are made from the code are up to date."""

import pytest

from tests.local.pages import FOLDER, PAGES


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_up_to_date(name):
    assert (FOLDER / name).read_text() == PAGES[name](), "run: python -m tests.local.pages"
