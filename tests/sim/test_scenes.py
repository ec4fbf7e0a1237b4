"""Every scene that ships is played, and its moral is checked against what happened."""

import pytest

from tutti.engine.model import MINUTE, SECOND
from tutti.engine.presets import PRESETS
from tutti.errors import Misused, NotFound
from tutti.sim.play import Played, play, play_variant
from tutti.sim.scenes import Variant, find_scene, read_scene, scene_names
from tutti.sim.tell import as_results, told


def played(name: str) -> dict[str, Played]:
    return {variant.name: variant for variant in play(find_scene(name))}


def row(variant: Played, gang: str) -> int:
    return variant.record.names.index(gang)


def start(variant: Played, gang: str) -> int:
    return variant.record.started[row(variant, gang)]


def end(variant: Played, gang: str) -> int:
    return variant.record.ended[row(variant, gang)]


def held(variant: Played, gang: str) -> list[int]:
    spells = variant.record.spells
    return [d for t, d in zip(spells.task, spells.devices, strict=True) if t == row(variant, gang)]


def test_the_ten_scenes_are_there():
    assert scene_names() == [
        "backfill",
        "deadlock",
        "elastic",
        "fragmentation",
        "lending",
        "node-loss",
        "reclaim",
        "rotation",
        "spares",
        "starvation",
    ]


@pytest.mark.parametrize("name", scene_names())
def test_a_scene_plays_without_trouble_and_tells_its_moral(name):
    scene = find_scene(name)
    variants = play(scene)
    assert [variant.notices for variant in variants] == [[] for _ in variants]
    text = " ".join(told(scene, variants, 100))
    assert " ".join(scene.moral.split()) in text
    assert all(len(line) <= 120 for line in told(scene, variants, 100))


@pytest.mark.parametrize("name", scene_names())
def test_the_ledger_of_a_scene_closes(name):
    for variant in play(find_scene(name)):
        ledger = variant.simulation.driver.ledger
        assert ledger is not None
        report = ledger.report(variant.simulation.driver.world, variant.end)
        assert sum(report.total.values()) == report.installed


@pytest.mark.parametrize("name", scene_names())
def test_a_scene_played_twice_is_the_same_scene(name):
    once, again = as_results(play(find_scene(name))), as_results(play(find_scene(name)))
    for result in (*once, *again):
        assert result.pop("jobs_per_s")
    assert once == again


def test_deadlock_pod_by_pod_both_hold_half_for_ever():
    naive = played("deadlock")["pod-fifo"]
    assert naive.unfinished == ["anna", "bert"]
    assert held(naive, "anna") == held(naive, "bert") == [1, 1]
    assert naive.finished == []


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_deadlock_every_preset_finishes_both_and_never_shows_a_part(preset):
    variant = play_variant(find_scene("deadlock"), preset, Variant(preset))
    assert sorted(variant.finished) == ["anna", "bert"]
    assert set(held(variant, "anna")) | set(held(variant, "bert")) == {4}


def test_starvation_without_a_promise_the_wide_gang_outlasts_the_stream():
    variants = played("starvation")
    greedy, easy = variants["greedy"], variants["easy"]
    last = max(greedy.record.submitted)
    assert start(greedy, "wide") > last
    assert start(easy, "wide") == easy.record.promised[row(easy, "wide")]
    assert start(easy, "wide") < 30 * MINUTE


def test_backfill_uses_the_gap_and_moves_no_promise():
    variants = played("backfill")
    strict, easy = variants["fcfs"], variants["easy"]
    assert start(easy, "wide") == start(strict, "wide") == easy.record.promised[row(easy, "wide")]
    assert all(end(easy, f"short-{i}") <= start(easy, "wide") for i in range(4))
    assert all(start(strict, f"short-{i}") > start(strict, "wide") for i in range(4))
    assert start(easy, "long") >= start(easy, "wide")


def test_elastic_grows_gives_back_and_is_done_earlier():
    variants = played("elastic")
    rigid, balanced = variants["rigid"], variants["balanced"]
    assert end(balanced, "train") * 2 < end(rigid, "train")
    assert start(balanced, "visitor") == start(rigid, "visitor")
    assert max(held(balanced, "train")) == 8
    assert held(balanced, "train") == [2, 8, 4]


def test_node_loss_costs_the_careful_minutes_and_the_reckless_everything():
    variant = played("node-loss")["balanced"]
    record = variant.record
    careful, reckless = row(variant, "careful"), row(variant, "reckless")
    assert record.lost[careful] // record.width[careful] < 10 * MINUTE
    assert record.lost[reckless] // record.width[reckless] == 95 * MINUTE
    assert end(variant, "careful") < 200 * MINUTE < end(variant, "reckless")
    assert record.runs[careful] == 1
    assert record.runs[reckless] == 2


def test_reclaim_honours_the_guarantee_within_the_time_to_leave():
    variants = played("reclaim")
    rigid, balanced = variants["rigid"], variants["balanced"]
    arrived = balanced.record.submitted[row(balanced, "serve")]
    assert start(balanced, "serve") == arrived + 30 * SECOND
    assert start(rigid, "serve") > arrived + 2 * 60 * MINUTE
    assert sum(balanced.record.interruptions) == 1
    assert sum(balanced.record.lost) == 0


