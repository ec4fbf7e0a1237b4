"""Manifests of every dialect and generation, and the gang each makes. TUTTI_WRITE_GOLDEN=1 writes the answers anew."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tutti.jobs.kube.gang import Facts, Ground, Kin, translate
from tutti.jobs.kube.objects import Pod, Thing
from tutti.jobs.kube.read import declared, from_pod, is_gated, member, run_time
from tutti.jobs.kube.wants import wants

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("*.yaml"))


def read(path):
    """Every gang of a file, as the engine sees it."""
    documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
    groups: dict[str, Any] = {}
    members: dict[Any, Any] = {}
    for document in documents:
        if document["kind"] == "Pod":
            continue
        for group in declared(msgspec.convert(document, Thing)):
            groups[group.key] = group
    for document in documents:
        if document["kind"] == "Pod":
            pod = msgspec.convert(document, Pod)
            said, others = member(pod)
            found = from_pod(pod, said)
            key = next((k for k, g in groups.items() if (g.name, g.dialect) == (said.group, said.dialect)), None)
            if key is None and found is not None:
                key, groups[found.key] = found.key, found
            members.setdefault(key, []).append((pod, said, others))
    return {key: told(groups[key], members.get(key, [])) for key in groups}


def told(group, pods):
    present: dict[Kin, int] = {}
    for pod, said, _ in pods:
        if not is_gated(pod):
            kin = Kin(said.part, wants(pod.metadata.namespace, pod.spec, {}), ())
            present[kin] = present.get(kin, 0) + 1
    times = [run_time(pod)[0] for pod, _, _ in pods]
    found = translate(group, present, Ground(priorities={"high": 1000}), Facts(time=max(times, default=0)))
    others = sorted({other for _, _, spoken in pods for other in spoken})
    gang = msgspec.to_builtins(found.gang)
    return {"gang": gang, "awaiting": found.awaiting, "problems": list(found.problems), "also": others}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_manifests_make_the_gang(path):
    answer = json.loads(json.dumps(read(path)))
    kept = path.with_suffix(".json")
    if os.environ.get("TUTTI_WRITE_GOLDEN"):
        kept.write_text(json.dumps(answer, indent=1, sort_keys=True) + "\n")
    assert answer == json.loads(kept.read_text())


def test_every_dialect_has_one():
    names = " ".join(path.stem for path in FILES)
    for dialect in ("native-1.35", "native-1.36", "native-1.37", "coscheduling", "volcano", "koordinator", "kai"):
        assert dialect in names
    for dialect in ("yunikorn", "kueue", "kube-batch"):
        assert dialect in names
