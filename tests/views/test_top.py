"""One screen of `tutti top`."""

import pytest

from tutti.views.top import arranged, later, summary, top_lines


def job(name: str, state: str = "running", **more: object) -> dict[str, object]:
    made = {"name": name, "user": "u", "queue": "q", "state": state, "members": 1, "min": 1, "max": 1, "devices": 1}
    return made | {"ran_s": 5.0, "waited_s": 9.0, "reason": "", "ended_us": 0} | more


def node(*states: str) -> dict[str, object]:
    cells = [{"id": f"n:{at}", "state": state, "job": "", "note": ""} for at, state in enumerate(states)]
    return {"name": "n", "place": [], "kind": "k", "devices": cells, "free": states.count("free")}


def answer(*nodes: dict[str, object]) -> dict[str, object]:
    return {"nodes": list(nodes), "largest": 1, "notes": []}


def test_the_first_line_says_how_full_it_is_and_what_others_wait_for():
    jobs = [job("a"), job("b", "waiting", reason="NoCapacity"), job("c", "held", reason="Held")]
    jobs.append(job("d", "waiting", reason="NoCapacity"))
    told = summary(jobs, answer(node("busy", "free", "busy", "drained")), 1, 3)
    assert told == "[############............] 2 of 4 devices   1 running   3 waiting (2 NoCapacity, 1 Held)"


@pytest.mark.parametrize("rows", [12, 24, 40])
def test_a_picture_never_has_more_lines_than_the_screen_and_says_what_is_cut(rows):
    jobs = [job(f"j{at}") for at in range(100)]
    lines = top_lines(jobs, answer(*(node("free") for _ in range(100))), 80, rows)
    assert len(lines) <= rows
    assert any("more lines: tutti nodes" in line for line in lines)
    shown = sum(line.startswith("j") for line in lines)
    assert lines[-1] == f"and {100 - shown} more"


def test_jobs_are_sorted_and_filtered():
    jobs = [job("b", ran_s=1.0), job("a", devices=8), job("c", "waiting", reason="NoCapacity")]
    assert [one["name"] for one in arranged(jobs, "line")] == ["b", "a", "c"]
    assert [one["name"] for one in arranged(jobs, "time")] == ["c", "a", "b"]
    assert [one["name"] for one in arranged(jobs, "size")] == ["a", "b", "c"]
    assert [one["name"] for one in arranged(jobs, "name")] == ["a", "b", "c"]
    assert [one["name"] for one in arranged(jobs, "line", "nocap")] == ["c"]


def test_clocks_go_on_without_asking():
    assert later(job("a"), 2.0)["ran_s"] == 7.0
    assert later(job("a", "waiting"), 2.0)["waited_s"] == 11.0
    assert later(job("a", "finished", ended_us=1), 2.0)["ran_s"] == 5.0
