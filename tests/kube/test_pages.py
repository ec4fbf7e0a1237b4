"""The reference page says what the code does."""

from tests.kube.pages import PAGE, page


def test_the_page_is_made_from_the_code():
    assert PAGE.read_text() == page(), "python -m tests.kube.pages"
