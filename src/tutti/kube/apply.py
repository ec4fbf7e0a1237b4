"""Manifests from a file, made in the cluster: for those who have no kubectl at hand."""

from typing import Any

import yaml

from tutti.errors import Misused

from .api import Api, ApiError
from .kinds import Resources

NOT_FOUND = 404


async def apply(api: Api, text: str, source: str, namespace: str) -> list[str]:
    """Make every object of the file; answers with what was made."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document]
    except yaml.YAMLError as problem:
        raise Misused(f"not YAML: {problem}", where=source) from None
    return [await _make(api, document, source, namespace) for document in documents]


async def _make(api: Api, document: Any, source: str, namespace: str) -> str:
    if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
        raise Misused("an object has no kind or no apiVersion", where=source)
    version, kind = str(document["apiVersion"]), str(document["kind"])
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        listed = (await api.get(base, Resources)).resources
    except ApiError as no:
        if no.status != NOT_FOUND:
            raise
        hint = "enable it, install its definitions, or write the version that is served: kubectl api-versions"
        raise Misused(f"this cluster does not serve {version} ({kind})", where=source, hint=hint) from None
    found = next((r for r in listed if r["kind"] == kind and "/" not in r["name"]), None)
    if found is None:
        raise Misused(f"{version} has no kind {kind!r} here", where=source)
    meta = document.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise Misused(f"the metadata of a {kind} is no mapping", where=source)
    where = base
    if found["namespaced"]:
        where = f"{base}/namespaces/{meta.setdefault('namespace', namespace)}"
    await api.insist("POST", f"{where}/{found['name']}", document)
    return f"{kind.lower()}/{meta.get('name', meta.get('generateName', ''))}"
