"""The memory that snapshots take: worked out before there is a run, so that the job can ask for it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass

SLACK = 1.34
UNITS = {"": 1, **{unit: 1000**power for power, unit in enumerate("KMGT", 1)}}
UNITS.update({f"{unit}I": 1024**power for power, unit in enumerate("KMGT", 1)})
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?", re.IGNORECASE)


@dataclass(frozen=True)
class Bill:
    """What is kept where: every failure domain has a copy, of shards only one other has."""

    state_bytes: int
    workers: int
    slots: int = 2
    domains: int = 1
    is_sharded: bool = False

    @property
    def total_bytes(self) -> int:
        """Memory of all slots together, with the room in which a share may grow when members become fewer."""
        copies = min(2, self.domains) if self.is_sharded else self.domains
        return int(self.slots * copies * self.state_bytes * SLACK)

    @property
    def member_bytes(self) -> int:
        return -(-self.total_bytes // self.workers)


def read_amount(text: str) -> int:
    """Bytes, as 3G, 200MiB or a number."""
    found = AMOUNT.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of memory: write bytes or a unit, 200M, 3GiB")
    return int(float(found[1]) * UNITS[found[2].upper()])


def add_state(parser: argparse.ArgumentParser) -> None:
    """The options that the bill is worked out from."""
    parser.add_argument("--state", type=read_amount, default=0, help="what the loop protects (3GB): snapshots must fit")
    parser.add_argument("--sharded", action="store_true", help="the state is split between the members (FSDP2)")
    parser.add_argument("--slots", type=int, default=2, help="snapshots kept in memory (2; 0 for none)")
    parser.add_argument(
        "--domains", type=int, default=1, help="failure domains; with two or more each keeps a copy of another's (1)"
    )


def bill_of(words: Sequence[str], workers: int) -> Bill | None:
    """What a line `tutti train ... --state 3GB ...` asks for beside its members; None when it does not say."""
    at = next((at for at, word in enumerate(words[:4]) if word in ("train", "tutti.train")), -1)
    if at < 0 or not any(word.startswith("--state") for word in words):
        return None
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    add_state(parser)
    end = words.index("--") if "--" in words else len(words)
    try:
        said, _ = parser.parse_known_args(list(words[at + 1 : end]))
    except (argparse.ArgumentError, argparse.ArgumentTypeError):
        return None
    return Bill(said.state, max(1, workers), said.slots, said.domains, said.sharded)
