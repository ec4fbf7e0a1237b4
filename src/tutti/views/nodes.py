"""The box drawn with letters: a row for each node, a cell for each device."""

from collections.abc import Mapping, Sequence
from typing import Any

from .gantt import LETTERS, letters

MARKS = {"free": "·", "drained": "x", "foreign": "!", "broken": "!", "draining": "~"}
COLOURS = (31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
MOST_LEGEND = 12


def node_lines(answer: Mapping[str, Any], coloured: bool, wide: bool = False) -> list[str]:
    """Rows of cells, then who the letters are."""
    nodes = answer["nodes"]
    if not nodes:
        return ["no daemon runs here, so nothing is given away; `tutti run` starts one"]
    jobs = list(dict.fromkeys(cell["job"] for node in nodes for cell in node["devices"] if cell["job"]))
    known = letters(jobs, alone=len(jobs) <= len(LETTERS))
    paint = {job: COLOURS[at % len(COLOURS)] for at, job in enumerate(jobs)} if coloured else {}
    pad = max(len(node["name"]) for node in nodes)
    lines = []
    rack = None
    for node in nodes:
        place = "/".join(node["place"])
        if place and place != rack and len({"/".join(other["place"]) for other in nodes}) > 1:
            lines.append(place)
            rack = place
        cells = "".join(_cell(cell, known, paint) for cell in node["devices"])
        lines.append(f"  {node['name']:<{pad}}  {cells}  {node['free']} free of {len(node['devices'])} {node['kind']}")
    lines += _legend(nodes, known, paint, wide)
    lines.append(_widest(answer["largest"]))
    return lines + [f"note: {note}" for note in answer["notes"]]


def topology_lines(answer: Mapping[str, Any]) -> list[str]:
    """Domains inside domains, the nodes of the innermost ones, and what is free in each."""
    if not answer["nodes"]:
        return node_lines(answer, coloured=False)
    return _domain(answer["nodes"], answer["levels"], 0)


def _domain(nodes: Sequence[Mapping[str, Any]], levels: Sequence[str], depth: int) -> list[str]:
    inside: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        if depth < len(node["place"]):
            inside.setdefault(node["place"][depth], []).append(node)
    lines = []
    for name, among in inside.items():
        level = levels[depth] if depth < len(levels) else f"level{depth + 1}"
        lines += [f"{'  ' * depth}{level} {name}: {_count(among)}", *_domain(among, levels, depth + 1)]
    alone = [node for node in nodes if depth >= len(node["place"])]
    return lines + [f"{'  ' * depth}{node['name']}: {_free([node])}" for node in alone]


def _count(nodes: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}, {_free(nodes)}"


def _free(nodes: Sequence[Mapping[str, Any]]) -> str:
    unwell = sum(node["state"] != "ready" for node in nodes)
    free, all_of_them = sum(node["free"] for node in nodes), sum(len(node["devices"]) for node in nodes)
    return f"{free} of {all_of_them} devices free" + (f", {unwell} not ready" if unwell else "")


def _widest(most: int) -> str:
    """The answer to the first question of anybody with a job."""
    if not most:
        return "no gang would start now, however small"
    return f"the widest gang that would start now: {most} x 1 device"


def _cell(cell: Mapping[str, Any], known: Mapping[str, str], paint: Mapping[str, int]) -> str:
    job = cell["job"]
    if not job:
        return MARKS.get(cell["state"], "?")
    letter = known[job].lower() if cell["state"] == "starting" else known[job]
    return f"\x1b[{paint[job]}m{letter}\x1b[0m" if job in paint else letter


def _legend(nodes: list[dict[str, Any]], known: Mapping[str, str], paint: Mapping[str, int], wide: bool) -> list[str]:
    held: dict[str, int] = {}
    notes: dict[str, str] = {}
    for node in nodes:
        for cell in node["devices"]:
            if cell["job"]:
                held[cell["job"]] = held.get(cell["job"], 0) + 1
            if cell["note"] or (cell["state"] in MARKS and cell["state"] != "free"):
                notes[cell["id"]] = f"{cell['state']}{': ' + cell['note'] if cell['note'] else ''}"
    shown = list(held.items()) if wide else list(held.items())[:MOST_LEGEND]
    names = [f"{_cell({'job': job, 'state': 'busy'}, known, paint)} {job} ({count})" for job, count in shown]
    more = [f"and {len(held) - len(shown)} more"] if len(held) > len(shown) else []
    return ([f"  {', '.join(names + more)}"] if names else []) + [
        f"  {device} {note}" for device, note in notes.items()
    ]
