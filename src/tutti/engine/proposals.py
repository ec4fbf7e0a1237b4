"""What could be tried to make a gang start? First what opens a closed gate, then what finds it room."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from . import events as ev
from .desk import usable
from .edit import ChangeGang, Release, SetQueue, TurnNodes, Value
from .estimate import leading_role
from .explain import Explanation, branches
from .model import NEVER, Bound, Gang, Job, Kind, Node, NodeState, Role, Shape, State, Token, span
from .order import in_line
from .place import Outlook
from .plan import Await, Evict, Shrink
from .profile import Profile
from .raise_bounds import raised_bounds
from .ruled_out import fits_when_empty
from .sizes import largest_legal, legal_sizes, role_rule
from .topology import POOL
from .trial import Proposal, Step, Trial, Tried, Who

MOST_QUEUES = 4
MOST_MOMENTS = 64
MOST_PRUNED = 8
"""Gangs whose end is waited for are tried without one by one, if they are no more than this."""
MOST_NAMED = 4
"""Names a sentence repeats before it counts the rest."""
PARTS = (2, 4, 8)

Seek = Callable[[Trial, Sequence[Step], Tried, Explanation], Iterator[Proposal]]


def first_steps(tried: Tried, found: Explanation) -> Iterator[Proposal]:
    """What may have to come first where nothing helps alone: to be small enough, one's turn, the end of a window."""
    if found.token is Token.NEVER_FITS:
        yield from _smaller(tried)
    elif found.token is Token.BEHIND_OTHERS:
        names = [blocker.gang for blocker in found.blockers]
        steps = tuple(ev.Ended(0, name) for name in names)
        yield Proposal(steps, Who.NOBODY, f"{_list(names)} ends", f"wait until {_list(names)} has had its turn")
    if found.token not in {Token.INVALID, Token.NEVER_FITS}:
        yield from _windows(tried)
    if _ways(found):
        for word, gang in _loosened(tried.job.gang):
            yield Proposal((ev.Changed(0, gang),), Who.OWNER, f"without {word}", f"drop its {word}")


def _smaller(tried: Tried) -> Iterator[Proposal]:
    """The size that would fit on the empty cluster, or no domain to be in."""
    gang, reason = tried.job.gang, tried.plan.answers[tried.gang]
    at = leading_role(gang)
    size = largest_legal(role_rule(gang.roles[at]), 1, reason.placeable)
    if size and reason.asked == tried.desk.sizes(tried.job, at).low:
        said = f"run it with {size} members"
        yield Proposal((ChangeGang(gang.name, workers=size),), Who.OWNER, f"workers = {size}", said)
    if gang.within or any(role.within for role in gang.roles):
        said = "let it spread over any nodes"
        yield Proposal((ChangeGang(gang.name, within=""),), Who.OWNER, 'within = "any"', said)


def _windows(tried: Tried) -> Iterator[Proposal]:
    """The end of each window that is open or coming, the first first."""
    for name, window in sorted(tried.view.windows.items(), key=lambda item: (item[1].end, item[0])):
        if window.end > tried.at:
            said = f"wait until window {name!r} is over"
            yield Proposal((), Who.NOBODY, f"window {name} is over", said, window.end, window.end)


def opening(tried: Tried, found: Explanation) -> Iterator[Proposal]:
    """What undoes a reason that has nothing to do with room."""
    gates: dict[Token, Callable[[Tried, Job], Iterable[Proposal]]] = {
        Token.UNSUPPORTED: _drop_field,
        Token.HELD: _release,
        Token.QUEUE_CLOSED: _open_queue,
        Token.DEPENDENCY_WAIT: _others_end,
        Token.WAITING_FOR_MEMBERS: _members_come,
        Token.QUOTA_REACHED: _more_quota,
        Token.BACKING_OFF: _time_passes,
        Token.WAITING_FOR_EVICTION: _victims_leave,
    }
    open_gate = gates.get(found.token) if found.token else None
    return iter(open_gate(tried, tried.job) if open_gate else ())


def _drop_field(_: Tried, job: Job) -> Iterator[Proposal]:
    field = job.gang.unsupported
    step = ev.Changed(0, msgspec.structs.replace(job.gang, unsupported=""))
    yield Proposal((step,), Who.OWNER, f"without {field}", f"leave out {field!r}, which cannot be honoured")


