"""Lightning: `fabric run` and `lightning run`, the options of its command line, and the Trainer of a script."""

from collections.abc import Sequence

from tutti.jobs.draft import Draft
from tutti.jobs.flags import Flag, canonical, spec
from tutti.jobs.scan import Call
from tutti.jobs.shell import Word

TABLE = spec(
    "fabric run",
    "accelerator strategy devices num-nodes node-rank main-address main-port precision",
    "",
)


def read(words: Sequence[Word], draft: Draft) -> tuple[Word, ...]:
    """`fabric run --devices 4 --num-nodes 2 train.py`."""
    found = draft.options(tuple(words), TABLE)
    draft.launcher = "lightning"
    draft.framework("lightning", draft.place("fabric run"))
    draft.say_number("workers", found.flags.get("num-nodes"))
    _devices(found.flags.get("devices"), draft)
    return found.rest


def read_arguments(words: Sequence[Word], draft: Draft) -> None:
    """`--trainer.devices 4 --trainer.num_nodes 2`, as LightningCLI takes them."""
    for at, word in enumerate(words):
        key, equals, value = word.text.partition("=")
        if not key.startswith("--trainer."):
            continue
        following = words[at + 1] if at + 1 < len(words) else Word("")
        flag = Flag(key, Word(value, word.unknown) if equals else following)
        name = canonical(key).removeprefix("trainer.")
        if name in {"devices", "num-nodes", "strategy"}:
            draft.framework("lightning", draft.place(key))
        if name == "devices" and not draft.launcher:
            _devices(flag, draft)
        elif name == "num-nodes" and not draft.launcher:
            draft.say_number("workers", flag)


def read_trainer(call: Call, draft: Draft) -> None:
    """`Trainer(devices=4, num_nodes=2)` in the script itself."""
    if draft.launcher:
        return
    place = f"{call.name}({{}}) at {call.place}"
    nodes, devices = call.keywords.get("num_nodes"), call.keywords.get("devices", call.keywords.get("gpus"))
    if isinstance(nodes, int) and nodes > 0:
        draft.say("workers", nodes, place.format(f"num_nodes={nodes}"))
    count = len(devices) if isinstance(devices, list | tuple) else devices
    if isinstance(count, int) and not isinstance(count, bool) and count > 0:
        _say_devices(count, place.format(f"devices={devices}"), draft)
    elif (devices is not None or "devices" in call.opaque) and not draft.has("gpus"):
        draft.ask(f"{place.format('devices=...')}: not a plain number; say how many with --gpus")


def _devices(flag: Flag | None, draft: Draft) -> None:
    if flag is None:
        return
    text = flag.text.strip("[]")
    if text in {"auto", "-1"}:
        if not draft.has("gpus"):
            draft.ask(f"{flag.spelling} {flag.text}: every device of the node; say how many with --gpus")
    elif "," in text:
        _say_devices(len([part for part in text.split(",") if part.strip()]), draft.place(flag.spelling), draft)
    elif (number := draft.number(flag)) is not None:
        _say_devices(number, draft.place(flag.spelling), draft)


def _say_devices(count: int, source: str, draft: Draft) -> None:
    draft.say("gpus", count, source)
    draft.ranks = count
