"""`tutti train --nnodes 2 --node-rank 1 ...`: the same line on every machine; the first one decides, the others serve
it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import socket
import struct
import time
from dataclasses import dataclass

from tutti.train.agent import lines
from tutti.train.agent.cabinet import Cabinet
from tutti.train.agent.exits import Exit
from tutti.train.agent.folder import Folder
from tutti.train.agent.post import End, Post
from tutti.train.agent.posts import LEASE_S, VERSION, Posts, name_of
from tutti.train.agent.story import Story
from tutti.train.hands import CannotStart, Hands, Machine

PORT = 29500
TRY_S = 0.2
SIOCGIFADDR = 0x8915


@dataclass(frozen=True)
class Machines:
    """The machines of a run, as the options say: how many, how many must be there to begin (of a range also to go on),
    which one this is, where they meet.
    """

    count: int = 1
    least: int = 1
    is_range: bool = False
    rank: int = 0
    host: str = "127.0.0.1"
    port: int = PORT

    @property
    def are_many(self) -> bool:
        return self.count > 1

    @property
    def name(self) -> str:
        """The failure domain that this machine is."""
        return name_of(self.rank)


def machines_of(options: argparse.Namespace) -> Machines:
    """What --nnodes, --node-rank, --master-addr, --master-port and --rdzv-endpoint say together."""
    least, _, most = str(options.nnodes).partition(":")
    count = number("--nnodes", most or least)
    if count < 1 or number("--nnodes", least) < 1:
        raise ValueError(f"--nnodes {options.nnodes}: there is at least one machine")
    if int(least) > count:
        raise ValueError(f"--nnodes {options.nnodes}: at least {least} and at most {most} is no number")
    if count == 1:
        return Machines()
    host, port = endpoint(options)
    if options.node_rank is None:
        raise ValueError(f"--nnodes {options.nnodes}: say which of them this is, from 0 on, with --node-rank")
    rank = number("--node-rank", str(options.node_rank))
    if rank >= count:
        raise ValueError(f"--node-rank {rank}: of {count} machines the last one has rank {count - 1}")
    refuse_beside(options)
    return Machines(count, int(least), bool(most), rank, host, port)


def endpoint(options: argparse.Namespace) -> tuple[str, int]:
    """Where the machines meet: an address of the first one."""
    host, _, port = (options.rdzv_endpoint or "").rpartition(":")
    if not host:
        host, port = port, ""
    host = options.master_addr or host
    if not host:
        raise ValueError(
            f"--nnodes {options.nnodes}: say where the machines meet, with --master-addr (an address of the machine "
            f"with --node-rank 0) and --master-port ({PORT})"
        )
    return host, number("--master-port", str(options.master_port or port or PORT))


def refuse_beside(options: argparse.Namespace) -> None:
    """What has no meaning, or none yet, on several machines."""
    if options.domains > 1:
        raise ValueError(f"--domains {options.domains}: with --nnodes each machine is a failure domain")
    if options.disk:
        raise ValueError("--disk: one machine's disk says nothing to the others; use --durable, a folder that all see")


def number(option: str, text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"{option}: {text!r} is not a number")
    return int(text)


def lease_s() -> float:
    return float(os.environ.get("TUTTI_TRAIN_LEASE") or LEASE_S)


def meet_at(machines: Machines) -> None:
    """Have the members find each other on the network by which this machine reaches the first one."""
    os.environ["TUTTI_TRAIN_MACHINES"] = str(machines.count)
    name = interface_to(machines.host)
    if name:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def interface_to(host: str) -> str:
    """The network interface that leads to a host; empty when it cannot be told."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Nothing is sent: the kernel only chooses a way.
            probe.connect((host, 9))
            mine = probe.getsockname()[0]
            return next((name for _, name in socket.if_nameindex() if address_of(probe, name) == mine), "")
    except OSError:
        return ""


def address_of(probe: socket.socket, name: str) -> str:
    with contextlib.suppress(OSError):
        found = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        return socket.inet_ntoa(found[20:24])
    return ""


