"""The keeper of one gang: starts its members together, watches them, and writes down how they ended.

One thread, one loop. It needs no daemon: limits, grace and the exit record are its own business; the daemon listens
and asks for changes.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
import traceback
from functools import partial
from typing import Any

from tutti.local.keeper import member, records, tree
from tutti.local.keeper.attach import Attached
from tutti.local.keeper.early import Early
from tutti.local.keeper.fault import point
from tutti.local.keeper.gate import Gate
from tutti.local.keeper.heir import HEAD_START_S, Gone, Heir
from tutti.local.keeper.listeners import Listeners
from tutti.local.keeper.locks import Busy, Locks
from tutti.local.keeper.logs import Log
from tutti.local.keeper.member import Member
from tutti.local.keeper.orders import ORDERS
from tutti.local.keeper.spare import Kit
from tutti.local.keeper.spec import MemberSpec, Spec
from tutti.local.keeper.talk import JobTalk
from tutti.train.agent import lines

PREEMPTED, RELEASED = 75, 76
SHELL_WORDS = frozenset({"attach", "keys", "size"})
ROWS_AT_ONCE = 500
GATE_S = 60.0
"""How long a member may take to become its program."""
WORD_S = 30.0
"""How long members that are ready wait for the daemon to say go."""
FRESH_S = 3600.0
"""Programs that were made so lately are not executed early: nobody can write to a program that is being executed."""
RECORD_S = 3600.0
"""How long a keeper tries to write down the end where the disk does not take it."""
LAST_WORDS_S = 5.0
"""How long an idle keeper waits for its daemon to have heard the end."""
COLLECT_S = 2.0
"""How long an orphan that has ended may be left lying: process numbers are few, and gangs run for months."""


class Keeper:
    """The state of one run."""

    def __init__(self, folder: str, spec: Spec, listener: socket.socket, mine: Kit) -> None:
        self.folder = folder
        self.spec = spec
        self.members: dict[int, Member] = {}
        self.past: list[Member] = []
        """Members whose rank was given to another process since."""
        self.locks = Locks()
        self.phase = "starting"
        self.why = ""
        self.stopping_since = 0.0
        self.kill_at = 0.0
        self.lost_first = False
        """A member was lost before any failed: what fails now may fail because of that."""
        self.began = self.up_at = 0
        self.limit_from = 0.0
        self.noticed = self.told_limit = False
        self.closing = not spec.loose
        self.refusal = ""
        self.was_early = False
        """It could not begin because it was made ready too early; nothing is wrong with another try."""
        self._last: list[dict[str, Any]] = []
        """What there is to say when it is over."""
        self.shells: dict[int, Attached] = {}
        self.selector = selectors.DefaultSelector()
        self.listeners = Listeners(listener, self.selector, self.hear, self.hello, self._hung_up, spec.uid)
        if spec.uid >= 0:
            os.chown(os.path.join(folder, records.SOCKET), spec.uid, -1)
        self.talk = JobTalk(spec.channel, spec.uid, self.selector, self.tell) if spec.channel else None
        self.group, self._warm, self._begun = mine.group, mine.warm, mine.begun
        self.has_word = not spec.on_word
        """Whether the daemon has said go."""
        self._deserted = False
        self._daemon = -1
        self.early = Early(self)
        self._heir: Heir | None = None
        self._passed_on = False
        self._collect_at = time.monotonic() + COLLECT_S
        if self.group is not None:
            self.group.limit_processes()
            if spec.memory:
                self.group.limit_memory(spec.memory)

    # -- the loop

    def run(self) -> None:
        """Until nothing is left to keep."""
        self.began = now_us()
        self.enter(self.spec.members)
        while not self._is_over():
            try:
                self._turn(self._patience())
                self._keep_time()
            except Exception:  # noqa: BLE001 - a mistake of ours must not cost anybody a gang
                traceback.print_exc()
        self._end()
        self.listeners.flush(LAST_WORDS_S)

    def _patience(self) -> float | None:
        moments = [self.kill_at, self._limit_at(), self._notice_at(), self._hang_at(), self._collect_at]
        ahead = [moment for moment in moments if moment]
        return max(min(ahead) - time.monotonic(), 0.0) if ahead else None

    def _is_over(self) -> bool:
        return self.closing and not any(one.code is None for one in self.members.values())

    # -- members

    def enter(self, specs: list[MemberSpec]) -> str:
        """Start members behind one gate, all of them or none; why not, or nothing."""
        early = self.spec.early and not self._is_told()
        if why := self.lock(specs) if not early else self.early.prepare(specs):
            return self._refused(why)
        fresh: list[Member] = []
        gate = Gate()
        try:
            fresh.extend(self._start(spec, gate) for spec in specs)
        except OSError as problem:
            self.locks.give([path for spec in specs for path in spec.locks])
            return self._abandon(gate, fresh, f"no process could be started: {problem.strerror}")
        gate.await_all([one.pid for one in fresh], GATE_S)
        if early:
            self.early.hold(gate, fresh)
        if why := self._await_word(fresh) or (self.early.begin(specs, fresh) if early else ""):
            return self._abandon(gate, fresh, why)
        for one in fresh if not early else ():
            one.log.open()
        gate.open()
        self.early.let_go(fresh)
        self._listen(fresh)
        self._begun()
        if self.phase == "starting":
            self.phase, self.up_at, self.limit_from = "running", now_us(), time.monotonic()
        for message in members_messages(fresh, bool(self.stopping_since)):
            self.tell(message)
        self.tell({"say": "up", "at": now_us()})
        self.early.see_off(fresh)
        return ""

    def lock(self, specs: list[MemberSpec]) -> str:
        """Hold what belongs to the gang and to these members; why not, or nothing."""
        try:
            self.locks.take(self.paths(specs))
        except Busy as problem:
            return str(problem)
        return ""

    def paths(self, specs: list[MemberSpec]) -> list[str]:
        """What they need to hold."""
        return [*self.spec.locks, *(path for spec in specs for path in spec.locks)]

    def _refused(self, why: str) -> str:
        self.refusal = why
        self.closing = self.closing or not self.members
        return why

    def _start(self, spec: MemberSpec, gate: Gate) -> Member:
        if (before := self.members.get(spec.rank)) is not None:
            self.past.append(before)
        owner = (self.spec.uid, self.spec.gid) if self.spec.uid >= 0 else None
        log = Log(os.path.join(self.spec.logs, f"rank-{spec.rank}.log"), self.spec.log_bytes, owner)
        warm, self._warm = self._warm, None
        one = member.start(self.spec, spec, gate, log, self.group, warm)
        self._watch(one)
        return one

    def _listen(self, fresh: list[Member]) -> None:
        """What members say is theirs since they were let go."""
        for one in fresh:
            if one.log.source >= 0:
                self.selector.register(one.log, selectors.EVENT_READ, partial(self._pump, one))

    def _watch(self, one: Member) -> None:
        self.members[one.rank] = one
        self.selector.register(one.watch, selectors.EVENT_READ, lambda: self._ended(one))

    def rehearse_end(self, one: Member) -> None:
        """Go through the end of a member and of a run, in a keeper that is none."""
        self.group = None
        self._watch(one)
        while one.code is None:
            self._turn(1.0)
        self._end()

    def _await_word(self, fresh: list[Member]) -> str:
        """Until the daemon says go; why they shall not, or nothing. One that is gone has perhaps not stored it."""
        if self._is_told():
            return ""
        if self.spec.early:
            point("gate")
            if any(one.is_fresh(FRESH_S) for one in fresh):
                return "its program is new, and may be made once more"
        self._watch_daemon()
        limit = time.monotonic() + WORD_S
        while not self._is_told() and not self._deserted and not self._has_lost(fresh):
            left = limit - time.monotonic()
            if left <= 0 and not self.spec.early:
                break
            self._turn(left if not self.spec.early else None)
        self._forget_daemon()
        was_let_go = self.spec.early and self.early.was_let_go()
        self.has_word = self.has_word or was_let_go
        if self._has_lost(fresh) and not was_let_go:
            self.was_early = True
            return "a member ended before it could begin"
        return "" if self._is_told() else "its daemon went away before it could begin"

    def _is_told(self) -> bool:
        return self.has_word or bool(self.stopping_since)

    def _has_lost(self, fresh: list[Member]) -> bool:
        """Whether one that waits for its turn is gone; of those that begin at once that is told by their end."""
        return self.spec.early and any(one.code is not None for one in fresh)

    def _watch_daemon(self) -> None:
        try:
            self._daemon = os.pidfd_open(self.spec.on_word)
        except OSError:
            self._deserted = True
        else:
            self.selector.register(self._daemon, selectors.EVENT_READ, self._desert)

    def _desert(self) -> None:
        self._deserted = True

    def _forget_daemon(self) -> None:
        if self._daemon >= 0:
            self.selector.unregister(self._daemon)
            os.close(self._daemon)
            self._daemon = -1

    def _abandon(self, gate: Gate, fresh: list[Member], why: str) -> str:
        """Nothing of these has run and nothing will."""
        for one in fresh:
            if one.code is None:
                one.watch.send(signal.SIGKILL)
                while one.watch.reap() is None:
                    time.sleep(0.001)
                self.selector.unregister(one.watch)
            self._close_log(one)
            one.log.close()
            del self.members[one.rank]
        gate.take_down()
        return self._refused(why)

    def _pump(self, one: Member) -> None:
        if not one.log.pump():
            self._close_log(one)

    def _close_log(self, one: Member) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(one.log)
        one.log.close_pipe()

    def _ended(self, one: Member) -> None:
        code = one.watch.reap()
        if code is None:
            return
        one.code, one.failed_at = code, time.monotonic()
        if self._heir is not None and self._has_finished():
            self._passed_on = self._heir.take_over(self.locks)
        self.selector.unregister(one.watch)
        one.watch.close()
        # Of those at the gate nobody knows yet, and nobody will: unless they were let go, others take their places.
        if not self.early.is_waiting:
            self.depart(one)

    def _has_finished(self) -> bool:
        """Whether nothing is left of the gang, and nothing of it will be tried again."""
        all_well = all(one.code == 0 for one in self.members.values()) and not self.spec.loose and not self.refusal
        return all_well and self._is_over() and not self.stopping_since and not tree.has_children()

    def bequeath(self, message: dict[str, Any]) -> None:
        """Somebody will have the place when this gang has finished."""
        if self._heir is not None:
            self._heir.close()
            self._heir = None
        with contextlib.suppress(OSError, Gone):
            self._heir = Heir(message)

    def depart(self, one: Member) -> None:
        """A member has ended: what that means for the others, and the daemon."""
        self._drain(one)
        self._judge(one)
        if one.released or one.spec.loose or ((one.code or 0) < 0 and not self.stopping_since):
            # Its place may be given to somebody else, so nothing of it may be left there.
            tree.end_session(one.pid, self._known())
            self.locks.give(one.spec.locks)
        self.tell({**exit_message(one), "ending": bool(self.stopping_since)})
        if one.spec.loose:
            # Of thousands of tasks only those that run may keep files open.
            self._close_log(one)
            one.log.close()
        self._end_of_the_rest()

    def _end_of_the_rest(self) -> None:
        """Loose members serve those that stay together: without them they have nothing to do."""
        if self.spec.loose or self.stopping_since or any(self._runs(rank) for rank in self._tight()):
            return
        if any(one.code is None for one in self.members.values()):
            self.stop(self.spec.grace_s, "")

    def _tight(self) -> list[int]:
        return [one.rank for one in self.members.values() if not one.spec.loose]

    def _drain(self, one: Member) -> None:
        """Its last words, as far as they are there; a child of it may still hold the pipe open."""
        if one.log.source >= 0:
            one.log.pump(64)

    def _judge(self, one: Member) -> None:
        if one.code in (0, PREEMPTED) or one.released or self.stopping_since or one.spec.loose:
            return
        if one.code is not None and one.code < 0:
            self.lost_first = True
        elif self.spec.ends_on_failure and not self.lost_first:
            self.stop(self.spec.grace_s, "failed")

    # -- time

    def _limit_at(self) -> float:
        runs = self.spec.limit_s and self.limit_from and not self.stopping_since and not self.told_limit
        return self.limit_from + self.spec.limit_s if runs else 0.0

    def _notice_at(self) -> float:
        limit = self._limit_at()
        return max(limit - self.spec.notice_s, 0.001) if limit and self.spec.notice and not self.noticed else 0.0

    def _hang_at(self) -> float:
        heard = self.talk.last_heard if self.talk else 0.0
        return heard + self.spec.hang_s if self.spec.hang_s and heard and not self.stopping_since else 0.0

    def _keep_time(self) -> None:
        now = time.monotonic()
        if self._collect_at <= now:
            self._collect_at = now + COLLECT_S
            tree.collect_orphans(self._known())
        if 0 < self._notice_at() <= now:
            self.noticed = True
            self.send_signal(self.spec.notice)
        if 0 < self._limit_at() <= now:
            self._time_is_over()
        if 0 < self._hang_at() <= now:
            self.stop(self.spec.grace_s, "hang")
        if 0 < self.kill_at <= now:
            self.kill_at = 0.0
            tree.end_tree(self.group, self._pids())
            self.closing = True

    def _time_is_over(self) -> None:
        self.told_limit = True
        self.tell({"say": "limit", "at": now_us()})
        if not self.spec.keeps_on:
            self.stop(self.spec.grace_s, "limit", leave=True)

    # -- what is asked for

    def stop(self, grace_s: float, why: str, leave: bool = False) -> None:
        """Ask every member to end, and end those who have not in time. A later call may only shorten the grace."""
        now = time.monotonic()
        self.closing = True
        first = not self.stopping_since
        self.kill_at = min(self.kill_at or now + grace_s, now + grace_s)
        if not first:
            return
        self.stopping_since, self.why = now, why
        self.phase = "ending"
        if leave and self.talk is not None and self.talk.leave(grace_s, why):
            return
        self.send_signal(signal.SIGTERM)

    def release(self, ranks: list[int], grace_s: float) -> None:
        """End some members; they are no longer part of the gang."""
        for rank in ranks:
            one = self.members.get(rank)
            if one is None or one.released:
                continue
            one.released = True
            if one.code is None:
                one.signal(signal.SIGTERM)
                one.signal(signal.SIGCONT)
            elif one.code >= 0:
                # It had finished and only kept its place.
                self.locks.give(one.spec.locks)
        limit = time.monotonic() + grace_s
        while time.monotonic() < limit and any(self._runs(rank) for rank in ranks):
            self._turn(0.02)
        for rank in ranks:
            if self._runs(rank):
                self.members[rank].signal(signal.SIGKILL)

    def _runs(self, rank: int) -> bool:
        one = self.members.get(rank)
        return one is not None and one.code is None

    def _turn(self, wait_s: float | None) -> None:
        for key, _ in self.selector.select(wait_s):
            key.data()

    def send_signal(self, number: int, ranks: list[int] | None = None) -> None:
        for one in self.members.values():
            if one.code is None and (ranks is None or one.rank in ranks):
                one.signal(number)
                if number == signal.SIGTERM:
                    one.signal(signal.SIGCONT)

    def hear(self, message: dict[str, Any], line: lines.Lines) -> None:
        """A daemon, or a person who wants a shell, said something."""
        if message.get("say") in SHELL_WORDS:
            self._shell(message, line)
            return
        order = ORDERS.get(str(message.get("say"))) if not self.listeners.is_guest(line) else None
        if order is None:
            self.tell({"say": "unknown", "of": str(message.get("say"))})
        else:
            order(self, message)

    def _shell(self, message: dict[str, Any], line: lines.Lines) -> None:
        shell = self.shells.get(line.fileno())
        if message["say"] == "attach":
            one = self.members.get(int(message.get("rank", 0)))
            if one is None or one.code is not None or shell is not None:
                line.send({"say": "gone", "code": 1, "why": f"rank {message.get('rank', 0)} is not running"})
            else:
                self.shells[line.fileno()] = Attached(self, line, one.spec, message)
        elif shell is not None and message["say"] == "keys":
            shell.keys(str(message["data"]))
        elif shell is not None:
            shell.resize(message)

    def _hung_up(self, line: lines.Lines) -> None:
        self._deserted = self._deserted or not (self.has_word or self.listeners.is_guest(line))
        shell = self.shells.get(line.fileno())
        if shell is not None:
            shell.hang_up()

    # -- what is told

    def tell(self, message: dict[str, Any]) -> None:
        self.listeners.tell(message)

    def hello(self) -> list[dict[str, Any]]:
        """Everything a daemon must know that has just connected, in lines of bounded length."""
        known = members_messages(list(self.members.values()), bool(self.stopping_since))
        # Who they are comes first, so that nobody hears that they run without knowing them.
        return [*known, self._greeting(), {"say": "synced"}, *self._last]

    def _greeting(self) -> dict[str, Any]:
        return {
            "say": "hello",
            "keeper": 1,
            "nonce": self.spec.nonce,
            "phase": self.phase,
            "up": self.up_at,
            "why": self.why,
            "refused": self.refusal,
            "can": list(self.talk.can) if self.talk else [],
            "progress": self.talk.progress if self.talk else None,
            "held": self.early.offered,
        }

    # -- the end

    def _end(self) -> None:
        left = tree.end_tree(self.group, self._pids())
        everyone = (*self.past, *self.members.values())
        for one in everyone:
            self._drain(one)
        if self.talk is not None:
            self.talk.hear_out()
        record = self.record(left)
        self.phase = "ended"
        self.locks.give_all()
        # The daemon hears it before the disk has it: what only the machine's own end could lose need not wait.
        self._last = [{"say": "ended", **{key: value for key, value in record.items() if key != "members"}}]
        self.tell(self._last[0])
        with contextlib.suppress(OSError):
            records.put(os.path.join(self.folder, records.EXIT), record)
        time.sleep(HEAD_START_S)
        for one in everyone:
            self._close_log(one)
            one.log.close()
        if self.talk is not None:
            self.talk.close()
        if self.group is not None:
            self.group.remove()
        self._write_down(record)

    def _write_down(self, record: dict[str, Any]) -> None:
        """A disk that takes nothing now may do so later: how a gang ended is worth some patience."""
        limit = time.monotonic() + RECORD_S
        while True:
            try:
                records.write_whole(os.path.join(self.folder, records.EXIT), record)
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > limit:
                    raise
                time.sleep(1.0)
            else:
                return

    def _known(self) -> set[int]:
        """Children that have handles of their own."""
        return {*self._pids(), *(shell.pid for shell in self.shells.values())}

    def _pids(self) -> set[int]:
        return {one.pid for one in self.members.values() if one.code is None}

    def record(self, left: list[int]) -> dict[str, Any]:
        """How it ended."""
        counted = [one for one in self.members.values() if self.spec.loose or not one.spec.loose]
        first = first_failure(counted)
        return {
            "version": 1,
            "job": self.spec.job,
            "nonce": self.spec.nonce,
            "why": "refused" if self.refusal and not self.members else self.why,
            "refused": self.refusal,
            "was_early": self.was_early,
            "was_deserted": self._deserted and not self.members,
            "code": 0 if first is None else first.code,
            "first": -1 if first is None else first.rank,
            "members": {str(one.rank): one.code for one in self.members.values()},
            "lost_first": self.lost_first,
            "began": self.began,
            "up": self.up_at,
            "ended": now_us(),
            "log_bytes_lost": sum(one.log.lost for one in (*self.past, *self.members.values())),
            "left": left,
            "passed_on": self._passed_on,
        }


def first_failure(members: list[Member]) -> Member | None:
    """The member that failed first; one that failed by itself rather than one that was told to end."""
    failed = [one for one in members if one.code and not one.released]
    return min(failed, key=lambda one: (one.failed_at, one.rank), default=None)


def members_messages(members: list[Member], ending: bool) -> list[dict[str, Any]]:
    """Who the members are, in lines of bounded length."""
    rows = [[one.rank, one.pid, one.code, one.released or ending] for one in members]
    parts = [rows[at : at + ROWS_AT_ONCE] for at in range(0, len(rows), ROWS_AT_ONCE)]
    return [{"say": "members", "rows": part} for part in parts]


def exit_message(one: Member) -> dict[str, Any]:
    """A member as the daemon is told of it."""
    return {"say": "exit", "rank": one.rank, "pid": one.pid, "code": one.code, "released": one.released, "at": now_us()}


def now_us() -> int:
    return time.time_ns() // 1000
