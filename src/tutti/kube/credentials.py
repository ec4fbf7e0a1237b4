"""Where the cluster is and who we are: a kubeconfig, or the files every pod is given."""

import base64
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from tutti.errors import Misused, NotFound, TuttiError

from .http import Target

POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_A_POD = "KUBERNETES_SERVICE_HOST"
"""Where the API server is; the kubelet sets it in every pod."""
REREAD = 60.0
"""Tokens of pods are renewed in their file; it is read again this often, in seconds, and after a 401."""


class Credentials:
    """A server and a way to prove who is asking."""

    def __init__(self, target: Target, token: Callable[[], str], namespace: str = "default", name: str = "") -> None:
        self.target = target
        self.namespace = namespace
        self.name = name
        self._token = token
        self._kept = ""
        self._until = 0.0

    def headers(self) -> str:
        """The line that goes with each request."""
        if time.monotonic() >= self._until:
            self._kept = self._token()
            self._until = time.monotonic() + REREAD
        return f"Authorization: Bearer {self._kept}\r\n" if self._kept else ""

    def expire(self) -> None:
        """The server did not take the token: get a fresh one next time."""
        self._until = 0.0


def find(kubeconfig: str | None = None, context: str | None = None) -> Credentials:
    """The file named, else those of $KUBECONFIG as one, else what a pod is given, else ~/.kube/config."""
    if kubeconfig:
        return from_file(Path(kubeconfig).expanduser(), context=context)
    listed = [Path(name).expanduser() for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        # Of several, those that are there count, as kubectl has it.
        return from_file(*([path for path in listed if path.exists()] or listed[:1]), context=context)
    if IN_A_POD in os.environ and (POD / "token").exists():
        return from_pod()
    usual = Path.home() / ".kube" / "config"
    if usual.exists():
        return from_file(usual, context=context)
    raise NotFound("no cluster is known here.", hint="--kubeconfig FILE, or set KUBECONFIG")


def from_pod(folder: Path = POD) -> Credentials:
    """What the kubelet mounts into every pod."""
    host, port = os.environ[IN_A_POD], int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    namespace = (folder / "namespace").read_text().strip() if (folder / "namespace").exists() else "default"
    return Credentials(Target(host, port, tls), lambda: (folder / "token").read_text().strip(), namespace)


def from_file(*paths: Path, context: str | None = None) -> Credentials:
    """One context of a kubeconfig; of several files, what an earlier one says counts."""
    found = [(read(path), path) for path in paths]
    chosen = context or next(
        (str(config["current-context"]) for config, _ in found if config.get("current-context")), ""
    )
    entry, _ = named(found, "contexts", "context", chosen)
    cluster, path = named(found, "clusters", "cluster", str(entry.get("cluster", "")))
    user, whose = named(found, "users", "user", str(entry.get("user", "")))
    target = target_of(cluster, path, user, whose, chosen)
    return Credentials(target, token_of(user, whose.parent), str(entry.get("namespace") or "default"), chosen)


def target_of(cluster: dict[str, Any], path: Path, user: dict[str, Any], whose: Path, context: str) -> Target:
    """The server of a context, and how it is talked to; each entry with the file that it is in."""
    try:
        server = urlsplit(str(cluster.get("server", "")))
        host, port = server.hostname, server.port
    except ValueError as problem:
        raise Misused(f"context {context!r} names no server: {problem}", where=str(path)) from None
    if not host:
        raise Misused(f"context {context!r} names no server", where=str(path))
    if cluster.get("proxy-url"):
        hint = "kubectl proxy, and a context whose server is http://localhost:8001"
        raise Misused(f"context {context!r} asks for a proxy (proxy-url), which is not understood", str(path), hint)
    if server.scheme != "https":
        return Target(host, port or 80, None, server.path.rstrip("/"))
    try:
        tls = context_of(cluster, path.parent, user, whose.parent)
    except (OSError, ValueError) as problem:
        hint = "check certificate-authority, client-certificate and client-key"
        raise Misused(
            f"the certificates of context {context!r} cannot be used: {problem}", where=str(path), hint=hint
        ) from None
    return Target(host, port or 443, tls, server.path.rstrip("/"), str(cluster.get("tls-server-name") or ""))


def read(path: Path) -> dict[str, Any]:
    """The file as it is."""
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        config = yaml.load(path.read_bytes(), loader)  # noqa: S506 - a safe loader
    except FileNotFoundError:
        raise NotFound(f"there is no file {str(path)!r}.") from None
    except (OSError, yaml.YAMLError) as problem:
        raise Misused(f"cannot read {str(path)!r}: {problem}") from None
    if not isinstance(config, dict):
        raise Misused(f"{str(path)!r} is not a kubeconfig")
    return config


def named(found: list[tuple[dict[str, Any], Path]], many: str, one: str, name: str) -> tuple[dict[str, Any], Path]:
    """The first entry of the lists of that kind that has this name, and the file it is in."""
    lists = [(config.get(many), path) for config, path in found]
    entries = [
        (entry, path)
        for written, path in lists
        for entry in (written if isinstance(written, list) else ())
        if isinstance(entry, dict)
    ]
    for entry, path in entries:
        if entry.get("name") == name and isinstance(entry.get(one), dict):
            return dict(entry[one]), path
    known = ", ".join(dict.fromkeys(str(entry.get("name")) for entry, _ in entries)) or "none"
    raise Misused(f"no {one} is called {name!r}; known: {known}", where=", ".join(str(path) for _, path in found))


def context_of(cluster: dict[str, Any], at: Path, user: dict[str, Any], folder: Path) -> ssl.SSLContext:
    """Whom to trust, and the client's certificate where there is one; files are named from where the entries are."""
    ca = content(cluster, "certificate-authority", at)
    tls = ssl.create_default_context(cadata=ca.decode() if ca else None)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate, key = content(user, "client-certificate", folder), content(user, "client-key", folder)
    if certificate and key:
        with tempfile.TemporaryDirectory() as place:
            cert_file, key_file = Path(place) / "cert", Path(place) / "key"
            cert_file.write_bytes(certificate)
            key_file.touch(mode=0o600)
            key_file.write_bytes(key)
            tls.load_cert_chain(cert_file, key_file)
    return tls


def content(entry: dict[str, Any], key: str, folder: Path) -> bytes:
    """A value given in place (-data) or as a file."""
    if data := entry.get(f"{key}-data"):
        return base64.b64decode("".join(str(data).split()), validate=True)
    return (folder / str(entry[key])).read_bytes() if entry.get(key) else b""


def token_of(user: dict[str, Any], folder: Path) -> Callable[[], str]:
    """A function that gives the present token."""
    if user.get("token"):
        return lambda: str(user["token"])
    if user.get("tokenFile"):
        return lambda: text_of(folder / str(user["tokenFile"]))
    if user.get("exec"):
        return lambda: from_plugin(dict(user["exec"]), folder)
    return lambda: ""


def text_of(path: Path) -> str:
    """The token in a file, as it is now."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise TuttiError(f"the token file {str(path)!r} cannot be read: {problem}") from None


def from_plugin(plugin: dict[str, Any], folder: Path = Path()) -> str:
    """The token an exec plug-in prints; one that is named by a path is looked for from where the entry is."""
    extra = {str(pair["name"]): str(pair["value"]) for pair in plugin.get("env") or []}
    version = plugin.get("apiVersion", "client.authentication.k8s.io/v1")
    ask = msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}})
    program = str(plugin.get("command"))
    command = [str(folder / program) if os.sep in program else program, *map(str, plugin.get("args") or [])]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own plug-in, named in their kubeconfig
            command, env=os.environ | extra | {"KUBERNETES_EXEC_INFO": ask.decode()}, capture_output=True, check=True
        )
        return str(msgspec.json.decode(done.stdout)["status"]["token"])
    except KeyError:
        hint = "only tokens are read of it, no certificates"
        raise TuttiError(f"the credential plug-in {command[0]!r} gave no token", hint=hint) from None
    except subprocess.CalledProcessError as problem:
        said = problem.stderr.decode(errors="replace").strip()[-400:]
        raise TuttiError(f"the credential plug-in {command[0]!r} failed: {said or problem}") from None
    except (OSError, msgspec.DecodeError, TypeError) as problem:
        raise TuttiError(f"the credential plug-in {command[0]!r} failed: {problem}") from None
