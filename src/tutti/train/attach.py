"""A program that never heard of this library: what can be done for it safely, without a change of it.

Trainers of other libraries own the loop and know where they are in it, so they get our callback. Any other program
keeps its own checkpoints and starts from them; those stay in memory as well, and are read from there.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from tutti.train import keepsake

STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true", "ddp_find_unused_parameters_false")


def attach() -> None:
    """Called in a member before its program runs."""
    if os.environ.get("TUTTI_TRAIN_ATTACH", "1") == "1":
        for name, change in KNOWN.items():
            if name in sys.modules:
                change(sys.modules[name])
        sys.meta_path.insert(0, Watcher())
        keepsake.watch(os.path.join(os.environ["TUTTI_TRAIN_AGENT"], "kept"))


class Watcher(importlib.abc.MetaPathFinder):
    """Sees modules being imported, and changes the few it knows as soon as they are there."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        change = KNOWN.get(name)
        if change is None:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                change(module)

            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - a method may not be assigned to by name
        return spec


def wrap(kind: Any, name: str, around: Callable[..., Any]) -> None:
    """Put a function around a method; it is given the method, the object, and the arguments."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def changed(self: Any, *arguments: Any, **named: Any) -> Any:
        return around(method, self, *arguments, **named)

    setattr(kind, name, changed)


def say(text: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        sys.stderr.write(f"tutti train: {text}\n")


def is_joined() -> bool:
    return importlib.import_module("tutti.train.job")._current is not None


def hugging_face_arguments(module: ModuleType) -> None:
    """Whoever makes these arguments is going to train; they look for a process group at once, so it comes before."""

    def init(method: Callable[..., Any], arguments: Any) -> None:
        unsafe = [name for name in ("deepspeed", "fsdp", "fp16") if getattr(arguments, name, None)]
        if unsafe:
            say(
                f"not attached to transformers.Trainer, because of {', '.join(unsafe)}: it restarts from its checkpoint"
            )
        elif not is_joined():
            importlib.import_module("tutti.train.pilot").present()
        method(arguments)

    wrap(module.TrainingArguments, "__post_init__", init)


def hugging_face(module: ModuleType) -> None:
    def init(method: Callable[..., Any], trainer: Any, *arguments: Any, **named: Any) -> None:
        method(trainer, *arguments, **named)
        ours = importlib.import_module("tutti.train.hugging_face").ElasticCallback
        if is_joined() and not any(isinstance(one, ours) for one in trainer.callback_handler.callbacks):
            callback = ours()
            callback.attach(trainer)
            trainer.add_callback(callback)
            say("attached to transformers.Trainer: members may come and go")

    wrap(module.Trainer, "__init__", init)


def lightning(module: ModuleType) -> None:
    def init(method: Callable[..., Any], trainer: Any, *arguments: Any, **named: Any) -> None:
        ours = importlib.import_module("tutti.train.lightning").ElasticCallback
        given = named.get("callbacks") or []
        callbacks = list(given) if isinstance(given, Sequence) else [given]
        if not any(isinstance(one, ours) for one in callbacks):
            if can_lead(named):
                named |= {"devices": 1, "strategy": "auto", "callbacks": [*callbacks, ours()]}
                say("attached to the Trainer of Lightning: members may come and go")
            else:
                say("not attached to the Trainer of Lightning, by how it is set up: it restarts from its checkpoint")
        method(trainer, *arguments, **named)

    wrap(module.Trainer, "__init__", init)


def can_lead(named: dict[str, Any]) -> bool:
    """Whether a Trainer set up like this would train the same with our callback."""
    return (
        named.get("strategy", "auto") in STRATEGIES
        and named.get("num_nodes", 1) == 1
        and named.get("accumulate_grad_batches", 1) == 1
        and not str(named.get("precision") or "").startswith("16")
    )


KNOWN: dict[str, Callable[[ModuleType], None]] = {
    "transformers.training_args": hugging_face_arguments,
    "transformers.trainer": hugging_face,
    "pytorch_lightning.trainer.trainer": lightning,
    "lightning.pytorch.trainer.trainer": lightning,
}
