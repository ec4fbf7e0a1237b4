"""The report as one page that works from a file: every picture can be zoomed, nothing is fetched."""

from collections.abc import Callable
from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from tutti.engine.model import HOUR
from tutti.sim.experiment import Case, Outcome

from . import series
from .frame import figures, framed, headline, notes
from .look import GRID, INK, LEDGER, MANY_HOURS, QUIET, bar_colour, policy_colour

Picture = Callable[[Case, list[Outcome]], go.Figure]
FEW = 10
"""So few nodes have a mark each."""
CONFIG = {"displaylogo": False, "displayModeBar": "hover", "responsive": True}


def write_page(case: Case, found: list[Outcome], path: Path) -> Path:
    """Write the page."""
    body = headline(case, found)
    for name, (heading, says, picture) in PICTURES.items():
        figure = picture(case, found)
        _in_days(figure)
        _dress(figure)
        chart = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=CONFIG)
        about = says.format(policy=escape(found[-1].metrics.policy))
        body.append(f"<h2>{escape(heading)}</h2><p class=note>{about}</p>{chart}")
    body += [figures(case, found), notes(case, found)]
    path.write_text(framed(f"{case.log.source} on {case.devices:,} devices", body, get_plotlyjs()))
    return path


def _in_days(figure: go.Figure) -> None:
    """Hours become days where a picture shows many of them."""
    axis = figure.layout.xaxis
    if axis.title.text != "hours" or not figure.data:
        return
    shown = axis.range or (0, max(max(line.x, default=0) for line in figure.data))
    if shown[1] - shown[0] < MANY_HOURS:
        return
    for line in figure.data:
        line.x = [hours / 24 for hours in line.x]
        if getattr(line, "base", None) is not None:
            line.base = [hours / 24 for hours in line.base]
    for mark in figure.layout.shapes:
        mark.update(x0=mark.x0 / 24, x1=mark.x1 / 24)
    for note in figure.layout.annotations:
        note.update(x=note.x / 24)
    axis.update(title="days", range=axis.range and [hours / 24 for hours in axis.range])


def _dress(figure: go.Figure) -> None:
    figure.update_layout(
        template="plotly_white",
        height=figure.layout.height or 420,
        font={"color": INK, "size": 14},
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        legend={"orientation": "h", "y": 1.1, "x": 0},
        hoverlabel={"font_size": 13},
    )
    figure.update_xaxes(gridcolor=GRID, title_font_color=QUIET)
    figure.update_yaxes(gridcolor=GRID, title_font_color=QUIET)


def _span(found: list[Outcome]) -> list[float]:
    return [series.shown_from(found[0].record), max(series.shown_until(outcome.record) for outcome in found)]


def _lines(found: list[Outcome], curve: Callable[[Outcome], series.Curve], x: str, y: str) -> go.Figure:
    figure = go.Figure()
    for at, outcome in enumerate(found):
        line = curve(outcome)
        name, colour = outcome.metrics.policy, policy_colour(at)
        figure.add_scatter(x=line.x.round(4).tolist(), y=line.y.round(4).tolist(), name=name, line_color=colour)
    figure.update_layout(xaxis_title=x, yaxis_title=y)
    return figure


def _mark_last(figure: go.Figure, case: Case) -> go.Figure:
    """A line where the last job was submitted: what comes after it is only the end of what came before."""
    return figure.add_vline(
        x=round(case.log.rows[-1].at / HOUR, 4),
        line={"color": QUIET, "width": 1, "dash": "dot"},
        annotation={"text": "last job submitted", "font": {"color": QUIET, "size": 12}},
        annotation_position="top right",
    )


def utilisation(case: Case, found: list[Outcome]) -> go.Figure:
    """Part of the devices that is held."""
    figure = _lines(
        found,
        lambda outcome: series.used(outcome.record, case.devices, outcome.report.at),
        "hours",
        "part of all devices",
    )
    _mark_last(figure, case)
    return figure.update_yaxes(range=[0, 1.06], tickformat=".0%").update_xaxes(range=_span(found))


def queue(case: Case, found: list[Outcome]) -> go.Figure:
    """Jobs that wait."""
    figure = _lines(found, lambda outcome: series.waiting(outcome.record, outcome.report.at), "hours", "jobs waiting")
    return _mark_last(figure, case).update_xaxes(range=_span(found))


def completion(case: Case, found: list[Outcome]) -> go.Figure:  # noqa: ARG001 - every picture takes the same
    """How soon jobs are done."""
    figure = _lines(
        found,
        lambda outcome: series.completion(outcome.record),
        "hours from submission to end",
        "part of the jobs",
    )
    return figure.update_xaxes(type="log", dtick=1).update_yaxes(range=[0, 1.02], tickformat=".0%")


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
    areas = series.areas(found[-1].samples, case.devices, found[-1].record)
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
                fillcolor="rgba(140,150,160,.22)" if what == "no-demand" else colour,
            )
    figure.update_xaxes(range=_span(found[-1:]))
    return figure.update_layout(
        xaxis_title="hours",
        yaxis={"title": "part of all devices", "range": [0, 1], "tickformat": ".0%"},
        legend_traceorder="normal",
    )


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
    return figure.update_layout(
        xaxis={"title": "hours", "range": series.window(found[-1].record, found[-1].report.at)},
        yaxis={"title": "node", "range": [0, len(case.node_sizes)], "dtick": 1 if len(case.node_sizes) < FEW else None},
        barmode="overlay",
        height=max(420, min(14 * len(case.node_sizes), 900)),
    )


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
            marker={"color": policy_colour(at), "size": 6, "opacity": 0.5},
        )
    spread = max((abs(value) for trace in figure.data for value in trace.y), default=0.0)
    return figure.update_layout(
        xaxis={"title": "promised so many hours ahead", "rangemode": "tozero"},
        yaxis={"title": "started so many hours later", "range": None if spread > 0.1 else [-1, 1]},
    )


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
