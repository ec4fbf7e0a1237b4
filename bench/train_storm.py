"""A small language model trained through a storm, beside the same model in calm weather; draws the docs' picture.

Run as a program it directs: a calm run, one whose members are killed, frozen, taken away and added, and the picture of
both losses. Under the launcher it is the loop itself: a transformer that learns generated text, character by character.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tutti import train
from tutti.train.agent.channel import Resize

STEPS, BATCH, LENGTH, WIDTH = 160, 24, 48, 48
MEMBER = os.environ.get("TUTTI_TRAIN_MEMBER", "")
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "train-storm.svg"
STORM = {25: "kill one", 50: "freeze one", 75: "take two away", 100: "give two back", 130: "kill two"}


def generated_text(words: int = 6000) -> str:
    """Sentences with a grammar, so that there is something to learn, from a seed, so that everyone has the same."""
    draw = torch.Generator().manual_seed(5)

    def pick(choices: list[str]) -> str:
        return choices[int(torch.randint(len(choices), (1,), generator=draw))]

    subjects, verbs = ["the gang", "a worker", "the queue", "every rank"], ["waits for", "finds", "leaves", "joins"]
    places = ["the node", "a rack", "the ring", "its buddy"]
    return " ".join(f"{pick(subjects)} {pick(verbs)} {pick(places)}." for _ in range(words // 5))


class Characters(torch.utils.data.Dataset[torch.Tensor]):
    """Windows of the text, as numbers."""

    def __init__(self) -> None:
        text = generated_text()
        self.letters = sorted(set(text))
        self.data = torch.tensor([self.letters.index(letter) for letter in text])

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        at = index * 7919 % (len(self.data) - LENGTH - 1)
        return self.data[at : at + LENGTH + 1]


class Model(nn.Module):
    """Two layers of attention over characters."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(letters, WIDTH)
        self.place = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, letters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.head(self.body(self.embed(x) + self.place, mask=self.mask, is_causal=True))
        return hidden


def loop() -> None:
    torch.manual_seed(0)
    data = Characters()
    job = train.join()
    model = Model(len(data.letters))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    job.protect(model=model, opt=opt)
    with Path(os.environ["OUT"], MEMBER).open("w", buffering=1) as out:
        for batch in job.batches(data, global_batch=BATCH, seed=1):
            guess = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(guess.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()  # type: ignore[no-untyped-call]
            if job.commit(opt):
                out.write(f"{time.time()} {job.step} {job.world} {job.generation} {loss.item()} {len(batch)}\n")


def play(storm: dict[int, str]) -> tuple[dict[int, float], dict[int, int]]:
    """One run; by step, the loss over the whole batch and the members that computed it."""
    from bench import train as bench  # noqa: PLC0415 - only the director needs it

    bench.LOOP = Path(__file__)
    left = dict(storm)
    with bench.running("--workers", 4, "--max", 4, "--standby", 1, "--max-restarts", 99) as run:
        while run.process.poll() is None:
            run.server.turn(0.01)
            step = max((rows[-1][1] for rows in run.commits().values() if rows), default=0)
            for due in [at for at in left if step >= at]:
                strike(run, left.pop(due), due)
        return losses(run.out)


def strike(run: Any, blow: str, at: int) -> None:
    if blow.startswith("kill"):
        for rank in range(2 if "two" in blow else 1):
            os.kill(run.pid(rank + 1), signal.SIGKILL)
    elif blow.startswith("freeze"):
        os.kill(run.pid(1), signal.SIGSTOP)
    else:
        run.server.ask("b", Resize(f"r{at}", 2 if "away" in blow else 4, 60.0))


def losses(out: Path) -> tuple[dict[int, float], dict[int, int]]:
    """Every member's share of a step counts by its samples; of a step computed again, the last attempt."""
    rows = [line.split() for path in out.iterdir() for line in path.read_text().splitlines() if line.count(" ") == 5]
    newest: dict[int, int] = {}
    for row in rows:
        newest[int(row[1])] = max(newest.get(int(row[1]), 0), int(row[3]))
    sums: dict[int, list[float]] = {}
    for row in rows:
        step = int(row[1])
        if int(row[3]) == newest[step]:
            total = sums.setdefault(step, [0.0, 0.0, 0.0])
            total[0] += float(row[4]) * int(row[5])
            total[1] += int(row[5])
            total[2] = int(row[2])
    return {step: a / b for step, (a, b, _) in sums.items()}, {step: int(world) for step, (_, _, world) in sums.items()}


def draw(calm: dict[int, float], stormy: dict[int, float], worlds: dict[int, int]) -> None:
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update({"svg.hashsalt": "tutti", "font.size": 10})
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 4.6), height_ratios=[3, 1])
    above.plot(*zip(*sorted(calm.items()), strict=True), color="#9ecae1", linewidth=6, label="nothing happens")
    above.plot(*zip(*sorted(stormy.items()), strict=True), color="#08306b", linewidth=1.4, label="the storm")
    for at, blow in STORM.items():
        above.axvline(at, color="#bbbbbb", linewidth=0.8, linestyle=":")
        above.annotate(blow, (at, max(calm.values())), fontsize=8, rotation=90, va="top", ha="right", color="#555555")
    above.set_ylabel("loss")
    above.legend(frameon=False)
    below.step(*zip(*sorted(worlds.items()), strict=True), where="post", color="#08306b")
    below.set(ylabel="members", xlabel="committed step", ylim=(0, 4.6), yticks=[0, 2, 4])
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    calm, _ = play({})
    stormy, worlds = play(STORM)
    gap = max(abs(stormy[step] - calm[step]) for step in calm if step in stormy)
    draw(calm, stormy, worlds)
    figures = {"steps": len(stormy), "largest_gap": round(gap, 6), "last_loss": round(stormy[max(stormy)], 4)}
    print(json.dumps({"schema": "tutti/v1", "bench": "train-storm", "results": figures}))


if __name__ == "__main__":
    loop() if MEMBER else main()
