"""Why a gang waits, in words: a sentence, the numbers behind it, who is ahead, when it starts, what would start it now.

Times are told as seen from the moment of the explanation, unless the caller knows how to call a moment.
"""

from collections.abc import Callable, Sequence

from tutti.engine.explain import GANGS, Ahead, DomainRoom, Explanation, Part
from tutti.engine.model import NEVER, SECOND, Kind, State, Token
from tutti.engine.policy import Term
from tutti.engine.remedy import Remedy
from tutti.engine.ruled_out import Cause, Count
from tutti.engine.trial import Who

from .table import time_s

SCHEMA = "tutti/v1"
WIDTH = 88
PAD = 12
MOST_SHOWN = 6
"""Entries of a list that are shown before the rest is counted."""

Clock = Callable[[int], str]

CAUSES = {
    Cause.TAGS: "of another kind",
    Cause.TAINT: "tainted",
    Cause.SMALL: "too small",
    Cause.LOST: "lost",
    Cause.QUARANTINED: "quarantined",
    Cause.DRAINING: "draining",
    Cause.LEMON: "failing again and again",
    Cause.FOREIGN: "used by others",
    Cause.BUSY: "busy",
    Cause.WINDOW: "closed by a window",
    Cause.COMPANY: "closed by neighbours or their domain",
    Cause.STARTING: "taken by a gang that starts now",
    Cause.PROMISED: "promised",
    Cause.OUTSIDE: "with room, but outside",
    Cause.ROOM: "with room",
    Cause.UNSEEN: "not looked at",
}


def why_lines(
    found: Explanation,
    remedies: Sequence[Remedy] = (),
    forecast: str = "",
    clock: Clock | None = None,
    out_of_use: str = "",
) -> list[str]:
    """The explanation as lines of text. `forecast` is what simulated futures say of its start, where there are any;
    `out_of_use` which devices nobody may have, and why.
    """
    if found.token is None or found.token is Token.STARTING:
        return [f"{found.gang} is {_state(found)}: {found.statement}"]
    tell = clock or _from(found.at)
    body = [
        (" ", sentence(found)),
        (_plural(found.level), _domains(found.domains)),
        ("nodes", _counts(found)),
        ("out of use", out_of_use),
        ("roles", _roles(found)),
        ("limit", _limit(found)),
        ("ahead", _ahead(found)),
        ("held by", _blockers(found, tell)),
        ("order", _order(found)),
        ("promise", _promise(found, tell)),
        ("start", forecast or _start(remedies, tell)),
        ("to start now", _either(remedies, Who.OWNER)),
        ("ask for", _either(remedies, Who.ADMIN)),
        (" ", closing(found, remedies)),
    ]
    lines = [_line(label, text) for label, text in body if text]
    return [_head(found), *lines]


def _line(label: str, text: str) -> str:
    return f"  {text}" if label == " " else f"  {label:<{PAD}}  {text}"


def _head(found: Explanation) -> str:
    left = f"{found.gang} is {_state(found)}: {found.token}"
    place = f", {ordinal(found.position)} of {found.in_line}" if found.position else ""
    right = f"queue {found.queue}{place}, {time_s(found.waited / SECOND)}"
    return f"{left}{right:>{max(WIDTH - len(left), len(right) + 2)}}"


def _state(found: Explanation) -> str:
    return {State.HELD: "on hold", State.PARKED: "parked"}.get(found.state, str(found.state))


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th ..."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _from(now: int) -> Clock:
    def tell(moment: int) -> str:
        return "now" if moment <= now else f"in {time_s((moment - now) / SECOND)}"

    return tell


# -- the sentence


def sentence(found: Explanation) -> str:
    """What the token means for this gang, in one sentence."""
    told = SENTENCES.get(found.token) if found.token else None
    return told(found) if told else found.statement


def _needs(found: Explanation) -> str:
    return "1 member is needed" if found.asked == 1 else f"{found.asked} members are needed at once"


def _members(number: int) -> str:
    return "member" if number == 1 else "members"


