"""`tutti convert`: what you have, in another dialect, with what that dialect cannot say."""

import json

import click

from tutti.jobs.options import SETTINGS

WORDS = (
    "native, native-1.36, native-1.35, coscheduling, volcano, koordinator, kai, yunikorn, kueue, kube-batch, "
    "job (a job file of ours) or sbatch"
)


@click.command(context_settings=SETTINGS)
@click.option("--to", "dialect", default="", metavar="DIALECT", help=f"{WORDS}.")
@click.option("--image", default="", help="The container image, where the dialect is one of Kubernetes.")
@click.option("--strict", is_flag=True, help="End with exit code 4 if anything cannot be said.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print the answer.")
@click.argument("what", nargs=-1, required=True, type=click.UNPROCESSED, metavar="FILE|LINE...")
@click.pass_context
def convert(context: click.Context, what: tuple[str, ...], dialect: str, image: str, strict: bool, output: str) -> None:
    """Write a job you have in another dialect.

    The text goes to standard output; what the dialect cannot say is listed on standard error.
    """
    from tutti.jobs.convert.manifests import IMAGE  # noqa: PLC0415 - not needed for --help
    from tutti.jobs.convert.write import convert as converted  # noqa: PLC0415
    from tutti.jobs.understand import understand  # noqa: PLC0415

    what, late = _ours_at_the_end(what)
    dialect = dialect or late.get("--to", "")
    image = image or late.get("--image", "")
    output = late.get("-o", late.get("--output", output))
    strict = strict or "--strict" in late
    found = understand(what)
    results = [converted(one, dialect, image or IMAGE) for one in (found, *found.others)]
    cannot = [entry for result in results for entry in result.cannot]
    text = "---\n".join(result.text for result in results)
    if output == "json":
        click.echo(json.dumps({"schema": "tutti/v1", "dialect": dialect, "text": text, "cannot": cannot}, indent=1))
    else:
        click.echo(text, nl=False)
        for entry in cannot:
            click.echo(f"{dialect} cannot say: {entry}", err=True)
    if cannot and strict:
        context.exit(4)


def _ours_at_the_end(words: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """`convert FILE --to DIALECT` reads better than the other way round, so options may also come last."""
    found: dict[str, str] = {}
    while len(words) > 1:
        if words[-1] == "--strict":
            found["--strict"] = ""
            words = words[:-1]
        elif len(words) > 2 and words[-2] in {"--to", "--image", "-o", "--output"}:
            found[words[-2]] = words[-1]
            words = words[:-2]
        else:
            break
    return words, found
