"""What would make it start? Every remedy is proven: the real decision, run on the changed view, starts the gang.

A remedy speaks of the view it was found on, with nothing else changed. It is a change of the job its owner can make, a
change of the cluster somebody can be asked for, or, where waiting is the answer, what has to happen meanwhile.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from .explain import known
from .model import NEVER, QUEUED, Data
from .policy import Policy
from .proposals import first_steps, opening, seating
from .trial import Proposal, Step, Trial, Who
from .view import View

BUDGET = 60
"""Decisions that may be run in search of remedies."""
MOST = 5
"""Remedies that are returned."""
DEEPEST = 3
"""Steps that may have to come before the one that makes it start: release it, then the queue opens, then ..."""
LOOKS = 100_000
"""Waiting gangs that may be looked at over all those decisions where somebody waits for the answer."""
LEAST = 10
"""Decisions that are run however many wait."""


Parts: TypeAlias = tuple[Proposal, ...]


class Remedy(Data, frozen=True):
    """What makes the gang start: steps, in order, each an edit of the view or an event in it, and then a decision."""

    steps: tuple[Step, ...]
    who: Who
    short: str
    """In a few words, as one would type it: workers = 13."""
    says: str
    """In a sentence."""
    at: int
    """When the decision is made that starts it: now, or when a time has passed."""
    expected: int = NEVER
    """For what has to happen: when it is expected to have happened."""
    strength: int = 1
    """How many different things it takes."""


def affordable(view: View, budget: int) -> int:
    """So many decisions, or fewer where each has to look at thousands of gangs."""
    return min(budget, max(LOOKS // max(len(view.queued), 1), LEAST))


def remedies(view: View, now: int, policy: Policy, gang: str, budget: int = BUDGET, most: int = MOST) -> list[Remedy]:
    """What would start the gang, each entry proven by a decision; at most so many, the owner's own means first.

    `budget` is how many decisions may be run in search of them. A gang that does not wait needs none.
    """
    if known(view, gang).life.state not in QUEUED:
        return []
    trial = Trial(view, now, policy, gang, budget)
    found = [_joined(trial, parts) for parts in islice(_different(_search(trial, ())), most)]
    return sorted(found, key=lambda remedy: (list(Who).index(remedy.who), remedy.strength))


def _search(trial: Trial, before: Parts) -> Iterator[Parts]:
    """Proposals that start the gang, after those before: what opens a gate first, then what finds room."""
    tried = trial.run(_steps(before), _at(before))
    if tried is None or tried.starts:
        return
    found = tried.explained()
    yield from _opened(trial, before, opening(tried, found))
    helped = False
    for proposal in seating(trial, _steps(before), tried, found):
        helped = True
        yield _needed(trial, (*before, proposal))
    if not helped:
        yield from _opened(trial, before, first_steps(tried, found))


def _opened(trial: Trial, before: Parts, proposals: Iterator[Proposal]) -> Iterator[Parts]:
    """Each of these, if it is enough; otherwise it and what else is needed."""
    for proposal in proposals:
        parts = (*before, proposal)
        if trial.starts(_steps(parts), _at(parts)):
            yield _needed(trial, parts)
        elif len(parts) <= DEEPEST:
            yield from _search(trial, parts)


def _needed(trial: Trial, parts: Parts) -> Parts:
    """Without whatever the gang starts without, too: a size that a later one replaces, a limit that is met anyway."""
    for part in parts[:-1]:
        fewer = tuple(other for other in parts if other is not part)
        if trial.starts(_steps(fewer), _at(fewer)):
            parts = fewer
    return parts


def _different(found: Iterator[Parts]) -> Iterator[Parts]:
    """Each once: what is left after the needless was left out may be known by then."""
    seen: list[Parts] = []
    for parts in found:
        if parts not in seen:
            seen.append(parts)
            yield parts


def _steps(parts: Parts) -> tuple[Step, ...]:
    return tuple(step for part in parts for step in part.steps)


def _at(parts: Parts) -> int:
    return max((part.at for part in parts), default=0)


def _joined(trial: Trial, parts: Parts) -> Remedy:
    known_ends = [part.expected for part in parts if part.who is Who.NOBODY]
    return Remedy(
        _steps(parts),
        max((part.who for part in parts), key=list(Who).index),
        ", and ".join(part.short for part in parts),
        ", and ".join(part.says for part in parts),
        max(_at(parts), trial.now),
        max(known_ends, default=NEVER),
        len(parts),
    )
