"""Sets of nodes as the bits of one number: the first node along the line is the lowest bit."""

from collections.abc import Sequence

import numpy as np

FEW = 12
"""Up to this many nodes are named one by one."""
TRIES = 3
"""Looks at where the last of them is if hardly any is missing between."""


def first(nodes: int, many: int) -> int:
    """The first so many of these nodes; there are at least as many."""
    if many <= FEW:
        rest = nodes
        for _ in range(many):
            rest &= rest - 1
        return nodes ^ rest
    low, high = (nodes & -nodes).bit_length() + many - 1, nodes.bit_length()
    for _ in range(TRIES):
        short = many - (nodes & ((1 << low) - 1)).bit_count()
        if not short:
            return nodes & ((1 << low) - 1)
        low += short
    while low < high:
        middle = (low + high) // 2
        if (nodes & ((1 << middle) - 1)).bit_count() < many:
            low = middle + 1
        else:
            high = middle
    return nodes & ((1 << low) - 1)


def named(nodes: int) -> tuple[int, ...]:
    """Their numbers, along the line."""
    many = nodes.bit_count()
    begin, end = (nodes & -nodes).bit_length() - 1, nodes.bit_length()
    if end - begin == many:
        return tuple(range(begin, end))
    if many > FEW:
        octets = np.frombuffer(nodes.to_bytes((end + 7) // 8, "little"), np.uint8)
        return tuple(np.unpackbits(octets, bitorder="little").view(np.bool_).nonzero()[0].tolist())
    found = []
    while nodes:
        rest = nodes & (nodes - 1)
        found.append((nodes ^ rest).bit_length() - 1)
        nodes = rest
    return tuple(found)


def gathered(numbers: Sequence[int]) -> int:
    """The set of nodes with these numbers."""
    if len(numbers) <= FEW:
        nodes = 0
        for number in numbers:
            nodes |= 1 << number
        return nodes
    here = np.zeros(max(numbers) + 1, np.bool_)
    here[list(numbers)] = True
    return int.from_bytes(np.packbits(here, bitorder="little").tobytes(), "little")
