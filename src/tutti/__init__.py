"""Tutti starts a distributed job whole or not at all, and says why it waits.

Importing this package imports nothing heavy; take what you need from its parts.
"""

__version__ = "0.1.0.dev0"
