"""A process group that holds failures until the commit.

A collective that fails inside a step would throw through the user's loop. Here it is remembered instead, the
connections are dropped at once (so that no peer waits for us), every later collective of the step does nothing, and the
commit that ends the step finds the failure and throws the step away.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, ClassVar, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroupGloo, Work
from torch.futures import Future

from tutti.train import sockets
from tutti.train.errors import TrainError

BACKEND = "tutti"

_alive: weakref.WeakSet[HoldingGroup] = weakref.WeakSet()
_living = threading.Lock()

POLL = timedelta(milliseconds=20)
SLICE = timedelta(milliseconds=50)
WORKERS = "pt_gloo_runloop"
"""What the threads are called that carry out torch's collectives with gloo."""
GIVE_UP_S = 1.0
APART = "tutti-take-apart"
OVERTAKEN = "the agent has announced another generation"


class Ear:
    """Who is told when this process waits for others, and who knows that waiting is in vain."""

    note: Callable[[bool], None] = staticmethod(lambda _is_waiting: None)
    is_vain: Callable[[], bool] = staticmethod(lambda: False)
    generation = 0
    """What groups that are made now belong to."""
    _waiting = 0
    _counting = threading.Lock()

    @classmethod
    @contextlib.contextmanager
    def waiting(cls) -> Iterator[None]:
        """One thread more waits for others; the process does until the last of them need not any longer."""
        cls._count(1)
        try:
            yield
        finally:
            cls._count(-1)

    @classmethod
    def _count(cls, change: int) -> None:
        with cls._counting:
            before, cls._waiting = cls._waiting, cls._waiting + change
            if not before or not cls._waiting:
                cls.note(bool(cls._waiting))


def alive() -> list[HoldingGroup]:
    with _living:
        return list(_alive)


def cut_before(generation: int) -> None:
    """Close the connections of all groups of earlier generations: whoever waits on them is set free at once. Called
    from another thread than the one that waits.
    """
    for group in alive():
        if group.generation < generation:
            group.cut()


Look = Callable[[timedelta], bool]


def wait_for(is_over: Look, group: HoldingGroup) -> None:
    """Wait for a collective; raises when it failed. One that is known to be in vain is made to fail by cutting its
    connections.

    gloo may lose the news that a peer is gone (a message that it begins to send in that moment is in no list of those
    to be told) and wait on, with no connection left. A collective cannot be taken back, so it is then left alone for
    ever, together with the group it belongs to.
    """
    slice_s, was_cut, seen_dead = SLICE, 0.0, 0
    while not is_over(slice_s):
        if not was_cut and group.is_vain():
            slice_s, was_cut = POLL, time.monotonic()
            group.cut()
        # Twice, with a look in between: in the moment after its last connection it may be about to say so.
        seen_dead = seen_dead + 1 if was_cut and group.is_dead() else 0
        if seen_dead > 1 or (was_cut and time.monotonic() - was_cut > GIVE_UP_S):
            raise Abandoned(f"the collective was given up: {group.failure or OVERTAKEN}")


def look_at(work: Any) -> Look:
    """Waits a little for a collective each time it is asked."""

    def look(patience: timedelta) -> bool:
        try:
            work.wait(patience)
        except RuntimeError:
            if not work.is_completed():
                return False
            # It may have ended well between the end of our patience and this look: then it says so at once.
            work.wait()
        return True

    return look


def listen_to(work: Any, limit: timedelta) -> Look:
    """The same for a message between two. gloo takes the end of our patience with one for the end of all its
    connections, so a thread has the patience, and is asked.
    """
    outcome: queue.SimpleQueue[str] = queue.SimpleQueue()

    def wait() -> None:
        try:
            work.wait(limit)
        except RuntimeError as error:
            outcome.put(str(error) or "the message was lost")
        else:
            outcome.put("")

    threading.Thread(target=wait, name="tutti-message", daemon=True).start()

    def look(patience: timedelta) -> bool:
        try:
            message = outcome.get(timeout=patience.total_seconds())
        except queue.Empty:
            return False
        if message:
            raise RuntimeError(message)
        return True

    return look


