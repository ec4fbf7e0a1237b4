"""After a full listing: what only the scheduler knew is carried over to it."""

import msgspec

from tutti.engine.model import QUEUED, Attempt, Estimate, Job, Life, Listing, Seats
from tutti.engine.world import World


def kept_history(listing: Listing, world: World) -> Listing:
    """The listing, with the promises, pledges, failed attempts and estimates that only we know of."""
    there = {node.name: at for at, node in enumerate(listing.nodes)}
    number = {at: there[name] for name, at in world.node_index.items() if name in there}
    jobs = tuple(_with_history(job, world, number) for job in listing.jobs)
    return msgspec.structs.replace(listing, jobs=jobs)


def _with_history(job: Job, world: World, number: dict[int, int]) -> Job:
    slot = world.slots.get(job.gang.name, -1)
    if slot < 0:
        return job
    known = world.job_in(slot)
    gang = job.gang
    if gang.estimate == Estimate() and known.gang.estimate != Estimate():
        gang = msgspec.structs.replace(gang, estimate=known.gang.estimate)
    return Job(gang, _life(job.life, known.life, number))


def _life(told: Life, known: Life, number: dict[int, int]) -> Life:
    if told.state not in QUEUED or known.state not in QUEUED:
        return told
    promise, pledge = told.promise, told.pledge
    if promise is None and known.promise and (seats := _moved(known.promise.seats, number)) is not None:
        promise = msgspec.structs.replace(known.promise, seats=seats)
    if pledge is None and known.pledge and (seats := _moved(known.pledge.seats, number)) is not None:
        pledge = msgspec.structs.replace(known.pledge, seats=seats)
    attempt = known.attempt if told.attempt == Attempt() else told.attempt
    return msgspec.structs.replace(told, promise=promise, pledge=pledge, attempt=attempt)


def _moved(seats: tuple[Seats, ...], number: dict[int, int]) -> tuple[Seats, ...] | None:
    """The seats by their new numbers, or None where a node is no longer there."""
    if any(node not in number for held in seats for node in held.nodes):
        return None
    return tuple(Seats(tuple(number[node] for node in held.nodes), held.counts, held.shape) for held in seats)
