"""`tutti kube doctor`: what is missing for the scheduler to work here, in words."""

import time
from typing import Any, NamedTuple

import msgspec

from .api import Api, ApiError
from .config import Config
from .http import Broken
from .intake import moment
from .kinds import DIALECTS, OWN, Served, served
from .manifests import NAMESPACE, apply
from .rights import ACCOUNT, INSIDE, Right, rights

NEVER_HEARD = float("inf")
PERMIT = apply("1-rbac.yaml")


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
    hint = apply("0-crds.yaml")
    return [
        Finding(own, "the kind Placement is there" if own else "the kind Placement is missing", "" if own else hint),
        Finding(True, f"read here: {'; '.join(dialects) or 'no groups but those made of labels and annotations'}"),
    ]


async def _rights(api: Api, kinds: list[Served], config: Config) -> list[Finding]:
    """Every right on a kind that this cluster has."""
    there = {(kind.kind.group, kind.kind.plural) for kind in kinds}
    wanted = [(r, "") for r in rights() if _is_there(r, there)]
    wanted += [(right, config.namespace) for right in INSIDE]
    whose = await _whose(api, config.namespace)
    missing = []
    for right, where in wanted:
        verbs = [verb for verb in right.verbs if not await _may(api, right, verb, where, whose.asked)]
        missing += [f"{'/'.join(verbs)} {right.resource}"] if verbs else []
    if not missing:
        return [Finding(True, f"{whose.words} has every right")]
    return [Finding(False, f"{whose.words} has no right to {', '.join(missing)}", PERMIT)]


class Whose(NamedTuple):
    """Whose rights are looked at."""

    words: str
    asked: dict[str, Any] | None = None
    """How the API server is asked about somebody else; None: about ourselves."""


async def _whose(api: Api, namespace: str) -> Whose:
    """The scheduler's account where it is installed and one may ask about it; else whoever asks."""
    account = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    me = await _myself(api)
    if me == account:
        return Whose(account)
    try:
        await api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}", dict[str, Any])
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        asked = {"user": account, "groups": groups}
        await _may(api, INSIDE[0], "get", namespace, asked)
    except ApiError as no:
        if no.status == 404:
            return Whose(f"{me} (no account {namespace}/{ACCOUNT} is there)")
        return Whose(f"{me} (you may not ask about {namespace}/{ACCOUNT})")
    return Whose(account, asked)


async def _myself(api: Api) -> str:
    """Who asks, as the API server calls them."""
    try:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await api.insist("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
        return str(msgspec.json.decode(answer)["status"]["userInfo"]["username"])
    except (ApiError, KeyError):
        return "whoever asks"


def _is_there(right: Right, there: set[tuple[str, str]]) -> bool:
    base = right.resource.split("/")[0]
    return (right.group, base) in there or base in ("pods", "events", "tokenreviews", "subjectaccessreviews")


async def _may(api: Api, right: Right, verb: str, namespace: str, whose: dict[str, Any] | None) -> bool:
    resource, _, sub = right.resource.partition("/")
    asked = {"verb": verb, "group": right.group, "resource": resource, "subresource": sub, "name": right.name}
    asked["namespace"] = namespace
    kind = "SubjectAccessReview" if whose is not None else "SelfSubjectAccessReview"
    spec = {**(whose or {}), "resourceAttributes": {key: value for key, value in asked.items() if value}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = await api.insist("POST", f"/apis/authorization.k8s.io/v1/{kind.lower()}s", body)
    return bool(msgspec.json.decode(answer)["status"].get("allowed"))


async def _lease(api: Api, config: Config) -> Finding:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases/{config.scheduler_name}"
    try:
        found = await api.get(path, dict[str, Any])
    except ApiError as no:
        if no.status == 404:
            hint = f"{apply('2-scheduler.yaml')}, or tutti kube run"
            return Finding(False, "no scheduler has ever led here (one with --no-lease leaves no trace)", hint)
        return Finding(False, f"the lease cannot be read: {no.message}", PERMIT)
    return _leader(found.get("spec") or {}, time.time(), config.namespace)


def _leader(spec: dict[str, Any], now: float, namespace: str = NAMESPACE) -> Finding:
    """Whoever holds the lease, if they are still heard of."""
    holder, heard = spec.get("holderIdentity"), str(spec.get("renewTime") or "")
    hint = f"kubectl -n {namespace} get pods, or tutti kube run"
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
        return Finding(False, f"pods cannot be read: {no.message}", PERMIT)
    pods = found.get("items") or []
    waiting = sum(not pod["spec"].get("nodeName") for pod in pods)
    hint = "" if pods else f"set schedulerName: {config.scheduler_name} on your pods"
    return Finding(True, f"{len(pods)} pods ask for {config.scheduler_name!r}, {waiting} of them wait", hint)
