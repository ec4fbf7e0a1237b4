"""`tutti serve`: the command that opens the page."""

import subprocess
import sys
import urllib.request

import pytest

from tests.local.stage import box
from tutti.api.home import Home


def tutti(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"TUTTI_HOME": str(home.path), "TUTTI_LOCKS": str(home.path / "shared"), "PATH": "/usr/bin:/bin", "HOME": "/"}
    return subprocess.run(
        [sys.executable, "-m", "tutti", *words], env=env, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def here():
    with box("2") as made:
        yield made


def test_it_prints_an_address_that_works(here):
    done = tutti(here.home, "serve")
    assert (done.returncode, done.stderr) == (0, "")
    address, _, token = done.stdout.strip().partition("#token=")
    assert token == here.home.token.read_text().strip()
    with urllib.request.urlopen(address, timeout=30) as page:
        assert b"<title>Tutti</title>" in page.read()
    assert tutti(here.home, "serve").stdout == done.stdout, "asking again changes nothing"
    assert here.client.get("/v1/status")["page"] == address


def test_a_new_token_is_printed(here):
    before = tutti(here.home, "serve").stdout
    after = tutti(here.home, "serve", "--new-token").stdout
    assert before.partition("#")[0] == after.partition("#")[0]
    assert before != after


def test_an_open_port_is_warned_of(here):
    done = tutti(here.home, "serve", "--host", "0.0.0.0")
    assert "ssh -L" in done.stderr
    assert done.stdout.startswith("http://0.0.0.0:")
    tutti(here.home, "serve", "--host", "127.0.0.1")


def test_it_is_closed(here):
    address = tutti(here.home, "serve").stdout.partition("#")[0]
    assert tutti(here.home, "serve", "--close").stderr == "the page is closed\n"
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=30)
    assert here.client.get("/v1/status")["page"] == ""


def test_bad_input_is_one_clear_error(here):
    done = tutti(here.home, "serve", "--port", "99999")
    assert done.returncode == 2
    assert "99999" in done.stderr
    done = tutti(here.home, "serve", "--host", "256.1.1.1")
    assert done.returncode == 4
    assert "cannot be opened" in done.stderr
    assert done.stderr.count("\n") <= 3
