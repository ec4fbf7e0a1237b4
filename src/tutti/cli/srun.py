"""`tutti srun`: inside a batch script it starts tasks; outside it runs a command as a gang and follows it."""

import os
import subprocess
import sys
import threading
from typing import IO, Any

import click

from tutti.cli.slurm_words import SETTINGS
from tutti.errors import Misused

INSIDE = "TUTTI_JOB"


@click.command(context_settings={**SETTINGS, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF SRUN] COMMAND...")
def srun(words: tuple[str, ...]) -> None:
    """Run tasks as Slurm's srun does.

    Inside a batch script, so many tasks of the job; outside, the command is a gang of so many members, and is followed.
    """
    if INSIDE in os.environ and "SLURM_JOB_ID" in os.environ:
        sys.exit(Step(words).run())
    from tutti.api.client import Client  # noqa: PLC0415 - not needed for --help
    from tutti.cli.follow import follow  # noqa: PLC0415
    from tutti.cli.interrupt import Interrupt  # noqa: PLC0415
    from tutti.cli.sbatch import by_name  # noqa: PLC0415
    from tutti.cli.submission import submitted  # noqa: PLC0415
    from tutti.jobs.step import outside  # noqa: PLC0415

    job, command, lines = outside(words)
    for line in lines:
        click.echo(f"srun: {line}", err=True)
    client = Client()
    if "after" in job:
        job["after"] = tuple(by_name(client, entry) for entry in job["after"])
    interrupt = Interrupt()
    row = submitted(client, job, command, "", interrupt)
    sys.exit(follow(client, row, list(range(row["max"])), interrupt))


class Step:
    """Tasks inside a job, each a process with its number, all of them here."""

    def __init__(self, words: tuple[str, ...]) -> None:
        from tutti.jobs.step import inside  # noqa: PLC0415

        self.plan = inside(words, os.environ)
        if not self.plan.command:
            raise Misused("srun: no command is named", hint="srun -n 4 ./program")

    def run(self) -> int:
        """Start all, wait for all; the largest exit code."""
        for line in self.plan.ignored:
            click.echo(f"srun: {line}", err=True)
        processes = [self._start(task) for task in range(self.plan.tasks)]
        printers = [self._printer(process, task) for task, process in enumerate(processes) if self.plan.label]
        codes = self._wait(processes)
        for printer in printers:
            printer.join()
        return max((128 - code if code < 0 else code for code in codes), default=0)

    def _start(self, task: int) -> "subprocess.Popen[bytes]":
        env = {**os.environ, **self.plan.variables(task)}
        out: Any = subprocess.PIPE if self.plan.label else None
        try:
            return subprocess.Popen(list(self.plan.command), env=env, stdout=out, cwd=self.plan.cwd or None)  # noqa: S603
        except FileNotFoundError:
            raise Misused(f"srun: there is no program {self.plan.command[0]!r}") from None

    def _wait(self, processes: "list[subprocess.Popen[bytes]]") -> list[int]:
        codes: list[int] = []
        for process in processes:
            codes.append(process.wait())
            if codes[-1] and self.plan.kill_on_bad_exit:
                for other in processes:
                    other.terminate()
        return codes

    def _printer(self, process: "subprocess.Popen[bytes]", task: int) -> threading.Thread:
        assert process.stdout is not None
        thread = threading.Thread(target=_labelled, args=(process.stdout, f"{task}: ".encode()))
        thread.start()
        return thread


def _labelled(source: IO[bytes], label: bytes) -> None:
    for line in source:
        sys.stdout.buffer.write(label + line)
        sys.stdout.buffer.flush()
