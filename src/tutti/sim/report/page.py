"""The report as one page that works from a file: every picture can be zoomed, nothing is fetched."""

import math
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from tutti.engine.model import HOUR
from tutti.sim.experiment import Case, Outcome

from . import series
from .frame import figures, framed, headline, notes
from .look import GRID, INK, LEDGER, QUIET, Unit, bar_colour, marks, policy_colour, unit_of
from .series import LEAST

Draw = Callable[[Case, list[Outcome]], go.Figure]
FEW = 16
"""So few nodes have their names beside them."""
FEW_BARS = 120
"""So few bars have their jobs' names in them."""
ROOM_FOR_WORDS = 0.8
"""Beyond this part of the width, words stand to the left of what they are about."""
CONFIG = {"displaylogo": False, "displayModeBar": "hover", "responsive": True}


class Picture(NamedTuple):
    """One of the pictures: all policies in one chart, or a chart for each of them."""

    heading: str
    says: str
    draw: Draw
    panels: bool = False
    """Where there are, the first outcome is the one to draw, and all of them follow."""


def write_page(case: Case, found: list[Outcome], path: Path) -> Path:
    """Write the page."""
    body = headline(case, found)
    for name, picture in PICTURES.items():
        body.append(f"<h2>{escape(picture.heading)}</h2><p class=note>{escape(picture.says)}</p>")
        body += _charts(name, picture, case, found)
    body += [figures(case, found), notes(case, found)]
    path.write_text(framed(f"{case.log.source} on {case.devices:,} devices", body, get_plotlyjs()))
    return path


def _charts(name: str, picture: Picture, case: Case, found: list[Outcome]) -> Iterator[str]:
    for at, group in enumerate([[outcome, *found] for outcome in found] if picture.panels else [found]):
        if picture.panels and len(found) > 1:
            yield f"<h3>{escape(group[0].called)}</h3>"
        figure = picture.draw(case, group)
        _dress(figure)
        called = f"{name}-{at + 1}" if at else name
        yield figure.to_html(full_html=False, include_plotlyjs=False, div_id=called, config=CONFIG)


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


def _span(found: list[Outcome]) -> tuple[float, float, Unit]:
    """From when until when pictures show, in hours, and the unit that suits it."""
    low, high = (
        series.shown_from(found[0].record),
        max(series.shown_until(each.record, each.report.at) for each in found),
    )
    return low, high, unit_of(high - low, low)


def _told(values: series.Floats, unit: Unit) -> list[float]:
    told: list[float] = (values / unit.hours).round(4).tolist()
    return told


def _lines(found: list[Outcome], curve: Callable[[Outcome], series.Curve], unit: Unit, shape: str = "") -> go.Figure:
    figure = go.Figure()
    for at, outcome in enumerate(found):
        line = curve(outcome)
        look = {"color": policy_colour(at), "shape": shape or "linear"}
        figure.add_scatter(x=_told(line.x, unit), y=line.y.round(4).tolist(), name=outcome.called, line=look)
    return figure


def _over_time(figure: go.Figure, case: Case, span: tuple[float, float, Unit]) -> go.Figure:
    """A line where the last job was submitted: what comes after it is only the end of what came before."""
    low, high, unit = span
    last = case.log.rows[-1].at / HOUR
    has_room = last < low + ROOM_FOR_WORDS * (high - low)
    figure.add_vline(
        x=round(last / unit.hours, 4),
        line={"color": QUIET, "width": 1, "dash": "dot"},
        annotation={"text": "last job submitted", "font": {"color": QUIET, "size": 12}},
        annotation_position="top right" if has_room else "top left",
    )
    return figure.update_xaxes(title=unit.name, range=[low / unit.hours, high / unit.hours])


def utilisation(case: Case, found: list[Outcome]) -> go.Figure:
    """Part of the devices that is held."""
    span = _span(found)
    figure = _lines(found, lambda each: series.used(each.record, case.devices, each.report.at), span[2])
    figure.update_yaxes(title="part of all devices", range=[0, 1.06], tickformat=".0%")
    return _over_time(figure, case, span)


def queue(case: Case, found: list[Outcome]) -> go.Figure:
    """Jobs that wait."""
    span = _span(found)
    figure = _lines(found, lambda each: series.waiting(each.record, each.report.at), span[2])
    return _over_time(figure.update_yaxes(title="jobs waiting", rangemode="tozero"), case, span)


def completion(case: Case, found: list[Outcome]) -> go.Figure:  # noqa: ARG001 - every picture takes the same
    """How soon jobs are done."""
    figure = _lines(found, lambda each: series.completion(each.record), Unit("hours", 1), shape="hv")
    times = [hours for line in figure.data for hours in line.x]
    low, high = min(times, default=1.0), max(times, default=1.0)
    at, names = marks(low, high)
    if at:
        ends = [math.log10(low / 1.3), math.log10(high * 1.3)]
        figure.update_xaxes(type="log", tickvals=at, ticktext=names, title="from submission to end", range=ends)
    else:
        unit = unit_of(high)
        for line in figure.data:
            line.x = [hours / unit.hours for hours in line.x]
        figure.update_xaxes(range=[0, 1.05 * high / unit.hours], title=f"{unit.name} from submission to end")
    return figure.update_yaxes(title="part of the jobs", range=[0, 1.02], tickformat=".0%")


