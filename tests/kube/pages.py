"""docs/reference/kubernetes.md, made from the code. `python -m tests.kube.pages` writes it anew."""

import ast
import inspect
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tutti.jobs.kube.verdicts.all import TABLE
from tutti.jobs.kube.verdicts.row import Row
from tutti.kube import config
from tutti.kube.kinds import DIALECTS, OF_YUNIKORN
from tutti.kube.metrics import METRICS
from tutti.kube.rights import INSIDE, Right, rights
from tutti.kube.status import OWNERSHIP
from tutti.kube.supported import HONOURED, REFUSED

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGE, KEYS = FOLDER / "kubernetes.md", FOLDER / "kubernetes-keys.md"
TITLES = {
    "native": "Kubernetes' own groups",
    "coscheduling": "coscheduling (scheduler-plugins)",
    "volcano": "Volcano",
    "koordinator": "Koordinator",
    "kueue": "Kueue",
    "kai": "KAI",
    "yunikorn": "YuniKorn",
    "kubeflow": "Kubeflow",
    "kube-batch": "kube-batch",
}
KEYS_HEAD = """# Keys of every dialect

Every field, label, annotation and setting by which a gang, its queue or its place is declared, and what becomes of it.
This page is made from the code (`python -m tests.kube.pages`), and a test writes every one of these keys into a small
cluster: what is *honoured* changes what the scheduler does, what is *refused* is called by its name, and what is *for
information* changes nothing.

- **honoured**: it has its effect.
- **refused**: a gang whose group or pods say it waits with
  [`UnsupportedConstraint`](reasons/unsupported-constraint.md) and the name of the key. Where a queue or another object
  of the whole cluster says it, an event (`Misdeclared`) on that object names it, and the rest of the object counts.
- **for information**: it needs no effect here; the last column says why.

A value that makes no sense gets one event that says what to write. How all of this is used is told in
[use the groups you have](../how-to/kubernetes-dialects.md).
"""
HEAD = """# Kubernetes

`tutti kube run` schedules every pod whose `schedulerName` is `tutti`. This page is made from the code
(`python -m tests.kube.pages`); how to install it and how to use it with what you have is told in
[install on Kubernetes](../how-to/install-on-kubernetes.md) and
[use the groups you have](../how-to/kubernetes-dialects.md).

A gang is named `namespace/name`, with the dialect behind it where it is not the native one (`ml/train@volcano`). A pod
without a group is a gang of one (`ml/web-0@pod`).

## Annotations of ours

| annotation | on | meaning |
|---|---|---|
| `tutti.dev/time` | group or pod | how long it runs: `30m`, `2h30m`; what reservation and backfill rest on |
| `tutti.dev/queue` | group or pod | the queue it waits in, whatever its dialect says; a label will do |
| `tutti.dev/movable` | group or pods | `true`: with `place.migrate`, members may be started anew on other nodes |

Without a time, `activeDeadlineSeconds`, Kueue's `max-exec-time-seconds`, or the history of like gangs is used.
"""

