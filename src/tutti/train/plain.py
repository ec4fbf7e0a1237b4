"""State that is not a tensor, as JSON: numbers, text, lists, tuples and dictionaries come back as they were.

No pickle: reading a snapshot never runs code.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tutti.train.errors import StateChanged


@dataclass(frozen=True)
class Ref:
    """Where a tensor was, by its name."""

    name: str


@cache
def ref(path: str) -> Ref:
    """The same object for the same name: structures that did not change are compared without looking into them."""
    return Ref(path)


def dumps(value: Any, where: str = "state") -> bytes:
    """Plain values as bytes; `where` names the thing in an error."""
    return json.dumps(_pack(value, where), separators=(",", ":")).encode()


def loads(data: bytes | str) -> Any:
    return unpack(json.loads(data))


def pick(value: Any, path: str, is_tensor: Callable[[Any], bool], found: dict[str, Any]) -> Any:
    """The same structure with every tensor replaced by a Ref and collected under its path."""
    if is_tensor(value):
        found[path] = value
        return ref(path)
    if isinstance(value, dict):
        return {key: pick(item, f"{path}/{key}", is_tensor, found) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [pick(item, f"{path}/{at}", is_tensor, found) for at, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def put(value: Any, tensors: Callable[[str], Any]) -> Any:
    """The structure with every Ref replaced by its tensor again."""
    if isinstance(value, Ref):
        return tensors(value.name)
    if isinstance(value, dict):
        return {key: put(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [put(item, tensors) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _pack(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, list):
        return [_pack(item, f"{where}/{at}") for at, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": [_pack(item, f"{where}/{at}") for at, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[_pack(key, where), _pack(item, f"{where}/{key}")] for key, item in value.items()]}
    if callable(getattr(value, "item", None)):
        return _pack(value.item(), where)
    raise StateChanged(
        f"{where} holds a {type(value).__name__}, which cannot be kept in a snapshot: "
        f"its state_dict may hold tensors, numbers, text, lists, tuples and dictionaries"
    )


def unpack(value: Any) -> Any:
    """What was packed for JSON, from what JSON gave back."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, content = next(iter(value.items()))
    if kind == "ref":
        return Ref(content)
    if kind == "tuple":
        return tuple(unpack(item) for item in content)
    return {unpack(key): unpack(item) for key, item in content}
