"""Which device belongs to whom, and which ones nobody may have: drained, broken, or used by somebody else."""

from collections.abc import Iterable, Mapping

import msgspec

from tutti.engine.model import Node
from tutti.errors import NotFound
from tutti.jobs.job import DEVICE

from .devices import Box, Device
from .layout import Choose


class Booking:
    """The devices of a box by owner."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.by_id: dict[str, Device] = {device.id: device for device in box.devices}
        self.owner: dict[str, str] = {}
        self.out: dict[str, str] = {}
        """Devices that get no new members, and why."""
        self.foreign: dict[str, str] = {}
        """Devices that somebody else uses, and who."""
        self._on_node: list[list[Device]] = [box.on(node) for node in range(len(box.nodes))]

    def chooser(self, name: str) -> Choose:
        """Takes free devices of a node for a gang, the lowest numbers first."""

        def choose(node: int, count: int) -> tuple[str, ...] | None:
            free = [device.id for device in self._on_node[node] if self.is_free(device.id)]
            if len(free) < count:
                return None
            chosen = tuple(free[:count])
            self.owner.update(dict.fromkeys(chosen, name))
            return chosen

        return choose

    def chooser_after(self, name: str) -> Choose:
        """Says which devices it would be if a gang had ended; nothing is taken."""
        chosen: set[str] = set()

        def choose(node: int, count: int) -> tuple[str, ...] | None:
            mine = [device.id for device in self._on_node[node] if self.may_have(device.id, name)]
            free = [device for device in mine if device not in chosen][:count]
            chosen.update(free)
            return tuple(free) if len(free) == count else None

        return choose

    def may_have(self, device: str, after: str) -> bool:
        """Whether anybody may have it once a gang has ended."""
        return self.owner.get(device, after) == after and device not in self.out and device not in self.foreign

    def in_order(self, devices: Iterable[str]) -> tuple[str, ...]:
        """Devices in the order in which they are chosen."""
        wanted = set(devices)
        return tuple(device.id for device in self.box.devices if device.id in wanted)

    def is_free(self, device: str) -> bool:
        """Whether anybody may have it."""
        return device not in self.owner and device not in self.out and device not in self.foreign

    def take(self, name: str, devices: Iterable[str]) -> None:
        """These belong to a gang that was running before."""
        self.owner.update(dict.fromkeys(devices, name))

    def of(self, name: str) -> list[str]:
        """The devices of a gang."""
        return [device for device, owner in self.owner.items() if owner == name]

    def give(self, name: str, devices: Iterable[str]) -> list[Node]:
        """Take them back; nodes that have become smaller by it."""
        before = self._unusable()
        for device in devices:
            if self.owner.get(device) == name:
                del self.owner[device]
        return self._changed(before)

    def give_all(self, name: str) -> list[Node]:
        """Take everything back."""
        return self.give(name, self.of(name))

    def drain(self, which: str, why: str) -> list[Node]:
        """A device, or all of a node, gets nothing new; nodes that have become smaller."""
        before = self._unusable()
        for device in self.named(which):
            self.out[device] = why
        return self._changed(before)

    def undrain(self, which: str) -> list[Node]:
        """It may be used again."""
        before = self._unusable()
        for device in self.named(which):
            self.out.pop(device, None)
        return self._changed(before)

    def strangers(self, found: Mapping[str, str]) -> list[Node]:
        """Devices that others use now; nodes that changed by it."""
        before = self._unusable()
        self.foreign = {device: who for device, who in found.items() if device not in self.owner}
        return self._changed(before)

    def named(self, which: str) -> list[str]:
        """The devices of a name: a device, a number, or a node."""
        if which in self.by_id:
            return [which]
        nodes = [at for at, node in enumerate(self.box.nodes) if node.name == which]
        if nodes:
            return [device.id for device in self._on_node[nodes[0]]]
        if which.isdigit() and int(which) < len(self.box.devices):
            return [self.box.devices[int(which)].id]
        raise NotFound(f"there is no device or node {which!r}", hint="tutti nodes")

    def out_of_use(self) -> str:
        """Which devices nobody may have and why, in words."""
        why: dict[str, list[str]] = {}
        for device, reason in {**self.foreign, **self.out}.items():
            why.setdefault(reason, []).append(device)
        return "; ".join(f"{', '.join(self.in_order(devices))} ({reason})" for reason, devices in why.items())

    def owners(self, devices: Iterable[str]) -> list[str]:
        """Gangs that hold any of these."""
        return sorted({self.owner[device] for device in devices if device in self.owner})

    def node(self, at: int) -> Node:
        """A node as the engine sees it: what is out of use and free counts as used by others."""
        node = self.box.nodes[at]
        lost = self._unusable()[at]
        return msgspec.structs.replace(node, foreign={DEVICE: lost} if lost else {})

    def nodes(self) -> tuple[Node, ...]:
        """All of them."""
        return tuple(self.node(at) for at in range(len(self.box.nodes)))

    def _unusable(self) -> list[int]:
        """For each node how many devices nobody holds and nobody may have."""
        if not self.out and not self.foreign:
            return [0] * len(self._on_node)
        out = self.out.keys() | self.foreign.keys()
        return [sum(1 for d in row if d.id in out and d.id not in self.owner) for row in self._on_node]

    def _changed(self, before: list[int]) -> list[Node]:
        after = self._unusable()
        return [self.node(at) for at, count in enumerate(after) if count != before[at]]
