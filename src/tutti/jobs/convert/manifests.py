"""A gang as Kubernetes objects of a dialect: the group, and an indexed Job for the pods of each role."""

from typing import Any

from tutti.engine.model import Gang, Role
from tutti.jobs.finish import bounds
from tutti.jobs.job import CPU, DEVICE, MEMORY
from tutti.jobs.lazy import pattern
from tutti.jobs.manifest import ROLE

from .groups import DIALECTS, Grouped, Object

IMAGE = "registry.example/your-image"
NOT_A_NAME = pattern(r"[^a-z0-9-]+")


def name_of(gang: Gang) -> tuple[str, str]:
    """Namespace and name, legal in Kubernetes."""
    namespace, slash, name = gang.name.partition("@")[0].partition("/")
    namespace, name = (namespace, name) if slash else ("default", namespace)
    return _legal(namespace), _legal(name)


def manifests(gang: Gang, dialect: str, command: tuple[str, ...] = (), image: str = IMAGE) -> list[Object]:
    """The objects, in the order in which they are to be applied."""
    namespace, name = name_of(gang)
    grouped = DIALECTS[dialect](gang, name, namespace)
    return [*grouped.objects, *(_job(gang, role, grouped, command, image) for role in gang.roles)]


def _job(gang: Gang, role: Role, grouped: Grouped, command: tuple[str, ...], image: str) -> Object:
    namespace, name = name_of(gang)
    want = bounds(role)[1]
    metadata: Object = {"labels": {ROLE: role.name, **grouped.labels(role)}}
    if annotations := grouped.annotations(role):
        metadata["annotations"] = annotations
    container: Object = {"name": "main", "image": image} | ({"command": list(command)} if command else {})
    container["resources"] = {"limits": _limits(role)}
    spec: Object = {
        "schedulerName": "tutti",
        "restartPolicy": "Never",
        **grouped.fields(role),
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-{_legal(role.name)}", "namespace": namespace},
        "spec": {
            "completionMode": "Indexed",
            "completions": want,
            "parallelism": want,
            "template": {"metadata": metadata, "spec": spec},
        },
    }


def _limits(role: Role) -> dict[str, Any]:
    """What a pod asks for, as Kubernetes writes it."""
    asked = role.shapes[0].ask if role.shapes else {}
    names = {DEVICE: "nvidia.com/gpu"}
    return {names.get(name, name): _quantity(name, amount) for name, amount in asked.items() if name != "pods"}


def _quantity(name: str, amount: int) -> int | str:
    if name == CPU:
        return f"{amount}m" if amount % 1000 else amount // 1000
    return f"{amount >> 20}Mi" if name == MEMORY and amount and amount % (1 << 20) == 0 else amount


def _legal(name: str) -> str:
    return NOT_A_NAME.sub("-", name.lower()).strip("-")[:50] or "job"
