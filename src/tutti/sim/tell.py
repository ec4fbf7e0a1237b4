"""A scene told in the terminal: the story, a picture of each variant, what came of it, and the moral."""

from textwrap import wrap

from tutti.engine.model import MINUTE, State
from tutti.views.gantt import axis, draw, letters

from .play import Played, bars, outcome_of
from .scenes import Scene

MOST_LISTED = 6


def told(scene: Scene, variants: list[Played], width: int) -> list[str]:
    """The scene as lines of text."""
    lines = [scene.title, "", *wrap(" ".join(scene.story.split()), width)]
    end = max(played.end for played in variants)
    for played in variants:
        lines += ["", f"{played.name}: {played.says}", *picture(played, end, width), *outcome(played)]
    return [*lines, *(["", *wrap(f"Moral: {scene.moral}", width)] if scene.moral else [])]


def picture(played: Played, end: int, width: int) -> list[str]:
    """One row per card; capitals compute, small letters only hold."""
    nodes = [(node.name, node.capacity.get("gpu", 0)) for node in played.cluster.nodes]
    names = letters(played.record.names)
    pad = max(len(node) for node, _ in nodes) + 3
    wide = max(width - pad - 6, 20)
    return [*draw(bars(played), nodes, end, wide, names), axis(end, wide, pad, MINUTE, " min")]


def outcome(played: Played) -> list[str]:
    """How it ended, in a sentence or a few."""
    record = played.record
    finished, open_ = played.finished, played.unfinished
    if open_:
        held = {name: _held(played, name) for name in open_}
        how = "; ".join(_stuck(played, name, held[name]) for name in open_[:MOST_LISTED])
        key = ["  (small letters: cards that are held while nothing computes)"] if any(held.values()) else []
        return [f"  stuck for ever: {how}.", *key]
    mean = sum(record.ended[row] - record.submitted[row] for row in range(len(record))) / max(len(record), 1)
    lines = [
        f"  all {len(finished)} finish; mean completion {mean / MINUTE:.0f} min, the last after {_last(played)} min."
    ]
    interesting = [row for row in range(len(record)) if _is_interesting(played, row)]
    return lines + [f"  {_row(played, row)}" for row in interesting[:MOST_LISTED]]


def _is_interesting(played: Played, row: int) -> bool:
    record = played.record
    waited = record.started[row] > record.submitted[row]
    return len(record) <= MOST_LISTED or (waited and not record.names[row][-1].isdigit())


def _row(played: Played, row: int) -> str:
    record = played.record
    wait = (record.started[row] - record.submitted[row]) / MINUTE
    text = f"{record.names[row]}: waited {wait:.0f} min, ended after {record.ended[row] / MINUTE:.0f} min"
    if record.promised[row] >= 0:
        text += f", promised minute {record.promised[row] / MINUTE:.0f}"
    if record.interruptions[row]:
        text += f", interrupted {record.interruptions[row]}x"
    if record.lost[row]:
        text += f", lost {record.lost[row] / MINUTE / record.width[row]:.0f} min of work"
    return text + "."


def _last(played: Played) -> str:
    return f"{max(played.record.ended) / MINUTE:.0f}"


def _stuck(played: Played, name: str, held: int) -> str:
    width = played.record.width[played.record.names.index(name)]
    if not held:
        return f"{name} never gets its {width} cards"
    return f"{name} holds {held} of {width} cards and waits for more"


def _held(played: Played, name: str) -> int:
    """Cards a gang holds at the end."""
    record, spells = played.record, played.record.spells
    row = record.names.index(name)
    return sum(
        devices
        for task, ended, devices in zip(spells.task, spells.ended, spells.devices, strict=True)
        if task == row and ended < 0
    )


def as_results(variants: list[Played]) -> list[dict[str, object]]:
    """The same for machines: one object per variant."""
    return [_result(played) for played in variants]


def _result(played: Played) -> dict[str, object]:
    return {
        **outcome_of(played).metrics.as_json(),
        "finished": len(played.finished),
        "gangs": [_gang(played, row) for row in range(len(played.record))],
    }


def _gang(played: Played, row: int) -> dict[str, object]:
    record = played.record
    state = record.state_of(row)
    times = {"submitted": record.submitted[row], "started": record.started[row], "ended": record.ended[row]}
    return {
        "name": record.names[row],
        "state": (state or State.WAITING).value,
        **{f"{what}_s": at / 1e6 if at >= 0 else None for what, at in times.items()},
        "interruptions": record.interruptions[row],
    }