def _release(tried: Tried, job: Job) -> Iterator[Proposal]:
    if job.life.state is State.HELD:
        yield Proposal((Release(job.gang.name),), Who.OWNER, "release it", "release it")
    elif (begin := job.gang.begin) > tried.at:
        yield Proposal((), Who.NOBODY, "its time has come", "wait until its time has come", begin, begin)
        now = ev.Changed(0, msgspec.structs.replace(job.gang, begin=0))
        yield Proposal((now,), Who.OWNER, "begin = 0", "let it start at once")


def _open_queue(tried: Tried, job: Job) -> Iterator[Proposal]:
    name = job.gang.queue
    if name in tried.view.queues:
        step = SetQueue(name, {"closed": False})
        yield Proposal((step,), Who.ADMIN, f"queue {name} opens", f"have queue {name!r} opened")
    yield from _moves(tried, job)


def _moves(tried: Tried, job: Job) -> Iterator[Proposal]:
    """Every other queue that is open."""
    others = [queue for name, queue in sorted(tried.view.queues.items()) if name != job.gang.queue]
    for queue in [queue for queue in others if not queue.closed][:MOST_QUEUES]:
        step = ChangeGang(job.gang.name, queue=queue.name)
        yield Proposal((step,), Who.OWNER, f'queue = "{queue.name}"', f"move it to queue {queue.name!r}")


def _others_end(tried: Tried, job: Job) -> Iterator[Proposal]:
    """What it comes after ends the way it has to; or it comes after nothing."""
    steps = [_end_of(tried, entry) for entry in job.gang.after]
    if all(steps):
        names = [entry.split(":", 1)[-1] for entry in job.gang.after]
        ends = max(_expected(tried, name) for name in names)
        done = tuple(step for step in steps if step)
        yield Proposal(done, Who.NOBODY, f"{_list(names)} ends", f"wait until {_list(names)} has ended", expected=ends)
    changed = ev.Changed(0, msgspec.structs.replace(job.gang, after=()))
    yield Proposal((changed,), Who.OWNER, "after = []", "let it come after nothing")


def _end_of(tried: Tried, entry: str) -> ev.Ended | None:
    how, _, name = entry.rpartition(":")
    if how == "never" or tried.view.job(name) is None:
        return None
    return ev.Ended(0, name, State.FAILED if how == "failed" else State.FINISHED)


def _expected(tried: Tried, name: str) -> int:
    desk = tried.desk
    slot = next((slot for slot in tried.view.seated if tried.view.held(slot).gang.name == name), -1)
    return desk.end_of(slot) if slot >= 0 else NEVER


def _members_come(_: Tried, job: Job) -> Iterator[Proposal]:
    missing = job.life.awaiting
    said = "wait until the " + (f"{missing} missing members are there" if missing > 1 else "missing member is there")
    yield Proposal((ev.MembersSeen(0, job.gang.name, 0),), Who.NOBODY, "all members are there", said)


def _time_passes(_: Tried, job: Job) -> Iterator[Proposal]:
    at = job.life.attempt.not_before
    yield Proposal((), Who.NOBODY, "the pause is over", "wait for the next try", at, at)


def _victims_leave(tried: Tried, job: Job) -> Iterator[Proposal]:
    """Those who make room for it have made it; what they free is its own, as the plan says."""
    name = job.gang.name
    steps: list[Step] = []
    names: list[str] = []
    for action in tried.plan.actions:
        if isinstance(action, Await) and action.gang == name and action.pledge:
            steps.append(ev.Pledged(0, name, action.pledge))
        elif isinstance(action, Shrink) and action.room_for == name:
            steps.append(ev.Resized(0, action.gang, action.seats))
            names.append(action.gang)
        elif isinstance(action, Evict) and action.room_for == name:
            steps.append(_gone(tried, action.gang))
            names.append(action.gang)
    for victim in job.life.pledge.victims if job.life.pledge and not names else ():
        other = tried.view.job(victim)
        if other is not None and other.life.seats:
            steps.append(ev.Resized(0, victim, other.life.target) if other.life.target else _gone(tried, victim))
            names.append(victim)
    by = tried.at + tried.desk.policy.reclaim.grace
    yield Proposal(
        tuple(steps), Who.NOBODY, f"{_list(names)} makes room", f"wait until {_list(names)} has made room", expected=by
    )


