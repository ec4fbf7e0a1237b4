import pytest

from tests.local.stage import box


@pytest.fixture
def four():
    """Four made-up devices and a daemon."""
    with box("4") as made:
        yield made


@pytest.fixture(scope="module")
def shared():
    """One daemon for a whole file; its tests leave nothing running."""
    with box("8") as made:
        yield made