SERVED = """## Pages

`/healthz`, `/readyz` and `/metrics` are open to anybody who can reach the port (8080, on all addresses of a pod;
elsewhere on 127.0.0.1 unless `--host` says otherwise). Everything else is the page of [one
box](../how-to/use-the-page.md) and [its API](http.md), with the cluster in it: gangs at `/v1/jobs`, why one waits at
`/v1/jobs/NAME/why`, its story, nodes, queues, the timeline, the ledger since this leader began. They answer to those
who show a token of the cluster (`Authorization: Bearer`, or `#token=` behind the page's address) and may list
`placements.tutti.dev`; the API server is asked by TokenReview and SubjectAccessReview, and its answer holds for ten
seconds. Any replica will do, whether it leads or stands by. Nothing can be changed here: that is done with kubectl.

```
kubectl -n tutti-system port-forward deploy/tutti 8080 &
kubectl create token NAME          # of somebody who may list placements.tutti.dev
```

The commands need no port; they read the cluster as the scheduler does: `tutti queue --kube`, `tutti why --kube NAME`,
`tutti story --kube NAME`, `tutti queues --kube`, `tutti nodes --kube`, `tutti what-if --kube --add-nodes 8x8`. `tutti
kube queue` and so on are the same, and so is `kubectl tutti queue`; there `-n NAMESPACE` means what it means to
kubectl. They go by the settings in the ConfigMap `tutti`, so that their answers are the scheduler's; where it runs
with a file of its own, give them the same `--config FILE`."""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def sections() -> list[str]:
    """Every part of the page."""
    honoured = [(row.field, row.does) for row in HONOURED]
    refused = [(row.field, row.does) for row in REFUSED]
    rows = [(r.group or "core", named(r), ", ".join(r.verbs), r.why) for r in rights()]
    inside = [(r.group or "core", r.resource, ", ".join(r.verbs), r.why) for r in INSIDE]
    metrics = [(f"`{m.name}`", m.kind, m.label or "-", m.says) for m in METRICS]
    owners = [tuple(row) for row in OWNERSHIP]
    read = (*DIALECTS, *OF_YUNIKORN)
    kinds = [(k.name, k.group or "core", ", ".join(k.versions), k.why) for k in read]
    return [
        HEAD.strip(),
        "## Settings\n\nA TOML file, `--config FILE` (in the cluster: the ConfigMap `tutti`). `policy` is the name of"
        " a preset or the text of a [policy file](policy.md); `[queues.NAME]` tables have the fields of a queue,"
        " with amounts as Kubernetes writes them and times as `90s` or `2h30m`.\n\n"
        + table(("key", "default", "meaning"), settings()),
        "## Fields that are honoured\n\n" + table(("field of the pod", "what becomes of it"), honoured),
        "## Fields that are refused\n\nA gang that uses one of these waits with"
        " [`UnsupportedConstraint`](reasons/unsupported-constraint.md) and the field's name; nothing is ignored. What"
        " becomes of every key of every dialect is on [a page of its own](kubernetes-keys.md).\n\n"
        + table(("field", "why"), refused),
        "## Kinds that are read\n\n" + table(("kind", "API group", "versions", "what for"), kinds),
        "## Who owns what\n\nWe write only what is ours, by server-side apply, and never by force.\n\n"
        + table(("dialect", "spec", "admission", "status", "what we write"), owners),
        "## Rights\n\nIn the whole cluster:\n\n" + table(("group", "resource", "verbs", "why"), rows),
        "In our own namespace:\n\n" + table(("group", "resource", "verbs", "why"), inside),
        SERVED,
        "## Metrics\n\n" + table(("name", "kind", "label", "meaning"), metrics),
        "Back to [the documentation](../README.md).",
    ]


def named(right: Right) -> str:
    """What a right is on, and the only object where it is one."""
    return f"{right.resource} `{right.name}`" if right.name else right.resource


def settings() -> list[tuple[str, ...]]:
    """Keys of the file with their docstrings."""
    tree = ast.parse(inspect.getsource(config.Config))
    body = tree.body[0].body  # type: ignore[attr-defined]
    said = {}
    for field, after in pairwise([*body, ast.Pass()]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            told = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            said[field.target.id] = " ".join(str(told).split())
    plain = config.Config()
    special = {
        "policy": "balanced, for a cluster",
        "queues": "one queue, `default`",
        "levels": "none",
        "dialects": "all",
    }
    known = {
        "scheduler_name": "Pods with this `schedulerName` are ours.",
        "namespace": "Where the lease and the history are.",
        "policy": "The rules of the cluster.",
        "queues": "Tenants; a gang goes to the queue it names, else to that of its namespace, else to `default`.",
        "connections": "Requests that may be under way at once.",
    }
    return [(f"`{n}`", special.get(n, str(getattr(plain, n))), said[n] or known.get(n, "")) for n in said]


def page() -> str:
    """The whole page."""
    return "\n\n".join(sections()) + "\n"


def keys() -> str:
    """The page with every key."""
    parts = [KEYS_HEAD.strip()]
    for dialect, rows in TABLE.items():
        lines = [(row.on, f"`{written(row, rows)}`", row.verdict.value, row.does) for row in rows]
        parts.append(f"## {TITLES[dialect]}\n\n" + table(("on", "key", "what becomes of it", "how, or why"), lines))
    return "\n\n".join([*parts, "Back to [the documentation](../README.md)."]) + "\n"


def written(row: Row, rows: Sequence[Row]) -> str:
    """A key as people write it, with its value where that is what matters."""
    many = sum(other[:2] == row[:2] for other in rows)
    return f"{row.key}: {row.example}" if many > 1 and isinstance(row.example, str) else row.key


if __name__ == "__main__":
    PAGE.write_text(page())
    KEYS.write_text(keys())