def _gone(tried: Tried, name: str) -> ev.Evicted:
    job = tried.view.job(name)
    return ev.Evicted(0, name, parked=job is not None and job.gang.parkable)


# -- quota


def _more_quota(tried: Tried, job: Job) -> Iterator[Proposal]:
    steps = tuple(_raised(tried, job))
    if steps:
        said = _list([step.queue for step in steps])
        short = "; ".join(f"{step.queue}: {_fields(step)}" for step in steps)
        yield Proposal(steps, Who.ADMIN, short, f"have the limit of queue {said} raised ({short})")
    if not job.gang.preemptible:
        step = ev.Changed(0, msgspec.structs.replace(job.gang, preemptible=True))
        yield Proposal((step,), Who.OWNER, "preemptible = true", "let it be interrupted, so that it may borrow")
    yield from _moves(tried, job)


def _raised(tried: Tried, job: Job) -> Iterator[SetQueue]:
    """Every limit on the way up that the gang's minimum would break, just high enough."""
    least, names = tried.desk.least_amounts(job), list(tried.view.resources)
    for branch in branches(tried.desk, job):
        queue = tried.view.queues.get(branch.name)
        if queue is None or (branch.parent and branch.parent.name == branch.name):
            continue
        mine = branch.users.get(job.gang.user) or [0] * len(least)
        limits = {
            names[r]: branch.total[r] + least[r] for r, m in branch.limits.items() if _over(branch.total, least, r, m)
        }
        own = {names[r]: mine[r] + least[r] for r, most in branch.user_limits.items() if _over(mine, least, r, most)}
        fields: dict[str, Value] = {}
        if limits:
            fields["limit"] = {**queue.limit, **limits}
        if own:
            fields["user_limit"] = {**queue.user_limit, **own}
        fields |= raised_bounds(tried.desk, job, queue)
        if fields:
            yield SetQueue(queue.name, fields)


def _over(held: Sequence[int], least: Sequence[int], r: int, most: int) -> bool:
    return r < len(least) and bool(least[r]) and held[r] + least[r] > most


def _fields(step: SetQueue) -> str:
    return ", ".join(f"{field} = {_amounts(value)}" for field, value in step.fields.items())


def _amounts(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_amounts, value))}]"
    if isinstance(value, Bound):
        return _amounts(msgspec.to_builtins(value))
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if not isinstance(value, dict):
        return str(value)
    return "{" + ", ".join(f"{name} = {_amounts(amount)}" for name, amount in value.items()) + "}"


# -- room


def seating(trial: Trial, before: Sequence[Step], tried: Tried, found: Explanation) -> Iterator[Proposal]:
    """What finds the gang room. Everything yielded here has been tried and starts it."""
    helped = False
    for seek in (*_ways(found), _together):
        if trial.left <= 0 or (helped and seek is _together):
            return
        for proposal in seek(trial, before, tried, found):
            helped = True
            yield proposal


def _ways(found: Explanation) -> tuple[Seek, ...]:
    token = found.token
    if token in {None, Token.INVALID, Token.UNSUPPORTED, Token.HELD, Token.QUEUE_CLOSED, Token.BACKING_OFF}:
        return ()
    if token in {Token.DEPENDENCY_WAIT, Token.WAITING_FOR_MEMBERS, Token.STARTING}:
        return ()
    if token is Token.NEVER_FITS:
        return _fewer, _wider, _looser, _in_parts
    if token is Token.BEHIND_OTHERS:
        return _endings, _elsewhere, _urgent
    if token is Token.QUOTA_REACHED:
        return _fewer, _endings
    first = (_endings,) if found.kind is Kind.WAIT else (_given_back, _returned)
    rest = (_fewer, _wider, _shorter, _window_ends, _looser, _in_parts, _given_back, _returned, _elsewhere, _urgent)
    return (*first, *(seek for seek in (*rest, _endings) if seek not in first))


