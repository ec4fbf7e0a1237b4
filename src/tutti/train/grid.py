"""Where a rank is in a job of pipelines: replicas of the model, each cut into stages, each of those on a few ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch.distributed.device_mesh import init_device_mesh

from tutti.train.errors import DataChanged
from tutti.train.group import Ring

AXES = ("replica", "stage", "tensor")


@dataclass(frozen=True)
class Grid:
    """What `job.pipeline` answers: neighbouring ranks hold the stages of one replica."""

    stages: int
    tensor: int
    rank: int
    world: int
    mesh: Any = None
    """A mesh of torch with the axes `replica`, `stage` and `tensor`; None in a job without a launcher."""

    def __str__(self) -> str:
        return f"pipeline(stages={self.stages}, tensor={self.tensor})"

    @property
    def unit(self) -> int:
        """Ranks of one replica: members come and go by so many."""
        return self.stages * self.tensor

    @property
    def stage(self) -> int:
        return self.stage_of(self.rank)

    @property
    def replica(self) -> int:
        return self.rank // self.unit

    @property
    def replicas(self) -> int:
        return self.world // self.unit

    @property
    def is_first(self) -> bool:
        """Whether this stage is fed with the samples."""
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        """Whether this stage computes the loss."""
        return self.stage == self.stages - 1

    @property
    def group(self) -> Any:
        """The process group of this replica's stages, for a `PipelineStage`."""
        return self.mesh["stage"].get_group() if self.mesh is not None else None

    def stage_of(self, rank: int) -> int:
        return rank // self.tensor % self.stages

    @cached_property
    def peers(self) -> Ring:
        """Those that hold the same as this rank, in the other replicas."""
        return self._ring("replica", self.replica, self.replicas)

    @cached_property
    def line(self) -> Ring:
        """The stages of this replica."""
        return self._ring("stage", self.stage, self.stages)

    def _ring(self, axis: str, rank: int, world: int) -> Ring:
        return Ring(self.mesh[axis].get_group() if self.mesh is not None else None, rank, world)


def place(stages: int, tensor: int, rank: int, world: int, is_beside: bool) -> Grid:
    """Where a rank is; whoever builds its model beside a running generation may not be one of a whole replica."""
    unit = stages * tensor
    if stages < 1 or tensor < 1:
        raise DataChanged(f"pipeline(stages={stages}, tensor={tensor}): both are at least 1")
    if world % unit and not is_beside:
        raise DataChanged(
            f"pipeline(stages={stages}, tensor={tensor}): {world} members are no whole number of replicas of "
            f"{unit}; legal sizes are multiples of {unit}"
        )
    return Grid(stages, tensor, rank, -(-world // unit) * unit)


def connect(grid: Grid) -> Grid:
    """The same with the groups in which its ranks talk; all ranks make them together."""
    shape = (grid.replicas, grid.stages, grid.tensor)
    return replace(grid, mesh=init_device_mesh("cpu", shape, mesh_dim_names=AXES))
