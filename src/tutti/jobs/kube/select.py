"""Does it match? Label selectors, node selectors, taints and tolerations, by the rules of Kubernetes."""

from collections.abc import Iterable, Mapping

from .objects import Affinity, LabelSelector, NodeTerm, PodSpec, Requirement, Taint, Toleration

CLOSED = ("NoSchedule", "NoExecute")
"""Effects that keep a pod off a node."""


def labels_match(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector picks these labels. None picks nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.match_labels or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_on_labels(requirement, labels) for requirement in selector.match_expressions or [])


def _on_labels(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Operators of label selectors: a missing key satisfies NotIn."""
    value = labels.get(requirement.key)
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: list[str]) -> bool:
    try:
        have, want = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return have > want if operator == "Gt" else have < want


def term_matches(term: NodeTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node meets one term; a term without conditions is met by none."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    by_label = all(_on_labels(requirement, labels) for requirement in term.match_expressions or [])
    return by_label and all(_on_labels(requirement, fields) for requirement in term.match_fields or [])


def terms_match(terms: Iterable[NodeTerm], name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node meets one of the terms."""
    return any(term_matches(term, name, labels) for term in terms)


def node_matches(spec: PodSpec, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node meets the pod's node selector and its required node affinity."""
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    required = required_nodes(spec.affinity)
    return required is None or terms_match(required, name, labels)


def required_nodes(affinity: Affinity | None) -> list[NodeTerm] | None:
    """The terms of the required node affinity; None where there is none."""
    nodes = affinity.node_affinity if affinity is not None else None
    required = nodes.required_during_scheduling_ignored_during_execution if nodes is not None else None
    return required.node_selector_terms if required is not None else None


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations puts up with the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(toleration.key) and toleration.value == taint.value
    # Comparing tolerations are refused before they get here; putting up with nothing errs on the safe side.
    return False