def _fewer(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """The largest legal size that starts."""
    gang = tried.job.gang
    at = leading_role(gang)
    low = tried.desk.sizes(tried.job, at).low
    sizes = legal_sizes(role_rule(gang.roles[at]), 1, min(low - 1, _most(tried, at)))
    size = trial.largest(sizes, lambda size: (*before, ChangeGang(gang.name, workers=size)), tried.at)
    if size is not None:
        said = f"run it with {size} of its {low} {gang.roles[at].name}s"
        yield Proposal((ChangeGang(gang.name, workers=size),), Who.OWNER, f"workers = {size}", said)


def _most(tried: Tried, role: int) -> int:
    """The most members of a role that what is free now could hold if nobody else were given any of it."""
    desk, view = tried.desk, tried.view
    free = Profile(view, tried.at, desk.profile.percent, desk.usable)
    masks = [
        (need, desk.usable & view.topology.eligible(*need.key)[view.class_kind]) for need in desk.needs(tried.job)[role]
    ]
    return max((Outlook(free, need, 0, 1, mask).capacity() for need, mask in masks if not need.missing), default=0)


def _wider(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """The narrowest level that is wide enough, or none."""
    gang, order = tried.job.gang, tried.view.topology.levels
    asked = [level for level in (gang.within, *(role.within for role in gang.roles)) if level]
    if not asked:
        return
    narrow = max(order.get(level, len(order)) for level in asked)
    wider = sorted(
        (level for level, at in order.items() if at < narrow and level != POOL), key=lambda name: -order[name]
    )
    for level in (*wider, ""):
        step = ChangeGang(gang.name, within=level)
        if trial.starts((*before, step), tried.at):
            word = level or "any"
            said = f"let it spread over one {level}" if level else "let it spread over any nodes"
            yield Proposal((step,), Who.OWNER, f'within = "{word}"', said)
            return


def _shorter(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """The longest run time that ends before what is promised to others begins."""
    job, desk = tried.job, tried.desk
    whole = desk.length(job)
    starts = [stay[0] for stay in desk.stays.values()] + [window.start for window in tried.view.windows.values()]
    moments = sorted({moment for moment in starts if tried.at < moment < NEVER})
    lengths = [moment - tried.at + job.life.ran for moment in moments if moment - tried.at < whole][-MOST_MOMENTS:]
    name = job.gang.name
    length = trial.largest(lengths, lambda time: (*before, ChangeGang(name, time=time)), tried.at)
    if length is not None:
        said = f"limit its run time to {span(length)}, if that is enough: it then ends before a promise begins"
        yield Proposal((ChangeGang(name, time=length),), Who.OWNER, f"time = {span(length)}", said)


def _window_ends(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    for proposal in _windows(tried):
        if trial.starts(before, proposal.at):
            yield proposal
            return


def _looser(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """Without one of the wishes that narrow where members may sit."""
    for word, gang in _loosened(tried.job.gang):
        step = ev.Changed(0, gang)
        if trial.starts((*before, step), tried.at):
            yield Proposal((step,), Who.OWNER, f"without {word}", f"drop its {word}")
            return


def _loosened(gang: Gang) -> Iterator[tuple[str, Gang]]:
    ways: tuple[tuple[str, Callable[[Role], Role]], ...] = (
        ("segments", lambda role: msgspec.structs.replace(role, segment=None)),
        ("caps", lambda role: msgspec.structs.replace(role, caps=())),
        ("rules about neighbours", lambda role: msgspec.structs.replace(role, repels=(), needs=())),
        ("tags", lambda role: msgspec.structs.replace(role, shapes=tuple(map(_untagged, role.shapes)))),
    )
    for word, change in ways:
        loose = msgspec.structs.replace(gang, roles=tuple(map(change, gang.roles)))
        if loose != gang:
            yield word, loose
    if gang.domain_ask:
        yield "claims on domains", msgspec.structs.replace(gang, domain_ask={})


def _untagged(shape: Shape) -> Shape:
    return msgspec.structs.replace(shape, tags=(), avoid=())


def _in_parts(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """Smaller members, more of them, the same in all."""
    gang = tried.job.gang
    if len(gang.roles) != 1:
        return
    for parts in PARTS:
        role = _divided(gang.roles[0], parts)
        step = ev.Changed(0, msgspec.structs.replace(gang, roles=(role,))) if role else None
        if role and step and trial.starts((*before, step), tried.at):
            ask = _amounts(role.shapes[0].ask)
            said = f"run it as {role.min} members of {ask} each"
            yield Proposal((step,), Who.OWNER, f"workers = {role.min}, each {ask}", said)
            return


def _divided(role: Role, parts: int) -> Role | None:
    if any(amount % parts for shape in role.shapes for amount in shape.ask.values()):
        return None
    shapes = tuple(
        msgspec.structs.replace(
            shape,
            ask={name: amount // parts for name, amount in shape.ask.items()},
            min=shape.min * parts,
            want=shape.want * parts,
            max=shape.max * parts,
        )
        for shape in role.shapes
    )
    return msgspec.structs.replace(
        role, min=role.min * parts, want=role.want * parts, max=role.max * parts, shapes=shapes
    )


def _elsewhere(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    for proposal in _moves(tried, tried.job):
        if trial.starts((*before, *proposal.steps), tried.at):
            yield proposal
            return


def _urgent(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """A priority above everybody who waits."""
    view, gang = tried.view, tried.job.gang
    others = [view.held(slot).gang for slot in view.queued]
    above = max((other.priority for other in others if other.name != gang.name), default=gang.priority) + 1
    if above <= gang.priority:
        return
    step = ChangeGang(gang.name, priority=above)
    if trial.starts((*before, step), tried.at):
        said = f"have its priority raised from {gang.priority} to {above}"
        yield Proposal((step,), Who.ADMIN, f"priority = {above}", said)


# -- nodes


def _given_back(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """The fewest nodes on which others would have to give back what they use."""
    nodes = [node for node in _suitable(tried) if node.foreign]
    steps = [ev.NodeSeen(0, _ours(node)) for node in nodes]
    fewest = _fewest(trial, before, steps, tried.at)
    if fewest:
        names = _list([node.name for node in nodes[: len(fewest)]])
        yield Proposal(tuple(fewest), Who.ADMIN, f"{names} given back", f"have {names} given back by those who use it")


def _ours(node: Node) -> Node:
    return msgspec.structs.replace(node, foreign={}, foreign_marks=())


def _returned(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """The fewest nodes that would have to come back."""
    nodes = _unwell(trial, tried)
    fewest = _fewest(trial, before, [_well(node) for node in nodes], tried.at)
    if fewest:
        names = _list([node.name for node in nodes[: len(fewest)]])
        yield Proposal(tuple(fewest), Who.ADMIN, f"{names} back", f"have {names} brought back")


def _unwell(trial: Trial, tried: Tried) -> list[Node]:
    view = tried.view
    healthy, _ = usable(view, tried.at, trial.policy)
    return [node for node in _suitable(tried) if not healthy[view.class_of[view.node_index[node.name]]]]


def _together(trial: Trial, before: Sequence[Step], tried: Tried, found: Explanation) -> Iterator[Proposal]:
    """Where nothing helps alone: nodes come back, others give back what they use, and those who run end."""
    unwell = {node.name: node for node in _unwell(trial, tried)}
    nodes = [node for node in _suitable(tried) if node.foreign or node.name in unwell]
    if not nodes or not _ways(found):
        return
    back = tuple(
        ev.NodeSeen(0, msgspec.structs.replace(_ours(node), state=NodeState.READY, faults=())) for node in nodes
    )
    for ending in _endings(trial, (*before, *back), tried, found):
        names = _list([node.name for node in nodes])
        short, says = f"{names} back, and {ending.short}", f"have {names} brought or given back, and {ending.says}"
        yield Proposal((*back, *ending.steps), Who.ADMIN, short, says, expected=ending.expected)


def _well(node: Node) -> Step:
    if not node.faults:
        return TurnNodes((node.name,), NodeState.READY)
    return ev.NodeSeen(0, msgspec.structs.replace(node, state=NodeState.READY, drain_by=NEVER, faults=()))


def _suitable(tried: Tried) -> list[Node]:
    """Nodes that would take a member of the gang if they were empty, in the order of the line."""
    view, desk = tried.view, tried.desk
    needs = [need for options in desk.needs(tried.job) for need in options]
    masks = [fits_when_empty(desk, need) for need in needs]
    here = [(at, view.nodes[at]) for at in view.by_line.tolist()]
    return [node for at, node in here if node and any(mask[view.class_of[at]] for mask in masks)]


def _fewest(trial: Trial, before: Sequence[Step], steps: Sequence[Step], at: int) -> Sequence[Step]:
    """The shortest beginning of these steps that starts the gang."""
    counts = range(len(steps), 0, -1)
    count = trial.largest(counts, lambda count: (*before, *steps[:count]), at)
    return steps[:count] if count else ()


# -- time


def _endings(trial: Trial, before: Sequence[Step], tried: Tried, _: Explanation) -> Iterator[Proposal]:
    """The gangs whose end is enough: as few as possible of those that end first, then of those that wait too."""
    ends = [(tried.desk.end_of(slot), tried.view.held(slot).gang.name) for slot in tried.view.seated]
    expected = {name: end for end, name in sorted(ends)}
    names: list[str] = list(expected)
    for more in (_nobody, _in_the_way, _everybody):
        names += more(trial, (*before, *_end(names)), tried, names)
        enough = _fewest(trial, before, _end(names), tried.at)
        if enough:
            yield _ended(_needed(trial, before, names[: len(enough)], tried), expected)
            return


def _end(names: Sequence[str]) -> tuple[ev.Ended, ...]:
    return tuple(ev.Ended(0, name) for name in names)


def _needed(trial: Trial, before: Sequence[Step], names: list[str], tried: Tried) -> list[str]:
    """The same without those whose end is not needed, as far as the budget goes."""
    kept = names
    for fewer in (names[-1:], _on_its_seats(trial, before, names, tried)):
        if len(fewer) < len(kept) and trial.starts((*before, *_end(fewer)), tried.at):
            kept = fewer
    for name in kept if len(kept) <= MOST_PRUNED else ():
        fewer = [other for other in kept if other != name]
        if fewer and trial.starts((*before, *_end(fewer)), tried.at):
            kept = fewer
    return kept


def _on_its_seats(trial: Trial, before: Sequence[Step], names: list[str], tried: Tried) -> list[str]:
    """Those of the gangs that sit where this one would; and those that wait, who sit nowhere."""
    there = trial.run((*before, *_end(names)), tried.at)
    if there is None or not there.starts:
        return names
    taken = {node for held in there.seats for node in held.nodes}
    jobs = {name: tried.view.job(name) for name in names}
    return [name for name, job in jobs.items() if job and (not job.life.seats or taken & _nodes(job))]


def _nodes(job: Job) -> set[int]:
    return {node for held in job.life.seats for node in held.nodes}


def _nobody(*_: object) -> list[str]:
    return []


def _in_the_way(trial: Trial, steps: Sequence[Step], tried: Tried, known: list[str]) -> list[str]:
    """Gangs that wait too and would take the room, in their order."""
    there = trial.run(steps, tried.at)
    if there is None or there.starts:
        return []
    desk = there.desk
    taking = {*desk.stays, *desk.started, *desk.strict_queues.values()} - {tried.gang, *known}
    return _in_order(trial, tried, taking)


def _everybody(trial: Trial, _: Sequence[Step], tried: Tried, known: list[str]) -> list[str]:
    """Everybody else who waits, in order."""
    names = {tried.view.held(slot).gang.name for slot in tried.view.queued}
    return _in_order(trial, tried, names - {tried.gang, *known})


def _in_order(trial: Trial, tried: Tried, names: set[str]) -> list[str]:
    view = tried.view
    slots = [slot for slot in view.queued if view.held(slot).gang.name in names]
    return [view.held(slot).gang.name for slot in in_line(view, slots, tried.at, trial.policy)]


def _ended(names: list[str], expected: dict[str, int]) -> Proposal:
    steps = tuple(ev.Ended(0, name) for name in names)
    runs, waits = [name for name in names if name in expected], [name for name in names if name not in expected]
    said = [f"{_list(runs)} {'has' if len(runs) == 1 else 'have'} ended"] if runs else []
    said += (
        [f"{_list(waits)} {'has' if len(waits) == 1 else 'have'} had {'its' if len(waits) == 1 else 'their'} turn"]
        if waits
        else []
    )
    end = max((expected[name] for name in runs), default=NEVER) if not waits else NEVER
    short = f"{_list(names)} {'ends' if len(names) == 1 else 'end'}"
    return Proposal(steps, Who.NOBODY, short, f"wait until {' and '.join(said)}", expected=end)


def _list(names: Sequence[str]) -> str:
    """Names in a sentence; of many only the first."""
    shown, rest = list(names[:MOST_NAMED]), len(names) - MOST_NAMED
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
