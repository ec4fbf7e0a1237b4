"""The plain manifests in deploy/, made from code so that they never say anything else."""

from typing import Any

import yaml

from .placement import crd
from .rights import roles

NAMESPACE = "tutti-system"
IMAGE = "tutti:latest"
LABELS = {"app.kubernetes.io/name": "tutti"}


def manifests(namespace: str = NAMESPACE, image: str = IMAGE) -> dict[str, list[dict[str, Any]]]:
    """Files, in the order in which they are applied, and what is in them."""
    return {
        "0-crds.yaml": [crd()],
        "1-rbac.yaml": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, *roles(namespace)],
        "2-scheduler.yaml": [settings(namespace), deployment(namespace, image), budget(namespace), network(namespace)],
    }


def text(objects: list[dict[str, Any]]) -> str:
    """As YAML, one document each."""
    head = "# Made by `tutti kube manifests`; change the code, not this file.\n"
    return head + "---\n".join(yaml.dump(thing, Dumper=Plain, sort_keys=False, width=120) for thing in objects)


class Plain(yaml.SafeDumper):
    """Everything is written out where it stands."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - whatever it is
        """What is said twice is written twice."""
        return True


def apply(name: str) -> str:
    """How one of the files is applied, wherever Tutti was installed from."""
    return f"tutti kube manifests --out . && kubectl apply -f {name}"


def settings(namespace: str) -> dict[str, Any]:
    """The configuration file; every key has a default."""
    lines = ["# See the reference page on Kubernetes.", 'scheduler_name = "tutti"']
    lines += [f'namespace = "{namespace}"'] if namespace != NAMESPACE else []
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tutti", "namespace": namespace},
        "data": {"config.toml": "\n".join([*lines, ""])},
    }


def deployment(namespace: str, image: str) -> dict[str, Any]:
    """Two replicas; one leads, the other has everything read already."""
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "failureThreshold": 6}
    container = {
        "name": "tutti",
        "image": image,
        "args": ["kube", "run", "--config", "/etc/tutti/config.toml"],
        "ports": [{"name": "http", "containerPort": 8080}],
        "livenessProbe": probe,
        "readinessProbe": probe | {"httpGet": {"path": "/readyz", "port": 8080}},
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/tutti", "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - its own; the rest of its disk is read-only
        ],
    }
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": LABELS}}
    spread = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    spec = {
        "serviceAccountName": "tutti",
        "priorityClassName": "system-cluster-critical",
        "affinity": {"podAntiAffinity": spread},
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": "tutti"}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "256Mi"}},
        ],
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "tutti", "namespace": namespace, "labels": LABELS},
        "spec": {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template},
    }


def budget(namespace: str) -> dict[str, Any]:
    """One replica stays when nodes are drained."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "tutti", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}},
    }


def network(namespace: str) -> dict[str, Any]:
    """Nobody needs to reach it but probes and Prometheus, and it needs only the API server and DNS."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "tutti", "namespace": namespace},
        "spec": {
            "podSelector": {"matchLabels": LABELS},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": 8080}]}],
            "egress": [{"ports": [{"port": 443}, {"port": 6443}, {"port": 53, "protocol": "UDP"}, {"port": 53}]}],
        },
    }
