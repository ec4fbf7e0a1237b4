"""`tutti explain-job`: what a launch line, a job file, a batch script or a manifest means, and from where that is."""

import json
import os
from typing import Any

import click

from tutti.cli.output import FORMATS, output_option, show
from tutti.jobs.options import SETTINGS, data_from, job_options


@click.command(name="explain-job", context_settings=SETTINGS)
@job_options
@output_option
@click.option("--schema", is_flag=True, help="Print the JSON Schema of job files.")
@click.argument("what", nargs=-1, type=click.UNPROCESSED, metavar="FILE|LINE...")
def explain_job(what: tuple[str, ...], output: str, schema: bool, **options: Any) -> None:
    """Say what Tutti understands of a job you have.

    Nothing is run. Give a launch line (torchrun, accelerate, deepspeed, mpirun, python ...), a job file, a batch script
    or a Kubernetes manifest. Options of ours come first and win over what is read.
    """
    if schema:
        from tutti.jobs.schema import job_schema  # noqa: PLC0415

        click.echo(json.dumps(job_schema(), indent=1))
        return
    from tutti.jobs.explain import as_json, lines  # noqa: PLC0415 - not needed for --help
    from tutti.jobs.surroundings import known_variables  # noqa: PLC0415
    from tutti.jobs.understand import understand  # noqa: PLC0415
    from tutti.local.memory_bill import explained  # noqa: PLC0415

    if len(what) == 3 and what[1] in {"-o", "--output"} and what[2] in FORMATS:
        output = what[2]
        what = what[:1]
    said = {field: value for field, value in data_from(options).items() if field != "as_processes"}
    found = explained(understand(what, said, env=known_variables(os.environ)))
    if output == "json":
        click.echo(json.dumps(as_json(found), indent=1))
        return
    show(as_json(found), output, lambda: list(lines(found)), [one.gang.name for one in (found, *found.others)])
