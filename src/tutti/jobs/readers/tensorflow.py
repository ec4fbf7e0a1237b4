"""TensorFlow: the roles that TF_CONFIG names."""

import json
from typing import Any

from tutti.jobs.draft import Draft

ROLES = ("chief", "master", "worker", "ps", "evaluator")
NO_DEVICES = {"ps", "evaluator"}


def read_config(draft: Draft) -> None:
    """TF_CONFIG in front of the line, or in the environment: chief, worker, ps and evaluator as roles."""
    text = draft.env.get("TF_CONFIG")
    if not text:
        return
    cluster = _cluster(text)
    if cluster is None:
        draft.problem(
            "TF_CONFIG is not a cluster", text[:200], 'write {"cluster": {"worker": ["host:port"]}, "task": ...}'
        )
        return
    draft.framework("tensorflow", "TF_CONFIG in the environment")
    roles: dict[str, dict[str, Any]] = {}
    for role in sorted(cluster, key=lambda name: ROLES.index(name) if name in ROLES else len(ROLES)):
        roles[role] = {"workers": len(cluster[role])} | ({"gpus": 0, "cpus": 1} if role in NO_DEVICES else {})
        if role == "worker" and "ps" in cluster:
            # Workers of parameter servers come and go by themselves; the servers do not.
            roles[role] |= {"coupling": "loose"}
    draft.say("roles", roles, "TF_CONFIG in the environment")
    draft.ignore("addresses in TF_CONFIG", "every member gets its own TF_CONFIG, with where the others really are")


def _cluster(text: str) -> dict[str, list[str]] | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    cluster = said.get("cluster") if isinstance(said, dict) else None
    if not isinstance(cluster, dict) or not cluster:
        return None
    if not all(isinstance(members, list) and 0 < len(members) <= 100_000 for members in cluster.values()):
        return None
    return cluster
