"""One attempt at one step: pieces are computed, gradients reduced, votes taken, the step applied or thrown away."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.tensor import DTensor

from tutti.train import recover, reduce
from tutti.train.agent.beats import COMMIT, COMPUTE, REDUCE
from tutti.train.agent.exits import Exit
from tutti.train.agree import Verdict, Vote, check_samples, judge
from tutti.train.deal import Deal, Piece
from tutti.train.errors import GroupLost, NotProtected, StateChanged, TrainError
from tutti.train.group import Talk

if TYPE_CHECKING:
    from tutti.train.job import Job


ALONE = Verdict(True, 0, False, False, -1)


class Step:
    """The state of the step between the first batch and the commit."""

    def __init__(self, job: Job, deal: Deal, numerics: str, expected: int, is_last: bool) -> None:
        self.job = job
        self.deal = deal
        self.is_last = is_last
        """Whether the loop ends with this step. What follows is the user's, with collectives that a newcomer knows
        nothing of: nobody comes or goes before the next loop.
        """
        self.numerics = numerics
        self.expected = expected
        self.is_open = False
        self.is_failed = False
        self.seen = 0
        self.checksum = 0
        self.began = time.perf_counter()
        self.before = job.course.step
        self._piece: Piece | None = None
        self._leaves: dict[int, torch.Tensor] = {}
        self._sums: list[torch.Tensor] = []
        self.is_deferred = numerics == "ordered" or deal.has_idle or not deal.is_single

    def begin(self, piece: Piece, checksum: int) -> None:
        """A piece is about to be computed by the user's code."""
        job = self.job
        self._piece, self.is_open = piece, True
        self.seen += piece.counted
        self.checksum += checksum
        if self.numerics == "ordered":
            seed_piece(job.course.seed, job.course.step, piece.logical)
        groups = job.world // self.deal.together
        grid = job.protected.grid
        # What the last stage gives back is what all before it get.
        weighed = job.protected.split if grid is None or grid.is_last else []
        job.wrappers.prepare(piece.counted, self.deal.total, groups, self.is_deferred, weighed)
        if job.member:
            job.member.phase(COMPUTE, job.course.step)

    def commit(self, steppers: Sequence[Any]) -> bool:
        """The body is done: keep the piece, and with the last one finish the step."""
        if not self.is_open:
            raise TrainError("commit() was called twice for one batch: once is enough, with all that is to be stepped")
        self.is_open = False
        piece = self._piece
        assert piece is not None
        self.job.protected.glance()
        compute_s = time.perf_counter() - self.began
        steppers = self.job.steppers = list(steppers or self.job.protected.optimizers())
        optimizers = self._optimizers(steppers)
        parameters = self._plain(optimizers)
        gradients = gradients_of(parameters)
        is_last = piece is self.deal.pieces[self.job.rank][-1]
        if self.is_deferred:
            self._keep_piece(piece, parameters, gradients, optimizers)
        else:
            reduce.scale(gradients, self._weights(piece, parameters))
        if not is_last:
            return False
        return self._finish(steppers, optimizers, compute_s, None if self.is_deferred else gradients)

    def commit_idle(self) -> bool:
        """A rank without samples in a short last step takes part with nothing."""
        steppers = self.job.steppers or self.job.protected.optimizers()
        return self._finish(steppers, self._optimizers(steppers), 0.0, None)

    def _finish(
        self,
        steppers: Sequence[Any],
        optimizers: list[torch.optim.Optimizer],
        compute_s: float,
        gradients: list[torch.Tensor] | None,
    ) -> bool:
        job = self.job
        if job.member:
            job.member.phase(REDUCE, job.course.step, compute_s)
        is_ok = self._reduce(gradients_of(self._plain(optimizers)) if gradients is None else gradients)
        try:
            verdict, why = self._vote(is_ok), ""
        except GroupLost as error:
            # What follows is not part of handling it: an error of the user's there has nothing to do with this one.
            verdict, why = None, str(error)
        if verdict is None:
            return self._lost(why, steppers, optimizers, in_doubt=is_ok)
        if not verdict.is_committed:
            return self._lost("another member lost a collective in this step", steppers, optimizers, in_doubt=False)
        self.apply(steppers, optimizers)
        try:
            self._after(verdict)
        except GroupLost as error:
            why = str(error)
        # Lost now, it was taken and may be in no other domain yet: it counts if the next generation finds it.
        return not why or self._lost(why, steppers, optimizers, in_doubt=False)

    def _lost(self, why: str, steppers: Sequence[Any], optimizers: list[torch.optim.Optimizer], in_doubt: bool) -> bool:
        """Go on in the next generation. If the votes were cast and someone counted them, the step is carried out after
        all.
        """
        self.is_failed = True
        before = self.before
        recover.after_loss(self.job, why, (lambda: self.apply(steppers, optimizers)) if in_doubt else None)
        self._drop(optimizers)
        return self.job.course.step > before

    def apply(self, steppers: Sequence[Any], optimizers: list[torch.optim.Optimizer]) -> None:
        """The step is committed: carry it out."""
        job = self.job
        job.is_torn = True
        try:
            for stepper in steppers:
                stepper.step()
        except RuntimeError:
            job.protected.look()
            raise
        self._drop(optimizers)
        job.course.advance(self.deal.start, self.deal.stop)
        job.is_torn = False
        if job.member:
            job.calm.keep(job.protected.modules())

    def _vote(self, is_ok: bool) -> Verdict:
        job = self.job
        if job.member is None:
            check_samples(
                [Vote(1, 0, 0, 0, self.seen, self.checksum, job.course.step, -1)], self.deal.total, self.expected
            )
            return ALONE
        job.member.phase(COMMIT, job.course.step)
        keeper = job.keeper
        assert keeper is not None
        wants_leave = job.member.is_leaving or not job.member.has_agent
        wants = keeper.is_due(job.course.step + 1, job.pace.step_s) or "snapshot" in job.member.asked
        row = self._ballot(int(is_ok), job.member.announced.number, int(wants), int(wants_leave))
        if not is_ok:
            raise GroupLost(job.group.failure)
        if job.member.headless_at:
            raise GroupLost("the machine that decides is gone")
        rows = job.group.gather(torch.tensor(row)).tolist()
        return judge(rows, self.deal.total * self.deal.together, self.expected * self.deal.together)

    def _ballot(self, is_ok: int, generation: int, snapshot: int, leave: int) -> list[int]:
        sealed = self.job.keeper.sealed_in(self.job.generation) if self.job.keeper else -1
        return Vote(is_ok, generation, snapshot, leave, self.seen, self.checksum, self.job.course.step, sealed).row()

    def _after(self, verdict: Verdict) -> None:
        job = self.job
        if job.member is None:
            return
        if job.keeper:
            job.keeper.is_complete(verdict.sealed, job.generation)
        is_moving = verdict.generation > job.generation
        if verdict.has_snapshot or verdict.has_leave:
            recover.snapshot(job)
        recover.report(job, time.perf_counter() - self.began)
        if verdict.has_leave:
            recover.leave(job)
            sys.exit(int(Exit.PREEMPTED))
        if is_moving and self.is_last:
            job.has_to_move = True
        elif is_moving:
            recover.move(job)

    # gradients

    def _optimizers(self, steppers: Sequence[Any]) -> list[torch.optim.Optimizer]:
        found = [stepper for stepper in steppers if isinstance(stepper, torch.optim.Optimizer)]
        if steppers and not found:
            raise NotProtected(
                "commit() was given no optimizer: commit(opt), or commit(opt, sched) to step a scheduler with it"
            )
        return found or self.job.protected.optimizers()

    def _plain(self, optimizers: list[torch.optim.Optimizer]) -> list[torch.nn.Parameter]:
        """Parameters whose gradients no wrapper reduces."""
        owned = self.job.wrappers.owned()
        return [one for one in parameters_of(optimizers) if id(one) not in owned and not isinstance(one, DTensor)]

    def _weights(self, piece: Piece, parameters: list[torch.nn.Parameter]) -> list[float]:
        """How much the gradients of a piece count when those of all ranks are added up. Inside a model that has shards
        each was weighed on its way back, for an average.
        """
        grid = self.job.protected.grid
        weight = piece.counted / self.deal.total / (1 if grid else self.deal.together)
        split = self.job.protected.split if parameters else []
        inside = {id(one) for module in split for one in module.parameters()}
        equal = 1 / (grid.replicas if grid else self.job.world)
        return [equal if id(one) in inside else weight for one in parameters]

    def _keep_piece(
        self,
        piece: Piece,
        parameters: list[torch.nn.Parameter],
        gradients: list[torch.Tensor],
        optimizers: list[torch.optim.Optimizer],
    ) -> None:
        """Add a piece to what this rank has of the step, by its weight; ordered numerics keep it apart."""
        if self.numerics == "ordered":
            refuse_shards(optimizers)
            flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
            self._leaves[piece.logical] = flat.mul_(piece.counted / self.deal.total)
        elif gradients:
            weighed = torch._foreach_mul(gradients, self._weights(piece, parameters))
            self._sums = list(torch._foreach_add(self._sums, weighed) if self._sums else weighed)
        for parameter in parameters_of(optimizers):
            # A shard adds its pieces up by itself.
            if not isinstance(parameter, DTensor):
                parameter.grad = None

    def _reduce(self, gradients: list[torch.Tensor]) -> bool:
        """Everyone's gradients together; False when a collective of this step failed."""
        if self.numerics == "ordered":
            self._reduce_ordered(gradients)
        elif gradients:
            if self._sums:
                torch._foreach_copy_(gradients, self._sums)
            peers = self._peers()
            if peers.world > 1:
                reduce.sum_fast(gradients, peers.handle)
        if self.is_deferred and self.job.world > 1:
            self.job.wrappers.share_buffers()
        return self.job.member is None or not self.job.group.failure

    def _peers(self) -> Talk:
        """Those that have the same parameters."""
        grid = self.job.protected.grid
        return grid.peers if grid else self.job.group

    def _reduce_ordered(self, gradients: list[torch.Tensor]) -> None:
        size = sum(gradient.numel() for gradient in gradients)
        try:
            total = reduce.sum_ordered(self._peers(), self._leaves, self.deal, size)
        except GroupLost:
            return
        if self.job.member is None or not self.job.group.failure:
            reduce.spread(total, gradients)

    def _drop(self, optimizers: list[torch.optim.Optimizer]) -> None:
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)


def gradients_of(parameters: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    """Their gradients; a parameter that was not used counts as zero, so that all ranks reduce the same."""
    found = []
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        found.append(parameter.grad)
    return found


def parameters_of(optimizers: list[torch.optim.Optimizer]) -> list[torch.nn.Parameter]:
    groups = (group for optimizer in optimizers for group in optimizer.param_groups)
    return [parameter for group in groups for parameter in group["params"] if parameter.requires_grad]


def refuse_shards(optimizers: list[torch.optim.Optimizer]) -> None:
    if any(isinstance(parameter, DTensor) for parameter in parameters_of(optimizers)):
        raise StateChanged(
            "numerics='ordered' needs gradients that are whole on every rank; FSDP2 models use numerics='fast'"
        )


def seed_piece(seed: int, step: int, logical: int) -> None:
    """Random numbers of a piece depend on the piece alone, not on who computes it."""
    torch.manual_seed((seed * 1_000_003 + step) * 4099 + logical)
