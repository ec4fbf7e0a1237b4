"""The page in a real browser: submit, watch it start, see why it waits, cancel; keys, themes, a phone, and no lag."""

import re

import pytest

from tests.local.stage import until
from tests.web.visit import Tab

EVIL = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
PAGES = {
    "/": ".rows .name",
    "/timeline": "canvas[aria-label*=stretches]",
    "/ledger": "table",
    "/cluster": "td",
    "/history": "main h1",
    "/submit": "textarea",
}
"""Every page, and what is on it once it is complete."""


@pytest.fixture(autouse=True)
def nothing_runs(port):
    """Every test begins and ends with an empty box."""
    yield
    for job in port.box.client.jobs():
        port.box.client.post(f"/v1/jobs/{job['name']}/cancel", {"grace_s": 0})
    until(lambda: not port.box.client.jobs(), "the end of every job")


def test_submit_watch_it_start_and_cancel_it(page):
    tab = page.page
    assert "token" not in tab.url
    tab.click("#new")
    tab.fill("textarea[name=command]", "echo hello from $RANK; sleep 60")
    tab.fill("input[name=workers]", "2")
    tab.fill("input[name=name]", "first")
    tab.click("text=What would happen")
    assert page.sees("It would start now")
    tab.click("button:text-is('Submit')")
    assert page.sees("● running", ".jobhead")
    assert page.sees("hello from 0", ".output")
    tab.select_option("select[aria-label=Rank]", "1")
    assert page.sees("hello from 1", ".output")
    assert page.sees("all members are up", ".story")
    tab.click("button:text-is('Cancel')")
    tab.click("button:text-is('Cancel the job')")
    assert page.sees("cancelled", ".jobhead")
    assert page.sees("How it ended")
    tab.go_back()
    assert page.is_at("**/submit")


def test_see_why_it_waits_and_what_would_start_it(page, port):
    port.box.submit("sleep", "60", name="wide", workers=16, time="10m")
    port.box.becomes("wide", "running")
    port.box.submit("sleep", "5", name="next", workers=4, time="1m")
    assert page.sees("NoCapacity", ".jobs")
    page.page.click(".rows .name:text-is('next')")
    assert page.sees("Why it waits")
    assert page.sees("4 members are needed at once")
    assert page.sees("held by", ".numbers")
    assert page.sees("What would start it")
    page.page.click("button:text-is('Hold')")
    assert page.sees("‖ held", ".jobhead")
    page.page.click("button:text-is('Release')")
    assert page.sees("○ waiting", ".jobhead")
    port.box.client.post("/v1/jobs/wide/cancel", {"grace_s": 0})
    assert page.sees("● running", ".jobhead")


def test_the_map_and_the_list_follow_without_being_asked(page, port):
    cell = page.page.locator(".map .cell").first
    assert cell.get_attribute("aria-label") == "n0 device 0: free, n0:0 · made-up"
    port.box.submit("sleep", "60", name="here", workers=16)
    assert page.has(".map .cell.busy[aria-label='n0 device 0: here, rank 0 · n0:0 · busy']")
    assert page.sees("here", ".jobs")
    cell.hover()
    assert page.sees("here", "#tip")
    assert page.sees("rank 0", "#tip")
    assert page.page.locator(".map .cell.lit").count() == 16
    cell.focus()
    page.page.keyboard.press("ArrowRight")
    assert page.sees("rank 1", "#tip")
    page.page.keyboard.press("Enter")
    assert page.is_at("**/jobs/here")


def test_the_ledger_is_shown_over_time(page):
    page.go("/ledger")
    over = page.page.get_by_role("region", name="Goodput over time")
    assert page.has("[aria-label='Goodput over time'] .stretch .part")
    over.get_by_role("button", name="7 d").click()
    assert page.has("button[aria-pressed=true]:text-is('7 d')")
    assert over.get_by_role("img").get_attribute("aria-label").startswith("Goodput over time: first")


