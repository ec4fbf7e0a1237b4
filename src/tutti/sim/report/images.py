"""The pictures as images for slides, drawn with matplotlib."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator, NullLocator, PercentFormatter

from tutti.sim.experiment import Case, Outcome

from . import series
from .look import GRID, INK, LEDGER, QUIET, Unit, bar_colour, is_dark, marks, policy_colour, unit_of

SIZE = (10, 5.2)
PANEL = 3.6
"""Height of each panel where every policy has one."""
MOST_NAMED = 60
"""Letters of a trace's name that fit beside a title."""
FEW_NODES, FEW_BARS = 16, 120
"""So few nodes, and so few bars, have their names beside them."""
SHOWN_NAME = 0.05
"""A bar with its name in it is at least this part of the picture."""
HELD_ONLY = 0.3
"""How dark a bar is that only holds devices, beside one that computes."""
STYLE = {
    "font.size": 12,
    "axes.edgecolor": GRID,
    "axes.labelcolor": QUIET,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "text.color": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "tutti",
}
MOST_COLUMNS = 4
"""Of a legend; fewer where its names are long."""
Draw = Callable[[Axes, Case, list[Outcome]], None]


class Picture(NamedTuple):
    """One of the pictures: all policies in one drawing, or a panel for each of them."""

    title: str
    draw: Draw
    panels: bool = False
    """Where there are, the first outcome is the one to draw, and all of them follow."""


def write_images(case: Case, found: list[Outcome], folder: Path) -> list[Path]:
    """One image for each picture."""
    written = []
    for name, picture in PICTURES.items():
        with mpl.rc_context(rc=STYLE):  # type: ignore[arg-type]  # its keys are typed one by one
            figure = drawn(picture, case, found)
            figure.savefig(folder / f"{name}.png", dpi=150)
        written.append(folder / f"{name}.png")
    return written


def drawn(picture: Picture, case: Case, found: list[Outcome]) -> Figure:
    """A picture with its title, its legend, and where it is from."""
    groups = [[outcome, *found] for outcome in found] if picture.panels else [found]
    figure = Figure(figsize=(SIZE[0], max(SIZE[1], 1.2 + PANEL * len(groups))), layout="constrained")
    panels: list[Axes] = list(figure.subplots(len(groups), 1, sharex=picture.panels, squeeze=False)[:, 0])
    for axes, outcomes in zip(panels, groups, strict=True):
        picture.draw(axes, case, outcomes)
        if picture.panels:
            axes.set_title(outcomes[0].called, loc="left", fontsize=12, color=QUIET)
            axes.label_outer()
    _head(figure, picture.title, f"{case.log.source[:MOST_NAMED]}, {case.devices:,} devices")
    _legend(figure, panels)
    return figure


def _head(figure: Figure, title: str, where: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=15)
    figure.text(0.99, 0.985, where, ha="right", va="top", fontsize=10, color=QUIET)