class Meeting(dist.Store):
    """The store as gloo sees it while it connects, from a thread that can be told to stop waiting for addresses."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.is_over = False
        self.addresses: list[bytes] = []
        """What gloo said of where it is to be found, here and at the others."""
        self._inner = inner

    def set(self, key: str, value: Any) -> None:
        self.addresses.append(bytes(value))
        self._inner.set(key, value)

    def get(self, key: str) -> bytes:
        found: bytes = self._inner.get(key)
        self.addresses.append(found)
        return found

    def wait(self, keys: list[str], timeout: timedelta = timedelta(0)) -> None:
        until = time.monotonic() + timeout.total_seconds()
        while not self._inner.check(keys):
            if self.is_over or time.monotonic() > until:
                raise RuntimeError(f"nobody wrote {', '.join(keys)}")
            time.sleep(0.001)


def connect(meeting: Meeting, rank: int, size: int, timeout: timedelta) -> Any:
    """gloo's group, or RuntimeError as soon as it is known that somebody will never come. Connecting cannot be taken
    back, so a thread does it, which is then left to itself until its time is over.
    """
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def make() -> None:
        try:
            made.put(ProcessGroupGloo(meeting, rank, size, timeout))
        except RuntimeError as error:
            made.put(RuntimeError(str(error)))

    threading.Thread(target=make, name="tutti-connect", daemon=True).start()
    while True:
        with contextlib.suppress(queue.Empty):
            found = made.get(timeout=POLL.total_seconds())
            break
        if Ear.is_vain():
            meeting.is_over = True
            raise RuntimeError("the generation was replaced while it connected")
    if isinstance(found, RuntimeError):
        raise found
    return found


class Passed(TrainError):
    """A collective of the user's that the others have behind them."""


class Abandoned(RuntimeError):
    """A collective that is still under way and that nobody waits for any more."""


