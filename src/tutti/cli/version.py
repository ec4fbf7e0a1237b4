"""`tutti version`: what to put in a bug report."""

import platform
from importlib import metadata

import click

import tutti


@click.command()
def version() -> None:
    """Print the version of Tutti and of what it runs on."""
    click.echo(f"tutti {tutti.__version__}")
    click.echo(f"python {platform.python_version()} on {platform.system()} {platform.release()} {platform.machine()}")
    for package in ("numpy", "msgspec"):
        click.echo(f"{package} {metadata.version(package)}")