def _legend(figure: Figure, panels: list[Axes]) -> None:
    """One for all panels, below them: inside it would lie on what it explains."""
    named = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    known = [name for name, _ in LEDGER.values() if name in named]
    names = known or list(named)
    for columns in range(min(len(names), MOST_COLUMNS), 0, -1):
        legend = figure.legend([named[name] for name in names], names, loc="outside lower center", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _over_time(axes: Axes, found: list[Outcome]) -> None:
    """From the first submission on, in the unit that suits how long it lasts."""
    low, high = (
        series.shown_from(found[0].record),
        max(series.shown_until(each.record, each.report.at) for each in found),
    )
    _in_unit(axes, low, high)


def _in_unit(axes: Axes, low: float, high: float) -> None:
    unit = unit_of(high - low, low)
    axes.set(xlabel=unit.name, xlim=(low, high))
    axes.xaxis.set_major_locator(MultipleLocator(unit.hours * _step((high - low) / unit.hours)))
    axes.xaxis.set_major_formatter(_formatter(unit))


def _formatter(unit: Unit) -> FuncFormatter:
    return FuncFormatter(lambda hours, _: f"{hours / unit.hours:g}")


def _step(long: float) -> float:
    """So many units from mark to mark that there are at most ten."""
    size = 10.0 ** (math.floor(math.log10(max(long, 1e-3))) - 1)
    return next(size * each for each in (1, 2, 5, 10, 20) if long <= 10 * size * each)


def _lines(axes: Axes, found: list[Outcome], curve: Callable[[Outcome], series.Curve], style: str = "default") -> None:
    for at, outcome in enumerate(found):
        line, name = curve(outcome), outcome.called
        axes.plot(line.x, line.y, color=policy_colour(at), label=name, linewidth=1.6, drawstyle=style)


def utilisation(axes: Axes, case: Case, found: list[Outcome]) -> None:
    """Part of the devices that is held."""
    _lines(axes, found, lambda outcome: series.used(outcome.record, case.devices, outcome.report.at))
    axes.set(ylabel="part of all devices", ylim=(0, 1.02))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    _over_time(axes, found)


def queue(axes: Axes, case: Case, found: list[Outcome]) -> None:  # noqa: ARG001 - every picture takes the same
    """Jobs that wait."""
    _lines(axes, found, lambda outcome: series.waiting(outcome.record, outcome.report.at))
    axes.set(ylabel="jobs waiting", ylim=(0, None))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _over_time(axes, found)


def completion(axes: Axes, case: Case, found: list[Outcome]) -> None:  # noqa: ARG001
    """How soon jobs are done."""
    _lines(axes, found, lambda outcome: series.completion(outcome.record), "steps-post")
    axes.set(ylabel="part of the jobs", ylim=(0, 1.02))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    times = [hours for outcome in found for hours in series.completion(outcome.record).x.tolist()]
    low, high = min(times, default=1.0), max(times, default=1.0)
    at, names = marks(low, high)
    if not at:
        _in_unit(axes, 0, 1.05 * high)
        axes.set_xlabel(f"{axes.get_xlabel()} from submission to end")
        return
    axes.set(xlabel="from submission to end", xscale="log", xlim=(low / 1.3, high * 1.3))
    axes.set_xticks(at, names)
    axes.xaxis.set_minor_locator(NullLocator())


def widths(axes: Axes, case: Case, found: list[Outcome]) -> None:  # noqa: ARG001
    """Who waits."""
    groups = [series.waits_by_width(outcome.record) for outcome in found]
    unit = unit_of(max(max(group.hours, default=0.0) for group in groups))
    step = 0.8 / len(groups)
    for at, (group, outcome) in enumerate(zip(groups, found, strict=True)):
        places = [index + step * (at - (len(groups) - 1) / 2) for index in range(len(group.labels))]
        waits = [hours / unit.hours for hours in group.hours]
        axes.bar(places, waits, step * 0.92, color=policy_colour(at), label=outcome.called)
        for place, jobs in zip(places, group.jobs, strict=True):
            if not jobs:
                axes.text(place, 0, " never started", rotation=90, ha="center", va="bottom", color=QUIET, fontsize=10)
    axes.set_xticks(range(len(groups[0].labels)), groups[0].labels)
    most = len(groups[0].labels)
    axes.set(
        xlabel="devices asked for",
        ylabel=f"mean wait, {unit.name}",
        xlim=(min(-0.5, most / 2 - 2), max(most - 0.5, most / 2 + 1)),
    )
    axes.grid(visible=False, axis="x")


def ledger(axes: Axes, case: Case, found: list[Outcome]) -> None:
    """What device time was spent on under the first policy, over the time of all."""
    areas = series.areas(found[0].samples, case.devices, found[0].record)
    kinds = [what for what in LEDGER if what in areas.parts and areas.parts[what].max(initial=0) > 0.001]
    if len(areas.hours) and kinds:
        axes.stackplot(
            areas.hours,
            [areas.parts[what] for what in kinds],
            labels=[LEDGER[what][0] for what in kinds],
            colors=[LEDGER[what][1] for what in kinds],
            step="pre",
        )
    axes.set(ylabel="part of all devices", ylim=(0, 1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    _over_time(axes, found)


def gantt(axes: Axes, case: Case, found: list[Outcome]) -> None:
    """Who sat where under the first policy, in the time of all."""
    outcome = found[0]
    low, high = series.common_window([(each.record, each.report.at) for each in found])
    bars = series.gantt(outcome.record, outcome.report.at, case.node_sizes, (low, high))
    for busy, alpha in ((True, 0.85), (False, HELD_ONLY)):
        some = [bar for bar in bars if bar.computes is busy]
        boxes = [Rectangle((bar.begun, bar.at - bar.height / 2), bar.ended - bar.begun, bar.height) for bar in some]
        colours = [bar_colour(bar.row) for bar in some]
        axes.add_collection(PatchCollection(boxes, facecolor=colours, edgecolor="white", linewidth=0.15, alpha=alpha))
    if not all(bar.computes for bar in bars):
        pale = Rectangle((low, 0), 0, 0, alpha=HELD_ONLY, color=QUIET, label="held while nothing computes")
        axes.add_patch(pale)
    _in_unit(axes, low, high)
    nodes = [node.name for node in case.cluster.nodes]
    axes.set(ylim=(len(nodes), 0), ylabel="node")
    if len(nodes) <= FEW_NODES:
        axes.set_yticks([at + 0.5 for at in range(len(nodes))], nodes)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False)
    if len(bars) <= FEW_BARS:
        _name(axes, bars, SHOWN_NAME * (high - low), SHOWN_NAME * len(nodes))


def _name(axes: Axes, bars: list[series.Bar], length: float, height: float) -> None:
    """Write the jobs' names into bars that are large enough."""
    for bar in bars:
        if bar.ended - bar.begun >= length * len(bar.job) / 4 and bar.height >= height:
            colour = "white" if bar.computes and is_dark(bar_colour(bar.row)) else INK
            middle = (bar.begun + bar.ended) / 2
            axes.text(middle, bar.at, bar.job, ha="center", va="center", color=colour, fontsize=9, clip_on=True)


def promise(axes: Axes, case: Case, found: list[Outcome]) -> None:  # noqa: ARG001
    """How true the first promise was."""
    made = {at: series.promises(outcome.record) for at, outcome in enumerate(found)}
    made = {at: each for at, each in made.items() if len(each.ahead)}
    if not made:
        axes.text(0.5, 0.5, "nobody was promised a start", transform=axes.transAxes, ha="center", color=QUIET)
        axes.set_axis_off()
        return
    ahead = max(float(each.ahead.max()) for each in made.values())
    late = max(float(abs(each.late).max()) for each in made.values())
    unit = unit_of(max(ahead, late))
    for at, each in made.items():
        x, y = each.ahead / unit.hours, each.late / unit.hours
        axes.scatter(x, y, s=18, alpha=0.5, color=policy_colour(at), label=found[at].called)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set(xlabel=f"promised so many {unit.name} ahead", ylabel=f"{unit.name} later than promised (below 0: earlier)")
    axes.set_xlim(left=0, right=max(1.05 * ahead / unit.hours, 1))
    if late < 0.1 * ahead:
        axes.set_ylim(-0.1 * ahead / unit.hours, 0.1 * ahead / unit.hours)


PICTURES: dict[str, Picture] = {
    "utilisation": Picture("Devices in use", utilisation),
    "queue": Picture("Jobs waiting", queue),
    "completion": Picture("How soon jobs are done", completion),
    "waits-by-width": Picture("Who waits", widths),
    "goodput": Picture("Where device time went", ledger, panels=True),
    "gantt": Picture("Who sat where", gantt, panels=True),
    "promise-error": Picture("How true the first promise was", promise),
}
