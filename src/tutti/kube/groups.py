"""Which groups are declared, by objects or by pods, and which of them start only together.

A tree of groups is told by several streams, so that any of it may be heard of first. Where a group belongs is worked
out anew for it and for everything below it whenever one of them is declared or goes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from tutti.jobs.kube.declared import Declared, gang_name
from tutti.jobs.kube.dialects import koordinator, native

from .gangs import GangSeen, Seen
from .terrain import Terrain

DEEPEST = 8
FIRST_API = "scheduling.k8s.io/v1alpha1"
"""Of native groups of 1.35, several of which are in one object."""
UNLIKE = "its pods do not say the same of their group; what the first of them says counts"


class Groups:
    """Declarations, and the gangs they make."""

    def __init__(self, terrain: Terrain) -> None:
        self.terrain = terrain
        self.gangs: dict[str, GangSeen] = {}
        self.groups: dict[str, Declared] = {}
        """Declarations by the gang's name: an object's where there is one, else what pods say."""
        self.extras: dict[str, str] = {}
        """Groups that may start once the gang of their tree sits."""
        self.dirty_gangs: dict[str, None] = {}
        self._said: dict[str, Declared] = {}
        """What pods say of their group by themselves, as long as one of them is there."""
        self._heralded: set[str] = set()
        """Groups that a pod outside of them declares."""
        self._copies: dict[str, dict[str, None]] = {}
        """Replicas of native groups of 1.35, by the group they are replicas of."""
        self._members: Counter[str] = Counter()
        self._below: dict[str, dict[str, None]] = {}
        """Groups by the one they name as the group above them."""
        self._into: dict[str, str] = {}
        """Groups that are parts of another: a gang's name, and the name of the gang it is in."""
        self._arrivals = 0
        self._resurvey = True

    def soil(self, keys: Iterable[str]) -> None:
        """The gangs that these groups are in are to be looked at."""
        self.dirty_gangs |= dict.fromkeys(self._into.get(key, key) for key in keys)

    def _gang(self, key: str) -> GangSeen:
        if key not in self.gangs:
            self.gangs[key] = GangSeen(key)
            self.gangs[key].arrival = self._arrivals
            self._arrivals = min(self._arrivals + 1, 999_999)
            self.gangs[key].declared = self.groups.get(key)
        return self.gangs[key]

    # -- pods come and go

    def _enter(self, seen: Seen, name: str, said: Declared | None) -> GangSeen:
        """A pod of a group, the group's name, and what the pod says of it by itself."""
        self._count_in(seen.group, said)
        seen.gang = self._into.get(seen.group, seen.group)
        if seen.group in self._into:
            seen.part = name
        gang = self._gang(seen.gang)
        gang.pods[seen.uid] = seen
        gang.told["newcomers"] = True
        if said is not None and said != self._said[seen.group] and seen.group not in self._heralded:
            seen.wrong = (UNLIKE,)
        if seen.group not in self.groups:
            self._copy(seen.group)
        self._sort_in(seen, self.groups.get(seen.group))
        return gang

    def _sort_in(self, seen: Seen, group: Declared | None) -> None:
        """Where labels say which part a pod is of, they count."""
        if group is not None and group.sorting is not None:
            seen.part = group.sorting.part(seen.part, seen.labels)

    def _copy(self, key: str) -> None:
        """A replica of a native group of 1.35 is a gang of its own, declared like all of them."""
        above, _, replica = key.rpartition("/")
        group = self.groups.get(above)
        if group is not None and group.api == FIRST_API and key.count("/") > 2:
            self._copies.setdefault(above, {})[key] = None
            self._declare(msgspec.structs.replace(group, name=f"{group.name}/{replica}"), key)

    def _herald(self, seen: Seen, said: Declared) -> None:
        """A pod declares a group that it is not in."""
        seen.heralds = said.key
        self._heralded.add(said.key)
        self._count_in(said.key, said)

    def _count_in(self, group: str, said: Declared | None) -> None:
        self._members[group] += 1
        if said is not None and group not in self._said:
            self._said[group] = said
            if group not in self.groups:
                self._declare(said, group)

    def _count_out(self, group: str) -> None:
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]
            said = self._said.pop(group, None)
            self._heralded.discard(group)
            if self._copies.get(group.rpartition("/")[0], {}).pop(group, 0) is None:
                self._undeclare(group)
            if said is not None and self.groups.get(group) is said:
                self._undeclare(group)

    def _leave(self, seen: Seen) -> None:
        gang = self.gangs.get(seen.gang)
        if gang is not None:
            gang.pods.pop(seen.uid, None)
            self.dirty_gangs[seen.gang] = None
        self._count_out(seen.group)
        if seen.heralds:
            self._count_out(seen.heralds)

    # -- declarations come and go

    def _declare(self, group: Declared, key: str) -> None:
        for level in (group.within, group.near, *(p.within for p in group.parts.values())):
            self._resurvey |= self.terrain.ask(level)
        before = self.groups.get(key)
        self.groups[key] = group
        self._gang(key).declared = group
        for seen in self.gangs[key].pods.values() if group.sorting is not None else ():
            self._sort_in(seen, group)
        self.dirty_gangs[key] = None
        self._hang(key, before, group)
        self._regroup(key)
        if group.api == FIRST_API:
            replicas = [other for other in self._members if other.startswith(f"{key}/")]
            for replica in replicas:
                self._copy(replica)

    def _undeclare(self, key: str) -> None:
        """The object is gone; what pods say of their group counts again."""
        said, before = self._said.get(key), self.groups.get(key)
        if said is not None and before is not said:
            self._declare(said, key)
            return
        self.groups.pop(key, None)
        gang = self.gangs.get(key)
        if gang is not None:
            gang.declared, gang.problems = None, ()
            self.dirty_gangs[key] = None
        self._hang(key, before, None)
        self._regroup(key)
        self.extras.pop(key, None)
        for replica in self._copies.pop(key, ()):
            self._undeclare(replica)

    def _hang(self, key: str, before: Declared | None, after: Declared | None) -> None:
        """Enter below which group it is now."""
        old, new = _above(before), _above(after)
        if old and old != new:
            self._below.get(old, {}).pop(key, None)
            if not self._below.get(old, True):
                del self._below[old]
        if new:
            self._below.setdefault(new, {})[key] = None

    # -- groups that start only together become one gang

    def _regroup(self, key: str) -> None:
        for root in dict.fromkeys([self._settle(one) for one in list(self._family(key, DEEPEST))]):
            self._sort_out(root)

    def _family(self, key: str, depth: int) -> Iterator[str]:
        """A group and all below it."""
        yield key
        for child in self._below.get(key, ()) if depth else ():
            yield from self._family(child, depth - 1)

    def _settle(self, key: str) -> str:
        """Put a group where it belongs; answers with the gang's name."""
        group = self.groups.get(key)
        root = self._root(group) if group is not None else key
        if group is None or not (group.partners or (group.parent and root != key)):
            self._assign(key, key, "")
        elif key not in self.extras and not self._is_late(group, root):
            self._assign(key, root, group.name)
        return root

    def _root(self, group: Declared) -> str:
        """The gang it is in: that of the outermost composite above it, or of the first of its partners.

        Groups of a composite whose policy is basic have nothing to do with each other.
        """
        if group.partners:
            return _partner(group, group.partners[0])
        for _ in range(DEEPEST):
            above = self.groups.get(_above(group)) if group.parent else None
            if above is None:
                break
            if above.loose:
                return group.key
            group = above
        return _above(group) or group.key

    def _assign(self, key: str, root: str, part: str) -> None:
        """The pods of a group are members of this gang from now on; one that sits stays as it is."""
        was = self._into.get(key, key)
        source = self.gangs.get(was)
        if not part and key not in self._into:
            return
        if was != root and source is not None and source.is_seated:
            return
        if part:
            self._into[key] = root
        else:
            del self._into[key]
        target = self._gang(root)
        for seen in [seen for seen in source.pods.values() if seen.group == key] if source is not None else []:
            seen.gang, seen.part = root, part
            target.pods[seen.uid] = seen
            target.told["newcomers"] = True
            if source is not None and source is not target:
                del source.pods[seen.uid]
        self.dirty_gangs |= {was: None, root: None}

    # Of a tree of which only some groups must start, the oldest are one gang; each of the others is a gang of its own,
    # which waits until the first have their seats.

    def _is_late(self, group: Declared, root: str) -> bool:
        """Whether the gang of its tree sits already, without it."""
        above, gang = self.groups.get(root), self.gangs.get(root)
        if group.key in self._into or above is None or gang is None or not gang.is_seated or group.is_tree:
            return False
        if not above.is_tree:
            return False
        self.extras[group.key] = root
        return True

    def _leaves(self, root: str) -> list[str]:
        """Groups of a tree, the oldest first; empty for a tree of trees."""
        inside = [key for key in self._family(root, DEEPEST) if key != root and key in self.groups]
        if any(self.groups[key].is_tree for key in inside):
            return []
        return sorted(inside, key=lambda key: (self.groups[key].created, key))

    def _sort_out(self, root: str) -> None:
        """As many of the oldest groups as must start together are one gang, until it sits."""
        tree, target = self.groups.get(root), self.gangs.get(root)
        if tree is None or target is None or target.is_seated or tree.loose or not tree.is_tree:
            return
        for at, key in enumerate(self._leaves(root)):
            if at < tree.min and key in self.extras:
                del self.extras[key]
                self._assign(key, root, self.groups[key].name)
            elif at >= tree.min and key in self._into:
                self.extras[key] = root
                self._assign(key, key, "")

    def is_part(self, key: str) -> bool:
        """Whether a group starts only as a part of another gang, which is told in its stead."""
        return self._into.get(key, key) != key

    def parts_of(self, gang: GangSeen) -> list[Declared]:
        """Groups, other than its own, that a gang is made of."""
        if gang.declared is None or not (gang.declared.is_tree or gang.declared.partners):
            return []
        inside = (key for key in self._inside(gang.key, gang.declared) if self._into.get(key) == gang.key)
        return [self.groups[key] for key in inside if key != gang.key]

    def is_early(self, key: str) -> bool:
        """Whether a group has to wait for the others of its tree to sit first."""
        root = self.extras.get(key, "")
        return root in self.groups and not self.gangs[root].is_seated

    def has_sat(self, key: str) -> None:
        """A gang has its seats; groups of its tree that waited for that are looked at."""
        self.dirty_gangs |= {extra: None for extra, root in self.extras.items() if root == key}

    def _declared(self, gang: GangSeen) -> Declared | None:
        """What is declared for a gang, its parts included."""
        own = self._below_loose(gang.declared)
        inside = [self.groups[key] for key in self._inside(gang.key, own) if self._into.get(key) == gang.key]
        if not inside:
            return own
        if own is not None and not own.partners:
            # Groups of the tree may still be to come.
            there = Counter(group.parent for group in inside)
            complete = all(there[tree.name] >= max(tree.min, 1) for tree in (own, *inside) if tree.is_tree)
            return native.merged(own, inside) if complete else None
        wanted = own.partners if own is not None else ()
        if own is None or {f"{group.namespace}/{group.name}" for group in inside} < set(wanted):
            return None
        return koordinator.union(sorted(inside, key=lambda group: group.key))

    def _below_loose(self, own: Declared | None) -> Declared | None:
        """A domain for all groups of a composite whose policy is basic would have to be kept by each of them."""
        above = self.groups.get(_above(own))
        if own is None or above is None or not (above.loose and above.within):
            return own
        why = f"schedulingConstraints.topology of the CompositePodGroup {above.name} with schedulingPolicy.basic"
        return msgspec.structs.replace(own, unsupported=own.unsupported or why)

    def _inside(self, key: str, own: Declared | None) -> list[str]:
        """Groups that may be parts of a gang."""
        found = list(self._family(key, DEEPEST))[1:]
        found += [_partner(own, name) for name in own.partners] if own is not None else []
        return [one for one in found if one in self.groups]


def _above(group: Declared | None) -> str:
    """The name of the group above; nothing where there is none."""
    if group is None or not group.parent:
        return ""
    return gang_name(group.namespace, group.parent, group.dialect)


def _partner(group: Declared, written: str) -> str:
    """The gang that a group names as one to start with."""
    namespace, _, name = written.partition("/")
    return gang_name(namespace, name, group.dialect)
