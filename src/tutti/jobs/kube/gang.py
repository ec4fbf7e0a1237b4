"""A declaration and the pods that are there, as one gang of the engine."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tutti.engine.model import (
    MINUTE,
    NEVER,
    Arrange,
    Cap,
    Coupling,
    Data,
    Estimate,
    Gang,
    Near,
    OnLoss,
    Resizing,
    Role,
    Segment,
    Shape,
    SizeRule,
    Source,
)

from .declared import Declared, Part
from .dialects.kai import POOL
from .quantity import BadQuantity, amount
from .wants import HOSTNAME, Wants

NODE = "node"
YUNIKORN = "yunikorn"
USER = "annotation yunikorn.apache.org/user.info"
POD = "pod"
"""The dialect of a pod that declares nothing: it is a gang of one."""
AUTOGEN = "autogen"
"""The application that YuniKorn makes, in each namespace, of pods that name none."""
NOBODY = "nobody"
"""Whose pods YuniKorn takes those for that do not say whose they are."""
STALE = 10 * MINUTE
IN_PART = "spec.subGroupPolicy.labelSelector and matchLabelKeys in a group that may start in part"


class Kin(NamedTuple):
    """Pods of a gang that are alike: which part, what they want, what they leave for others to see."""

    part: str
    wants: Wants
    marks: tuple[str, ...]

    @property
    def alike(self) -> tuple[str, str]:
        """The same for pods that differ only in what others ask about them."""
        return self.part, self.wants.key


class Trait(Data, frozen=True):
    """What a queue says about the gangs in it."""

    lasting: bool = False
    """Nobody takes what they have."""
    polite: bool = False
    """Nobody is asked to make room for them."""
    preempts_after: int = 0
    """How long they wait before others are asked to make room for them."""
    refused: str = ""
    """What it asks of their nodes, or of them, that cannot be had."""
    by_user: bool = False
    """It bounds what users have, as YuniKorn names them."""
    names_users: bool = False
    """It bounds what users have that it names, whoever says so."""
    applications: bool = False
    """It is of YuniKorn: pods that name no application are one together."""


NO_TRAIT = Trait()


class Ground(Data, frozen=True):
    """What a translation has to know of the cluster."""

    levels: dict[str, str] = {}
    """Names that dialects give to levels of the topology, and ours."""
    domains: dict[str, int] = {}
    """How many domains each level has."""
    priorities: dict[str, int] = {}
    default_priority: int = 0
    queues: frozenset[str] = frozenset()
    local_queues: dict[str, str] = {}
    """Queues by which a namespace names those of the cluster: namespace/name, and the queue it stands for."""
    lasting: frozenset[str] = frozenset()
    """Priority classes whose pods are not preempted."""
    polite: frozenset[str] = frozenset()
    """Priority classes whose pods preempt nobody."""
    traits: dict[str, "Trait"] = {}
    """What queues say about the gangs in them, where they do."""
    repelled: dict[str, tuple[tuple[str, str], ...]] = {}
    """Marks of pods, and the marks of those that keep away from them: (mark, level key)."""


class Translated(NamedTuple):
    """The gang, and which pods its roles stand for, role by role."""

    gang: Gang
    kin: tuple[Kin, ...]
    awaiting: int
    problems: tuple[str, ...]
    wanted: int = 0
    """Members that must be there before it can start."""
    again: int = 0
    """When it is to be translated anew, because something that it waits for is a matter of time; 0: never."""
    notes: tuple[str, ...] = ()
    """What is said rightly and has no effect here."""


class Asked(NamedTuple):
    """The queue that a pod names: in our own words, in those of the dialects, and as its namespace calls it."""

    ours: str = ""
    theirs: str = ""
    local: str = ""


NO_QUEUE = Asked()


class Facts(NamedTuple):
    """What only the caller knows."""

    submitted: int = 0
    user: str = ""
    named: str = ""
    """Whose its pods say it is."""
    groups: tuple[str, ...] = ()
    """The groups of that user."""
    application: str = ""
    """What its pods say that they are a part of."""
    priority: int | None = None
    time: int = 0
    tolerate: Mapping[str, tuple[str, ...]] = {}
    """Taints of this cluster that pods of each kind put up with."""
    problems: tuple[str, ...] = ()
    owned: bool = True
    """A controller makes new pods for those that are gone."""
    spared: bool = False
    """It was told to leave and could not, so that it is not asked again for a while."""
    polite: bool = False
    """Its pods may not preempt others."""
    lasting: bool = False
    """Its pods may not be preempted."""
    classes: frozenset[str] = frozenset()
    """Priority classes of its pods."""
    min_run: int = 0
    """How long its pods say that they run before others may take their place."""
    max_wait: int = 0
    now: int = 0
    estimate: int = 0
    """How long it runs, as the job above its group says."""
    queue: Asked = NO_QUEUE
    refused: str = ""
    """What a pod asks for, beside its spec, that cannot be had."""
    gathers: bool = False
    """Pods are there, and those that are missing may be unlike them."""
    movable: bool = False
    """Its pods say that they may be started anew elsewhere."""
    last: frozenset[tuple[str, str]] = frozenset()
    """Kin that no node could hold: they count towards a minimum only where the others are too few for it."""
    bound: Mapping[tuple[str, str], int] = {}
    """Pods of each kin that have a node: they count towards a minimum first."""
    beside: frozenset[tuple[str, str]] = frozenset()
    """Kin that do not count towards a minimum, because their gang has started without them."""


def translate(declared: Declared, present: Mapping[Kin, int], ground: Ground, facts: Facts = Facts()) -> Translated:  # noqa: B008
    """The gang that the declaration and the pods make together; `present` counts pods by kin, in order of rank."""
    absent = _absent(declared, present)
    counted = _sizes(declared, present, absent, facts)
    wanted = max(sum(low for _, low, _ in counted) + absent, declared.min)
    there = sum(min(present[kin], low) for kin, low, _ in counted)
    awaiting = 0 if declared.loose else wanted - there
    if awaiting and facts.gathers:
        counted = [_there(declared, kin, low, want, present[kin]) for kin, low, want in counted]
    roles = tuple(_role(declared, kin, low, want, ground, facts) for kin, low, want in counted)
    names = _names([kin.part for kin, _, _ in counted])
    roles = tuple(msgspec.structs.replace(role, name=name) for role, name in zip(roles, names, strict=True))
    queue = _queue(declared, ground, facts.queue)
    shared, unlike = _shared(declared, counted)
    in_part = declared.sorting is not None and any(low < present[kin] for kin, low, _ in counted)
    trait = ground.traits.get(queue, NO_TRAIT)
    problems = (*declared.problems, *facts.problems, *_strange_parts(declared, present))
    notes = (*declared.notes, *_only_asked(declared, present))
    if _is_unheeded(declared, ground, facts.queue):
        problems = (*problems, f"it names the queue {declared.queue!r} and YuniKorn has none here; it is in {queue!r}")
    user, groups = _whose(declared, facts, trait)
    if user == NOBODY and not facts.named:
        problems = (*problems, f"its pods do not say whose they are ({USER}); limits of users count them as nobody's")
    priority = _priority(declared, facts, ground)
    classes = facts.classes | {declared.priority_class}
    preemptible = declared.preemptible and not _lasts(declared, priority, facts, trait, classes & ground.lasting)
    patience = max(declared.preempts_after, trait.preempts_after)
    again = facts.submitted + patience if patience and facts.submitted + patience > facts.now else 0
    polite = facts.polite or trait.polite or bool(classes & ground.polite) or again > 0
    gang = Gang(
        declared.key,
        roles,
        queue=queue,
        user=user,
        groups=groups,
        counts_as=_counts_as(declared, facts, trait),
        priority=priority,
        submitted=facts.submitted,
        estimate=_estimate(declared.time or facts.time or facts.estimate or declared.limit),
        within=_level(declared.within or shared, ground),
        near=_level(declared.near, ground),
        preemptible=preemptible and not facts.spared,
        preempts=declared.may_preempt and not polite,
        resizing=_resizing(declared, roles, facts),
        keeps_surplus=declared.whole or not preemptible,
        on_loss=OnLoss.REPAIR,
        hold_up_to=_hold_up_to(declared, facts),
        min_run=max(declared.min_run, facts.min_run),
        max_wait=declared.max_wait or facts.max_wait,
        restart_limit=1_000_000,
        unsupported=_unsupported(declared, facts, trait, [kin for kin, _, _ in counted if present[kin]])
        or (IN_PART if in_part else unlike),
    )
    return Translated(gang, tuple(kin for kin, _, _ in counted), awaiting, problems, wanted, again, notes)


def _whose(declared: Declared, facts: Facts, trait: Trait) -> tuple[str, tuple[str, ...]]:
    """The user and the groups it is counted with: its namespace, which nobody can make up.

    Where its queue names users it is as its pods say; else YuniKorn's nobody, where YuniKorn has limits.
    """
    if facts.named and (trait.by_user or trait.names_users):
        return facts.named, facts.groups
    return (NOBODY, (NOBODY,)) if trait.by_user else (facts.user or declared.namespace, ())


def _counts_as(declared: Declared, facts: Facts, trait: Trait) -> str:
    """What it is a part of where running gangs are counted; YuniKorn makes one application of pods that name none."""
    if facts.application:
        return f"{declared.namespace}/{facts.application}"
    return f"{declared.namespace}/{AUTOGEN}" if trait.applications and declared.dialect == POD else ""


def _shared(declared: Declared, counted: list[tuple[Kin, int, int]]) -> tuple[str, str]:
    """The level that pods of one part have to share although they are not alike, or why that cannot be had.

    Roles are put into a domain each. Where all of a gang is one part, the gang has the domain.
    """
    levels: dict[str, list[str]] = {}
    for kin, _, _ in counted:
        if level := _part_of(declared, kin).within:
            levels.setdefault(kin.part, []).append(level)
    mixed = next((part for part, found in levels.items() if len(found) > 1), None)
    if mixed is None:
        return "", ""
    if all(kin.part == mixed and low for kin, low, _ in counted) and declared.within in ("", levels[mixed][0]):
        return levels[mixed][0], ""
    return "", f"a topology of its own for the part {mixed!r}, whose pods are not alike"


def _lasts(declared: Declared, priority: int, facts: Facts, trait: Trait, classes: frozenset[str]) -> bool:
    """Whether nobody may take its place: it is important, or its pods, their class or its queue say so."""
    important = declared.preemptible_below is not None and priority >= declared.preemptible_below
    return important or facts.lasting or trait.lasting or bool(classes)


def _unsupported(declared: Declared, facts: Facts, trait: Trait, kin: list[Kin]) -> str:
    """The first thing that cannot be had, whoever asks for it."""
    found = declared.unsupported or facts.refused or trait.refused
    found = found or next((one.wants.unsupported for one in kin if one.wants.unsupported), "")
    if not found and declared.pool and any(_labels(one).get(POOL) != declared.pool for one in kin):
        return f"label {POOL} of the group that its pods do not have"
    return found


def _labels(kin: Kin) -> dict[str, str]:
    """Labels of nodes that pods ask for."""
    return dict(kin.wants.nodes.labels) if kin.wants.nodes is not None else {}


def _only_asked(declared: Declared, present: Mapping[Kin, int]) -> Iterable[str]:
    """Fields of a part that its pods do not have; theirs are the ones that count."""
    for kin in present:
        part, wants = declared.parts.get(kin.part, Part()), kin.wants
        terms = wants.near or wants.apart or wants.liked or (wants.nodes is not None and wants.nodes.terms)
        has = {"affinity": bool(terms), "topologySpreadConstraints": bool(wants.spread)}
        lacks = [field for field in part.asks if not has[field]]
        lacks += ["nodeSelector"] if not part.select.items() <= _labels(kin).items() else []
        for field in lacks:
            yield f"task group {kin.part!r} has {field} and its pods have not; only what pods ask for counts"


def _strange_parts(declared: Declared, present: Mapping[Kin, int]) -> Iterable[str]:
    """Pods of task groups that their application does not have."""
    if declared.dialect != YUNIKORN or not declared.parts:
        return
    for name in sorted({kin.part for kin in present} - set(declared.parts)):
        yield f"there is no task group {name!r} in the application; there are {', '.join(map(repr, declared.parts))}"


def _resizing(declared: Declared, roles: tuple[Role, ...], facts: Facts) -> Resizing:
    """Whether it may have other sizes or, where it says so and somebody makes its pods again, other seats."""
    sizes = any(max(role.want, role.max) > role.min for role in roles)
    moves = (declared.movable or facts.movable) and declared.preemptible and facts.owned
    return Resizing.LIVE if sizes or moves else Resizing.NONE


def _there(declared: Declared, kin: Kin, low: int, want: int, count: int) -> tuple[Kin, int, int]:
    """Of pods that have not all come only those that have must fit: what the others will ask for nobody knows."""
    whole = any(part.segment is not None for name, part in declared.parts.items() if name in ("", kin.part))
    return (kin, low, want) if whole else (kin, min(low, count), max(low, want))


def _hold_up_to(declared: Declared, facts: Facts) -> int:
    """How long seats of lost members are kept; where nobody makes new pods, only for as long as a person needs."""
    if declared.never_stale:
        return NEVER
    return max(declared.hold_up_to, 0) or (STALE if facts.owned else MINUTE)


def _absent(declared: Declared, present: Mapping[Kin, int]) -> int:
    """Members of parts of which nobody is there yet; no others can stand in for them."""
    parts = {kin.part for kin in present}
    return 0 if parts <= {""} else sum(part.min for name, part in declared.parts.items() if name and name not in parts)


def _sizes(declared: Declared, present: Mapping[Kin, int], absent: int, facts: Facts) -> list[tuple[Kin, int, int]]:
    """How many members of each kin must, and may, start: minimums of parts first, the rest in order of rank."""
    sizes = dict.fromkeys(present, 0)
    if declared.loose:
        return [(kin, 0, count) for kin, count in present.items()]
    needed = [kin for kin in present if kin.alike not in facts.beside]
    ranked = sorted(needed, key=lambda kin: kin.alike in facts.last)
    for name, part in declared.parts.items():
        _allot(sizes, [kin for kin in ranked if kin.part == name], part.min, facts.bound, present)
    left = max(declared.min - sum(sizes.values()) - absent, 0)
    _allot(sizes, ranked, left, facts.bound, present)
    return [(kin, low, max(low, present[kin])) for kin, low in sizes.items()]


def _allot(
    sizes: dict[Kin, int], among: list[Kin], wanted: int, bound: Mapping[tuple[str, str], int], there: Mapping[Kin, int]
) -> None:
    """Give out a minimum over pods that are there, bound ones first; what is missing is expected of the last kind."""
    first = [(kin, bound[kin.alike]) for kin in among if kin.alike in bound]
    for kin, count in first + [(kin, there[kin]) for kin in among]:
        given = min(wanted, max(min(count, there[kin]) - sizes[kin], 0))
        sizes[kin] += given
        wanted -= given
    if wanted and among:
        sizes[among[-1]] += wanted


def _names(parts: list[str]) -> list[str]:
    """A name for each role: the part's, numbered where pods of one part are not alike."""
    seen: dict[str, int] = {}
    names = []
    for part in parts:
        base = part or "member"
        seen[base] = seen.get(base, 0) + 1
        names.append(base if seen[base] == 1 else f"{base}-{seen[base]}")
    return names