def bury(thing: Any) -> None:
    """Keep something for ever: taking it apart would wait for what never ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def take_apart(things: list[Any], under_way: list[Any] | None = None) -> None:
    """Let go of a group of gloo's in a thread of its own: its loop looks only every ten milliseconds whether it is to
    end. The process waits a little for the thread when it ends, not the next generation.
    """
    if things != [None]:
        arguments = (things, under_way or [])
        threading.Thread(target=part_with, args=arguments, name=APART, daemon=True).start()


@atexit.register
def finish_parting() -> None:
    """What is being taken apart when the process ends has a moment for it; a thread that never ends is left."""
    until = time.monotonic() + 2 * GIVE_UP_S
    for thread in threading.enumerate():
        if thread.name == APART:
            thread.join(max(0.0, until - time.monotonic()))


def part_with(things: list[Any], under_way: list[Any]) -> None:
    """Collectives whose connections were closed have a moment to notice it."""
    until = time.monotonic() + GIVE_UP_S
    while has_any(under_way) and time.monotonic() < until:
        time.sleep(POLL.total_seconds())
    if has_any(under_way):
        bury(things[0])
    under_way.clear()
    things.clear()


def has_any(under_way: list[Any]) -> bool:
    return not all(work.is_completed() for work in under_way)


class HeldWork(Work):
    """A collective under way whose failure is noted and not thrown."""

    def __init__(
        self, group: HoldingGroup, result: Any, after: Callable[[], Any] | None = None, is_message: bool = False
    ) -> None:
        super().__init__()
        self._after = after
        self._group = group
        self._is_message = is_message
        self._result = result
        self._turn = threading.Lock()
        self._work: Any = None

    def begin(self, work: Any) -> None:
        self._work = work

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        # Whoever comes second waits as long as the first: before that nothing is there for either.
        with self._turn:
            if self._work is not None:
                self._finish(timeout)
        return True

    def _finish(self, timeout: timedelta) -> None:
        try:
            with Ear.waiting():
                self._group.attempt(lambda: self._await(timeout))
        finally:
            work = self._let_go()
            if self._group.failure:
                # It holds on to the connections as well, and may be the last to do so.
                leftovers, work = [work], None
                take_apart(leftovers)
        if self._after and not self._group.failure:
            self._after()

    def _await(self, timeout: timedelta) -> None:
        if timeout:
            self._work.wait(timeout)
            return
        is_over = listen_to(self._work, self._group.patience) if self._is_message else look_at(self._work)
        wait_for(is_over, self._group)

    def _let_go(self) -> Any:
        work, self._work = self._work, None
        self._group.forget(self)
        return work

    def under_way(self) -> list[Any]:
        """What gloo still does for this collective."""
        work = self._work
        return [] if work is None or work.is_completed() else [work]

    def is_completed(self) -> bool:
        return not self.under_way()

    def is_success(self) -> bool:
        return True

    def get_future(self) -> Future[Any]:
        future: Future[Any] = Future()
        self.wait()
        future.set_result(self._result)
        return future

    def result(self) -> Any:
        return self._result


class HoldingGroup(dist.ProcessGroup):
    """gloo with held failures; between two runs through the data they are noted and thrown."""

    is_holding: ClassVar[bool] = True
    passes: ClassVar[bool] = False
    """Whether this process goes through what the others have done before it came."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.failure = ""
        self.generation = Ear.generation
        self.patience = timeout
        self._pending: weakref.WeakSet[HeldWork] = weakref.WeakSet()
        self._starting = threading.Lock()
        self._named = ["", ""]
        self._shut: sockets.Known = {}
        before = sockets.connected()
        # Kept, because gloo calls it and does not own it.
        self._meeting = Meeting(store)
        try:
            self._inner: Any = connect(self._meeting, rank, size, timeout)
        except RuntimeError:
            sockets.shut(sockets.opened_since(before, self._meeting.addresses))
            raise
        self._sockets = sockets.opened_since(before, self._meeting.addresses)
        with _living:
            _alive.add(self)

    def attempt(self, action: Callable[[], Any]) -> None:
        """Do something with the group; a failure is noted, and the connections closed."""
        message = ""
        try:
            if not self.failure:
                action()
        except RuntimeError as error:
            message = str(error) or "failed"
        # Outside the handler: inside it the traceback keeps the connections alive, and the peers would wait for them.
        if message:
            self.fail(message)
        if self.failure:
            self._tell()

    def _tell(self) -> None:
        """Outside of a step nobody looks for a held failure, and what was computed with it would be believed."""
        if not HoldingGroup.is_holding:
            raise RuntimeError(self.failure)

    def fail(self, message: str) -> None:
        """Give the group up, and with it every other of this process: a step that failed in one failed in all. Those of
        a later generation have nothing to do with it: a thread may hear late of the end of a group of the past.
        """
        for group in alive():
            if group.generation <= self.generation:
                group.give_up(message)

    def is_vain(self) -> bool:
        """Whether nothing that is under way here will come to its end."""
        return bool(self.failure) or Ear.is_vain()

    def cut(self) -> None:
        """Close the connections, whoever still waits on them."""
        mine, self._sockets = self._sockets, {}
        self._shut.update(mine)
        sockets.shut(mine)

    def is_dead(self) -> bool:
        """Whether gloo has closed every connection that was cut, and none of its threads does anything."""
        return not sockets.remaining(self._shut) and sockets.is_idle(WORKERS)

    def give_up(self, message: str) -> None:
        self.failure = self.failure or message
        self.cut()
        with self._starting:
            leftovers, self._inner = [self._inner], None
            under_way = [work for held in self._pending for work in held.under_way()]
        take_apart(leftovers, under_way)
        with _living:
            _alive.discard(self)

    def run(self, name: str, result: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> HeldWork:
        """One collective, by the name gloo gives it."""
        held = HeldWork(self, result, is_message=name in MESSAGES)
        return self.begin(held, lambda inner: method(inner, name)(*arguments, **named))

    def begin(self, held: HeldWork, start: Callable[[Any], Any]) -> HeldWork:
        """Start a collective, unless it would be in vain."""
        if HoldingGroup.passes:
            raise Passed(
                "a collective after an epoch that was over before this member came: the others have done it already, "
                "and would take it for another. Write `for epoch in job.epochs(n)`, which begins where the others are"
            )
        if not self.failure and Ear.is_vain():
            self.fail(OVERTAKEN)
        self.attempt(lambda: self._start(held, start))
        return held

    def _start(self, held: HeldWork, start: Callable[[Any], Any]) -> None:
        """Another thread may give the group up at any time: before this, or when it is known to be under way."""
        with self._starting:
            if self._inner is None:
                raise RuntimeError(self.failure or "the group is closed")
            held.begin(start(self._inner))
            self._pending.add(held)

    def forget(self, held: HeldWork) -> None:
        with self._starting:
            self._pending.discard(held)

    def scatter_sum(self, output: Any, whole: Any, options: Any = None) -> HeldWork:
        """A reduce-scatter. gloo's own reduces everything everywhere, and cannot be waited for with an end: all get
        their parts from all the others and add them up, in the order of the ranks.
        """
        operation = options.reduceOp if options is not None else dist.ReduceOp.SUM
        # torch compares these only with itself on the left.
        is_mean = operation == dist.ReduceOp.AVG
        if not (is_mean or operation == dist.ReduceOp.SUM):
            return self._scatter_whole(output, whole, operation)
        parts = torch.empty_like(whole)

        def add_up() -> None:
            torch.sum(parts.view(self.size(), -1), 0, out=output.view(-1))
            if is_mean:
                output.div_(self.size())

        return self.begin(
            HeldWork(self, output, add_up), lambda inner: method(inner, "alltoall_base")(parts, whole, [], [])
        )

    def _scatter_whole(self, output: Any, whole: Any, operation: Any) -> HeldWork:
        total = whole.clone()
        wanted = dist.AllreduceOptions()
        wanted.reduceOp = operation
        mine = total.view(self.size(), -1)[self.rank()]
        held = HeldWork(self, output, lambda: output.copy_(mine.view_as(output)))
        return self.begin(held, lambda inner: inner.allreduce([total], wanted))

    def be_patient(self, timeout: timedelta) -> None:
        """How long a collective may take from now on."""
        self.patience = timeout
        with self._starting:
            if self._inner is not None:
                self._inner._set_default_timeout(timeout)

    _set_default_timeout = be_patient

    def _get_backend(self, _device: Any) -> Any:
        """What carries a message out, as torch asks before it sends several at once: nobody else than this."""
        return self

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return BACKEND

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._named[0] = name

    def getGroupName(self) -> str:  # noqa: N802
        return self._named[0]

    def setGroupDesc(self, text: str) -> None:  # noqa: N802
        self._named[1] = text

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._named[1]

    @property
    def group_name(self) -> Any:
        return self._named[0]

    def shutdown(self) -> None:
        self._inner = None

    def abort(self) -> None:
        self.give_up("aborted")


# torch gave these new names over its versions; a group is asked for whichever of the two it has.
RENAMED = {
    "_allgather_base": "all_gather_single",
    "_reduce_scatter_base": "reduce_scatter_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "alltoall_base": "all_to_all_single",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
}
FORMER = {new: old for old, new in RENAMED.items()}

MESSAGES = ("recv", "send")
COLLECTIVES = (
    *RENAMED, *FORMER, "allgather", "allgather_coalesced", "allreduce", "allreduce_coalesced", "alltoall", "barrier",
    "broadcast",
    "gather", *MESSAGES, "reduce", "reduce_scatter", "scatter",
)  # fmt: skip


def method(group: Any, name: str) -> Callable[..., Any]:
    """A collective of the group, under the name that this version of torch gives it."""
    found = getattr(group, name, None) or getattr(group, RENAMED.get(name) or FORMER.get(name, ""), None)
    if found is None:
        raise RuntimeError(f"gloo has no collective {name}")
    return cast("Callable[..., Any]", found)


def _collective(name: str) -> Callable[..., HeldWork]:
    def call(self: HoldingGroup, *arguments: Any, **named: Any) -> HeldWork:
        return self.run(name, arguments[0] if arguments else [], arguments, named)

    call.__name__ = name
    return call


for _name in COLLECTIVES:
    setattr(HoldingGroup, _name, _collective(_name))
for _name in ("_reduce_scatter_base", "reduce_scatter_single"):
    setattr(HoldingGroup, _name, HoldingGroup.scatter_sum)


def register() -> None:
    """Make the backend known to torch, once."""
    if BACKEND.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(BACKEND, HoldingGroup, devices=["cpu"])
