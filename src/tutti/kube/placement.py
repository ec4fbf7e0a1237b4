"""The record that goes before the first bind: which seats a gang was given, so that a new leader can finish or undo."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tutti.jobs.kube.objects import Thing
from tutti.jobs.kube.wants import digest

from .gangs import GangSeen, Where
from .status import reference

GROUP, VERSION, PLURAL = "tutti.dev", "v1alpha1", "placements"
PATH = f"/apis/{GROUP}/{VERSION}"
LEAVING = "tutti.dev/leaving"
"""Annotation of a record whose gang is being evicted: whom for."""
RUN = re.compile(r"([^*\s]+)\*(\d+)")


def path_of(namespace: str, name: str = "") -> str:
    """Where placements of a namespace are."""
    return f"{PATH}/namespaces/{namespace}/{PLURAL}{'/' if name else ''}{name}"


def name_of(key: str) -> str:
    """The object's name: readable, and unlike that of any other gang."""
    _, _, rest = key.partition("/")
    plain = re.sub(r"[^a-z0-9-]+", "-", rest.lower()).strip("-")[:200]
    return f"{plain}-{digest(key.encode())[:6]}"


def namespace_of(key: str) -> str:
    """The namespace a gang lives in."""
    return key.partition("/")[0]


def placement(gang: GangSeen, scheduler: str, generation: str, deadline: str) -> dict[str, Any]:
    """The object: seats run by run, in rank order, and until when the gang is to be whole."""
    assert gang.gang is not None
    roles = [
        {"name": role.name, "min": role.min, "shape": shape, "seats": written(where)}
        for role, where, shape in zip(gang.gang.roles, gang.desired, gang.shapes, strict=True)
    ]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Placement",
        "metadata": {
            "name": name_of(gang.key),
            "namespace": namespace_of(gang.key),
            "ownerReferences": _owners(gang),
        },
        "spec": {
            "gang": gang.key,
            "scheduler": scheduler,
            "generation": generation,
            "deadline": deadline,
            "roles": roles,
        },
    }


def _owners(gang: GangSeen) -> list[dict[str, Any]]:
    """The group object, so that the record goes with it."""
    about = reference(gang.declared) if gang.declared is not None else None
    return [{key: about[key] for key in ("apiVersion", "kind", "name", "uid")}] if about is not None else []


def written(where: Where) -> str:
    """Seats as text: node*members, in rank order."""
    return " ".join(f"{node}*{count}" for node, count in where)


class Written(NamedTuple):
    """What was written down of a gang."""

    where: list[Where]
    """Its seats; none where the record makes no sense."""
    shapes: tuple[int, ...] = ()
    leaving: str | None = None
    """For whom it is being taken off its seats; None where it is not."""
    names: tuple[str, ...] = ()
    """Of its roles, in the same order."""
    deadline: str = ""
    """Until when the gang was to be whole."""

    def of(self, roles: Sequence[str]) -> "Written | None":
        """What was written down of each of these roles, nothing where it had none; None where it had others."""
        at = {name: index for index, name in enumerate(self.names)}
        if len(at) < len(self.where) or not at.keys() <= set(roles):
            return None
        where = [self.where[at[name]] if name in at else [] for name in roles]
        return Written(where, tuple(self.shapes[at[name]] if name in at else 0 for name in roles), names=tuple(roles))


def read(thing: Thing) -> tuple[str, Written]:
    """The gang, and what was written down of it."""
    spec = thing.spec or {}
    roles = [role for role in spec.get("roles") or [] if isinstance(role, dict)]
    where = [[(node, int(count)) for node, count in RUN.findall(str(role.get("seats", "")))] for role in roles]
    leaving = (thing.metadata.annotations or {}).get(LEAVING)
    shapes, names = tuple(int(r.get("shape") or 0) for r in roles), tuple(str(r.get("name", "")) for r in roles)
    return str(spec.get("gang", "")), Written(where, shapes, leaving, names, str(spec.get("deadline", "")))


def age(written: Written, within: int, now: float) -> float:
    """For how many seconds a start that had so long has been under way; 0 where it does not say."""
    try:
        return max(now - datetime.fromisoformat(written.deadline).timestamp() + within, 0.0)
    except ValueError:
        return 0.0


ABOUT = "Where the members of a gang are put, written down before the first of them is bound. The scheduler makes it."


def crd() -> dict[str, Any]:
    """The definition of the kind, with the columns that kubectl prints."""
    role = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "min": {"type": "integer"},
            "shape": {"type": "integer"},
            "seats": {"type": "string", "description": "node*members, in rank order, separated by spaces"},
        },
    }
    spec = {
        "type": "object",
        "required": ["gang", "roles"],
        "properties": {
            "gang": {"type": "string", "description": "the gang, as tutti queue calls it"},
            "scheduler": {"type": "string", "description": "the schedulerName of its pods; nobody else touches this"},
            "generation": {"type": "string", "description": "which decision of which scheduler this was"},
            "deadline": {"type": "string", "description": "until when the gang is whole, or undone"},
            "roles": {"type": "array", "items": role},
        },
    }
    columns = [
        {"name": "Gang", "type": "string", "jsonPath": ".spec.gang"},
        {"name": "Deadline", "type": "string", "jsonPath": ".spec.deadline"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "description": ABOUT, "properties": {"spec": spec}}},
        "additionalPrinterColumns": columns,
    }
    names = {"plural": PLURAL, "singular": "placement", "kind": "Placement", "shortNames": ["tpl"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
