"""Boards and alert rules name only what exists: metrics, labels, and the words that labels take."""

import json
import re

import pytest
import yaml

from tools import boards
from tutti.drive.account import Spent
from tutti.drive.notice import Trouble
from tutti.engine.model import Token
from tutti.kube.metrics import METRICS as CLUSTER
from tutti.views.metrics import METRICS as BOX

LABELS = {name: set(metric.labels) for name, metric in BOX.items()} | {
    metric.name: {metric.label} - {""} for metric in CLUSTER
}
HISTOGRAMS = {metric.name for metric in CLUSTER if metric.kind == "histogram"}
WORDS = {
    "spent": {one.value for one in Spent},
    "trouble": {one.value for one in Trouble},
    "reason": {one.value for one in Token},
    "state": {"busy", "free", "out"},
}
RULES = [
    rule
    for file in ("box-alerts.yaml", "kubernetes-alerts.yaml")
    for group in yaml.safe_load((boards.FOLDER / file).read_text())["groups"]
    for rule in group["rules"]
]
EXPRESSIONS = [panel.expr for _, panels in boards.BOARDS.values() for panel in panels]
EXPRESSIONS += [rule["expr"] for rule in RULES]


@pytest.mark.parametrize("name", boards.BOARDS)
def test_boards_are_up_to_date_and_nothing_lies_on_top_of_anything(name):
    told = (boards.FOLDER / f"{name}.json").read_text()
    assert told == boards.text(name), "write them with: python -m tools.boards"
    cells = [
        (panel["gridPos"]["x"] + across, panel["gridPos"]["y"] + down)
        for panel in json.loads(told)["panels"]
        for across in range(panel["gridPos"]["w"])
        for down in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(across for across, _ in cells) < boards.WIDE


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_label_and_word_exists(expression):
    named = set(re.findall(r"\btutti_\w+", expression))
    assert named
    for name in named:
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        assert (base if base in HISTOGRAMS else name) in LABELS
    labels = set().union(*(LABELS.get(name, set()) for name in named)) | {"le"}
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    assert {label.strip() for found in grouped for label in found.split(",")} <= labels
    for label, words in re.findall(r'(\w+)=~?"([^"]*)"', expression):
        assert label in labels
        assert set(words.split("|")) <= WORDS[label]


def test_every_rule_says_what_is_wrong_and_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"].endswith(".")
        assert len(rule["annotations"]["description"]) > 20
