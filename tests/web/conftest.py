import os
import shutil
from collections.abc import Iterator

import pytest

from tests.local.stage import box
from tests.web.visit import CHROMIUM, Port, Tab


@pytest.fixture(scope="module")
def port() -> Iterator[Port]:
    """A daemon with two racks of two nodes of four devices, and its page."""
    with box("2x2x4") as made:
        yield Port(made)


@pytest.fixture(scope="module")
def browser():
    """Debian's chromium. Its driver keeps an event loop running, which other files must not meet."""
    program = os.environ.get("TUTTI_CHROMIUM") or shutil.which(CHROMIUM)
    if not program:
        pytest.skip("there is no chromium; `make system` installs it where it may (apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        made = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


@pytest.fixture
def page(browser, port) -> Iterator[Tab]:
    """The page in a tab of its own, with the token; what the browser complains of fails the test."""
    with Tab.opened(browser, port.link) as made:
        yield made