def _no_room(found: Explanation) -> str:
    if found.placeable >= found.asked:
        return f"{_needs(found)}; each role would find room by itself, but not all of them together."
    return f"{_needs(found)}, and {found.placeable or 'none'} could sit now{_stopped(found)}."


def _stopped(found: Explanation) -> str:
    stop = found.stopped_by
    if stop is None:
        return ""
    about = f" ({stop.what})" if stop.what else ""
    return f"; {_so_many(stop.nodes, found.nodes)} {CAUSES[stop.cause]}{about}"


def _so_many(some: int, nodes: int) -> str:
    if some == nodes:
        return "the node is" if nodes == 1 else "all nodes are"
    return f"{some} of {nodes} nodes {'is' if some == 1 else 'are'}"


def _no_domain(found: Explanation) -> str:
    best = found.domains[0] if found.domains else None
    where = f" ({found.level} {best.name})" if best and best.room else ""
    least = best.needed if best else found.asked
    return f"{least} {_members(least)} are needed in one {found.level}; at most {best.room if best else 0} fit{where}."


def _quota(found: Explanation) -> str:
    quota = found.quota
    if quota is None:
        return f"It would go over a limit: {found.detail}."
    if quota.resource == GANGS:
        return f"It would be one gang too many: {found.detail}."
    return f"It would go over a limit: {quota.resource} of {quota.whose}."


def _reserved(found: Explanation) -> str:
    if found.detail:
        return f"There is room now, but {found.detail} before this gang would be done."
    return "There is room now, but it is promised to others before this gang would be done."


def _after(found: Explanation) -> str:
    entries = found.detail.split(", ")
    missed = [entry.removeprefix("never:") for entry in entries if entry.startswith("never:")]
    if missed:
        return f"It comes after {', '.join(missed)}, which ended otherwise than it waits for: it can never start."
    return f"It comes after {', '.join(map(_awaited, entries))}."


def _awaited(entry: str) -> str:
    how, _, name = entry.rpartition(":")
    return f"{name} ({AWAITED[how]})" if how in AWAITED else name


AWAITED = {"failed": "if that fails", "any": "however that ends"}
SENTENCES: dict[Token, Callable[[Explanation], str]] = {
    Token.INVALID: lambda found: f"The job contradicts itself: {found.detail}.",
    Token.NEVER_FITS: lambda found: f"This cluster could not hold it even when empty: {found.detail}.",
    Token.UNSUPPORTED: lambda found: f"It uses {found.detail}, which cannot be honoured.",
    Token.HELD: lambda found: (
        "Somebody put it on hold." if found.kind is Kind.CHANGE else "It was asked not to start before its time."
    ),
    Token.QUEUE_CLOSED: lambda found: f"Nothing starts there: {found.detail}.",
    Token.DEPENDENCY_WAIT: _after,
    Token.WAITING_FOR_MEMBERS: lambda found: f"It is not complete: {found.detail}.",
    Token.QUOTA_REACHED: _quota,
    Token.BACKING_OFF: lambda found: f"A start failed ({found.detail or 'no cause was given'}); it is tried again.",
    Token.BEHIND_OTHERS: lambda found: f"The line is strict, and {found.detail} at its head cannot start.",
    Token.RESERVED_AHEAD: _reserved,
    Token.NO_DOMAIN: _no_domain,
    Token.USED_BY_OTHERS: _no_room,
    Token.NODES_LOST: _no_room,
    Token.NO_CAPACITY: _no_room,
    Token.WAITING_FOR_EVICTION: lambda found: f"Room is being made for it: {found.detail}.",
    Token.PARKED: lambda _: "It gave up its place for a while, with its state kept.",
    Token.BUDGET_SPENT: lambda found: f"The search for a place was cut short ({found.detail}); there may be one.",
}


# -- the numbers


def _plural(level: str) -> str:
    return f"{level}s"


def _domains(domains: Sequence[DomainRoom]) -> str:
    if not domains:
        return ""
    shown = [f"{domain.name} {_room(domain)}" for domain in domains]
    return f"{_some(shown, '   ')}   ({domains[0].needed} needed)"


