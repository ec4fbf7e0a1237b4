"""What a forward pass changes by itself: buffers such as running means. Put back when the step is thrown away."""

from __future__ import annotations

import torch


class Calm:
    """Copies of all buffers as they were at the last commit."""

    def __init__(self) -> None:
        self._kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(self, modules: list[torch.nn.Module]) -> None:
        live = [buffer for module in modules for buffer in module.buffers()]
        if [id(buffer) for buffer in live] != [id(buffer) for buffer, _ in self._kept]:
            self._kept = [(buffer, buffer.clone()) for buffer in live]
        elif live:
            torch._foreach_copy_([copy for _, copy in self._kept], live)

    def put_back(self) -> None:
        if self._kept:
            torch._foreach_copy_([buffer for buffer, _ in self._kept], [copy for _, copy in self._kept])
