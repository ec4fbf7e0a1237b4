"""`tutti kube doctor`: what is missing for the scheduler to work here, in words."""

import time
from typing import Any, NamedTuple

import msgspec

from .api import Api, ApiError
from .config import Config
from .http import Broken
from .intake import moment
from .kinds import DIALECTS, OWN, Served, served
from .rights import INSIDE, Right, rights

NEVER_HEARD = float("inf")


class Finding(NamedTuple):
    """One thing that was looked at."""

    ok: bool
    what: str
    hint: str = ""


async def examine(api: Api, config: Config) -> list[Finding]:
    """Everything, in the order in which it matters."""
    try:
        version = await api.get("/version", dict[str, Any])
    except (ApiError, Broken) as problem:
        return [Finding(False, f"the API server does not answer: {problem}", "check --kubeconfig and the network")]
    found = [Finding(True, f"Kubernetes {version.get('gitVersion', '?')}")]
    kinds = await served(api)
    found += _kinds(kinds)
    found += await _rights(api, kinds, config)
    found.append(await _lease(api, config))
    found.append(await _pods(api, config))
    return found


def _kinds(kinds: list[Served]) -> list[Finding]:
    there = {kind.kind for kind in kinds}
    dialects = [f"{kind.kind.why} ({kind.api_version})" for kind in kinds if kind.kind in DIALECTS]
    own = OWN in there
    hint = "kubectl apply -f deploy/0-crds.yaml"
    return [
        Finding(own, "the kind Placement is there" if own else "the kind Placement is missing", "" if own else hint),
        Finding(True, f"read here: {'; '.join(dialects) or 'no groups but those made of labels and annotations'}"),
    ]


async def _rights(api: Api, kinds: list[Served], config: Config) -> list[Finding]:
    """Every right on a kind that this cluster has."""
    there = {(kind.kind.group, kind.kind.plural) for kind in kinds}
    wanted = [(r, "") for r in rights() if _is_there(r, there)]
    wanted += [(right, config.namespace) for right in INSIDE]
    missing = []
    for right, where in wanted:
        verbs = [verb for verb in right.verbs if not await _may(api, right, verb, where)]
        missing += [f"{'/'.join(verbs)} {right.resource}"] if verbs else []
    if not missing:
        return [Finding(True, "every right is granted")]
    return [Finding(False, f"no right to {', '.join(missing)}", "kubectl apply -f deploy/1-rbac.yaml")]


def _is_there(right: Right, there: set[tuple[str, str]]) -> bool:
    base = right.resource.split("/")[0]
    return (right.group, base) in there or base in ("pods", "events", "tokenreviews", "subjectaccessreviews")


async def _may(api: Api, right: Right, verb: str, namespace: str) -> bool:
    resource, _, sub = right.resource.partition("/")
    asked = {"verb": verb, "group": right.group, "resource": resource, "subresource": sub, "name": right.name}
    asked["namespace"] = namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
    }
    answer = await api.insist("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(msgspec.json.decode(answer)["status"].get("allowed"))


async def _lease(api: Api, config: Config) -> Finding:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases/{config.scheduler_name}"
    try:
        found = await api.get(path, dict[str, Any])
    except ApiError as no:
        if no.status == 404:
            hint = "kubectl apply -f deploy/2-scheduler.yaml, or tutti kube run"
            return Finding(False, "no scheduler has ever led here (one with --no-lease leaves no trace)", hint)
        return Finding(False, f"the lease cannot be read: {no.message}", "kubectl apply -f deploy/1-rbac.yaml")
    return _leader(found.get("spec") or {}, time.time())


def _leader(spec: dict[str, Any], now: float) -> Finding:
    """Whoever holds the lease, if they are still heard of."""
    holder, heard = spec.get("holderIdentity"), str(spec.get("renewTime") or "")
    hint = "kubectl -n tutti-system get pods, or tutti kube run"
    if not holder:
        return Finding(False, "nobody leads: the last leader has left", hint)
    silent = now - moment(heard) / 1e6 if heard else NEVER_HEARD
    alive = silent < 2 * float(spec.get("leaseDurationSeconds") or 0)
    what = f"the leader is {holder}, last heard of at {heard or 'no time'}"
    return Finding(alive, what if alive else f"{what}: it has stopped", "" if alive else hint)


async def _pods(api: Api, config: Config) -> Finding:
    selector = f"spec.schedulerName={config.scheduler_name}"
    try:
        found = await api.get("/api/v1/pods", dict[str, Any], fieldSelector=selector, limit=500)
    except ApiError as no:
        return Finding(False, f"pods cannot be read: {no.message}", "kubectl apply -f deploy/1-rbac.yaml")
    pods = found.get("items") or []
    waiting = sum(not pod["spec"].get("nodeName") for pod in pods)
    hint = "" if pods else f"set schedulerName: {config.scheduler_name} on your pods"
    return Finding(True, f"{len(pods)} pods ask for {config.scheduler_name!r}, {waiting} of them wait", hint)
