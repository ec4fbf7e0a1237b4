"""Legal world sizes of a parallel training job, and what they mean in members of several devices each."""

from collections.abc import Callable, Iterator
from math import gcd, lcm

from tutti.engine.model import MOST_MEMBERS, Data, SizeRule

MOST_LISTED = 4096


class WorldRule(Data, frozen=True):
    """Which numbers of ranks a job can be cut into. Every part that is set must hold."""

    multiple: int = 1
    """Ranks of one model replica: tp x pp x cp, and whole groups of experts."""
    batch: int = 0
    """Global batch, in samples."""
    micro: int = 1
    """Samples one replica takes at once."""
    replica: int = 1
    """Ranks that work on the same sample."""
    instances: int = 1
    """Copies of the optimizer state; replicas are a multiple of it."""
    listed: tuple[int, ...] = ()
    why: str = ""

    def broken(self, world: int) -> str:
        """Why so many ranks are not legal; empty when they are."""
        return next(self._broken(world), "")

    def _broken(self, world: int) -> Iterator[str]:
        if world % self.multiple:
            yield f"a world of {world} is not a multiple of {self.multiple}"
        elif self.listed and world not in self.listed:
            yield f"a world of {world} is not among the legal ones"
        else:
            replicas = world // self.replica if world % self.replica == 0 else 0
            share = f"{self.micro} samples x {replicas or '?'} replicas"
            if self.batch and (not replicas or self.batch % (self.micro * replicas)):
                yield f"a global batch of {self.batch} is not a multiple of {share}"
            if replicas and replicas % self.instances:
                yield f"{replicas} replicas are not a multiple of {self.instances} optimizer instances"

    def nearest(self, world: int) -> tuple[int, ...]:
        """The legal counts next to one, below and above."""
        below = _first(self.broken, range(world - 1, max(0, world - 8192), -1))
        above = _first(self.broken, range(world + 1, world + 8193))
        return tuple(found for found in (below, above) if found)


def in_members(rule: WorldRule, per_member: int, low: int, high: int) -> SizeRule:
    """The same rule over members that hold so many ranks each."""
    multiple = rule.multiple // gcd(rule.multiple, per_member)
    if not rule.batch and not rule.listed and rule.instances == 1:
        return SizeRule(multiple=multiple)
    start = -(-low // multiple) * multiple
    tried = range(start, min(high, MOST_MEMBERS, start + multiple * MOST_LISTED) + 1, multiple)
    return SizeRule(sizes=tuple(n for n in tried if not rule.broken(n * per_member)) or (MOST_MEMBERS,))


def joined(one: WorldRule, other: WorldRule) -> WorldRule:
    """Both rules at once."""
    listed = (
        tuple(sorted(set(one.listed) & set(other.listed)))
        if one.listed and other.listed
        else one.listed or other.listed
    )
    carries = one if one.batch else other
    return WorldRule(
        multiple=lcm(one.multiple, other.multiple),
        batch=carries.batch,
        micro=carries.micro,
        replica=max(one.replica, other.replica),
        instances=max(one.instances, other.instances),
        listed=listed,
        why="; ".join(filter(None, (one.why, other.why))),
    )


def _first(broken: Callable[[int], str], tried: range) -> int:
    return next((world for world in tried if not broken(world)), 0)
