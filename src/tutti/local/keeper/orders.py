"""What a daemon may ask of a keeper, by the word of the message. Each order may come twice and is done once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tutti.local.keeper import records
from tutti.local.keeper.locks import Busy
from tutti.local.keeper.spec import member_from

if TYPE_CHECKING:
    from tutti.local.keeper.keeper import Keeper

Message = dict[str, Any]


def _hello(_keeper: Keeper, _message: Message) -> None:
    """Nothing to do: the keeper spoke first. A daemon of a later version names itself here."""


def _go(keeper: Keeper, _message: Message) -> None:
    """The journal has it that this gang shall run."""
    keeper.has_word = True


def _spawn(keeper: Keeper, message: Message) -> None:
    """More members, or new ones for lost ranks. A rank that runs already is left alone."""
    found = records.read_record(message["file"]) or {"members": []}
    specs = [member_from(entry) for entry in found["members"]]
    fresh = [spec for spec in specs if not (known := keeper.members.get(spec.rank)) or known.code is not None]
    if keeper.stopping_since:
        keeper.tell({"say": "refused", "id": message["id"], "why": "the gang is ending"})
        return
    why = keeper.enter(fresh) if fresh else ""
    said = {"say": "refused", "why": why} if why else {"say": "spawned", "ranks": [spec.rank for spec in specs]}
    keeper.lost_first = keeper.lost_first and bool(why)
    keeper.tell({**said, "id": message["id"]})


def _lock(keeper: Keeper, message: Message) -> None:
    """More devices for a gang whose launcher starts its members itself."""
    try:
        keeper.locks.take([str(path) for path in message["paths"]])
    except Busy as problem:
        keeper.tell({"say": "refused", "id": message["id"], "why": str(problem)})
    else:
        keeper.tell({"say": "spawned", "id": message["id"], "ranks": []})


def _unlock(keeper: Keeper, message: Message) -> None:
    keeper.locks.give([str(path) for path in message["paths"]])
    keeper.tell({"say": "released", "id": message["id"], "ranks": []})


def _heir(keeper: Keeper, message: Message) -> None:
    keeper.bequeath(message)


def _stop(keeper: Keeper, message: Message) -> None:
    keeper.stop(float(message["grace_s"]), str(message["why"]), bool(message.get("leave")))


def _release(keeper: Keeper, message: Message) -> None:
    ranks = [int(rank) for rank in message["ranks"]]
    keeper.release(ranks, float(message["grace_s"]))
    keeper.tell({"say": "released", "id": message["id"], "ranks": ranks})


def _ask(keeper: Keeper, message: Message) -> None:
    asked = keeper.talk is not None and keeper.talk.ask(message["request"])
    if not asked:
        keeper.tell({"say": "unasked", "id": message["request"].get("id", ""), "why": "the job does not speak of it"})


def _limit(keeper: Keeper, message: Message) -> None:
    keeper.spec.limit_s = float(message["limit_s"])
    keeper.told_limit = keeper.noticed = False


def _signal(keeper: Keeper, message: Message) -> None:
    keeper.send_signal(int(message["number"]), message.get("ranks"))


def _close(keeper: Keeper, _message: Message) -> None:
    """No more members will come: the run ends when those who run have ended."""
    keeper.closing = True


ORDERS: dict[str, Callable[[Keeper, Message], None]] = {
    "hello": _hello,
    "go": _go,
    "spawn": _spawn,
    "lock": _lock,
    "unlock": _unlock,
    "heir": _heir,
    "stop": _stop,
    "release": _release,
    "ask": _ask,
    "limit": _limit,
    "signal": _signal,
    "close": _close,
}
