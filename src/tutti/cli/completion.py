"""`tutti completion`: completion of commands, options and live names."""

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    bash: tutti completion bash >> ~/.bashrc
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - only those who install it wait for it

    from tutti.cli.commands import COMMANDS  # noqa: PLC0415
    from tutti.cli.main import COMPLETING, make_group  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None
    source = kind(make_group(COMMANDS), {}, "tutti", COMPLETING).source()
    # A description may have commas in it; fish would show it up to the first.
    click.echo(source.replace('string split ","', 'string split --max 1 ","'))
