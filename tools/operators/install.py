"""Put a real operator beside a control plane: its kinds, its webhooks over loopback, and the program itself.

What a Deployment would do is done here: the Service of the webhooks leads to a port of this machine, and the
certificates that the program writes into its Secret are laid into the folder where it looks for them.
"""

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.control_plane.rig import Rig, die_with_parent, free_port
from tools.control_plane.stage import Stage
from tools.operators.build import PROGRAMS, binary, generated, source
from tutti.kube.api import ApiError

READY_IN = 90.0
STARTS = 3
"""How often one is started, as a kubelet would do."""
LOOKED_AT = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")  # noqa: S108 - their name, and it stays empty
"""Some wait until there is a file of this name, wherever their certificates really are."""
OFF: dict[str, Any] = {
    "leaderElection": {"leaderElect": False},
    "metrics": {"bindAddress": "0"},
    "health": {"healthProbeBindAddress": "0"},
}
CONVERTED = frozenset({"localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters"})


@dataclass(frozen=True)
class Operator:
    """What is known of one: where its files are, and the names that it expects to find."""

    name: str
    definitions: str
    namespace: str
    webhooks: str = ""
    service: str = ""
    secret: str = ""
    called: str = ""
    """The name of a configuration of webhooks, with `{}` where it says `validating` or `mutating`."""
    settings: str = ""
    """The kind of its file of settings, where it has one."""


OPERATORS = {
    "training-operator": Operator(
        "training-operator",
        "manifests/base/crds",
        "kubeflow",
        "manifests/base/webhook/manifests.yaml",
        "training-operator",
        "training-operator-webhook-cert",
        "validator.training-operator.kubeflow.org",
    ),
    "mpi-operator": Operator("mpi-operator", "manifests/base", "mpi-operator"),
    "kueue": Operator(
        "kueue",
        "config/components/crd/bases",
        "kueue-system",
        "config/components/webhook/manifests.yaml",
        "kueue-webhook-service",
        "kueue-webhook-server-cert",
        "kueue-{}-webhook-configuration",
        "config.kueue.x-k8s.io/v1beta2",
    ),
    "jobset": Operator(
        "jobset",
        "config/components/crd/bases",
        "jobset-system",
        "config/components/webhook/manifests.yaml",
        "jobset-webhook-service",
        "jobset-webhook-server-cert",
        "jobset-{}-webhook-configuration",
        "config.jobset.x-k8s.io/v1alpha1",
    ),
    "trainer": Operator(
        "trainer",
        "manifests/base/crds",
        "kubeflow-system",
        "manifests/base/webhook/manifests.yaml",
        "kubeflow-trainer-controller-manager",
        "kubeflow-trainer-webhook-cert",
        "{}.trainer.kubeflow.org",
        "config.trainer.kubeflow.org/v1alpha1",
    ),
}
TRAINER = {"validating": "validator", "mutating": "defaulter"}


