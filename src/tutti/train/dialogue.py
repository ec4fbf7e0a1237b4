"""The job's side of its talk with a scheduler: progress out; resize, snapshot and leave in, each answered."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from tutti.train.agent import lines
from tutti.train.agent.agent import Agent
from tutti.train.agent.channel import (
    Accepted,
    Done,
    Leave,
    Progress,
    Refused,
    Released,
    Request,
    Resize,
    Snapshot,
    Told,
)
from tutti.train.agent.client import Client
from tutti.train.agent.exits import Exit
from tutti.train.agent.roster import Stage
from tutti.train.agent.seat import Seat
from tutti.train.agent.story import Story
from tutti.train.tiers import Tier

REPORT_S = 0.1
STATUS_S = 0.5
PASSED_ON = frozenset({"fenced", "lost", "stalled", "formed"})
"""What happens to members and is worth a line in the story that the scheduler keeps."""


@dataclass(frozen=True)
class Open:
    """A request that was accepted and is not done: since when, after which step, with how many members, where how many
    were wanted.
    """

    request: Request
    began: float
    step: int
    world: int
    want: int

    @property
    def is_shrink(self) -> bool:
        return isinstance(self.request, Resize) and self.request.target < self.world


class Dialogue:
    """Carries requests from the channel (or from a signal) to the agent, and answers when they are done."""

    def __init__(self, agent: Agent, grace_s: float, story: Story, tiers: dict[str, Tier] | None = None) -> None:
        address = os.environ.get("TUTTI_CHANNEL")
        self.agent = agent
        self.grace_s = grace_s
        self.story = story
        self.tiers = tiers or {}
        self.saved_in = ""
        self._first_step = -1
        self.client = Client(address, agent.folder.path.name) if address else None
        self.open: dict[str, Open] = {}
        self._kept: set[int] = set()
        """The steps that those who left have kept last."""
        self._signals = 0
        self._heard_signals = 0
        self._next_report = 0.0
        self._next_status = 0.0
        self.story.listener = self._pass_on
        agent.heard["left"] = self._left
        agent.heard["released"] = lambda _seat, _said: None

    def _pass_on(self, event: str, sentence: str) -> None:
        """Who was lost or hung, and with whom it goes on, is told to the scheduler too."""
        if self.client and event in PASSED_ON:
            self.client.tell(Told(event, sentence))

    def fileno(self) -> int | None:
        """Readable when the scheduler has said something."""
        return self.client.fileno() if self.client else None

    def signalled(self, _number: int) -> None:
        self._signals += 1

    def turn(self) -> None:
        """Hear requests, answer those that are done, report."""
        self._hear_signals()
        if self.client:
            for request in self.client.requests():
                self.ask(request)
        self._check_open()
        for tier in self.tiers.values():
            tier.turn(int(self.agent.progress.get("snapshot_step", -1)))
        now = time.monotonic()
        if self.client and now >= self._next_report and self.agent.progress:
            self._next_report = now + REPORT_S
            self.client.report(self._progress())
        if now >= self._next_status:
            self._next_status = now + STATUS_S
            self.agent.write_status(self.status())

    def ask(self, request: Request) -> None:
        """Begin a request, or refuse it."""
        why = self._why_not(request)
        if why:
            self._answer(Refused(request.id, why, self.legal()))
            return
        self._supersede(request)
        world = len(self.agent.roster.generation.members)
        self.open[request.id] = Open(request, time.monotonic(), self.agent.roster.step, world, self.agent.asked)
        self._answer(Accepted(request.id, self.agent.roster.step + 1))
        self.story.tell(
            "asked",
            f"{request.say} was asked for ({request.reason or 'no reason given'})",
            request=request.say,
            id=request.id,
        )
        self._begin(request)

    def legal(self) -> tuple[int, ...]:
        """Sizes that would be accepted now."""
        batch = int(self.agent.progress.get("batch", 0))
        return tuple(size for size in self.agent.roster.rule.legal() if not batch or size <= batch)

    def status(self) -> dict[str, object]:
        """What `tutti train status` shows."""
        roster, progress = self.agent.roster, self.agent.progress
        age = time.monotonic() - self.agent.began
        return {
            "schema": "tutti/v1", "run": self.agent.folder.path.name, "generation": roster.generation.number,
            "world": len(roster.generation.members), "want": roster.want, "legal": list(self.legal()),
            "step": roster.step,
            "rate": progress.get("rate", 0.0), "epoch": progress.get("epoch", 0), "cursor": progress.get("cursor", 0),
            "snapshot_step": progress.get("snapshot_step", -1), "snapshot_every": progress.get("every", 0),
            "snapshot_age_s": self._snapshot_age_s(), "state_bytes": progress.get("state_bytes", 0),
            "memory_bytes": self.agent.memory_bytes(), "level": progress.get("level", "L1"),
            "replicas": self.agent.replicas(), "domains": self.agent.domain_sizes(),
            "lost": self.agent.failures, "stragglers": self.agent.stragglers(), "goodput": self._goodput(age),
            "save_s": progress.get("save_s", 0.0), "restart_s": round(self.agent.restart_s, 3),
            "delivery": progress.get("delivery", "exactly-once"), "parked": self.agent.parked,
            "unkept": self.agent.unkept(),
            "tiers": {name: tier.step for name, tier in self.tiers.items()},
            "age_s": round(age, 1), "at": time.time(),
        }  # fmt: skip

    def _snapshot_age_s(self) -> float:
        """Seconds since the newest complete snapshot was sealed; 0 when there is none yet."""
        sealed_at = self.agent.sealed_at
        return round(time.monotonic() - sealed_at, 3) if sealed_at else 0.0

    def _goodput(self, age_s: float) -> float:
        """Time that committed steps took, at the present pace, over all the time since the start."""
        rate, step = self.agent.progress.get("rate", 0.0), self.agent.roster.step
        if self._first_step < 0 or not rate:
            self._first_step = step
            return 0.0
        return float(round(min(1.0, (step - self._first_step) / rate / age_s), 3))

    def close(self) -> None:
        if len(self._kept) == 1:
            self.agent.progress["snapshot_step"] = max(self._kept)
            self.agent.write_status(self.status())
        # The farthest tier is the one that outlives most.
        for name, tier in reversed(self.tiers.items()):
            is_wanted = self.agent.code == Exit.PREEMPTED and not (self.saved_in or self._is_ended())
            if is_wanted and tier.persist_now(self.agent.roster.step, self._is_ended):
                self.saved_in = name
            tier.close()
        for pending in list(self.open.values()):
            if isinstance(pending.request, Leave):
                self._end(pending, self.saved_in or "memory")
            elif pending.is_shrink:
                self._end(pending, "none")
            else:
                self._refuse(pending, "the run has ended")
        if self.client:
            self.client.close()

    def _why_not(self, request: Request) -> str:
        if self.agent.roster.is_leaving:
            return "the run is leaving"
        if isinstance(request, Resize):
            return self.agent.roster.rule.why_not(request.target)
        if isinstance(request, Snapshot) and request.tier not in ("memory", *self.tiers):
            return f"no {request.tier} tier: the run was started without --{request.tier}"
        return ""

    def _supersede(self, request: Request) -> None:
        for older in [pending.request for pending in self.open.values()]:
            if isinstance(request, Leave) or (isinstance(request, Resize) and isinstance(older, Resize)):
                self.open.pop(older.id)
                self._answer(Refused(older.id, "superseded", self.legal()))

    def _begin(self, request: Request) -> None:
        if isinstance(request, Resize):
            self.agent.resize(request.target, request.members)
        elif isinstance(request, Leave):
            self.agent.roster.is_leaving = True
            self.agent.say_all({"say": "leave", "id": request.id})
        else:
            if request.tier in self.tiers:
                self.tiers[request.tier].complaint = ""
            self.agent.say_all({"say": "snapshot", "id": request.id, "tier": request.tier})

    def _check_open(self) -> None:
        for pending in list(self.open.values()):
            is_late = time.monotonic() - pending.began > pending.request.deadline_s
            why = self._why_in_vain(pending, is_late)
            if self._is_done(pending):
                self._end(pending, "memory")
            elif why:
                self._refuse(pending, why)
                self.story.tell("late", f"{pending.request.say}: {why}", request=pending.request.say)
            elif is_late and isinstance(pending.request, Leave) and self.agent.seats:
                self.story.tell(
                    "late", f"the members did not leave within {pending.request.deadline_s:.0f} s: they are ended"
                )
                self.agent.end_all()

    def _why_in_vain(self, pending: Open, is_late: bool) -> str:
        """Why a request that was accepted is given up after all. A size that was not reached in time is not grown to
        later: whoever asked for it may have given the room to others.
        """
        request, world = pending.request, len(self.agent.roster.generation.members)
        within = f"within {request.deadline_s:.0f} s"
        if isinstance(request, Snapshot):
            tier = self.tiers.get(request.tier)
            complaint = tier.complaint if tier else ""
            return complaint or (f"no step was kept in {request.tier} {within}" if is_late else "")
        if isinstance(request, Resize) and is_late and max(pending.world, world) < request.target:
            self.agent.resize(pending.want)
            return f"{world} of {request.target} members computed {within}"
        return ""

    def _is_done(self, pending: Open) -> bool:
        roster = self.agent.roster
        if isinstance(pending.request, Resize):
            there = len(roster.generation.members) == pending.request.target and roster.is_settled()
            return there and not any(member.stage is Stage.LEAVING for member in roster.members.values())
        if isinstance(pending.request, Snapshot):
            return self._is_kept(pending.request, pending.step)
        return False

    def _is_kept(self, request: Snapshot, step: int) -> bool:
        if request.tier == "memory":
            return bool(self.agent.progress.get("snapshot_step", -1) > step)
        tier = self.tiers[request.tier]
        tier.hurry()
        return tier.step > step

    def _end(self, pending: Open, state: str) -> None:
        self.open.pop(pending.request.id)
        request, step = pending.request, self.agent.roster.step
        if isinstance(request, Leave) or pending.is_shrink:
            gone = tuple(member.name for member in self.agent.roster.members.values() if not member.is_here)
            self._answer(Released(request.id, step, gone, state))
        else:
            self._answer(Done(request.id, step, round(time.monotonic() - pending.began, 4)))

    def _refuse(self, pending: Open, why: str) -> None:
        self.open.pop(pending.request.id)
        self._answer(Refused(pending.request.id, why, self.legal()))

    def _answer(self, answer: Accepted | Refused | Released | Done) -> None:
        if self.client:
            self.client.answer(answer)

    def _left(self, _seat: Seat, said: lines.Message) -> None:
        self.agent.roster.committed(said["step"])
        self.agent.roster.is_leaving = True
        self._kept.add(said["kept"])

    def _is_ended(self) -> bool:
        """Whether a second signal asks for the end, whatever is not saved yet."""
        return self._signals > 1

    def _hear_signals(self) -> None:
        if self._signals == self._heard_signals:
            return
        self._heard_signals = self._signals
        if self._signals == 1 and self.agent.roster.generation.number:
            self.ask(Leave("signal", self.grace_s, "a signal"))
        else:
            self.agent.roster.is_leaving = True
            self.agent.end_all()

    def _progress(self) -> Progress:
        said = self.agent.progress
        return Progress(
            step=said["step"], rate=said["rate"], world=said["world"], generation=said["generation"],
            state_bytes=said["state_bytes"], memory_bytes=self.agent.memory_bytes(),
            snapshot_step=said["snapshot_step"], snapshot_age_s=self._snapshot_age_s(),
            save_s=said["save_s"], restart_s=round(self.agent.restart_s, 3),
            legal=self.legal(), level=said["level"], stragglers=self.agent.stragglers(),
        )  # fmt: skip