def _part_of(declared: Declared, kin: Kin) -> Part:
    """What is declared for the part that pods are of."""
    if declared.sorting is not None and kin.part.startswith(f"{declared.sorting.name} "):
        return declared.parts[declared.sorting.name]
    return declared.parts.get(kin.part) or declared.parts.get("", Part())


def _role(declared: Declared, kin: Kin, low: int, want: int, ground: Ground, facts: Facts) -> Role:
    part = _part_of(declared, kin)
    wants = kin.wants
    within = _level(part.within, ground)
    needs: list[Near] = []
    for beside in wants.near:
        level = _key(beside.key, ground)
        if beside.company.mark in kin.marks:
            within = within or level
        else:
            needs.append(Near(beside.company.mark, level))
    segment = Segment(_level(part.segment.level, ground), part.segment.members) if part.segment else None
    loose = declared.loose or low == 0
    levels = [_level(declared.within, ground), within, segment.level if segment else ""]
    levels += [near.level for near in needs] + [_key(rule.key, ground) for rule in wants.spread]
    return Role(
        min=0 if loose else low,
        want=want,
        max=want,
        shapes=_shapes(wants, facts, levels),
        coupling=Coupling.LOOSE if loose else Coupling.GANG,
        rule=SizeRule(),
        within=within,
        near=_level(part.near, ground),
        segment=None if loose else segment,
        caps=_caps(wants, kin.marks, max(low, want), ground),
        arrange=Arrange.SPREAD if wants.spread else Arrange.PACK,
        marks=(*kin.marks, *wants.ports, *(f"apart {b.company.mark} {b.key}" for b in wants.apart)),
        repels=_repels(kin, ground),
        needs=tuple(needs),
    )


