"""Arithmetic of seats: who stays, who is gone, how nodes are numbered along the topology."""

import msgspec

from .model import Job, Node, Seats


def without(seats: Seats, gone: dict[int, int]) -> tuple[Seats, Seats]:
    """Split seats into those that stay and those that are gone; ranks of the others keep their order."""
    left = dict(gone)
    kept: list[tuple[int, int]] = []
    lost: list[tuple[int, int]] = []
    for node, count in zip(seats.nodes, seats.counts, strict=True):
        taken = min(left.get(node, 0), count)
        if taken:
            left[node] -= taken
            lost.append((node, taken))
        if count > taken:
            kept.append((node, count - taken))
    return seats_of(kept, seats.shape), seats_of(lost, seats.shape)


def seats_of(runs: list[tuple[int, int]], shape: int) -> Seats:
    return Seats(tuple(node for node, _ in runs), tuple(count for _, count in runs), shape)


def walk(node: Node) -> tuple[object, ...]:
    return ((0,), _natural(node.pool), *(_natural(domain) for domain in node.place), _natural(node.name))


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts n2 before n10."""
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for char in name + "\0":
        if char.isdecimal():
            digits += char
            continue
        if digits:
            parts.append((0, int(digits), digits))
            digits = ""
        parts.append((1, 0, char))
    return tuple(parts)


def renumbered(job: Job, number: dict[int, int]) -> Job:
    """The same job with its nodes numbered anew; where a node is gone, what was lost there is nowhere."""

    def moved(seats: tuple[Seats, ...], *, keep: bool = False) -> tuple[Seats, ...]:
        return tuple(
            seats_of(
                [(number.get(n, -1), c) for n, c in zip(s.nodes, s.counts, strict=False) if keep or n in number],
                s.shape,
            )
            for s in seats
        )

    life = job.life
    promise = msgspec.structs.replace(life.promise, seats=moved(life.promise.seats)) if life.promise else None
    pledge = msgspec.structs.replace(life.pledge, seats=moved(life.pledge.seats)) if life.pledge else None
    seats, target = moved(life.seats), moved(life.target)
    lost = moved(life.lost, keep=True)
    return Job(
        job.gang,
        msgspec.structs.replace(life, seats=seats, lost=lost, target=target, promise=promise, pledge=pledge, version=0),
    )


def shared(held: Seats, other: Seats) -> Seats:
    """Members of one seating that are in the other too."""
    return beyond(held, beyond(held, other))


def beyond(held: Seats, kept: Seats) -> Seats:
    """Members of one seating that are not in the other."""
    left: dict[int, int] = {}
    for node, count in zip(held.nodes, held.counts, strict=True):
        left[node] = left.get(node, 0) + count
    for node, count in zip(kept.nodes, kept.counts, strict=True):
        left[node] = left.get(node, 0) - count
    some = {node: count for node, count in left.items() if count > 0}
    return Seats(tuple(some), tuple(some.values()), held.shape)
