"""`tutti train`: run a loop that can grow, shrink and lose a worker, on one machine and without a scheduler."""

import os
import sys

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def train(arguments: tuple[str, ...]) -> None:
    """Run an elastic training loop here, without a scheduler."""
    # The library stands alone, so the command becomes its launcher instead of calling into it.
    os.execv(sys.executable, [sys.executable, "-m", "tutti.train", *arguments])  # noqa: S606 - our own launcher
