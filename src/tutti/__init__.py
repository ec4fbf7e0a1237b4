"""Tutti starts a distributed job whole or not at all, and says why it waits.

Importing this package imports nothing heavy; take what you need from its parts.
"""

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> object:
    """`tutti.connect()`, imported only when somebody asks for it."""
    if name == "connect":
        from tutti.api.client import connect  # noqa: PLC0415

        return connect
    raise AttributeError(f"module 'tutti' has no attribute {name!r}")
