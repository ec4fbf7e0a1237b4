"""Make the pictures of the page for the documentation: a scene on made-up devices, looked at with Debian's chromium.

python tools/pictures.py [FOLDER]
"""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tutti.api.client import Client, job_path
from tutti.api.home import Home

ROOT = Path(__file__).resolve().parents[1]
DEVICES = "2x4x8:h100"
SETTLE_S = 60.0
# Rank 0 tells the scheduler of its progress; the other ranks only take up their places.
LOOP = """
import os, sys, time
from tutti.train.agent.channel import Progress
from tutti.train.agent.client import Client
client = Client(os.environ["TUTTI_CHANNEL"], run=os.environ["TUTTI_RUN"])
size, rate, steps = int(os.environ["WORLD_SIZE"]), float(sys.argv[1]), 5000
begun = time.monotonic()
while True:
    step = int((time.monotonic() - begun) * rate)
    client.report(Progress(step, rate=rate, world=size, snapshot_step=step - step % 20, legal=(size,)))
    print(f"step {step:>5} of {steps}   loss {2.1 + 6 / (1 + step / 40):.4f}   {rate:.1f} steps/s", flush=True)
    time.sleep(0.5)
"""
GANGS: tuple[tuple[str, int, str, float, dict[str, Any]], ...] = (
    ("llama-70b", 16, "6m", 7.5, {"within": "rack"}),
    ("bert-xl", 8, "3m", 11.0, {}),
    ("vit-small", 4, "4m", 3.5, {}),
    ("clip-base", 4, "7m", 5.0, {}),
    ("diffusion-2b", 8, "5m", 4.0, {}),
    ("whisper-ft", 2, "200s", 9.0, {}),
    ("eval-harness", 1, "150s", 2.0, {}),
)
WAITING: tuple[tuple[str, int, str, dict[str, Any]], ...] = (
    ("gpt-wide", 48, "5m", {}),
    ("moe-128", 24, "4m", {"within": "rack"}),
    ("nightly-sweep", 8, "3h", {"held": True}),
)
SHOTS = (
    ("page-now", "/", "light", 1360, 900),
    ("page-dark", "/", "dark", 1360, 900),
    ("page-timeline", "/timeline", "light", 1360, 860),
    ("page-job", "/jobs/gpt-wide", "light", 1360, 760),
    ("page-ledger", "/ledger", "dark", 1360, 980),
    ("page-phone", "/jobs/llama-70b", "dark", 390, 844),
)


def main(folder: Path) -> None:
    with box() as client:
        play(client)
        address = client.post("/v1/serve", {})["said"]
        link = f"{address}#token={client.home.token.read_text().strip()}"
        with sync_playwright() as play_:
            program = shutil.which("chromium")
            if program is None:
                sys.exit("pictures: chromium is missing; apt install chromium")
            browser = play_.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for shot in SHOTS:
                take(browser, link, folder, *shot)
            browser.close()


@contextlib.contextmanager
def box() -> Iterator[Client]:
    """A scheduler of its own; its gangs and its daemon end with the block."""
    path = Path(tempfile.mkdtemp(prefix="tutti-pictures-"))
    os.environ.update(TUTTI_HOME=str(path), TUTTI_LOCKS=str(path / "shared"), PYTHONPATH=str(ROOT / "src"))
    client = Client(Home(path))
    client.start(DEVICES)
    try:
        yield client
    finally:
        for job in client.jobs():
            client.post(job_path(job["name"], "cancel"), {"grace_s": 0})
        while client.jobs():
            time.sleep(0.1)
        client.post("/v1/stop")
        shutil.rmtree(path, ignore_errors=True)


def play(client: Client) -> None:
    """Fill the box: short jobs that end, gangs that run, and some that wait."""
    (client.home.path / "loop.py").write_text(LOOP)
    for number in range(6):
        line = f"sleep {6 + 3 * number}" if number % 4 else "sleep 8; exit 3"
        client.submit(line, name=f"probe-{number}", workers=8 * (1 + number % 3), retries=0)
    while client.jobs():
        time.sleep(0.2)
    for name, workers, length, rate, more in GANGS:
        line = f'[ "$RANK" = 0 ] && exec {sys.executable} {client.home.path}/loop.py {rate}; exec sleep 3600'
        client.submit(line, name=name, workers=workers, time=length, cwd=str(client.home.path), **more)
    for name, workers, length, held in WAITING:
        client.submit(["sleep", "3600"], name=name, workers=workers, time=length, cwd=str(client.home.path), **held)
    client.post("/v1/devices/n7/drain", {"why": "a new fan"})
    time.sleep(SETTLE_S)


def take(browser: Browser, link: str, folder: Path, name: str, path: str, theme: Any, wide: int, high: int) -> None:
    """One picture, once the page is complete."""
    context = browser.new_context(viewport={"width": wide, "height": high}, color_scheme=theme)
    page = context.new_page()
    page.goto(link.replace("/#", f"{path}#"))
    page.wait_for_selector("#live.live")
    if path == "/jobs/gpt-wide":
        page.get_by_role("region", name="Why").wait_for(timeout=60_000)
    page.wait_for_timeout(2500)
    page.screenshot(path=folder / f"{name}.png")
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