def test_everything_by_keys(page, port):
    for name in ("one", "two", "three"):
        port.box.submit("sleep", "60", name=name)
    keys = page.page.keyboard
    # Rows move while jobs start; keys are pressed when nothing moves any more.
    for name in ("one", "two", "three"):
        assert page.has(f".rows .row:has(.state.running) .name:text-is('{name}')")
    keys.press("?")
    assert page.sees("next and previous job in a list", "dialog")
    keys.press("Escape")
    assert page.has_lost("dialog")
    keys.press("j")
    keys.press("j")
    keys.press("k")
    assert page.page.locator(".row.chosen .name").inner_text() == "two"
    keys.press("Enter")
    assert page.is_at("**/jobs/two")
    keys.press("Escape")
    assert page.has(".map")
    keys.press("/")
    keys.type("THRE")
    for name in ("one", "two"):
        assert page.has_lost(f".rows .row:not([hidden]) .name:text-is('{name}')")
    assert [name for name in page.page.locator(".rows .row:not([hidden]) .name").all_inner_texts() if name] == ["three"]
    keys.press("Escape")
    assert page.has(".rows .row:not([hidden]) .name:text-is('one')")
    keys.press("/")
    keys.type("user:nobody")
    assert page.sees("No job is called anything like")
    keys.press("Escape")
    assert page.has(".rows .row:not([hidden]) .name:text-is('one')")
    for key, path in zip("ilchsn", [*list(PAGES)[1:], "/"], strict=True):
        keys.press(key)
        assert page.is_at(f"**{path}")
        keys.press("Escape")


def row(name: str, **more) -> dict:
    plain = {
        "name": name, "id": 1, "user": EVIL, "queue": EVIL, "state": "waiting", "members": 1, "min": 1, "max": 1,
        "devices": 1, "placed": EVIL, "reason": EVIL, "eta_us": 0, "submitted_us": 1, "started_us": 0, "ended_us": 0,
        "ran_s": 0, "why": EVIL, "steps": 0, "step": 0, "tasks": 0, "restarts": 0, "limit_s": 0, "priority": 0,
        "elastic": EVIL, "rate": 0, "code": 1,
    }  # fmt: skip
    return {**plain, **more}


def test_names_and_everything_else_stay_text(browser, port):
    """The daemon takes no such names; the page must not rely on it."""
    device = {"id": EVIL, "index": 0, "kind": EVIL, "state": "busy", "job": EVIL, "rank": 0, "note": EVIL}
    node = {"name": EVIL, "state": "ready", "place": [EVIL], "kind": EVIL, "devices": [device], "free": 0}
    moment = {"at_us": 1, "at": EVIL, "kind": "failed", "text": EVIL}
    written = {"command": EVIL, EVIL: EVIL}
    ranks = [{"rank": 0, "role": EVIL, "node": EVIL, "devices": [0], "pid": 1, "code": 1, "log_bytes": 9}]
    answers = {
        "/v1/jobs?": {"jobs": [row(EVIL)], "total": 1},
        "/v1/nodes": {"nodes": [{**node, "cpus": 1, "memory_bytes": 1}], "levels": [EVIL], "largest": 0,
                      "notes": [EVIL]},
        "/why": {"token": EVIL, "lines": [EVIL, f"  {EVIL}", f"  label         {EVIL}"],
                 "explanation": {"remedies": [{"who": EVIL, "short": EVIL, "says": EVIL}]}},
        "/v1/why": {"reasons": [{"reason": EVIL, "jobs": 1, "first": [EVIL]}]},
        "/story": {"events": [moment], "lines": []},
        "/logs": {"rank": 0, "text": EVIL, "begin": 0, "next": 9, "size": 9, "ended": True},
        "/v1/audit": {"entries": [{"at_us": 1, "at": EVIL, "who": EVIL, "what": EVIL, "target": EVIL, "detail": EVIL}]},
        "/v1/queues": {"queues": [{"name": EVIL, "parent": EVIL, "weight": 1, "closed": False, "guarantee": {EVIL: 1},
                                   "limit": {}, "waiting": 0, "running": 0, "devices": 0, "used_device_s": 0}]},
        "/v1/jobs/": {"job": row(EVIL), "written": written, "cwd": EVIL, "ranks": ranks, "runs": 1, "speed": [],
                      "sheet": {}, "log_folder": EVIL, "variables": {EVIL: EVIL}},
    }  # fmt: skip

    def instead(route) -> None:
        path = route.request.url.partition(f":{port.number}")[2]
        found = next((answer for part, answer in answers.items() if _is_for(part, path)), None)
        route.fulfill(json=found) if found is not None else route.continue_()

    with Tab.opened(browser, port.link) as tab:
        tab.page.route("**/v1/**", instead)
        tab.go("/")
        assert tab.sees(EVIL, ".rows")
        for path in ("/jobs/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/cluster", "/history"):
            tab.go(path)
            assert tab.sees(EVIL)
        assert tab.page.evaluate("window.pwned") is None
        assert tab.page.locator("main script, main img").count() == 0


