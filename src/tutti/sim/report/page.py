"""The report as one page that works from a file: every picture can be zoomed, nothing is fetched."""

from collections.abc import Callable
from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from tutti.sim.experiment import Case, Outcome
from tutti.sim.results import LABELS, bound_column, column_of

from . import series
from .look import GRID, INK, LEDGER, QUIET, bar_colour, policy_colour

Picture = Callable[[Case, list[Outcome]], go.Figure]
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#22303c;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin:2.2rem 0 .2rem}
p.note{color:#6b7783;margin:.2rem 0}table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #e6e9ec}
th:first-child,td:first-child{text-align:left}
"""


def write_page(case: Case, found: list[Outcome], path: Path) -> Path:
    """Write the page."""
    title = f"{case.log.source} on {case.devices:,} devices"
    body = [f"<h1>{escape(title)}</h1>", *_assumptions(case, found), _table(case, found)]
    for name, (heading, says, picture) in PICTURES.items():
        figure = picture(case, found)
        _dress(figure)
        chart = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False})
        about = says.format(policy=escape(found[-1].metrics.policy), policies=len(found))
        body.append(f"<h2>{escape(heading)}</h2><p class=note>{about}</p>{chart}")
    head = f"<meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style><script>{get_plotlyjs()}</script>"
    path.write_text(f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(body)}</body></html>")
    return path


def _assumptions(case: Case, found: list[Outcome]) -> list[str]:
    said = [
        f"{len(case.log.rows):,} jobs, offered load {case.offered:.2f}, estimates {case.estimates}.",
        f"Read as {case.log.kind}; {len(case.faults)} faults.",
        *case.log.notes,
    ]
    if case.log.left_out:
        said.append(f"{len(case.log.left_out)} entries of the trace were left out.")
    if any(outcome.interrupted for outcome in found):
        said.append("The run was interrupted: the figures are of what had ended by then.")
    return [f"<p class=note>{escape(each)}</p>" for each in said]


def _table(case: Case, found: list[Outcome]) -> str:
    columns = [*(column_of(outcome.metrics) for outcome in found), bound_column(case.bounds())]
    heads = ["", *(outcome.metrics.policy for outcome in found), "bound"]
    rows = [[label, *(column[at] for column in columns)] for at, label in enumerate(LABELS)]
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _dress(figure: go.Figure) -> None:
    figure.update_layout(
        template="plotly_white",
        font={"color": INK, "size": 14},
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        height=420,
        legend={"orientation": "h", "y": 1.12},
    )
    figure.update_xaxes(gridcolor=GRID, title_font_color=QUIET)
    figure.update_yaxes(gridcolor=GRID, title_font_color=QUIET)


def _span(found: list[Outcome]) -> list[float]:
    return [0.0, max(series.shown_until(outcome.record) for outcome in found)]


def _lines(found: list[Outcome], curve: Callable[[Outcome], series.Curve], x: str, y: str) -> go.Figure:
    figure = go.Figure()
    for at, outcome in enumerate(found):
        line = curve(outcome)
        name, colour = outcome.metrics.policy, policy_colour(at)
        figure.add_scatter(x=line.x.round(4).tolist(), y=line.y.round(4).tolist(), name=name, line_color=colour)
    figure.update_layout(xaxis_title=x, yaxis_title=y)
    return figure


def utilisation(case: Case, found: list[Outcome]) -> go.Figure:
    """Part of the devices that is held."""
    figure = _lines(
        found,
        lambda outcome: series.used(outcome.record, case.devices, outcome.report.at),
        "hours",
        "part of all devices",
    )
    return figure.update_yaxes(range=[0, 1.02]).update_xaxes(range=_span(found))


def queue(case: Case, found: list[Outcome]) -> go.Figure:  # noqa: ARG001 - every picture takes the same
    """Jobs that wait."""
    figure = _lines(found, lambda outcome: series.waiting(outcome.record, outcome.report.at), "hours", "jobs waiting")
    return figure.update_xaxes(range=_span(found))


def completion(case: Case, found: list[Outcome]) -> go.Figure:  # noqa: ARG001
    """How soon jobs are done."""
    figure = _lines(
        found,
        lambda outcome: series.completion(outcome.record),
        "hours from submission to end",
        "part of the jobs",
    )
    return figure.update_xaxes(type="log")


def widths(case: Case, found: list[Outcome]) -> go.Figure:  # noqa: ARG001
    """Who waits."""
    figure = go.Figure()
    for at, outcome in enumerate(found):
        group = series.waits_by_width(outcome.record)
        hover = [f"{jobs:,} jobs" for jobs in group.jobs]
        name, colour = outcome.metrics.policy, policy_colour(at)
        figure.add_bar(x=group.labels, y=group.hours, name=name, marker_color=colour, hovertext=hover)
    return figure.update_layout(
        xaxis_title="devices asked for", yaxis_title="mean wait, hours", xaxis_type="category", barmode="group"
    )


def ledger(case: Case, found: list[Outcome]) -> go.Figure:
    """What device time was spent on."""
    areas = series.areas(found[-1].samples, case.devices)
    figure = go.Figure()
    for what, (name, colour) in LEDGER.items():
        part = areas.parts.get(what)
        if part is not None and part.max(initial=0) > 0.001:
            figure.add_scatter(
                x=areas.hours.round(3).tolist(),
                y=part.round(4).tolist(),
                name=name,
                stackgroup="all",
                line={"width": 0},
                fillcolor=colour,
            )
    figure.update_xaxes(range=_span(found[-1:]))
    return figure.update_layout(xaxis_title="hours", yaxis_title="part of all devices", yaxis_range=[0, 1])


def gantt(case: Case, found: list[Outcome]) -> go.Figure:
    """Who sat where."""
    bars = series.gantt(found[-1].record, found[-1].report.at, case.node_sizes)
    figure = go.Figure(
        go.Bar(
            base=[round(bar.begun, 4) for bar in bars],
            x=[round(bar.ended - bar.begun, 4) for bar in bars],
            y=[round(bar.at, 4) for bar in bars],
            width=[round(bar.height, 4) for bar in bars],
            orientation="h",
            marker_color=[bar_colour(bar.row) for bar in bars],
            marker_line_width=0,
            hovertext=[f"{bar.job}: {bar.devices} devices" for bar in bars],
            opacity=0.85,
        )
    )
    return figure.update_layout(xaxis_title="hours", yaxis_title="node", barmode="overlay")


def promise(case: Case, found: list[Outcome]) -> go.Figure:  # noqa: ARG001
    """How true the first promise was."""
    figure = go.Figure()
    for at, outcome in enumerate(found):
        made = series.promises(outcome.record)
        figure.add_scatter(
            x=made.ahead[: series.MOST_BARS].round(4).tolist(),
            y=made.late[: series.MOST_BARS].round(4).tolist(),
            name=outcome.metrics.policy,
            mode="markers",
            marker={"color": policy_colour(at), "size": 4, "opacity": 0.4},
        )
    return figure.update_layout(xaxis_title="promised so many hours ahead", yaxis_title="started so many hours later")


PICTURES: dict[str, tuple[str, str, Picture]] = {
    "utilisation": ("Devices in use", "Averages over equal stretches of time.", utilisation),
    "queue": ("Jobs waiting", "How many jobs had been submitted and not yet started.", queue),
    "completion": ("How soon jobs are done", "Further to the left is better.", completion),
    "waits-by-width": ("Who waits", "Mean wait by the number of devices asked for.", widths),
    "goodput": ("Where device time went", "Under {policy}. The areas add up to everything installed.", ledger),
    "gantt": (
        "Who sat where",
        "Under {policy}; drag to zoom. Long runs show the time around the longest queue.",
        gantt,
    ),
    "promise-error": ("How true the first promise was", "Each dot is a job; zero is kept to the second.", promise),
}