def test_fragmentation_spread_out_the_gang_waits_and_packed_it_starts():
    variants = played("fragmentation")
    spread, pack = variants["spread"], variants["pack"]
    assert start(pack, "whole") == pack.record.submitted[row(pack, "whole")]
    assert start(spread, "whole") >= 60 * MINUTE


def test_an_unknown_scene_is_answered_with_those_there_are():
    with pytest.raises(NotFound) as caught:
        find_scene("deadlok")
    assert "deadlock" in str(caught.value)


def test_a_scene_with_an_unknown_key_is_refused_by_name(tmp_path):
    path = tmp_path / "odd.toml"
    path.write_text('title = "a"\nstory = "b"\nmoral = "c"\ncolour = "red"\n')
    with pytest.raises(Misused) as caught:
        read_scene(path)
    assert "colour" in str(caught.value)


def test_lending_the_room_is_used_until_it_is_needed():
    variants = played("lending")
    idle, lent = variants["easy"], variants["balanced"]
    assert start(idle, "wide") == start(lent, "wide") == 300 * MINUTE
    assert min(start(idle, name) for name in ("bert", "carl")) == 360 * MINUTE
    assert max(start(lent, name) for name in ("bert", "carl")) == 3 * MINUTE
    assert max(lent.record.interruptions) == 1
    assert lent.end < 0.75 * idle.end


def test_rotation_both_progress_at_the_same_pace_for_the_price_of_the_switches():
    variants = played("rotation")
    rigid, balanced = variants["rigid"], variants["balanced"]
    assert start(rigid, "bert") >= end(rigid, "anna")
    assert start(balanced, "bert") == 30 * MINUTE
    assert held(balanced, "anna") == [4] * 5
    half = end(balanced, "anna") // 2
    spells = balanced.record.spells
    done = [
        sum(
            min(spells.ended[at], half) - min(spells.begun[at], half)
            for at in range(len(spells.task))
            if spells.task[at] == row(balanced, name)
        )
        for name in ("anna", "bert")
    ]
    assert abs(done[0] - done[1]) * 20 <= sum(done)
    assert end(balanced, "bert") < end(rigid, "bert") + 8 * MINUTE


def test_spares_the_insured_goes_on_at_once_and_the_hopeful_waits_for_cards():
    variant = played("spares")["balanced"]
    insured, hopeful = row(variant, "insured"), row(variant, "hopeful")
    assert variant.record.interruptions[insured] == 0
    assert variant.record.runs[insured] == 1
    assert end(variant, "insured") < 195 * MINUTE
    assert held(variant, "insured") == [5, 4, 4]
    assert variant.record.interruptions[hopeful] == 1
    assert end(variant, "hopeful") > end(variant, "insured") + 90 * MINUTE
    driver = variant.simulation.driver
    assert driver.ledger is not None
    sheets = driver.ledger.report(driver.world, variant.end).gangs
    # Three hours of four workers each; the spare stood by for ninety minutes.
    assert [sheets[name]["useful-kept"] for name in ("hopeful", "insured")] == [720 * MINUTE, 720 * MINUTE]
    assert sheets["insured"]["reserved-idle"] == 90 * MINUTE


HUGE = """
title = "Huge: a gang that fits nowhere"
story = "Fifteen cards are asked for, and eight are there."
moral = "It waits for ever, and the others run."
[cluster]
nodes = 2
each = 4
[variants.balanced]
policy = "balanced"
[[gang]]
name = "huge"
runs = "10m"
workers = 5
gpus = 3
[[gang]]
name = "small"
runs = "10m"
"""


def test_a_scene_whose_gang_fits_nowhere_ends_when_nothing_more_can_happen(tmp_path):
    path = tmp_path / "huge.toml"
    path.write_text(HUGE)
    scene = read_scene(path)
    variants = play(scene)
    assert variants[0].unfinished == ["huge"]
    assert variants[0].finished == ["small"]
    assert "  stuck for ever: huge never gets its 15 cards." in told(scene, variants, 100)


BROKEN = """
title = "Broken: a gang that waits for a lost member"
story = "Three cards are held by a gang that lost one, when somebody more important comes."
moral = "Who cannot compute makes room."
[cluster]
nodes = 3
each = 1
[variants.balanced]
policy = "balanced"
[[gang]]
name = "low"
runs = "20h"
workers = 3
on_loss = "repair"
resize = "1h"
[[gang]]
name = "high"
runs = "10m"
at = "101m"
workers = 2
priority = 3
[[fault]]
at = "100m"
node = "n1"
lasts = "10h"
"""


@pytest.mark.parametrize("lasts", ["10h", "0s"], ids=["no other place", "being mended"])
def test_a_gang_that_waits_for_a_lost_member_makes_room(tmp_path, lasts):
    path = tmp_path / "broken.toml"
    path.write_text(BROKEN.replace("10h", lasts))
    (variant,) = play(read_scene(path))
    assert start(variant, "high") < 102 * MINUTE
    assert variant.record.interruptions[row(variant, "low")] == 1
    assert variant.notices == []
