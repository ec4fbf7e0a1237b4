"""`tutti simulate`: a scene or a trace, played through the real engine in virtual time."""

import json
import shutil
import sys
from pathlib import Path

import click

from tutti.errors import Misused

COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow")


@click.command()
@click.argument("what", required=False)
@click.option("--scenes", is_flag=True, help="List the scenes that ship with Tutti.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the results.")
def simulate(what: str | None, scenes: bool, output: str) -> None:
    """Play a scene or a trace through the engine in virtual time."""
    if scenes:
        list_scenes(output)
        return
    if what is None:
        raise Misused("nothing to simulate", hint="tutti simulate deadlock, or tutti simulate --scenes")
    play_scene(what, output)


def list_scenes(output: str) -> None:
    """Name and title of each scene."""
    from tutti.sim.scenes import find_scene, scene_names  # noqa: PLC0415 - only when asked for

    found = [(name, find_scene(name)) for name in scene_names()]
    if output == "json":
        rows = [{"name": name, "title": scene.title, "moral": scene.moral} for name, scene in found]
        click.echo(json.dumps({"schema": "tutti/v1", "scenes": rows}))
        return
    for name, scene in found:
        click.echo(f"{name:<14} {scene.title.partition(': ')[2]}")


def play_scene(name: str, output: str) -> None:
    """Tell a scene, or print its results."""
    from tutti.sim.play import play  # noqa: PLC0415 - numpy and the engine are not needed for --help
    from tutti.sim.scenes import find_scene, read_scene  # noqa: PLC0415
    from tutti.sim.tell import as_results, told  # noqa: PLC0415

    scene = read_scene(Path(name)) if name.endswith(".toml") else find_scene(name)
    variants = play(scene)
    if output == "json":
        click.echo(json.dumps({"schema": "tutti/v1", "scene": scene.name, "results": as_results(variants)}))
        return
    width = min(shutil.get_terminal_size((100, 30)).columns, 110)
    for line in told(scene, variants, width):
        click.echo(coloured(line) if sys.stdout.isatty() else line)


def coloured(line: str) -> str:
    """The letters of a picture's row in the colour of their gang; other lines stay as they are."""
    head, _, cells = line.lstrip().partition(" ")
    if "." not in head or not cells or set(cells) - set("·-+") - set(map(chr, range(48, 123))):
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return indent + head + " " + "".join(_cell(letter) for letter in cells)


def _cell(letter: str) -> str:
    if not letter.isalnum():
        return click.style(letter, dim=True)
    return click.style(letter, fg=COLOURS[ord(letter.upper()) % len(COLOURS)], dim=letter.islower())
