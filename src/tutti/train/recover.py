"""From one generation to the next: after a loss, at a planned change, and at the very beginning."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tutti.train import course, fill, fsdp, hold, persist, sync
from tutti.train.agent.beats import WAIT
from tutti.train.agent.exits import Exit
from tutti.train.agent.generation import Generation
from tutti.train.agent.slots import Label
from tutti.train.agree import EMPTY, Accord, Claim, accord, check_alike, resolves
from tutti.train.bulk import uncollected
from tutti.train.domains import Places
from tutti.train.errors import GroupLost, NoMemory, StateChanged
from tutti.train.grid import Grid, connect
from tutti.train.member import AgentGone, Leaving, Member
from tutti.train.memory import Memory
from tutti.train.snapshot import NO_STEP

if TYPE_CHECKING:
    from tutti.train.job import Job

Apply = Callable[[], None]
LESS_URGENT = 10
HEADLESS_S = 2.0
PLACE = re.compile(r"^\[[^\]]*:\d+\] ")


def take_place(job: Job) -> None:
    """At join: start together with the first generation, or stand by beside a running one in a group of one."""
    member = member_of(job)
    member.wait_place()
    if member.standby is not None and member.announced.number == 0:
        build_beside(job, member.standby["rank"], member.standby["world"])
        return
    generation = member.announced
    try:
        job.group.form(generation, member.name, partial(is_replaced, member, generation))
    except GroupLost as error:
        # In the next one may be somebody whose model is built already, and who will not build one together with us.
        generation = next_generation(job, generation.number, str(error))
        rank = generation.rank(member.name)
        if rank is None:
            release(job)
            return
        build_beside(job, rank, len(generation.members))
        return
    adopt(job, generation)


def build_beside(job: Job, rank: int, world: int) -> None:
    """The model is built in a group of one, and told the place it will have."""
    job.is_standby = True
    job.group.form_alone()
    fsdp.build_alone(lambda: job.is_standby and job.group.is_alone)
    job.set_place(rank, world)


def adopt(job: Job, generation: Generation) -> None:
    """This is the generation we are in, and this our place in it."""
    job.generation, job.members = generation.number, generation.members
    job.set_place(job.group.rank, job.group.world)
    domains, grid = generation.domains or ("",) * job.group.world, job.protected.grid
    job.places = Places(domains, tuple(rank % grid.unit for rank in range(job.group.world)) if grid else ())


def listen(job: Job) -> None:
    """While a collective is waited for, the agent is heard too: it may know that nobody will come."""
    member = member_of(job)
    hold.Ear.note = member.waits
    hold.Ear.is_vain = partial(is_overtaken, job, member)
    member.on_news = partial(let_go, member)


def let_go(member: Member) -> None:
    """The agent has spoken: whoever waits for somebody who is gone need not wait any longer."""
    if member.announced.is_urgent:
        hold.cut_before(member.announced.number)


def is_overtaken(job: Job, member: Member) -> bool:
    """Whether this generation is known to be broken: the agent has announced one without somebody who is gone."""
    if member.headless_at and time.monotonic() - member.headless_at > HEADLESS_S:
        return True
    return not job.group.is_alone and member.announced.number > job.group.number and member.announced.is_urgent


def enter(job: Job) -> None:
    """At the first batch: bring the state of this generation together. From here on failures are held."""
    hold.HoldingGroup.is_holding = True
    if job.member is None or job.is_entered:
        job.is_entered = True
        return
    job.is_entered = True
    leaves, _ = job.protected.read()
    job.protected.check(leaves)
    if job.is_standby:
        job.came_later = True
        rehearse(job)
        job.member.say("ready")
        change(job, announced_after(job, 0), None)
        return
    try:
        unite(job, job.member.announced, None)
    except GroupLost as error:
        change(job, next_generation(job, job.generation, str(error)), None)


def line_up(job: Job, grid: Grid) -> Grid:
    """The stages meet, if all members have called the same; nobody would answer who has not."""
    try:
        if not job.is_standby:
            check_alike(sync.exchange(job.group, claim_of(job, in_doubt=False), EMPTY)[0], job.group.rank)
        grid = connect(grid)
        job.group.check()
    except (GroupLost, RuntimeError) as error:
        if not job.group.failure:
            raise
        restart(job, f"a member was lost while the stages met ({in_short(str(error))})")
    job.protected.grid = grid
    return grid


def rehearse(job: Job) -> None:
    """Beside a running generation: bring back what is in memory now, so that everything the state needs is there when
    it is our turn, and only its contents have to change.
    """
    if shards(job):
        return
    with Memory([member_of(job).shelf]) as memory:
        steps = sync.remembered_steps(memory, job.protected.fingerprint)
        if steps:
            read_back(job, memory, steps[0])


def after_loss(job: Job, why: str, apply: Apply | None) -> None:
    """A step could not be finished: wait for the next generation and go on in it."""
    if job.member is None:
        raise RuntimeError(why)
    job.calm.put_back() if apply is None else None
    if job.keeper:
        job.keeper.failures += 1
    change(job, next_generation(job, job.generation, why), apply)


def move(job: Job) -> None:
    """A planned change, agreed on by all at this commit. Newcomers find the state in memory, and so do all where it is
    in shards.
    """
    job.has_to_move = False
    generation = announced_after(job, job.generation)
    if shards(job) or not set(generation.members) <= set(job.members):
        snapshot(job)
    change(job, generation, None)


def change(job: Job, generation: Generation, apply: Apply | None) -> None:
    """Form the generation and bring its state together; try the one after it when that fails."""
    member = member_of(job)
    while True:
        if generation.rank(member.name) is None:
            release(job)
        try:
            member.phase(WAIT, job.course.step)
            job.wrappers.release()
            # Those that compute come at their next commit, which a newcomer waits for as long as it takes.
            is_patient = job.is_standby and not generation.is_urgent
            job.group.form(generation, member.name, partial(is_replaced, member, generation), is_patient)
            job.wrappers.rebuild()
            unite(job, generation, apply)
            break
        except GroupLost as error:
            generation = next_generation(job, generation.number, str(error))
    job.pace.pause()
    job.call_back()


def is_replaced(member: Member, generation: Generation) -> bool:
    """Whether the agent has announced a newer generation, is gone, or has asked all to leave."""
    return member.announced.number > generation.number or not member.has_head or member.is_leaving


def next_generation(job: Job, number: int, why: str) -> Generation:
    """Say that we are stuck, let go of the connections, and wait; without an agent there is nobody to wait for."""
    member = member_of(job)
    job.wrappers.release()
    job.group.dissolve()
    member.say("stuck", generation=number, step=job.course.step, why=in_short(why))
    return announced_after(job, number)


def announced_after(job: Job, number: int) -> Generation:
    """The generation that comes next; nobody goes on without one."""
    try:
        return member_of(job).wait_generation(after=number)
    except Leaving:
        keep_whole(job)
        leave(job)
    except AgentGone:
        keep_whole(job)
        sys.stderr.write("tutti train: the agent is gone; this member ends, its last snapshot stays in memory\n")
    sys.exit(int(Exit.PREEMPTED))


def keep_whole(job: Job) -> None:
    """Before a member goes because nobody decides any more, or because the loop cannot go on: all of its state, if it
    is newer than its last snapshot. The others may be at another step, so each keeps more than its share; where there
    is no room for that, the last one stays.
    """
    keeper = job.keeper
    has_state = job.is_entered and not (job.is_fresh or job.is_standby or job.is_torn)
    if keeper and has_state and not shards(job) and job.course.step > keeper.step:
        job.calm.put_back()
        with contextlib.suppress(NoMemory):
            snapshot(job, is_together=False, is_whole=True)


def in_short(why: str) -> str:
    """What went wrong, without where in its source the library noticed and what it guesses."""
    first = why.split("\n", maxsplit=1)[0].partition(" This is typically caused")[0]
    return PLACE.sub("", first)[:300]


def unite(job: Job, generation: Generation, apply: Apply | None) -> None:
    """Agree on one step and give it to whoever lacks it."""
    member = member_of(job)
    claims, newest = sync.exchange(job.group, claim_of(job, apply is not None and not job.is_torn), generation.step)
    check_alike(claims, job.group.rank)
    learn_complete(job, claims, was_in_doubt=apply is not None)
    if apply and resolves(claims[job.group.rank], newest):
        apply()
        if shards(job):
            snapshot(job, is_together=False)
    if shards(job) and any(resolves(claim, newest) for claim in claims):
        # Nobody looks at what is in memory before those that were in doubt have kept their part.
        job.group.gather(torch.tensor([1]))
    claims = [
        replace(claim, step=claim.step + 1, in_doubt=False) if resolves(claim, newest) else claim for claim in claims
    ]
    if shards(job) and job.generation != generation.number:
        # The new shards hold nothing until they are read back: whatever fails before that, they count as torn.
        job.is_torn = True
        rewrap(job)
    adopt(job, generation)
    if job.protected.grid:
        job.protected.meet(job.group)
    if job.keeper:
        job.keeper.begin()
    began = time.perf_counter()
    found = bring(job, claims)
    brought_s = round(time.perf_counter() - began, 5)
    job.is_fresh = job.is_standby = False
    job.calm.keep(job.protected.modules())
    if shards(job):
        # Shards are in one place only: there is a whole copy before the first step is computed.
        snapshot(job)
    member.say(
        "formed",
        generation=generation.number,
        step=job.course.step,
        world=job.world,
        source=found.origin,
        brought_s=brought_s,
    )


def rewrap(job: Job) -> None:
    """Make the shards of the new generation; a model that cannot be changed in its process is built again in others."""
    if job.protected.grid:
        restart(job, f"a pipeline of {job.protected.grid.stages} stages cannot change its members live")
    try:
        fsdp.rewrap(job.protected.modules(), job.protected.optimizers(), job.group.world)
    except StateChanged as error:
        restart(job, f"{error} cannot change its size live")


def restart(job: Job, why: str) -> None:
    """All members end, and are started again from memory with the size that is wanted now."""
    if job.rank == 0 or job.group.rank == 0:
        job.tell("fallback", f"{why}: all members start again from memory")
    member_of(job).say("again")
    job.group.dissolve()
    sys.stdout.flush()
    sys.exit(int(Exit.AGAIN))


def shards(job: Job) -> bool:
    """Whether a part of the state is on some ranks only."""
    return bool(job.protected.split or job.protected.grid)


def claim_of(job: Job, in_doubt: bool) -> Claim:
    """What this member can bring. State that was torn in the middle of a step counts as none; shards are brought by
    memory.
    """
    has_state = not (job.is_fresh or job.is_standby or job.is_torn)
    is_split = shards(job)
    complete = job.keeper.complete if job.keeper else NO_STEP
    step = job.course.step if has_state else EMPTY
    grid = job.protected.grid
    called, kind = str(grid) if grid else "", job.protected.kind
    return Claim(member_of(job).name, step, in_doubt, is_split, not is_split, complete, kind, called)


def learn_complete(job: Job, claims: list[Claim], was_in_doubt: bool) -> None:
    """Before anybody keeps anything: those who counted the votes know of a snapshot that is complete, and may have
    written over the one that who was in doubt still holds for it. They may all be lost, so it also looks in memory.
    """
    if job.keeper is None:
        return
    known = max(tuple(claim.complete) for claim in claims)
    if was_in_doubt:
        with Memory([member_of(job).shelf]) as memory:
            known = max([known, *((step, memory.generation(step)) for step in memory.steps())])
    job.keeper.is_complete(*known)


def bring(job: Job, claims: list[Claim]) -> Accord:
    """Everyone to the agreed step: from where it already is, from memory, or over the group."""
    if all(claim.step >= 0 and not claim.is_sharded for claim in claims):
        # What everyone has said is enough to know who lacks what.
        found = accord(claims, ())
        needs = [claim.step != found.step for claim in claims]
        lacks = needs[job.rank]
    else:
        found, lacks = recall(job, claims)
        needs = job.group.gather(torch.tensor([lacks])).view(-1).tolist()
    grid = job.protected.grid
    peers = grid.peers if grid else job.group
    if any(needs) and peers.world > 1:
        rest = sync.hand_out(peers, job.protected, max(0, found.source), describe(job), lacks)
        if lacks:
            job.course = course.from_record(rest["course"])
    return found


def recall(job: Job, claims: list[Claim]) -> tuple[Accord, bool]:
    """Agree with the others on a step that somebody has or that is in memory, and take it from there; whether it is
    still to come from another rank.
    """
    with Memory([member_of(job).shelf], is_checked=all(claim.step < 0 for claim in claims)) as memory:
        here = sync.remembered_steps(memory, job.protected.kind)
        tell_broken(job, memory)
        catalogue = fill.survey(job.group, job.places, memory) if any(job.places.of) else None
        everywhere = catalogue.complete() if catalogue else [(step, 0) for step in here]
        found = sync.decide(job.group, claims, [step for step, _ in everywhere], sync.inventory(memory))
        lacks = found.origin != "live" or claims[job.rank].step != found.step
        if found.origin == "fresh":
            return start_over(job, found, sync.inventory(memory))
        if found.origin == "memory" and catalogue:
            gather_in(job, memory, catalogue, next(key for key in everywhere if key[0] == found.step))
            lacks = False
        elif lacks and found.step in here:
            read_back(job, memory, found.step)
            lacks = False
        elif found.origin == "memory" and shards(job):
            raise GroupLost(f"step {found.step} is in memory for others, but not here ({sync.inventory(memory)})")
    return found, lacks


def start_over(job: Job, found: Accord, there: str) -> tuple[Accord, bool]:
    """Nobody has a step: from the tiers behind memory, or from the beginning."""
    found = from_tiers(job, found)
    lacks = found.origin == "fresh"
    before = member_of(job).announced.step
    if before > found.step and job.rank == 0:
        text = f"{before - found.step} committed steps are lost: no complete snapshot of them is left (memory: {there})"
        job.tell("steps lost", text, step=found.step, before=before)
    if lacks and job.is_torn:
        restart(job, f"the members changed before the first step was kept, and the shards are gone (memory: {there})")
    job.is_torn = False
    return found, lacks


def tell_broken(job: Job, memory: Memory) -> None:
    """Snapshots whose bytes are not what they were are left out, and said to be."""
    if memory.broken and job.rank == 0:
        text = f"snapshots {', '.join(memory.broken)} do not have the bytes they were sealed with; they are not used"
        job.tell("broken", text, slots=memory.broken)


def gather_in(job: Job, memory: Memory, catalogue: fill.Catalogue, step: fill.Step) -> None:
    """Restore a step whose parts are in several failure domains."""
    wanted = job.protected.wanted(catalogue.every[step])
    came = fill.fill(member_of(job), job.group, job.places, memory, catalogue, step, wanted)
    with Memory([member_of(job).shelf]) as filled:
        filled.choose(*step)
        read_back(job, filled, step[0])
    if came:
        job.tell("filled", f"{came} bytes of step {step[0]} came from another failure domain", bytes=came)


def from_tiers(job: Job, found: Accord) -> Accord:
    """Nothing is in memory: the newest step on disk or in the durable folder is better than a beginning."""
    pairs = [entry.partition("=") for entry in os.environ.get("TUTTI_TRAIN_TIERS", "").split(os.pathsep) if entry]
    kept = [max(persist.saved_steps(Path(path)), default=EMPTY) for _, _, path in pairs]
    if not kept:
        return found
    agreed = job.group.gather(torch.tensor(kept)).min(dim=0).values.tolist()
    newest = agreed.index(max(agreed))
    if agreed[newest] < 0:
        return found
    durable = persist.Durable(Path(pairs[newest][2]), agreed[newest])
    durable.check(job.protected.lasting(), is_part=job.protected.grid is not None)
    rest = durable.rest()
    job.protected.write(rest["things"], durable)
    job.course = course.from_record(rest["course"])
    return Accord(agreed[newest], pairs[newest][0])


def read_back(job: Job, memory: Memory, step: int) -> None:
    """Roll back (or forward) in place to a step that is in memory."""
    rest = memory.rest(step)
    job.protected.write(
        rest["things"],
        memory.reader(step, prefer=[f"{job.keeper.shelf}.{at}" for at in range(3)] if job.keeper else []),
    )
    job.course = course.from_record(rest["course"])
    job.is_torn = False
    if job.keeper:
        job.keeper.take_over(step, memory.generation(step))


def describe(job: Job) -> dict[str, Any]:
    """The plain part of the state: of the protected things, and of the run."""
    return {"things": job.protected.read()[1], "course": job.course.to_record()}


@uncollected()
def snapshot(job: Job, is_together: bool = True, is_whole: bool = False) -> bool:
    """Keep the state as it is after the last commit; shards also at a buddy, when everyone takes part. Of what all have
    each keeps its share, or the whole of it.
    """
    keeper = job.keeper
    assert keeper is not None
    if not keeper.slots:
        return False
    began = time.perf_counter()
    leaves, things = job.protected.read()
    job.protected.check(leaves)
    state = (leaves, {"things": things, "course": job.course.to_record()})
    kind, step = job.protected.kind, job.course.step
    try:
        place = (0, 1) if is_whole else job.places.share(job.rank)
        is_kept = keeper.keep(job.generation, step, place, state, kind, int(is_whole))
        if is_together and job.places.is_split and shards(job):
            label = Label(job.generation, step, kind, 0, 0)
            is_kept = keeper.buddies.exchange(job.group, job.places, label, *state) and is_kept
    except AgentGone:
        return False
    if is_kept:
        keeper.note(step, job.generation)
        keeper.note_cost(time.perf_counter() - began)
    news = keeper.patience.news(step, keeper.complete[0])
    if news:
        job.tell(news[0], f"{member_of(job).name}: {news[1]}", **news[2])
    member_of(job).asked.pop("snapshot", None)
    return is_kept


def report(job: Job, took_s: float) -> None:
    """Tell the agent how far we are; the first rank speaks for all."""
    job.pace.tick()
    keeper, member = job.keeper, member_of(job)
    if job.rank != 0 or keeper is None:
        return
    member.say(
        "progress", step=job.course.step, world=job.world,
        rate=round(1 / job.pace.step_s, 3) if job.pace.step_s else 0.0,
        generation=job.generation, epoch=job.course.epoch, cursor=job.course.cursor, length=job.course.length,
        snapshot_step=keeper.complete[0], save_s=round(keeper.cost_s, 5),
        every=keeper.interval(job.pace.step_s or took_s), level=job.level, batch=job.course.global_batch,
        state_bytes=int(keeper.state_bytes * job.protected.whole_share), delivery=job.delivery,
    )  # fmt: skip


def leave(job: Job) -> None:
    """Everything is saved; say so before going."""
    kept = job.keeper.step if job.keeper else EMPTY
    member_of(job).say("left", step=job.course.step, generation=job.generation, kept=kept)
    job.group.dissolve()


def release(job: Job) -> None:
    """This member is not part of the next generation: it goes, and the others have all they need."""
    member_of(job).say("released", step=job.course.step)
    job.group.dissolve()
    # Ending takes the processor for a while, and the others need it to go on.
    os.nice(LESS_URGENT)
    sys.exit(int(Exit.RELEASED))


def stop_holding(job: Job) -> None:
    """After the last step a failed collective is the user's business again, and members end together."""
    if torch.distributed.is_initialized() and job.member:
        hold.HoldingGroup.is_holding = False
        atexit.unregister(job.member.part)
        atexit.register(job.member.part)


def member_of(job: Job) -> Member:
    assert job.member is not None
    return job.member
