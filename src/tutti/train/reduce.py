"""Gradients over all ranks: the plain sum (`fast`), or a sum whose order does not depend on the number of members
(`ordered`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from tutti.train.deal import Deal
from tutti.train.group import Talk

BUCKET_BYTES = 32 << 20
ALONE_BYTES = 1 << 20


def scale(gradients: Sequence[torch.Tensor], weights: list[float]) -> None:
    """A rank's mean gradient counts by its share of the samples."""
    if any(weight != 1.0 for weight in weights):
        torch._foreach_mul_(list(gradients), weights)


def sum_fast(gradients: Sequence[torch.Tensor], group: Any = None) -> None:
    """Sum over the ranks (of a process group) in place: large ones as they are, small ones together."""
    for bucket in buckets(gradients):
        if is_message(bucket):
            dist.all_reduce(bucket[0], group=group)
            continue
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
        dist.all_reduce(flat, group=group)
        spread(flat, bucket)


def is_message(bucket: Sequence[torch.Tensor]) -> bool:
    """Whether a bucket is one tensor that can travel as it is."""
    return len(bucket) == 1 and bucket[0].is_contiguous()


def buckets(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Large tensors alone, so that they need not be copied; small neighbours of one type together, up to a size that is
    worth a message.
    """
    result: list[list[torch.Tensor]] = []
    filled = BUCKET_BYTES
    for tensor in tensors:
        size = tensor.nbytes
        if size >= ALONE_BYTES or filled + size > BUCKET_BYTES or result[-1][0].dtype != tensor.dtype:
            result.append([])
            filled = 0
        result[-1].append(tensor)
        filled = BUCKET_BYTES if size >= ALONE_BYTES else filled + size
    return result


def spread(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy a flat buffer back into the tensors it was made of."""
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    torch._foreach_copy_(list(tensors), [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)])


Node = tuple[int, int]


def cover(begin: int, end: int) -> list[Node]:
    """The fewest nodes of the binary tree over logical ranks that are exactly these leaves, as (leaf, leaves below)."""
    nodes: list[Node] = []
    while begin < end:
        width = begin & -begin or 1 << (end - begin).bit_length()
        while begin + width > end:
            width >>= 1
        nodes.append((begin, width))
        begin += width
    return nodes


def fold(nodes: dict[Node, torch.Tensor], leaves: int) -> torch.Tensor:
    """The root of the tree: pairs are added left to right, level by level, wherever the parts came from."""
    top = 1 << max(0, leaves - 1).bit_length()

    def value(at: int, width: int) -> torch.Tensor | None:
        if (at, width) in nodes:
            return nodes[at, width]
        if width == 1 or at >= leaves:
            return None
        left, right = value(at, width // 2), value(at + width // 2, width // 2)
        if left is None or right is None:
            return left if right is None else right
        return left + right

    root = value(0, top)
    assert root is not None
    return root


def sum_ordered(group: Talk, leaves: dict[int, torch.Tensor], deal: Deal, size: int) -> torch.Tensor:
    """The sum of all leaves in the canonical order: each rank folds its own subtrees, owners of a slice fold the rest,
    all gather it.
    """
    each = deal.pieces[:: deal.together]
    runs = [(pieces[0].logical, pieces[-1].logical + 1) if pieces else (0, 0) for pieces in each]
    count = max(end for _, end in runs)
    mine = {node: fold_part(leaves, node) for node in cover(*runs[group.rank])}
    if group.world == 1:
        return fold(mine, count)
    width = -(-size // group.world)
    received = exchange(group, mine, runs, width, size)
    part = fold(dict(received.items()), count)
    whole = torch.empty(width * group.world, dtype=part.dtype)
    dist.all_gather_into_tensor(whole, part, group=group.handle)
    return whole[:size]


def fold_part(leaves: dict[int, torch.Tensor], node: Node) -> torch.Tensor:
    at, width = node
    if width == 1:
        return leaves[at]
    half = width // 2
    return fold_part(leaves, (at, half)) + fold_part(leaves, (at + half, half))


def exchange(
    group: Talk, mine: dict[Node, torch.Tensor], runs: list[tuple[int, int]], width: int, size: int
) -> dict[Node, torch.Tensor]:
    """Send every rank its slice of my nodes; get my slice of everyone's."""
    nodes = [cover(*run) for run in runs]
    padded = [torch.nn.functional.pad(row, (0, width * group.world - size)) for row in mine.values()]
    rows = torch.stack(padded).view(len(padded), group.world, width) if padded else torch.empty(0, group.world, width)
    outgoing = rows.transpose(0, 1).contiguous().view(-1)
    incoming = torch.empty(width * sum(map(len, nodes)), dtype=outgoing.dtype)
    dist.all_to_all_single(
        incoming, outgoing,
        output_split_sizes=[width * len(theirs) for theirs in nodes],
        input_split_sizes=[width * len(mine)] * group.world,
        group=group.handle,
    )  # fmt: skip
    flat = [node for theirs in nodes for node in theirs]
    return dict(zip(flat, incoming.view(-1, width), strict=True)) if flat else {}
