"""Trainers that own their loop, of Hugging Face and of Lightning: with our callback, or without a word about us.

One parameter per sample counts how often it was trained on. A member may be told to die at a step.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

OPTIONS: dict[str, Any] = {"samples": 90, "batch": 4, "epochs": 3, "faults": {}, "meet": -1, "clip": 0.0, "pieces": 1}
OPTIONS |= json.loads(os.environ["LOOP"])
MEMBER = os.environ["TUTTI_TRAIN_MEMBER"]


def job():
    """What the library knows, without asking for it: this program may not have joined."""
    return sys.modules["tutti.train.job"]._current


def meet(one):
    """Wait in the middle of a step until the agent lets somebody in."""
    if one.generation == 2:
        one.member.until(lambda: one.member.announced.number > 2, 60)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return OPTIONS["samples"]

    def __getitem__(self, index):
        return {"index": index, "x": torch.randn(8, generator=torch.Generator().manual_seed(index))}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.count = nn.Parameter(torch.zeros(OPTIONS["samples"]))
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, index, x):
        if OPTIONS["faults"].get(MEMBER) == job().step:
            os.kill(os.getpid(), signal.SIGKILL)
        if OPTIONS["meet"] == job().step:
            meet(job())
        return {"loss": self.net(x).pow(2).mean() + self.net(x).mean() - self.count[index].mean()}

    def optimizers(self):
        rest = [parameter for name, parameter in self.named_parameters() if not name.endswith("count")]
        opt = torch.optim.SGD([{"params": [self.count], "lr": 1.0}, {"params": rest, "lr": 0.05}])
        rates = [lambda _: 1.0, lambda step: 0.97**step]
        return opt, torch.optim.lr_scheduler.LambdaLR(opt, rates)


def hugging_face():
    library = importlib.import_module("transformers")

    args = library.TrainingArguments(
        output_dir=os.environ["OUT"], per_device_train_batch_size=OPTIONS["batch"], seed=3, use_cpu=True,
        num_train_epochs=OPTIONS["epochs"], max_grad_norm=OPTIONS["clip"], save_strategy="no", report_to=[],
        logging_steps=5, disable_tqdm=True, dataloader_pin_memory=False, eval_strategy="epoch",
        gradient_accumulation_steps=OPTIONS["pieces"],
    )  # fmt: skip
    net = Net()
    named: dict[str, Any] = {}
    if OPTIONS["mode"] == "callback":
        named["callbacks"] = [importlib.import_module("tutti.train.hugging_face").ElasticCallback()]
    few = torch.utils.data.Subset(Samples(), range(4))
    named |= {"train_dataset": Samples(), "eval_dataset": few, "optimizers": net.optimizers()}
    trainer = library.Trainer(net, args, **named)
    trainer.train()
    return net, {"counted": trainer.state.global_step, "epoch": trainer.state.epoch}


def lightning():
    pl = importlib.import_module("pytorch_lightning")

    class Module(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self):
            super().__init__()
            self.inner = Net()

        def training_step(self, batch, batch_idx):
            return self.inner(**batch)["loss"]

        def configure_optimizers(self):
            opt, sched = self.inner.optimizers()
            return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}

    named: dict[str, Any] = {"strategy": "ddp", "devices": 3}
    if OPTIONS["mode"] == "callback":
        asked = {"global_batch": 12, "microbatch": OPTIONS["batch"]} if OPTIONS["pieces"] > 1 else {}
        callback = importlib.import_module("tutti.train.lightning").ElasticCallback(**asked)
        named = {"devices": 1, "callbacks": [callback]}
    os.environ["PL_GLOBAL_SEED"] = "3"
    module = Module()
    trainer = pl.Trainer(
        max_epochs=OPTIONS["epochs"], accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_checkpointing=False, enable_model_summary=False, gradient_clip_val=OPTIONS["clip"] or None,
        default_root_dir=os.environ["OUT"], **named,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(Samples(), batch_size=OPTIONS["batch"], shuffle=True)
    trainer.fit(module, loader)
    return module.inner, {"counted": trainer.global_step, "epoch": trainer.current_epoch}


def main():
    if OPTIONS["mode"] == "callback":
        importlib.import_module("tutti.train").join()
    net, found = globals()[OPTIONS["framework"]]()
    one = job()
    found |= {
        "weights": {name: value.detach().clone() for name, value in net.named_parameters()},
        "ledger": one.course.ledger.to_record(), "world": one.world, "level": one.level, "step": one.step,
    }  # fmt: skip
    torch.save(found, Path(os.environ["OUT"]) / f"{MEMBER}.pt")


if __name__ == "__main__":
    main()