def _is_for(part: str, path: str) -> bool:
    if part == "/v1/why":
        return path == part
    return path.startswith(part) or (path.startswith("/v1/jobs/") and path.partition("?")[0].endswith(part))


def test_output_is_text_without_orders_to_a_terminal(page, port):
    line = f"\x1b[31m{EVIL}\x1b[0m\nold\rnew"
    port.box.submit("printf", line, name="loud")
    port.box.client.get("/v1/jobs/loud/wait", **{"for": 20})
    page.go("/jobs/loud")
    assert page.sees(EVIL, ".output")
    assert page.page.locator(".output").inner_text().splitlines() == [EVIL, "new"]
    assert page.page.evaluate("window.pwned") is None


def test_without_the_token_the_page_only_looks(browser, port):
    port.box.submit("sleep", "60", name="shown")
    with Tab.opened(browser, port.address) as tab:
        assert tab.sees("live, read-only", "#live")
        tab.go("/jobs/shown")
        assert tab.sees("● running", ".jobhead")
        assert tab.page.locator("button:text-is('Cancel')").count() == 0
        tab.go("/submit")
        assert tab.sees("This tab may only look")
        tab.go("/cluster")
        assert tab.sees("n0")
        assert tab.page.locator("button:text-is('Drain')").count() == 0


def test_drain_a_node_and_ask_what_if(page, port):
    port.box.submit("sleep", "60", name="full", workers=16, time="2m")
    port.box.becomes("full", "running")
    port.box.submit("sleep", "60", name="more", workers=8, time="2m")
    page.go("/cluster")
    page.page.fill("input[name=add_nodes]", "2x4")
    page.page.click("text=Work it out")
    assert page.sees("sooner")
    page.page.fill("input[name=add_nodes]", "lots")
    page.page.click("text=Work it out")
    assert page.has("p.wrong")
    page.excused = ("status of 400",)
    page.page.click("button[aria-label='Drain n3']")
    page.page.fill("dialog input", "a new fan")
    page.page.click("dialog button:text-is('Drain')")
    assert page.has(".cells.small .cell.draining[title='n3:0: full, a new fan']")
    page.page.click("button[aria-label='Undrain n3']")
    assert page.has_lost(".cells.small .cell.draining")


def test_it_comes_back_when_the_daemon_does(page, port):
    page.excused = ("ERR_", "Failed to load")
    port.box.submit("sleep", "60", name="stays")
    assert page.sees("● running", ".jobs")
    port.box.kill()
    assert page.sees("reconnecting", "#live")
    port.box.start()
    assert page.has("#live.live")
    port.box.submit("sleep", "60", name="fresh")
    assert page.sees("fresh", ".jobs")
    assert page.sees("stays", ".jobs")


def test_ten_thousand_jobs_are_a_few_rows(browser, port):
    def many(route) -> None:
        offset = int(re.findall(r"offset=(\d+)", route.request.url)[0])
        jobs = [row(f"run-{at:05}", state="finished", why="") for at in range(offset, min(offset + 100, 10_000))]
        route.fulfill(json={"jobs": jobs, "total": 10_000})

    with Tab.opened(browser, port.link) as tab:
        tab.page.route("**/v1/jobs?**", many)
        tab.go("/history")
        assert tab.sees("10,000")
        tab.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert tab.sees("run-09999")
        assert tab.page.locator(".rows .row").count() < 100


