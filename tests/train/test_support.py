"""The support table says no more than tests show."""

import re
from pathlib import Path

from tests.train.support import NAMES, table

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "train-support.md"


def claimed():
    """What the tests claim, read from their text: the wrappers they are run for, and the levels they end with."""
    rows = set()
    for path in HERE.glob("test_*.py"):
        for words in re.findall(r"claim\((\w+|\"\w+\"), \"(L\d)\"\)", path.read_text()):
            wraps = [words[0].strip('"')] if words[0].startswith('"') else wraps_of(path.read_text())
            rows |= {f"{NAMES[wrap]}|gloo, CPU|{words[1]}" for wrap in wraps}
    return rows


def wraps_of(text):
    listed = re.findall(r"(?:WRAPS|FRAMEWORKS|TRAINERS) = \[(.*?)\]", text)
    assert listed
    return re.findall(r"\w+", " ".join(listed))


def test_every_tested_cell_has_a_test():
    assert table(claimed()) in PAGE.read_text()
