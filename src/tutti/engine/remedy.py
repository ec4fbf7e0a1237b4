"""What would make it start? Every remedy is proven: the real decision, run on the changed view, starts the gang.

A remedy speaks of the view it was found on, with nothing else changed. It is a change of the job its owner can make, a
change of the cluster somebody can be asked for, or, where waiting is the answer, what has to happen meanwhile.
"""

from collections.abc import Iterator

from .explain import known
from .model import NEVER, QUEUED, Data
from .policy import Policy
from .proposals import opening, seating
from .trial import Proposal, Step, Trial, Who
from .view import View

BUDGET = 60
"""Decisions that may be run in search of remedies."""
MOST = 5
"""Remedies that are returned."""
DEEPEST = 3
"""Steps that may have to come before the one that makes it start: release it, then the queue opens, then ..."""


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
    strength: int = 0
    """How many steps of different kinds it takes."""


def remedies(view: View, now: int, policy: Policy, gang: str, budget: int = BUDGET, most: int = MOST) -> list[Remedy]:
    """What would start the gang, each entry proven by a decision; at most so many, the owner's own means first.

    `budget` is how many decisions may be run in search of them. A gang that does not wait needs none.
    """
    if known(view, gang).life.state not in QUEUED:
        return []
    trial = Trial(view, now, policy, gang, budget)
    found: list[Remedy] = []
    for remedy in _search(trial, None, 0):
        found.append(remedy)
        if len(found) >= most:
            break
    return sorted(found, key=lambda remedy: (_rank(remedy), remedy.strength))


def _rank(remedy: Remedy) -> int:
    return list(Who).index(remedy.who)


def _search(trial: Trial, before: Remedy | None, depth: int) -> Iterator[Remedy]:
    """Remedies that begin with the steps before; what closes a gate is opened first, then room is looked for."""
    steps, at = (before.steps, before.at) if before else ((), 0)
    tried = trial.run(steps, at)
    if tried is None or tried.starts:
        return
    found = tried.explained()
    for proposal in opening(tried, found):
        remedy = joined(trial, before, proposal)
        if trial.starts(remedy.steps, remedy.at):
            yield remedy
        elif depth < DEEPEST:
            yield from _search(trial, remedy, depth + 1)
    for proposal in seating(trial, steps, tried, found):
        yield joined(trial, before, proposal)


def joined(trial: Trial, before: Remedy | None, proposal: Proposal) -> Remedy:
    """A proposal with what has to come before it."""
    at = max(proposal.at, trial.now, before.at if before else 0)
    if before is None:
        return Remedy(proposal.steps, proposal.who, proposal.short, proposal.says, at, proposal.expected, 1)
    who = max(before.who, proposal.who, key=list(Who).index)
    expected = max((e for e in (before.expected, proposal.expected) if e < NEVER), default=NEVER)
    return Remedy(
        (*before.steps, *proposal.steps),
        who,
        f"{before.short}, and {proposal.short}",
        f"{before.says}, and {proposal.says}",
        at,
        expected,
        before.strength + 1,
    )