def _room(domain: DomainRoom) -> str:
    if domain.room:
        return f"{domain.room} fit"
    return "unwell" if domain.unwell == domain.nodes else "full"


def _counts(found: Explanation) -> str:
    if found.counts and found.counts[0].cause is Cause.UNSEEN:
        return ""
    return f"{found.nodes} in all: {_some([_count(count) for count in found.counts], ', ')}" if found.counts else "none"


def _count(count: Count) -> str:
    if count.cause in {Cause.STARTING, Cause.PROMISED} and count.what:
        return f"{count.nodes} {'taken by' if count.cause is Cause.STARTING else 'promised to'} {count.what}"
    about = f" ({count.what})" if count.what else ""
    return f"{count.nodes} {CAUSES[count.cause]}{about}"


def _roles(found: Explanation) -> str:
    if len(found.roles) < 2:
        return ""
    return _some([f"{role.role} {min(role.placeable, role.asked)} of {role.asked}" for role in found.roles], ", ")


def _limit(found: Explanation) -> str:
    quota = found.quota
    if quota is None or quota.resource == GANGS:
        return ""
    return f"asks {quota.asked}, and {quota.used} of {quota.limit} are used"


def _ahead(found: Explanation) -> str:
    return _some([_one_ahead(other) for other in found.ahead], "; ", 3)


def _one_ahead(other: Ahead) -> str:
    return f"{other.gang} ({other.members} {_members(other.members)}) {_effect(other)}"


def _effect(other: Ahead) -> str:
    if other.holds_up:
        return "holds it up"
    if other.puts_off >= NEVER:
        return "keeps it from being promised a time"
    return f"puts its start off by {time_s(other.puts_off / SECOND)}" if other.puts_off else "does not hold it up"


def _blockers(found: Explanation, tell: Clock) -> str:
    said = [
        f"{blocker.gang} ({_until(blocker.until, tell)})"
        if blocker.how in {"runs", "leaves", "starts"}
        else blocker.gang
        for blocker in found.blockers
    ]
    return _some(said, ", ")


def _until(moment: int, tell: Clock) -> str:
    return "nobody knows how long" if moment >= NEVER else f"ends {tell(moment)}"


def _order(found: Explanation) -> str:
    return ", ".join(_part(part) for part in found.score)


def _part(part: Part) -> str:
    if part.term is Term.SLACK:
        return "no deadline" if part.value >= NEVER else f"slack {_signed(part.value)}"
    if part.term is Term.STRETCH:
        return f"fair wait {'ends in' if part.value > 0 else 'over for'} {time_s(abs(part.value) / SECOND)}"
    if part.term in {Term.AGE, Term.SHORTEST}:
        word = "age" if part.term is Term.AGE else "run time"
        return f"{word} unknown" if part.value >= NEVER else f"{word} {time_s(part.value / SECOND)}"
    if part.term is Term.PROMISED:
        return "no promise" if part.value >= NEVER else "promised"
    return f"{part.term} {part.value}"


def _signed(time: int) -> str:
    return time_s(time / SECOND) if time >= 0 else f"-{time_s(-time / SECOND)}"


def _promise(found: Explanation, tell: Clock) -> str:
    promise = found.promise
    if promise is None:
        return ""
    if promise.start >= NEVER:
        return "nodes are kept for it as they free; nobody can say when that will be enough"
    moved = f", moved {promise.broken} times" if promise.broken > 1 else ", moved once" if promise.broken else ""
    return f"it starts {tell(promise.start)} at the latest, if others end as estimated{moved}"


def _start(remedies: Sequence[Remedy], tell: Clock) -> str:
    """What has to happen, where waiting is the answer."""
    waits = next((remedy for remedy in remedies if remedy.who is Who.NOBODY), None)
    if waits is None:
        return ""
    when = f" (expected {tell(waits.expected)})" if waits.expected < NEVER else ""
    said = waits.says.replace("wait until", "when", 1).replace("wait for", "with", 1)
    return f"{said}{when}, if nothing else changes"


def _either(remedies: Sequence[Remedy], who: Who) -> str:
    return "   or   ".join(remedy.short for remedy in remedies if remedy.who is who)


