"""Batch scripts: what their directives ask for, and the line they really run."""
