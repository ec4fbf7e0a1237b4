"""The support table: what a test that passed has shown, and *untested* for all the rest.

With `TUTTI_SUPPORT=log` the tests write down what they showed, each as its last line; `python -m tests.train.support
log` makes the table of docs/reference/train-support.md from it. `make support` does both.
"""

import os
import sys
from pathlib import Path

FRAMEWORKS = (
    "never joins", "plain loop", "DDP", "FSDP2", "HSDP", "tensor parallel", "FSDP2 x tensor parallel",
    "pipeline parallel",
    "Accelerate", "Lightning Fabric", "HF Trainer",
    "Lightning Trainer",
)  # fmt: skip
BACKENDS = ("gloo, CPU", "NCCL, CUDA")
LEVELS = ("L0", "L1", "L2", "L3", "L4")
NAMES = {
    "unaware": "never joins", "plain": "plain loop", "ddp": "DDP", "fsdp": "FSDP2", "hsdp": "HSDP",
    "tp": "tensor parallel", "grid": "FSDP2 x tensor parallel", "pipeline": "pipeline parallel",
    "accelerate": "Accelerate", "fabric": "Lightning Fabric", "hugging_face": "HF Trainer",
    "lightning": "Lightning Trainer",
}  # fmt: skip


def claim(framework, level, backend="gloo, CPU"):
    """Called by a test as its last line: everything before it held."""
    row = f"{NAMES[framework]}|{backend}|{level}"
    if os.environ.get("TUTTI_SUPPORT"):
        with Path(os.environ["TUTTI_SUPPORT"]).open("a") as log:
            log.write(row + "\n")


def table(shown):
    """Markdown, one row per framework and backend."""
    lines = ["| framework | backend | " + " | ".join(LEVELS) + " |", "|---|---|" + "---|" * len(LEVELS)]
    for framework in FRAMEWORKS:
        for backend in BACKENDS:
            cells = ["tested" if f"{framework}|{backend}|{level}" in shown else "untested" for level in LEVELS]
            lines.append(f"| {framework} | {backend} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rewrite(page, log):
    """Put the table of what a run of the tests showed into the page."""
    text = page.read_text()
    before, rest = text[: text.index("| framework |")], text[text.index("| framework |") :]
    after = rest[rest.index("\n\n") :]
    page.write_text(before + table(set(log.read_text().splitlines())) + after)


if __name__ == "__main__":
    rewrite(Path(__file__).parents[2] / "docs" / "reference" / "train-support.md", Path(sys.argv[1]))
