"""The reference page says what the code does."""

from tests.kube.pages import KEYS, PAGE, keys, page


def test_the_page_is_made_from_the_code():
    assert PAGE.read_text() == page(), "python -m tests.kube.pages"


def test_the_page_of_keys_is_made_from_the_table():
    assert KEYS.read_text() == keys(), "python -m tests.kube.pages"