def widths(case: Case, found: list[Outcome]) -> go.Figure:  # noqa: ARG001
    """Who waits."""
    figure = go.Figure()
    groups = [series.waits_by_width(outcome.record) for outcome in found]
    unit = unit_of(max(max(group.hours, default=0.0) for group in groups))
    for at, (group, outcome) in enumerate(zip(groups, found, strict=True)):
        hover = [f"{jobs:,} jobs" if jobs else "never started" for jobs in group.jobs]
        waits = [hours / unit.hours for hours in group.hours]
        name, colour = outcome.called, policy_colour(at)
        figure.add_bar(x=group.labels, y=waits, name=name, marker_color=colour, hovertext=hover)
    return figure.update_layout(
        xaxis_title="devices asked for", yaxis_title=f"mean wait, {unit.name}", xaxis_type="category", barmode="group"
    )


def ledger(case: Case, found: list[Outcome]) -> go.Figure:
    """What device time was spent on under the first policy, over the time of all."""
    areas = series.areas(found[0].samples, case.devices, found[0].record)
    figure, (low, high, unit) = go.Figure(), _span(found)
    for what, (name, colour) in LEDGER.items():
        part = areas.parts.get(what)
        if part is not None and part.max(initial=0) > 0.001:
            figure.add_scatter(
                x=_told(areas.hours, unit),
                y=part.round(4).tolist(),
                name=name,
                stackgroup="all",
                line={"width": 0, "shape": "vh"},
                fillcolor="rgba(140,150,160,.22)" if what == "no-demand" else colour,
            )
    return figure.update_layout(
        xaxis={"title": unit.name, "range": [low / unit.hours, high / unit.hours]},
        yaxis={"title": "part of all devices", "range": [0, 1], "tickformat": ".0%"},
        legend_traceorder="normal",
    )


def gantt(case: Case, found: list[Outcome]) -> go.Figure:
    """Who sat where under the first policy, in the time of all."""
    outcome = found[0]
    low, high = series.common_window([(each.record, each.report.at) for each in found])
    bars = series.gantt(outcome.record, outcome.report.at, case.node_sizes, (low, high))
    unit = unit_of(high - low, low)
    figure = go.Figure(
        go.Bar(
            base=[round(bar.begun / unit.hours, 4) for bar in bars],
            x=[round((bar.ended - bar.begun) / unit.hours, 4) for bar in bars],
            y=[round(bar.at, 4) for bar in bars],
            width=[round(bar.height, 4) for bar in bars],
            orientation="h",
            marker_color=[bar_colour(bar.row) for bar in bars],
            marker_line_width=0,
            marker_opacity=[0.85 if bar.computes else 0.3 for bar in bars],
            hovertext=[f"{bar.job}: {bar.devices} devices{'' if bar.computes else ', held only'}" for bar in bars],
            text=[bar.job for bar in bars] if len(bars) <= FEW_BARS else None,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="inside",
        )
    )
    return figure.update_layout(
        xaxis={"title": unit.name, "range": [low / unit.hours, high / unit.hours]},
        yaxis=_nodes(case),
        barmode="overlay",
        height=max(420, min(14 * len(case.node_sizes), 900)),
    )


def _nodes(case: Case) -> dict[str, object]:
    """The axis of nodes, the first at the top as in a list; few have their names."""
    names = [node.name for node in case.cluster.nodes]
    axis: dict[str, object] = {"title": "node", "range": [len(names), 0]}
    if len(names) <= FEW:
        axis |= {"tickvals": [at + 0.5 for at in range(len(names))], "ticktext": names}
    return axis


def promise(case: Case, found: list[Outcome]) -> go.Figure:  # noqa: ARG001
    """How true the first promise was."""
    figure = go.Figure()
    made = [series.promises(outcome.record) for outcome in found]
    ahead = max((float(each.ahead.max(initial=0)) for each in made), default=0.0)
    late = max((float(abs(each.late).max(initial=0)) for each in made), default=0.0)
    unit = unit_of(max(ahead, late))
    for at, (each, outcome) in enumerate(zip(made, found, strict=True)):
        figure.add_scatter(
            x=_told(each.ahead[: series.MOST_BARS], unit),
            y=_told(each.late[: series.MOST_BARS], unit),
            name=outcome.called,
            mode="markers",
            marker={"color": policy_colour(at), "size": 6, "opacity": 0.5},
        )
    near = max(0.1 * ahead, LEAST) / unit.hours
    if not any(len(each.ahead) for each in made):
        figure.add_annotation(text="nobody was promised a start", showarrow=False, font={"color": QUIET, "size": 15})
    return figure.update_layout(
        xaxis={"title": f"promised so many {unit.name} ahead", "rangemode": "tozero"},
        yaxis={
            "title": f"{unit.name} later than promised (below 0: earlier)",
            "range": None if late > 0.1 * ahead else [-near, near],
        },
    )


PICTURES: dict[str, Picture] = {
    "utilisation": Picture("Devices in use", "Averages over equal stretches of time.", utilisation),
    "queue": Picture("Jobs waiting", "How many jobs had been submitted and not yet started.", queue),
    "completion": Picture("How soon jobs are done", "Further to the left is better.", completion),
    "waits-by-width": Picture("Who waits", "Mean wait by the number of devices asked for.", widths),
    "goodput": Picture("Where device time went", "The areas add up to everything installed.", ledger, panels=True),
    "gantt": Picture(
        "Who sat where",
        "Drag to zoom. Pale: held while nothing computes. Long runs show the time around the longest queue.",
        gantt,
        panels=True,
    ),
    "promise-error": Picture(
        "How true the first promise was", "Each dot is a job; zero is kept to the second.", promise
    ),
}