def _shapes(wants: Wants, facts: Facts, levels: Iterable[str]) -> tuple[Shape, ...]:
    tolerate = tuple(facts.tolerate.get(wants.key, ()))
    tags = ((wants.nodes.tag,),) if wants.nodes else ()
    avoid = tuple(dict.fromkeys(lacking(level) for level in levels if level and level != NODE))
    plain = Shape(wants.ask, tags, avoid, tolerate)
    if wants.liked is None:
        return (plain,)
    return (Shape(wants.ask, (*tags, (wants.liked.tag,)), avoid, tolerate), plain)


def lacking(level: str) -> str:
    """The tag of nodes that stand in no domain of a level, and so are no place for who asks for one."""
    return f"lacks {level}"


def _repels(kin: Kin, ground: Ground) -> tuple[Near, ...]:
    """Ports that collide, pods it keeps away from, and pods that keep away from it."""
    wants = kin.wants
    found = [Near(port) for port in wants.ports]
    found += [Near(b.company.mark, _key(b.key, ground)) for b in wants.apart]
    for mark in kin.marks:
        found += [Near(other, _key(key, ground)) for other, key in ground.repelled.get(mark, ())]
    return tuple(dict.fromkeys(found))


def _caps(wants: Wants, marks: tuple[str, ...], members: int, ground: Ground) -> tuple[Cap, ...]:
    """A spread over pods of the role itself is an upper bound for each domain."""
    caps = []
    for rule in wants.spread:
        level = _key(rule.key, ground)
        domains = max(ground.domains.get(level, 1), 1)
        if rule.company.mark in marks:
            caps.append(Cap(level, max(-(-members // domains), 1) + (rule.max_skew - 1) // 2))
    return tuple(caps)


def _level(name: str, ground: Ground) -> str:
    return ground.levels.get(name, name)


def _key(key: str, ground: Ground) -> str:
    """The level a label of nodes stands for."""
    return NODE if key == HOSTNAME else ground.levels.get(key, key)


def _queue(declared: Declared, ground: Ground, asked: Asked) -> str:
    """The queue it names; else the one that is meant where it lives.

    YuniKorn lets people leave the root out, and without a tree of queues it goes by namespaces, whatever they name.
    """
    named = asked.ours or declared.queue or (asked.theirs if _known(asked.theirs, ground) else "")
    if named and not _is_unheeded(declared, ground, asked):
        return _known(named, ground) or named
    for local in (declared.local_queue, asked.local, f"{declared.namespace}/"):
        if local in ground.local_queues:
            return ground.local_queues[local]
    return declared.namespace if declared.namespace in ground.queues else "default"


def _is_unheeded(declared: Declared, ground: Ground, asked: Asked) -> bool:
    """Whether the queue it names means nothing here: YuniKorn's, where there is no tree of its queues."""
    named = declared.queue if declared.dialect == YUNIKORN and not asked.ours else ""
    return bool(named and ground.queues) and "root" not in ground.queues and not _known(named, ground)


def _known(name: str, ground: Ground) -> str:
    return next((queue for queue in (name, f"root.{name}") if queue in ground.queues), "")


def _priority(declared: Declared, facts: Facts, ground: Ground) -> int:
    if declared.priority is not None:
        return declared.priority
    if declared.priority_class:
        return ground.priorities.get(declared.priority_class, 0)
    return facts.priority if facts.priority is not None else ground.default_priority


def _estimate(time: int) -> Estimate:
    return Estimate(limit=time, source=Source.DECLARED) if time else Estimate()


def expected(declared: Declared) -> Kin | None:
    """What the members will be like while there are none, from what the group asks for in sum."""
    if not declared.min_ask or declared.min < 1:
        return None
    try:
        total = {name: amount(name, value) for name, value in declared.min_ask.items()}
    except BadQuantity:
        return None
    each = {name: -(-value // declared.min) for name, value in total.items() if value > 0} | {"pods": 1}
    wants = Wants(f"expected {sorted(each.items())}", each, None, None, (), (), (), (), (), (), "")
    return Kin("", wants, ())