def closing(found: Explanation, remedies: Sequence[Remedy] = ()) -> str:
    """Whose move it is, in the last line."""
    if found.token is Token.HELD and found.kind is Kind.CHANGE:
        return "nothing is wrong with the job; it waits to be released"
    if found.kind is Kind.CHANGE:
        return "it will not start as it is; change the job"
    if found.kind is Kind.ASK:
        return (
            "it starts when others make room"
            if not remedies
            else "nothing is wrong with the job; somebody can be asked"
        )
    return "nothing is wrong with the job; waiting is fine"


def _some(entries: Sequence[str], between: str, most: int = MOST_SHOWN) -> str:
    shown = between.join(entries[:most])
    return shown if len(entries) <= most else f"{shown}{between}and {len(entries) - most} more"


# -- for machines


def why_json(found: Explanation, remedies: Sequence[Remedy] = ()) -> dict[str, object]:
    """The same for machines. Times are seconds from the moment of the explanation; what is not known is left out."""
    whole: dict[str, object | None] = {
        "schema": SCHEMA,
        "gang": found.gang,
        "at_us": found.at,
        "state": str(found.state),
        "queue": found.queue,
        "reason": str(found.token) if found.token else None,
        "class": str(found.kind) if found.token else None,
        "detail": found.detail or None,
        "statement": found.statement or None,
        "sentence": sentence(found) or None,
        "waited_s": found.waited / SECOND,
        "asked": found.asked,
        "placeable": found.placeable,
        "position": found.position,
        "in_line": found.in_line,
        "level": found.level or None,
        "wakes": list(found.wakes),
        "retry_in_s": _ahead_s(found, found.retry_at),
        **_lists(found),
        "remedies": [_remedy(found, remedy) for remedy in remedies],
    }
    return {key: value for key, value in whole.items() if value is not None}


def _lists(found: Explanation) -> dict[str, object | None]:
    quota, promise = found.quota, found.promise
    return {
        "roles": [{"role": role.role, "asked": role.asked, "placeable": role.placeable} for role in found.roles],
        "nodes": found.nodes,
        "counts": [
            _plain(cause=str(count.cause), nodes=count.nodes, what=count.what or None) for count in found.counts
        ],
        "domains": [
            {
                "name": domain.name,
                "room": domain.room,
                "needed": domain.needed,
                "nodes": domain.nodes,
                "unwell": domain.unwell,
            }
            for domain in found.domains
        ],
        "blockers": [
            _plain(gang=other.gang, how=other.how, members=other.members, ends_in_s=_ahead_s(found, other.until))
            for other in found.blockers
        ],
        "ahead": [
            _plain(gang=o.gang, members=o.members, holds_up=o.holds_up, puts_off_s=_time_s(o.puts_off))
            for o in found.ahead
        ],
        "score": [
            _plain(term=str(part.term), value=None if part.value >= NEVER else part.value) for part in found.score
        ],
        "share": [{"queue": queue, "tier": tier, "millionths": part} for queue, tier, part in found.share],
        "quota": {
            "resource": quota.resource,
            "whose": quota.whose,
            "asked": quota.asked,
            "used": quota.used,
            "limit": quota.limit,
        }
        if quota
        else None,
        "promise": _plain(start_in_s=_ahead_s(found, promise.start), broken=promise.broken) if promise else None,
    }


def _remedy(found: Explanation, remedy: Remedy) -> dict[str, object]:
    when = remedy.at if remedy.at > found.at else NEVER
    return _plain(
        who=str(remedy.who),
        short=remedy.short,
        says=remedy.says,
        at_in_s=_ahead_s(found, when),
        expected_in_s=_ahead_s(found, remedy.expected),
    )


def _ahead_s(found: Explanation, moment: int) -> float | None:
    return None if moment >= NEVER else (moment - found.at) / SECOND


def _time_s(length: int) -> float | None:
    return None if length >= NEVER or not length else length / SECOND


def _plain(**entries: object | None) -> dict[str, object]:
    return {key: value for key, value in entries.items() if value is not None}
