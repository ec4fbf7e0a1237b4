"""The same without JavaScript: what the commands print, for text browsers and for whoever likes it so."""

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import quote

import msgspec

from tutti.api import types as t
from tutti.api.http import Request
from tutti.api.routes import Service
from tutti.errors import Refused
from tutti.views.job import job_lines
from tutti.views.nodes import node_lines
from tutti.views.queue import queue_lines
from tutti.views.report import report_lines

from .files import shelf

ROWS = 200
WIDTH = 160
TAIL = 16 << 10


async def plain(service: Service, request: Request, parts: tuple[str, ...]) -> bytes:
    """The page of a job, or the start page: who runs and waits, from a row on; devices; the ledger."""
    if len(parts) == 2:
        return await _job(service, request, parts[1])
    jobs = await service.jobs("all", t.Which(), max(request.number("offset", 0), 0), ROWS)
    rows: list[dict[str, Any]] = msgspec.to_builtins(jobs.jobs)
    nodes, report = await service.nodes(), await service.report()
    links = {row["name"]: f"/plain/{quote(row['name'], safe='')}" for row in rows}
    more = f'<p><a href="/plain?offset={jobs.next}">{jobs.total - jobs.next} more</a></p>' if jobs.next else ""
    return _page(
        "Tutti",
        _part("Jobs", queue_lines(rows, WIDTH, False), links) + more,
        _part("Devices", node_lines(msgspec.to_builtins(nodes), False)),
        _part("Ledger", report_lines(msgspec.to_builtins(report))),
    )


async def _job(service: Service, request: Request, name: str) -> bytes:
    page, story = await service.job(name, request), await service.story(name)
    why = await service.why(name, 20)
    rank, output = await _output(service, request, name)
    return _page(
        name,
        _part("Why", why.lines),
        _part("Story", story.lines),
        _part("Everything", job_lines(msgspec.to_builtins(page))),
        _part(f"Output of rank {rank}", output.splitlines()[-200:]),
    )


async def _output(service: Service, request: Request, name: str) -> tuple[int, str]:
    """The end of its output, or why it is not shown."""
    try:
        found = await service.logs(name, -1, -1, TAIL, request)
    except Refused as problem:
        return 0, problem.what
    return found.rank, found.text


def _part(title: str, lines: list[str], links: Mapping[str, str] | None = None) -> str:
    text = "\n".join(_linked(line, links or {}) for line in lines)
    return f'<section class="card"><h2>{escape(title)}</h2><pre>{text}</pre></section>'


def _linked(line: str, links: Mapping[str, str]) -> str:
    """A line as text, its first word a link where it is the name of a job."""
    name, space, rest = line.partition(" ")
    if name in links:
        return f'<a href="{escape(links[name])}">{escape(name)}</a>{space}{escape(rest)}'
    return escape(line)


def _page(title: str, *parts: str) -> bytes:
    frame = shelf()["plain.html"].body.decode()
    return frame.replace("{title}", escape(title)).replace("{body}", "\n".join(parts)).encode()
