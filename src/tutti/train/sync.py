"""Bringing a new generation to one state: agree on the step, then everyone who lacks it gets it, from the nearest place
that has it.
"""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.distributed as dist

from tutti.train import plain
from tutti.train.agree import Accord, Claim, accord, settle
from tutti.train.boxes import Box
from tutti.train.errors import LostState, OtherRun
from tutti.train.group import Group, Talk
from tutti.train.memory import Memory
from tutti.train.reduce import buckets, spread
from tutti.train.snapshot import name_of
from tutti.train.state import Protected, leaf_of


def exchange(group: Group, claim: Claim, witnessed: int) -> tuple[list[Claim], int]:
    """Everyone's claims, and the newest step that anyone saw committed."""
    rows = group.gather_bytes(json.dumps(claim.to_record()).encode())
    claims = [Claim(**json.loads(row)) for row in rows]
    return claims, settle(claims, witnessed)


def decide(group: Group, claims: list[Claim], remembered: list[int], there: str) -> Accord:
    """The same accord on every rank, also where ranks see different memory: the first rank's view counts."""
    shared = json.loads(group.gather_bytes(json.dumps(remembered).encode())[0])
    found = accord(claims, shared)
    if found.origin == "lost":
        raise LostState(
            f"a member is lost with a part of the state that only it had, and no snapshot is complete "
            f"({there or 'none is there'}): start from a checkpoint"
        )
    return found


def remembered_steps(memory: Memory, fingerprint: str) -> list[int]:
    """Complete steps in memory; snapshots of something else are refused, not overlooked."""
    others = memory.fingerprints() - {fingerprint}
    if fingerprint and others and not memory.steps(fingerprint):
        raise OtherRun(
            f"run {run_of(memory)!r} has snapshots of another model, or of this one with pipeline() where now there is "
            f"none, or the other way round (fingerprint {min(others)}, this loop's is {fingerprint}): choose another "
            f"--run-id, or remove them with `tutti train clean`"
        )
    return memory.steps()


def inventory(memory: Memory) -> str:
    """What is in memory, for people."""
    found = sorted((item.label.step, item.label.generation, item.source) for item in memory.sealed)
    there = [f"step {step} of generation {number} in {source}" for step, number, source in found]
    return ", ".join([*there, *memory.passed_over]) or "nothing"


def run_of(memory: Memory) -> str:
    """The run that these snapshots belong to, for people."""
    folder = memory.shelves[0].folder
    return (folder.parent if folder.name == "slots" else folder.parent.parent).name


def hand_out(group: Talk, protected: Protected, source: int, rest: dict[str, Any], is_needy: bool) -> dict[str, Any]:
    """Send the state of one rank to those who need it; everyone takes part. Returns the plain state."""
    is_source = group.rank == source
    leaves, _ = protected.read()
    every = {name: [name_of(leaf.tensor.dtype), leaf.shape] for name, leaf in leaves.items() if leaf.is_shared}
    text = plain.dumps({"every": every, "rest": rest}) if is_source else b""
    header = plain.loads(group.gather_bytes(text)[source])
    if is_source:
        tensors = [leaves[name].tensor for name in every]
    else:
        tensors = [torch.empty(tuple(shape), dtype=getattr(torch, dtype)) for dtype, shape in header["every"].values()]
    send(group, tensors, source)
    group.check()
    if is_needy and not is_source:
        protected.write(header["rest"]["things"], Received(dict(zip(header["every"], tensors, strict=True)), protected))
    result: dict[str, Any] = header["rest"]
    return result


def send(group: Talk, tensors: list[torch.Tensor], source: int) -> None:
    """Broadcast in buckets."""
    for bucket in buckets(tensors):
        flat = (
            torch.cat([tensor.reshape(-1) for tensor in bucket])
            if len(bucket) > 1 or not bucket[0].is_contiguous()
            else bucket[0].view(-1)
        )
        dist.broadcast(flat, group=group.handle, group_src=source)
        if group.rank != source and flat.data_ptr() != bucket[0].data_ptr():
            spread(flat, bucket)


class Received:
    """Tensors that came over the group, in the form in which state is written; shards that came from nobody stay as
    they are.
    """

    def __init__(self, tensors: dict[str, torch.Tensor], protected: Protected) -> None:
        self.tensors = tensors
        self.protected = protected

    def __call__(self, name: str, target: torch.Tensor, box: Box) -> None:
        if name in self.tensors:
            whole = self.tensors[name]
            target.copy_(
                whole[tuple(slice(a, a + b) for a, b in zip(box.offsets, box.sizes, strict=True))]
                if box.sizes
                else whole
            )

    def settle(self) -> None:
        """Every call has filled its tensor already."""

    def describe(self, name: str) -> tuple[tuple[int, ...], torch.dtype]:
        leaf = leaf_of(name, self.tensors[name])
        return leaf.shape, leaf.tensor.dtype
