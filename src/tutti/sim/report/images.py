"""The pictures as images for slides, drawn with matplotlib."""

import math
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator, PercentFormatter

from tutti.sim.experiment import Case, Outcome

from . import series
from .look import GRID, INK, LEDGER, MANY_HOURS, QUIET, bar_colour, policy_colour

SIZE = (10, 5.2)
MOST_NAMED = 60
"""Letters of a trace's name that fit beside a title."""
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
Draw = Callable[[Axes, Case, list[Outcome]], None]


def write_images(case: Case, found: list[Outcome], folder: Path) -> list[Path]:
    """One image for each picture; those of single policies are of the last one."""
    written = []
    for name, (title, draw) in PICTURES.items():
        path = folder / f"{name}.png"
        with mpl.rc_context(rc=STYLE):  # type: ignore[arg-type]  # its keys are typed one by one
            figure = Figure(figsize=SIZE, layout="constrained")
            axes = figure.add_subplot()
            draw(axes, case, found)
            _in_days(axes)
            axes.set_title(title.format(policy=found[-1].metrics.policy), loc="left", fontweight="bold")
            where = f"{case.log.source[:MOST_NAMED]}, {case.devices:,} devices"
            axes.set_title(where, loc="right", fontsize=10, color=QUIET)
            figure.savefig(path, dpi=150)
        written.append(path)
    return written


def _in_days(axes: Axes) -> None:
    """Hours become days where a picture shows many of them."""
    low, high = axes.get_xlim()
    if axes.get_xlabel() != "hours" or high - low < MANY_HOURS:
        return
    axes.set_xlabel("days")
    axes.xaxis.set_major_locator(MultipleLocator(24 * _step((high - low) / 24)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda hours, _: f"{hours / 24:g}"))


def _step(days: float) -> int:
    """So many days from mark to mark that there are at most ten."""
    size = int(10 ** max(math.floor(math.log10(days)) - 1, 0))
    return next(size * each for each in (1, 2, 5, 10, 20) if days <= 10 * size * each)


def _end(outcome: Outcome) -> int:
    return outcome.report.at


def _span(found: list[Outcome]) -> tuple[float, float]:
    return series.shown_from(found[0].record), max(series.shown_until(outcome.record) for outcome in found)


def _lines(axes: Axes, found: list[Outcome], curve: Callable[[Outcome], series.Curve]) -> None:
    for at, outcome in enumerate(found):
        line = curve(outcome)
        axes.plot(line.x, line.y, color=policy_colour(at), label=outcome.metrics.policy, linewidth=1.6)
    axes.margins(x=0)
    axes.legend(loc="best")


def utilisation(axes: Axes, case: Case, found: list[Outcome]) -> None:
    """Part of the devices that is held."""
    _lines(axes, found, lambda outcome: series.used(outcome.record, case.devices, _end(outcome)))
    axes.set(xlabel="hours", ylabel="part of all devices", ylim=(0, 1.02), xlim=_span(found))
    axes.yaxis.set_major_formatter(PercentFormatter(1))


def queue(axes: Axes, case: Case, found: list[Outcome]) -> None:  # noqa: ARG001 - every picture takes the same
    """Jobs that wait."""
    _lines(axes, found, lambda outcome: series.waiting(outcome.record, _end(outcome)))
    axes.set(xlabel="hours", ylabel="jobs waiting", ylim=(0, None), xlim=_span(found))


def completion(axes: Axes, case: Case, found: list[Outcome]) -> None:  # noqa: ARG001
    """How soon jobs are done."""
    _lines(axes, found, lambda outcome: series.completion(outcome.record))
    axes.set(xlabel="hours from submission to end", ylabel="part of the jobs", xscale="log", ylim=(0, 1.02))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda hours, _: f"{hours:g}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1))


def widths(axes: Axes, case: Case, found: list[Outcome]) -> None:  # noqa: ARG001
    """Who waits."""
    groups = [series.waits_by_width(outcome.record) for outcome in found]
    step = 0.8 / len(groups)
    for at, (group, outcome) in enumerate(zip(groups, found, strict=True)):
        places = [index + step * (at - (len(groups) - 1) / 2) for index in range(len(group.labels))]
        axes.bar(places, group.hours, step * 0.92, color=policy_colour(at), label=outcome.metrics.policy)
    axes.set_xticks(range(len(groups[0].labels)), groups[0].labels)
    axes.set(xlabel="devices asked for", ylabel="mean wait, hours")
    axes.legend(loc="best")


def ledger(axes: Axes, case: Case, found: list[Outcome]) -> None:
    """What device time was spent on."""
    areas = series.areas(found[-1].samples, case.devices, found[-1].record)
    kinds = [what for what in LEDGER if what in areas.parts and areas.parts[what].max(initial=0) > 0.001]
    if len(areas.hours) and kinds:
        axes.stackplot(
            areas.hours,
            [areas.parts[what] for what in kinds],
            labels=[LEDGER[what][0] for what in kinds],
            colors=[LEDGER[what][1] for what in kinds],
        )
    axes.set(xlabel="hours", ylabel="part of all devices", ylim=(0, 1), xlim=_span(found[-1:]))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def gantt(axes: Axes, case: Case, found: list[Outcome]) -> None:
    """Who sat where."""
    bars = series.gantt(found[-1].record, _end(found[-1]), case.node_sizes)
    boxes = [Rectangle((bar.begun, bar.at - bar.height / 2), bar.ended - bar.begun, bar.height) for bar in bars]
    colours = [bar_colour(bar.row) for bar in bars]
    axes.add_collection(PatchCollection(boxes, facecolor=colours, edgecolor="white", linewidth=0.15, alpha=0.85))
    low, high = series.window(found[-1].record, _end(found[-1]))
    axes.set(xlim=(low, high), ylim=(0, len(case.cluster.nodes)), xlabel="hours", ylabel="node")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False)


def promise(axes: Axes, case: Case, found: list[Outcome]) -> None:  # noqa: ARG001
    """How true the first promise was."""
    for at, outcome in enumerate(found):
        made = series.promises(outcome.record)
        axes.scatter(made.ahead, made.late, s=14, alpha=0.45, color=policy_colour(at), label=outcome.metrics.policy)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    if max(map(abs, axes.get_ylim())) < 0.1:
        axes.set_ylim(-1, 1)
    if not axes.collections or not any(len(dots.get_offsets()) for dots in axes.collections):  # type: ignore[arg-type]
        axes.text(0.5, 0.5, "nobody was promised a start", transform=axes.transAxes, ha="center", color=QUIET)
    axes.set(xlabel="promised so many hours ahead", ylabel="started so many hours later")
    axes.legend(loc="best")


PICTURES: dict[str, tuple[str, Draw]] = {
    "utilisation": ("Devices in use", utilisation),
    "queue": ("Jobs waiting", queue),
    "completion": ("How soon jobs are done", completion),
    "waits-by-width": ("Who waits", widths),
    "goodput": ("Where device time went: {policy}", ledger),
    "gantt": ("Who sat where: {policy}", gantt),
    "promise-error": ("How true the first promise was", promise),
}
