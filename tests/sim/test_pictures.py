"""What the pictures show: every policy, in one stretch of time, in units that a person would choose."""

import msgspec
import numpy as np
import pytest

from tutti.engine.model import HOUR
from tutti.sim.experiment import Case, Outcome
from tutti.sim.play import as_case, play
from tutti.sim.report import images, page, series
from tutti.sim.report.frame import finding, headline
from tutti.sim.report.look import is_dark, marks, unit_of
from tutti.sim.scenes import find_scene


@pytest.fixture(scope="module")
def deadlock() -> tuple[Case, list[Outcome]]:
    scene = find_scene("deadlock")
    return as_case(scene, play(scene))


@pytest.fixture(scope="module")
def starvation() -> tuple[Case, list[Outcome]]:
    scene = find_scene("starvation")
    return as_case(scene, play(scene))


@pytest.mark.parametrize(
    ("hours", "since", "unit"), [(0.5, 0, "minutes"), (5, 0, "hours"), (300, 0, "days"), (48, 900, "days")]
)
def test_times_are_shown_in_the_unit_that_suits_how_long_it_lasts(hours: float, since: float, unit: str) -> None:
    assert unit_of(hours, since).name == unit


def test_an_axis_of_proportions_has_marks_with_names_and_close_times_have_none() -> None:
    assert marks(1 / 60, 24) == ([1 / 60, 10 / 60, 1, 6, 24], ["1 min", "10 min", "1 h", "6 h", "1 d"])
    assert marks(1.0, 10.0) == ([], [])


def test_letters_on_a_bar_can_be_read() -> None:
    assert is_dark("#22303c")
    assert not is_dark("#f2b880")


@pytest.mark.parametrize("name", ["gantt", "goodput"])
def test_every_policy_has_a_panel_and_all_show_the_same_time(deadlock: tuple[Case, list[Outcome]], name: str) -> None:
    figure = images.drawn(images.PICTURES[name], *deadlock)
    panels = figure.get_axes()
    assert [axes.get_title(loc="left") for axes in panels] == ["pod-fifo", "balanced"]
    assert len({axes.get_xlim() for axes in panels}) == 1
    assert panels[-1].get_xlabel() == "minutes"


def test_the_page_has_a_chart_for_each_policy_over_the_same_time(deadlock: tuple[Case, list[Outcome]]) -> None:
    case, found = deadlock
    spans = [page.gantt(case, [outcome, *found]).layout.xaxis.range for outcome in found]
    assert spans[0] == spans[1]
    assert spans[0][1] == pytest.approx(50), "until nobody looked any longer at those who are stuck"


def test_what_is_held_while_nothing_computes_is_pale(deadlock: tuple[Case, list[Outcome]]) -> None:
    case, (stuck, sound) = deadlock
    bars = [series.gantt(each.record, each.report.at, case.node_sizes, (0, 1)) for each in (stuck, sound)]
    assert {bar.computes for bar in bars[0]} == {False}
    assert {bar.computes for bar in bars[1]} == {True}


def test_a_scene_of_a_few_jobs_is_shown_to_its_end(starvation: tuple[Case, list[Outcome]]) -> None:
    _, found = starvation
    for outcome in found:
        assert series.shown_until(outcome.record, outcome.report.at) == max(outcome.record.ended) / HOUR


def test_jobs_that_never_start_have_their_group_of_widths_too(deadlock: tuple[Case, list[Outcome]]) -> None:
    stuck, sound = (series.waits_by_width(outcome.record) for outcome in deadlock[1])
    assert stuck.labels == sound.labels == ["4"]
    assert (stuck.jobs, sound.jobs) == ([0], [2])


def test_the_areas_of_the_ledger_begin_with_the_first_job_and_add_up_to_all_devices() -> None:
    scene = find_scene("reclaim")
    case, found = as_case(scene, play(scene))
    for outcome in found:
        areas = series.areas(outcome.samples, case.devices, outcome.record)
        assert areas.hours[0] == 0
        assert np.allclose(sum(areas.parts.values()), 1.0, atol=0.03)
        assert areas.parts["snapshot-stall"].max() < 0.05, "spread over the work that was saved"


def test_who_leaves_jobs_waiting_for_ever_is_not_the_best(deadlock: tuple[Case, list[Outcome]]) -> None:
    cards = headline(*deadlock)[-1]
    assert "<span>-</span>" in cards, "a mean over nothing"
    assert "class=best>10.0 min" in cards


def test_a_scene_leads_with_its_moral(starvation: tuple[Case, list[Outcome]]) -> None:
    assert finding(*starvation) == find_scene("starvation").moral


@pytest.mark.parametrize("name", sorted(images.PICTURES))
def test_every_picture_can_be_drawn_where_nothing_ever_ends(deadlock: tuple[Case, list[Outcome]], name: str) -> None:
    case, (stuck, _) = deadlock
    assert images.drawn(images.PICTURES[name], case, [stuck]).get_axes()
    assert page.PICTURES[name].draw(case, [stuck]).to_html()


def test_the_legend_lies_below_and_not_on_the_curves(deadlock: tuple[Case, list[Outcome]]) -> None:
    figure = images.drawn(images.PICTURES["waits-by-width"], *deadlock)
    assert all(axes.get_legend() is None for axes in figure.get_axes())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["pod-fifo", "balanced"]


def test_a_legend_of_long_names_has_as_few_columns_as_it_takes_to_be_read_whole(
    deadlock: tuple[Case, list[Outcome]],
) -> None:
    case, found = deadlock
    names = [f"{each.called} with {word} words of an author who likes long names" for each in found for word in "ab"]
    long = [
        msgspec.structs.replace(each, metrics=msgspec.structs.replace(each.metrics, policy=name))
        for each, name in zip(found * 2, names, strict=True)
    ]
    figure = images.drawn(images.PICTURES["queue"], case, long)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


@pytest.mark.parametrize(("at", "side"), [(0.1, "left"), (0.95, "right")])
def test_where_the_last_job_came_is_written_inside_the_picture(
    deadlock: tuple[Case, list[Outcome]], at: float, side: str
) -> None:
    case, found = deadlock
    until = max(series.shown_until(each.record, each.report.at) for each in found) * HOUR
    rows = [*case.log.rows[:-1], msgspec.structs.replace(case.log.rows[-1], at=round(at * until))]
    moved = msgspec.structs.replace(case, log=msgspec.structs.replace(case.log, rows=rows))
    (words,) = page.queue(moved, found).layout.annotations
    assert words.text == "last job submitted"
    assert words.xanchor == side
