"""Shared by every test: how hard the properties try, and what happens to tests that are left out."""

import os

from hypothesis import settings

from tools.skips import pytest_sessionfinish

__all__ = ["pytest_sessionfinish"]

# Hundreds of daemons, commands and members are started: each would compile the whole package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile(
    "test", max_examples=int(os.environ.get("TUTTI_EXAMPLES", "200")), deadline=None, derandomize=True, print_blob=True
)
settings.register_profile(
    "soak", max_examples=int(os.environ.get("TUTTI_EXAMPLES", "100000")), deadline=None, print_blob=True
)
settings.load_profile("test")
