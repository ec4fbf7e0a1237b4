"""A control plane of one's own on loopback: etcd and kube-apiserver, with TLS, tokens and RBAC on.

The same rig serves the tests, the races and the tutorial. Processes are ended by their id.
"""

import base64
import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tools.control_plane.build import binaries

GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,PodGroupPreemptionPolicy=true"
SERVED = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
OFF = "ServiceAccount,TaintNodesByCondition,DefaultStorageClass,StorageObjectInUseProtection"
SCHEDULER = "system:serviceaccount:tutti-system:tutti"
READY_IN = 200.0
SELDOM = {"GOGC": "300"}
"""For the races: a server that is seconds old has so small a heap that it collects rubbish most of the time, which one
that has been up for an hour does not. The same for every scheduler; the schedulers themselves run as they are."""


@dataclass
class Rig:
    """Running processes and how to reach them."""

    folder: Path
    url: str = ""
    etcd: str = ""
    admin: str = ""
    tutti: str = ""
    nobody: str = ""
    """A token of somebody without any rights."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def ca(self) -> Path:
        """The certificate that the API server made for itself."""
        return self.folder / "tls" / "apiserver.crt"

    def kubeconfig(self, token: str = "", server: str = "") -> Path:
        """A kubeconfig for a token (the administrator's by default)."""
        token = token or self.admin
        path = self.folder / f"kubeconfig-{'admin' if token == self.admin else token[:6]}-{(server or self.url)[-5:]}"
        path.write_text(json.dumps(self._config(token, server or self.url)))
        return path

    def _config(self, token: str, server: str) -> dict[str, object]:
        ca = base64.b64encode(self.ca.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "rig", "cluster": {"server": server, "certificate-authority-data": ca}}],
            "users": [{"name": "me", "user": {"token": token}}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "me"}}],
            "current-context": "rig",
        }

    def start(self, name: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start one of the binaries; what it says goes to a file beside it."""
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [str(binaries() / name), *arguments]
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=os.environ | environment,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks for a signal
            )
        self.processes[name] = process
        return process

    def start_scheduler(self, *extra: str) -> None:
        """The real kube-scheduler, with gangs on and its client's limits off."""
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig()), "qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False},
        }
        path = self.folder / "scheduler.json"
        path.write_text(json.dumps(config))
        gates = ",".join(gate for gate in GATES.split(",") if not gate.startswith("PodGroupPre"))
        self.start("kube-scheduler", f"--config={path}", f"--feature-gates={gates}", "--secure-port=0", *extra)

    def start_controllers(self, which: str = "job-controller,garbage-collector-controller") -> None:
        """The real controllers that recreate pods."""
        self.start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig()}",
            f"--controllers={which}",
            f"--feature-gates={GATES}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=500",
        )

    def end(self, name: str) -> None:
        """End one process, by force if it does not listen."""
        process = self.processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End everything and remove what it wrote."""
        for name in reversed(list(self.processes)):
            self.end(name)
        shutil.rmtree(self.folder, ignore_errors=True)


def started(*, loose: bool = False) -> Rig:
    """A control plane that answers. `loose` is the races' rig: no authorisation, no fair queueing."""
    shm = Path("/dev/shm")  # noqa: S108 - etcd's disk is not what is being tested
    rig = Rig(Path(tempfile.mkdtemp(prefix="tutti-rig-", dir=shm if os.access(shm, os.W_OK) else None)))
    try:
        _start_etcd(rig, loose)
        _start_apiserver(rig, loose)
    except BaseException:
        rig.close()
        raise
    return rig


def _start_etcd(rig: Rig, loose: bool) -> None:
    client, peer = free_port(), free_port()
    rig.etcd = f"http://127.0.0.1:{client}"
    rig.start(
        "etcd",
        f"--data-dir={rig.folder / 'etcd'}",
        f"--listen-client-urls={rig.etcd}",
        f"--advertise-client-urls={rig.etcd}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
        **(SELDOM if loose else {}),
    )


def _start_apiserver(rig: Rig, loose: bool) -> None:
    port = free_port()
    rig.url = f"https://127.0.0.1:{port}"
    rig.admin, rig.tutti, rig.nobody = secrets.token_hex(16), secrets.token_hex(16), secrets.token_hex(16)
    tokens, key = rig.folder / "tokens.csv", rig.folder / "accounts.key"
    tokens.write_text(
        f'{rig.admin},admin,admin,"system:masters"\n{rig.tutti},{SCHEDULER},tutti,"system:serviceaccounts"\n'
        f"{rig.nobody},nobody,nobody\n"
    )
    key.write_text(ec_key())
    lax = [
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=8000",
        "--max-mutating-requests-inflight=4000",
    ]
    rig.start(
        "kube-apiserver",
        f"--etcd-servers={rig.etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={rig.folder / 'tls'}",
        f"--token-auth-file={tokens}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://rig.tutti.dev",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--disable-admission-plugins={OFF}",
        f"--runtime-config={SERVED}",
        f"--feature-gates={GATES}",
        f"--authorization-mode={'AlwaysAllow' if loose else 'RBAC'}",
        "--allow-privileged",
        *(lax if loose else []),
        **(SELDOM if loose else {}),
    )
    wait_ready(rig)


def wait_ready(rig: Rig) -> None:
    """Return when the API server answers; say what it said when it ends or never does."""
    until = time.monotonic() + READY_IN
    while time.monotonic() < until:
        if rig.processes["kube-apiserver"].poll() is not None:
            break
        if _answers(rig):
            return
        time.sleep(0.05)
    said = (rig.folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
    raise RuntimeError(f"kube-apiserver did not come up:\n{said}")


def _answers(rig: Rig) -> bool:
    if not rig.ca.exists():
        return False
    with contextlib.suppress(urllib.error.URLError, OSError, ssl.SSLError):
        context = ssl.create_default_context(cafile=str(rig.ca))
        headers = {"Authorization": f"Bearer {rig.admin}"}
        request = urllib.request.Request(f"{rig.url}/readyz", headers=headers)  # noqa: S310 - https only
        with urllib.request.urlopen(request, context=context, timeout=20) as answer:  # noqa: S310
            return bool(answer.status == 200)
    return False


def die_with_parent() -> None:
    """Ask the kernel to end this process when whoever started it is gone, however that happened."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ec_key() -> str:
    """A private key on P-256 in PEM; whoever reads it works out the public half."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    secret = (secrets.randbelow(order - 1) + 1).to_bytes(32, "big")
    curve = bytes.fromhex("a00a06082a8648ce3d030107")
    body = b"\x02\x01\x01\x04\x20" + secret + curve
    der = b"\x30" + bytes([len(body)]) + body
    return f"-----BEGIN EC PRIVATE KEY-----\n{base64.b64encode(der).decode()}\n-----END EC PRIVATE KEY-----\n"