def overflow(tab) -> int:
    return int(tab.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_in_either_theme(browser, port, theme):
    port.box.submit("sleep", "60", name="a-job-with-quite-a-long-name-to-show", workers=16)
    port.box.submit("sleep", "60", name="waits", workers=16)
    phone = {"viewport": {"width": 360, "height": 740}, "color_scheme": theme, "has_touch": True}
    with Tab.opened(browser, port.link, **phone) as tab:
        jobs = dict.fromkeys(["/jobs/waits", "/jobs/a-job-with-quite-a-long-name-to-show"], ".facts dd")
        for path, complete in {**PAGES, **jobs}.items():
            tab.go(path)
            assert tab.has(complete)
            assert overflow(tab) <= 0, path


def test_a_thousand_devices_leave_the_queue_within_reach_of_a_thumb(browser, port):
    def many(route) -> None:
        answer = route.fetch().json()
        node = answer["nodes"][0]
        eight = (node["devices"] * 8)[:8]
        answer["nodes"] = [{**node, "name": f"n{at}", "place": [f"r{at // 16}"], "devices": eight} for at in range(128)]
        route.fulfill(json=answer)

    with Tab.opened(browser, port.link, viewport={"width": 390, "height": 844}) as tab:
        tab.page.route("**/v1/nodes", many)
        tab.go("/")
        assert tab.has(".map.most .cell")
        assert tab.page.locator(".map .cell").count() == 1024
        assert tab.page.locator("section[aria-label=Queue]").bounding_box()["y"] < 844
        assert overflow(tab) <= 0


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_and_the_theme_can_be_turned(browser, port, theme):
    with Tab.opened(browser, port.link, color_scheme=theme) as tab:
        styles = "(() => { const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]; })()"
        ink, paper = map(luminance, tab.page.evaluate(styles))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 7
        assert (paper > 0.5) == (theme == "light")
        tab.page.click("#theme")
        assert (luminance(tab.page.evaluate(styles)[1]) > 0.5) == (theme != "light")
        tab.visit(port.address)
        assert (luminance(tab.page.evaluate(styles)[1]) > 0.5) == (theme != "light")


NAMELESS = """
() => [...document.querySelectorAll('button, a[href], input, select, textarea, canvas, [role=img], [role=grid]')]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length))
  .map((one) => one.outerHTML.slice(0, 200))
"""


def test_everything_that_can_be_used_has_a_name(page, port):
    port.box.submit("sleep", "60", name="named", workers=16)
    for path, complete in {**PAGES, "/jobs/named": ".facts dd"}.items():
        page.go(path)
        assert page.has(complete)
        assert page.page.evaluate(NAMELESS) == [], path


def test_the_timeline_can_be_moved_read_and_clicked(page, port):
    port.box.submit("sleep", "60", name="bar", workers=16, time="2m")
    port.box.submit("sleep", "60", name="later", workers=16, time="2m")
    port.box.becomes("bar", "running")
    until(lambda: port.box.row("later")["eta_us"], "a promise")
    page.go("/timeline")
    assert page.has("canvas[aria-label*='4 promises']")
    page.page.click("summary")
    assert page.sees("promised", "table")
    box = page.page.locator("canvas").bounding_box()
    canvas = page.page.locator("canvas")
    canvas.focus()
    page.page.keyboard.press("+")
    page.page.keyboard.press("ArrowLeft")
    page.page.keyboard.press("0")
    for part in (0.97, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2):
        page.page.mouse.move(box["x"] + part * box["width"], box["y"] + 60)
        if page.page.locator("#tip").is_visible():
            break
    assert page.sees("n0 · 4 devices", "#tip")
    page.page.mouse.down()
    page.page.mouse.up()
    assert page.is_at(re.compile("/jobs/(bar|later)"))
