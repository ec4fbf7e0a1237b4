"""What a pod asks of a node, by the rules of Kubernetes: containers, init containers, sidecars, pod level, overhead."""

from collections.abc import Iterable, Mapping

from .objects import Container, PodSpec, Resources
from .quantity import amount

POD_LEVEL = ("cpu", "memory")
Amounts = dict[str, int]


def ask(spec: PodSpec) -> Amounts:
    """What one pod takes: one of the node's places for pods, and everything it requests."""
    total = _containers(spec.containers, spec.init_containers or [])
    if spec.resources is not None:
        given = requests(spec.resources)
        total |= {name: given[name] for name in given if name in POD_LEVEL or name.startswith("hugepages-")}
    _add(total, read(spec.overhead or {}))
    return {name: value for name, value in total.items() if value} | {"pods": 1}


def _containers(main: Iterable[Container], first: Iterable[Container]) -> Amounts:
    """Containers run together; each init container runs beside the sidecars that were started before it."""
    total: Amounts = {}
    for container in main:
        _add(total, requests(container.resources))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in first:
        wants = requests(container.resources)
        if container.restart_policy == "Always":
            _add(total, wants)
            _add(sidecars, wants)
            _raise(peak, sidecars)
        else:
            _add(wants, sidecars)
            _raise(peak, wants)
    _raise(total, peak)
    return total


def requests(resources: Resources | None) -> Amounts:
    """Requests, and limits where nothing is requested (as the API server fills them in)."""
    if resources is None:
        return {}
    return read(resources.limits or {}) | read(resources.requests or {})


def read(amounts: Mapping[str, str | float]) -> Amounts:
    """Written amounts as numbers."""
    return {name: amount(name, value) for name, value in amounts.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise(total: Amounts, least: Amounts) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)
