"""The files of the page: each one is read once, under its own name. There is no path from a request to the disk."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class File(NamedTuple):
    """What is sent, and a mark that changes with it."""

    kind: str
    body: bytes
    mark: str


@cache
def shelf() -> dict[str, File]:
    """Every file by its name."""
    found = {}
    for entry in files(__package__).joinpath("static").iterdir():
        kind = KINDS.get(entry.name.rpartition(".")[2])
        if kind and entry.is_file():
            body = entry.read_bytes()
            found[entry.name] = File(kind, body, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
    return found
