"""Shared by every test: how hard the properties try."""

from hypothesis import settings

settings.register_profile("test", max_examples=200, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("soak", max_examples=100_000, deadline=None, print_blob=True)
settings.load_profile("test")
