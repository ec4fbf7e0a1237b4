"""Readers of job logs and cluster traces, each recognised by what is in the file."""
