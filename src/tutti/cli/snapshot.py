"""`tutti snapshot`: the world as a file, for `tutti replay`, `tutti why --view` and bug reports."""

import sys

import click

from tutti.api.client import Client


@click.command()
@click.option("--gzip", "packed", is_flag=True, help="Compress it.")
def snapshot(packed: bool) -> None:
    """Write the world to a file.

    Write everything the next decision depends on to standard output.
    """
    data = Client().call("GET", "/v1/snapshot")
    if packed:
        import gzip  # noqa: PLC0415

        data = gzip.compress(data)
    sys.stdout.buffer.write(data)