def gather(machines: Machines, run: str, limit_s: float, story: Story) -> Posts:
    """On the first machine: wait for the others."""
    try:
        listener = lines.listen_at(machines.host, machines.port)
    except OSError as error:
        place = f"--master-addr {machines.host} --master-port {machines.port}"
        raise CannotStart(f"{place}: {error.strerror or error}") from error
    posts = Posts(listener, run, machines.count, lease_s())
    story.tell("waiting", f"waiting for {machines.count - 1} more machines at {machines.host}:{machines.port}")
    try:
        is_enough = posts.gather(machines.least, limit_s)
    except BaseException:
        posts.close()
        raise
    if not is_enough:
        posts.close()
        raise CannotStart(f"{len(posts.here) + 1} of {machines.least} machines came within {limit_s:.0f} s")
    for name, post in sorted(posts.here.items()):
        story.tell("machine", f"machine {name} is here, with room for {post.room} members", domain=name)
    return posts


class Deputy:
    """Another machine than the first: serves it, and waits for it to come back when it is lost."""

    def __init__(self, machines: Machines, folder: Folder, run: str, room: int, story: Story) -> None:
        self.machines = machines
        self.folder = folder
        self.run = run
        self.room = room
        self.story = story
        self.cabinet = Cabinet(folder.slots, (machines.name,))
        self._signals = 0
        self._asked_at = 0.0
        self._early: list[lines.Message] = []
        """What the first machine said in one breath with its welcome."""

    def signalled(self, _number: int, _frame: object) -> None:
        self._signals += 1

    def serve(self, hands: Hands, wait_s: float, grace_s: float) -> End:
        """Until the run ends, or the first machine does not come (back) in time."""
        hands.machine = Machine(self.machines.rank, self.machines.count)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.signalled)
        while True:
            head = self._meet(time.monotonic() + wait_s)
            if head is None:
                return End(int(Exit.PREEMPTED))
            post = Post(self.folder, self.cabinet, hands, head, lease_s())
            post.obey(self._early)
            try:
                self._attend(post, grace_s)
            finally:
                post.close()
            assert post.end is not None
            if post.end.code is not None:
                return post.end
            self.story.tell("headless", "the first machine is gone: the state stays here until it is back")

    def _attend(self, post: Post, grace_s: float) -> None:
        while post.end is None:
            post.turn()
            if self._signals and not self._asked_at:
                self._asked_at = time.monotonic()
                post.leave()
            if self._signals > 1 or (self._asked_at and time.monotonic() - self._asked_at > grace_s):
                post.end = End(int(Exit.PREEMPTED))

    def _meet(self, until: float) -> lines.Lines | None:
        """The first machine, once it has bidden us welcome; None when it does not in time, or we are asked to go."""
        place = f"{self.machines.host}:{self.machines.port}"
        self.story.tell("waiting", f"machine {self.machines.name} waits for the first one at {place}")
        while time.monotonic() < until and not self._signals:
            with contextlib.suppress(OSError):
                head = lines.connect_to(self.machines.host, self.machines.port)
                if self._greet(head, until):
                    return head
                head.close()
            time.sleep(TRY_S)
        self.story.tell("alone", f"the first machine did not come to {place} in time")
        return None

    def _greet(self, head: lines.Lines, until: float) -> bool:
        past = self.folder.past(self.cabinet)
        pasts = [past.life, past.base, past.generation, past.number]
        facts = {"run": self.run, "node": self.machines.rank, "room": self.room, "past": pasts}
        head.send({"say": "greet", "version": VERSION, **facts})
        said: list[lines.Message] = []
        while not said and head.is_open and time.monotonic() < until and not self._signals:
            with contextlib.suppress(lines.BadLine):
                said = head.receive(TRY_S)
        self._early = said[1:]
        return bool(said) and self._is_welcome(said[0])

    def _is_welcome(self, said: lines.Message) -> bool:
        if said["say"] == "refused" and not said["again"]:
            raise CannotStart(f"the first machine does not take part with this one: {said['why']}")
        if said["say"] != "welcome":
            return False
        if not said["keep"]:
            self.story.tell("cleared", "what this machine held is not of the run as it went on: it is given back")
            self.cabinet.clear()
        self.folder.remember(int(said["life"]), int(said["base"]))
        self.story.tell("welcome", f"machine {self.machines.name} takes part in run {self.run}")
        return True
