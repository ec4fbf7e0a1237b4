"""The report in a real browser: every picture is drawn, by day and by night, with nothing fetched and no error."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tutti.sim.play import as_case, play
from tutti.sim.report.page import PICTURES, write_page
from tutti.sim.scenes import find_scene

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium; `make system` installs it where it may")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scene = find_scene("elastic")
    return write_page(*as_case(scene, play(scene)), tmp_path_factory.mktemp("report") / "report.html")


def seen(page: Path, *options: str) -> tuple[str, str]:
    """The document once its scripts have run, and what the browser had to say."""
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--window-size=1200,900",
            f"--user-data-dir={page.parent / 'browser'}",
            "--virtual-time-budget=9000",
            *options,
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize(("options", "ink"), [((), "34, 48, 60"), (("--force-dark-mode",), "227, 232, 236")])
def test_every_picture_is_drawn(page: Path, options: tuple[str, ...], ink: str) -> None:
    night = ("--blink-settings=preferredColorScheme=0",) if options else ()
    document, log = seen(page, *options, *night)
    for name in PICTURES:
        assert re.search(rf'id="{name}"[^>]*class="[^"]*js-plotly-plot', document), name
    assert document.count('class="main-svg"') >= len(PICTURES)
    assert f"fill: rgb({ink})" in document
    assert "Uncaught" not in log


def test_the_page_fetches_nothing(page: Path) -> None:
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", page.read_text())