class Beside:
    """Operators that run beside the scheduler on one control plane."""

    def __init__(self, rig: Rig, stage: Stage) -> None:
        self.rig = rig
        self.stage = stage
        self._laid: list[asyncio.Task[None]] = []

    async def start(self, name: str, *arguments: str, **settings: Any) -> None:
        """Install one and run it; returns when its webhooks answer. Raises when it ends or never gets there."""
        it, port = OPERATORS[name], free_port()
        folder = folder_of(self.rig, name)
        await self.ensure({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": it.namespace}})
        await self.define(*definitions(it, port))
        if it.webhooks:
            await self._answering(it, port, folder)
        command = [*self._flags(it, port, folder, settings), *arguments]
        for _ in range(STARTS):
            self._run(it, folder, command)
            if not it.webhooks or await self._answers(name, port):
                return
            self.rig.end(name)
        raise RuntimeError(f"{name} did not come up:\n{self.said(name)[-3000:]}")

    def end(self, name: str) -> None:
        """End one; what it made stays."""
        self.rig.end(name)

    async def close(self) -> None:
        """End what was started here, beside the processes, which end with the rig."""
        for task in self._laid:
            task.cancel()
        await asyncio.gather(*self._laid, return_exceptions=True)

    async def ensure(self, *things: dict[str, Any]) -> None:
        """Make what is not there yet."""
        for thing in things:
            try:
                await self.stage.make_one(thing)
            except ApiError as refused:
                if refused.reason != "AlreadyExists":
                    raise

    async def define(self, *made: dict[str, Any]) -> None:
        """Definitions of kinds, until they are served."""
        await self.ensure(*made)
        for each in made:
            said = each["spec"]
            for version in (v["name"] for v in said["versions"] if v["served"] and v["storage"]):
                await self.stage.until_served(f"/apis/{said['group']}/{version}/{said['names']['plural']}")

    async def groups(self) -> None:
        """The groups of Volcano and of scheduler-plugins, as those define them."""
        plugins = source("sigs.k8s.io/scheduler-plugins") / "config/crd/bases"
        made = list(
            of_kind("CustomResourceDefinition", [*generated().glob("*podgroups.yaml"), *plugins.glob("*.yaml")])
        )
        await self.define(*made)

    async def _answering(self, it: Operator, port: int, folder: Path) -> None:
        """A Service that leads here, a Secret to be filled, the webhooks, and somebody who lays the certificates."""
        meta = {"namespace": it.namespace}
        to_here = {"type": "ExternalName", "externalName": "localhost"}
        await self.ensure(
            {"apiVersion": "v1", "kind": "Service", "metadata": meta | {"name": it.service}, "spec": to_here},
            {"apiVersion": "v1", "kind": "Secret", "metadata": meta | {"name": it.secret}},
            *webhooks(it, port),
        )
        self._laid.append(asyncio.create_task(self._lay(it, folder / "k8s-webhook-server" / "serving-certs")))

    async def _lay(self, it: Operator, folder: Path) -> None:
        path = f"/api/v1/namespaces/{it.namespace}/secrets/{it.secret}"
        while True:
            found = (await self.stage.get(path)).get("data") or {}
            if "tls.crt" in found:
                for key in ("ca.crt", "tls.key", "tls.crt"):
                    (folder / key).write_bytes(base64.b64decode(found[key]))
                return
            await asyncio.sleep(0.2)

    def _flags(self, it: Operator, port: int, folder: Path, more: dict[str, Any]) -> list[str]:
        if it.name == "training-operator":
            return [f"--webhook-server-port={port}", "--metrics-bind-address=0", "--health-probe-bind-address=0"]
        if not it.settings:
            return [f"--lock-namespace={it.namespace}"]
        file = folder / "settings.json"
        file.write_text(json.dumps(settings_of(it, port, folder) | more))
        return [f"--config={file}"]

    def _run(self, it: Operator, folder: Path, arguments: list[str]) -> None:
        environment = os.environ | {"TMPDIR": str(folder), "KUBECONFIG": str(self.rig.kubeconfig())}
        with (self.rig.folder / f"{it.name}.log").open("ab") as log:
            self.rig.processes[it.name] = subprocess.Popen(
                [str(binary(it.name)), *arguments],
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environment,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )

    async def _answers(self, name: str, port: int) -> bool:
        """Whether its webhooks do before it ends; one that found no certificates yet ends, and finds them next time."""
        end = time.monotonic() + READY_IN
        while time.monotonic() < end and self.rig.processes[name].poll() is None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return True
            await asyncio.sleep(0.1)
        return False

    def said(self, name: str) -> str:
        """Its log."""
        return (self.rig.folder / f"{name}.log").read_text(errors="replace")


def folder_of(rig: Rig, name: str) -> Path:
    """Where an operator finds its certificates and leaves its files."""
    LOOKED_AT.parent.mkdir(parents=True, exist_ok=True)
    LOOKED_AT.touch()
    folder = rig.folder / name
    (folder / "k8s-webhook-server" / "serving-certs").mkdir(parents=True, exist_ok=True)
    return folder


def settings_of(it: Operator, port: int, folder: Path) -> dict[str, Any]:
    """The file of settings: on loopback, alone, and nothing served that nobody asks for."""
    certificates = str(folder / "k8s-webhook-server" / "serving-certs")
    body: dict[str, Any] = {"apiVersion": it.settings, "kind": "Configuration", **OFF}
    body["webhook"] = {"port": port, "host": "127.0.0.1"}
    if it.name == "kueue":
        body["webhook"]["certDir"] = certificates
        body["featureGates"] = {"VisibilityOnDemand": False}
    return body


def definitions(it: Operator, port: int) -> Iterator[dict[str, Any]]:
    """Of its kinds; those with several versions are converted by the program."""
    files = sorted((source(PROGRAMS[it.name].module) / it.definitions).glob("*.yaml"))
    for body in of_kind("CustomResourceDefinition", files):
        if it.name == "kueue" and body["spec"]["names"]["plural"] in CONVERTED:
            client = {"service": service(it, port) | {"path": "/convert"}}
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        yield body


def webhooks(it: Operator, port: int) -> Iterator[dict[str, Any]]:
    """Its configurations of webhooks, under the names by which it looks for them."""
    for kind in ("validating", "mutating"):
        file = source(PROGRAMS[it.name].module) / it.webhooks
        for body in of_kind(f"{kind.capitalize()}WebhookConfiguration", [file]):
            body["metadata"]["name"] = it.called.format(TRAINER[kind] if it.name == "trainer" else kind)
            for each in body["webhooks"]:
                each["clientConfig"]["service"] |= service(it, port)
                if it.name == "jobset" and "pod" in each["name"]:
                    label = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                    each["objectSelector"] = {"matchExpressions": [label]}
            yield body


def service(it: Operator, port: int) -> dict[str, Any]:
    """How a webhook names the Service."""
    return {"name": it.service, "namespace": it.namespace, "port": port}


def of_kind(kind: str, files: list[Path]) -> Iterator[dict[str, Any]]:
    """Objects of a kind in some files."""
    for file in files:
        yield from (body for body in yaml.safe_load_all(file.read_text()) if body and body.get("kind") == kind)
