"""Shared by every test: how hard the properties try, and what happens to tests that are left out."""

import os
import signal

from hypothesis import settings

from tools.skips import pytest_sessionfinish

__all__ = ["pytest_sessionfinish"]

# Hundreds of daemons, commands and members are started: each would compile the whole package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Interrupts raise, as they do in a terminal, also where the tests are run in the background of a shell.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "test", max_examples=int(os.environ.get("TUTTI_EXAMPLES", "200")), deadline=None, derandomize=True, print_blob=True
)
settings.register_profile(
    "soak", max_examples=int(os.environ.get("TUTTI_EXAMPLES", "100000")), deadline=None, print_blob=True
)
settings.load_profile("test")
