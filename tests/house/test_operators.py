"""What others' programs need is made from their own files: definitions, webhooks, settings. Nothing is built here."""

import json

import pytest

from tools.control_plane.build import Impossible
from tools.operators import build, install
from tools.operators.install import OPERATORS, Operator

WEBHOOKS = """
kind: ValidatingWebhookConfiguration
metadata: {name: validating-webhook-configuration}
webhooks:
- {name: vjob.example, clientConfig: {service: {name: webhook-service, namespace: system, path: /validate}}}
---
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
- {name: mjob.example, clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate}}}
---
kind: Service
"""


@pytest.mark.parametrize("name", build.PROGRAMS)
def test_each_program_has_a_version(name):
    assert build.version(build.PROGRAMS[name].module).startswith("v")


def test_a_module_that_is_not_required_is_refused():
    with pytest.raises(Impossible, match=r"does not require example\.com/none"):
        build.version("example.com/none")


def test_every_operator_can_be_built():
    assert set(OPERATORS) <= set(build.PROGRAMS)


def test_webhooks_lead_to_a_port_of_this_machine_under_the_names_that_are_looked_for(tmp_path, monkeypatch):
    (tmp_path / "webhooks.yaml").write_text(WEBHOOKS)
    monkeypatch.setattr(install, "source", lambda _: tmp_path)
    it = Operator("kueue", "crds", "theirs", "webhooks.yaml", "service", "secret", "kueue-{}-configuration")
    made = {body["metadata"]["name"]: body["webhooks"][0]["clientConfig"] for body in install.webhooks(it, 4321)}
    leads = {"name": "service", "namespace": "theirs", "port": 4321}
    assert made == {
        "kueue-validating-configuration": {"service": leads | {"path": "/validate"}},
        "kueue-mutating-configuration": {"service": leads | {"path": "/mutate"}},
    }


def test_kinds_that_are_converted_are_converted_by_the_program(tmp_path, monkeypatch):
    for plural in ("workloads", "topologies"):
        body = {"kind": "CustomResourceDefinition", "spec": {"names": {"plural": plural}}}
        (tmp_path / f"{plural}.yaml").write_text(json.dumps(body))
    monkeypatch.setattr(install, "source", lambda _: tmp_path)
    it = Operator("kueue", ".", "theirs", service="service")
    made = {body["spec"]["names"]["plural"]: body["spec"] for body in install.definitions(it, 4321)}
    assert made["workloads"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 4321
    assert "conversion" not in made["topologies"]


@pytest.mark.parametrize("name", [name for name, it in OPERATORS.items() if it.settings])
def test_they_listen_on_loopback_only(tmp_path, name):
    said = install.settings_of(OPERATORS[name], 4321, tmp_path)
    assert said["webhook"]["host"] == "127.0.0.1"
    assert (said["metrics"]["bindAddress"], said["health"]["healthProbeBindAddress"]) == ("0", "0")
