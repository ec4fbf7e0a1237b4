"""The page with 1,024 devices and 10,000 jobs in history: how smooth it is in a real browser.

`make bench-page` prints a table and, as the last line, JSON. Frames are of chromium without a graphics card, so the
processor also paints; `script_ms` is what our own code takes of a frame.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from tutti.api.client import Client, job_path
from tutti.api.home import Home
from tutti.errors import Refused

DEVICES = "8x16x8"
HISTORY = 10_000
RUNNING = 100
WAITING = 40
GOALS = {"first_rows_s": 3.0, "frame_ms_p50": 17.0, "frame_ms_p95": 50.0, "script_ms": 8.0}
WATCH = """() => { window.frames_ = []; let last = performance.now();
  const one = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(one); };
  requestAnimationFrame(one); }"""
SCROLL = """() => new Promise((done) => { let left = 240;
  const one = () => { scrollBy(0, 120); left -= 1; left ? requestAnimationFrame(one) : done(); }; one(); })"""
SPENT = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
Figures = dict[str, float]


def main() -> None:
    program = shutil.which("chromium")
    if program is None:
        sys.exit("bench-page: chromium is missing; apt install chromium")
    path = Path(tempfile.mkdtemp(prefix="tt"))
    os.environ.update(TUTTI_HOME=str(path), TUTTI_LOCKS=str(path / "shared"))
    client = Client(Home(path))
    try:
        fill(client)
        link = f"{client.post('/v1/serve')['said']}#token={client.home.token.read_text().strip()}"
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
            context = browser.new_context(viewport={"width": 1400, "height": 900})
            page = context.new_page()
            found = measured(page, context.new_cdp_session(page), link, client)
            browser.close()
    finally:
        end(client)
        shutil.rmtree(path, ignore_errors=True)
    tell(found)


def tell(found: dict[str, Figures]) -> None:
    """The table, and JSON."""
    for name, figures in found.items():
        print(f"{name:<18}" + "  ".join(f"{key} {value:8.1f}" for key, value in figures.items()))
    worst = {key: max(figures.get(key, 0.0) for figures in found.values()) for key in GOALS}
    met = {key: worst[key] <= goal for key, goal in GOALS.items()}
    print(json.dumps({"schema": "tutti/v1", "results": found, "worst": worst, "goals": GOALS, "met": met}))


# -- the box


def fill(client: Client) -> None:
    """One job runs for real; ten thousand copies of it are the history."""
    client.start(DEVICES)
    client.submit(["true"], workers=1, gpus=8, name="seed").wait()
    stop(client)
    with sqlite3.connect(client.home.journal) as base:
        base.row_factory = sqlite3.Row
        job = dict(base.execute("SELECT * FROM jobs").fetchone())
        run = dict(base.execute("SELECT * FROM runs").fetchone())
        base.executemany(*insert("jobs", [copied(job, number) for number in range(HISTORY)]))
        base.executemany(*insert("runs", [moved(run, job, number) for number in range(HISTORY)]))
    base.close()
    client.start(DEVICES)
    for number in range(RUNNING):
        client.submit(["sleep", "3600"], workers=1, gpus=8, name=f"train-{number:03}", time="1h")
    for number in range(WAITING):
        client.submit(["sleep", "60"], workers=40, gpus=8, name=f"wide-{number:03}", time="20m")


def insert(table: str, rows: list[dict[str, Any]]) -> tuple[str, list[list[Any]]]:
    """A statement and its values."""
    names = list(rows[0])
    marks = ",".join("?" * len(names))
    return f"INSERT INTO {table} ({','.join(names)}) VALUES ({marks})", [list(row.values()) for row in rows]


def copied(job: dict[str, Any], number: int) -> dict[str, Any]:
    """The same job, some time ago."""
    back = (HISTORY - number) * 8_000_000
    length = (5 + number * 37 % 400) * 1_000_000
    over = job["ended"] - back
    state = "failed" if number % 9 == 0 else "finished"
    times = {"submitted": over - length - 1, "started": over - length, "ended": over}
    return {**job, **times, "id": number + 2, "name": f"run-{number:05}", "state": state}


def moved(run: dict[str, Any], job: dict[str, Any], number: int) -> dict[str, Any]:
    """Its run, on one node or another."""
    then = copied(job, number)
    node = number * 53 % 128
    members = run["members"].replace(b"n0:", b"n%d:" % node).replace(b'"node":0', b'"node":%d' % node)
    times = {"made": then["started"], "ended": then["ended"]}
    return {**run, **times, "nonce": f"{number:016x}", "job": number + 2, "members": members}


def stop(client: Client) -> None:
    client.post("/v1/stop")
    client.close()
    while client.is_up():
        client.close()
        time.sleep(0.05)


def end(client: Client) -> None:
    for job in client.jobs() if client.is_up() else []:
        with contextlib.suppress(Refused):
            client.post(job_path(job["name"], "cancel"), {"grace_s": 0})
    while client.is_up() and client.jobs():
        time.sleep(0.1)
    if client.is_up():
        stop(client)


# -- the browser


def measured(page: Page, cdp: CDPSession, link: str, client: Client) -> dict[str, Figures]:
    """Every page under its own kind of load."""
    cdp.send("Performance.enable")
    begun = time.monotonic()
    page.goto(link)
    page.wait_for_selector(".rows .row .name")
    found = {"first": {"first_rows_s": time.monotonic() - begun}}
    page.evaluate(WATCH)
    found["now, live"] = during(page, cdp, lambda: churn(client, 8.0))
    page.keyboard.press("h")
    page.wait_for_selector(".rows .row .name")
    found["history, scrolled"] = during(page, cdp, lambda: page.evaluate(SCROLL))
    page.keyboard.press("i")
    page.wait_for_selector("canvas[aria-label*=stretches]")
    found["timeline, moved"] = during(page, cdp, lambda: wander(page))
    return found


def during(page: Page, cdp: CDPSession, play: Any) -> Figures:
    """Frames while something happens."""
    page.evaluate("window.frames_ = []")
    before = spent(cdp)
    play()
    after = spent(cdp)
    frames = sorted(page.evaluate("window.frames_"))
    each = {"script_ms": 1000 * (after - before) / len(frames)}
    return {"frame_ms_p50": frames[len(frames) // 2], "frame_ms_p95": frames[int(len(frames) * 0.95)], **each}


def spent(cdp: CDPSession) -> float:
    known = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    return sum(float(known[name]) for name in SPENT)


def churn(client: Client, length_s: float) -> None:
    """Jobs come and go, ten a second."""
    other = Client(client.home)
    over = threading.Event()

    def play() -> None:
        number = 0
        while not over.wait(0.1):
            other.submit(["true"], workers=1, gpus=8, name=f"blink-{number}")
            number += 1

    thread = threading.Thread(target=play)
    thread.start()
    time.sleep(length_s)
    over.set()
    thread.join()
    other.close()


def wander(page: Page) -> None:
    page.focus("canvas")
    for key in ["ArrowLeft"] * 20 + ["-"] * 6 + ["+"] * 6 + ["ArrowRight"] * 20:
        page.keyboard.press(key)
        page.wait_for_timeout(50)


if __name__ == "__main__":
    main()
