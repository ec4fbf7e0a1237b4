"""A job, a plan and a cluster as Python users hold them: in words at a prompt, as a table in a notebook."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from .client import Answer, job_path

if TYPE_CHECKING:
    from .client import Client

SHOWN = ("name", "state", "members", "placed", "reason", "eta")
COLOURS = {"free": "#dfe3e8", "busy": "#4c78a8", "starting": "#9ecae9", "promised": "#f2cf5b"}
OUT = "#b0413e"


class JobHandle:
    """One job, by name."""

    def __init__(self, client: "Client", name: str) -> None:
        self.client, self.name = client, name

    def row(self) -> Answer:
        """Its state, size, place, reason ..."""
        found: Answer = self.client.get(job_path(self.name))["job"]
        return found

    def wait(self) -> int:
        """Its exit code, once it has ended. A daemon that goes away meanwhile is started again."""
        while True:
            answer = self.client.waited(self.name, 30)
            if answer["ended"]:
                return int(answer["job"]["code"] or 0)

    def why(self) -> str:
        """Why it waits, in words."""
        return "\n".join(self.client.get(job_path(self.name, "why"))["lines"])

    def logs(self, rank: int = -1) -> str:
        """The end of a rank's output."""
        return str(self.client.get(job_path(self.name, "logs"), rank=rank)["text"])

    def cancel(self) -> None:
        """End it."""
        self.client.post(job_path(self.name, "cancel"))

    def __repr__(self) -> str:
        row = self.row()
        return f"<job {self.name}: {row['state']}{', ' + row['reason'] if row.get('reason') else ''}>"

    def _repr_html_(self) -> str:
        row = self.row()
        return _table((key, escape(str(row.get(key, "")))) for key in SHOWN)


class PlanShown:
    """What the next decision does."""

    def __init__(self, answer: Answer) -> None:
        self.fits: bool = answer["fits"]
        """Whether the job that was asked about would start now."""
        self.job: str = answer["job"]
        self.lines: list[str] = answer["lines"]
        self.actions: list[Answer] = answer["actions"]

    def __repr__(self) -> str:
        return "\n".join([*self._head(), *self.lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<b>{escape(line)}</b>" for line in self._head())
        return f"{head}<pre>{escape(chr(10).join(self.lines))}</pre>"

    def _head(self) -> list[str]:
        return [f"{self.job} would {'start now' if self.fits else 'wait'}"] if self.job else []


class ClusterShown:
    """Nodes, and what each device does."""

    def __init__(self, nodes: list[Answer]) -> None:
        self.nodes = nodes

    def __repr__(self) -> str:
        return "\n".join(f"{node['name']}: {node['free']} of {len(node['devices'])} free" for node in self.nodes)

    def _repr_html_(self) -> str:
        return _table((escape(node["name"]), "".join(map(_cell, node["devices"]))) for node in self.nodes)


def _cell(device: Answer) -> str:
    says = " ".join(filter(None, (device["id"], device["state"], device["job"], device["note"])))
    style = f"display:inline-block;width:1em;height:1em;margin:1px;background:{COLOURS.get(device['state'], OUT)}"
    return f'<span title="{escape(says)}" style="{style}"></span>'


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return f"<table>{''.join(f'<tr><th>{head}</th><td>{cell}</td></tr>' for head, cell in rows)}</table>"
