"""`tutti stop`, `backup`, `config`, `audit`: the daemon itself."""

import shutil
import time
from pathlib import Path
from typing import Any

import click

from tutti.api.client import Client
from tutti.api.home import home
from tutti.cli.output import empty_without_daemon, hint, output_option, said, show
from tutti.errors import NoDaemon, NotFound, Refused, TuttiError

STOP_S = 20.0


@click.command()
@output_option
def stop(output: str) -> None:
    """End the daemon; jobs go on.

    End the daemon. Jobs that run go on, and the next daemon finds them.
    """
    client = Client()
    if not client.is_up():
        said([{"done": False, "said": "no daemon is running here", "names": []}], output)
        return
    pid = client.get("/v1/status")["pid"]
    said([client.post("/v1/stop")], output)
    client.close()
    if client.home.is_shared:
        hint("systemd starts it again; `systemctl stop tutti` ends it for good")
    limit = time.monotonic() + STOP_S
    while _is_up(pid):
        if time.monotonic() > limit:
            raise TuttiError("the daemon has not ended", str(home().log), "look at the end of that file")
        time.sleep(0.02)


def _is_up(pid: int) -> bool:
    """Whether that daemon is still there; systemd may have started another."""
    try:
        return bool(Client().get("/v1/status")["pid"] == pid)
    except NoDaemon:
        return False


@click.command()
@click.option("--restore", type=click.Path(path_type=Path), metavar="FILE", help="Put a backup in the journal's place.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@output_option
def backup(file: Path | None, restore: Path | None, output: str) -> None:
    """Copy or restore the journal.

    Copy the journal while it is in use, and print where to: a file in the home, or the one that is named.
    """
    if restore is None:
        answer = Client().post("/v1/backup")
        if file is not None:
            answer = {**answer, "said": _moved(Path(answer["said"]), file)}
        show(answer, output, lambda: [answer["said"]], [answer["said"]])
        return
    where = home()
    if Client().is_up():
        raise Refused("the daemon is running", hint="tutti stop, then again")
    if not restore.is_file():
        raise NotFound(f"there is no backup {str(restore)!r}")
    told = restored(restore, where.journal)
    show({"schema": "tutti/v1", "done": True, "said": told}, output, lambda: [told], [str(restore)])


def _moved(made: Path, target: Path) -> str:
    """A backup where somebody wants to have it, readable to nobody else."""
    target = target / made.name if target.is_dir() else target
    try:
        shutil.move(made, target)
    except OSError as problem:
        raise Refused(f"it cannot be written: {problem.strerror}", str(target), f"it is in {made}") from None
    return str(target.absolute())


def restored(source: Path, journal: Path) -> str:
    """Put a backup in place; what was there is kept beside it."""
    import sqlite3  # noqa: PLC0415

    try:
        with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as base:
            base.execute("SELECT count(*) FROM jobs").fetchone()
    except sqlite3.DatabaseError as problem:
        raise Refused(f"this is no backup of a journal: {problem}", str(source)) from None
    aside = journal.with_name(f"{journal.name}.before-{int(time.time())}")
    for ending in ("", "-wal", "-shm"):
        old = journal.with_name(journal.name + ending)
        if old.exists():
            old.rename(aside.with_name(aside.name + ending))
    shutil.copyfile(source, journal)
    journal.chmod(0o600)
    return f"restored; the journal before is {aside}"


@click.command()
@click.option(
    "--check", is_flag=False, flag_value="", metavar="FILE", help="Only say what is wrong with a file (the one in use)."
)
@click.option("--reload", is_flag=True, help="Have the daemon read the file again.")
@click.option("--path", is_flag=True, help="Only print where the file is.")
@click.option("--explain", is_flag=True, help="Print every key with its default and its meaning.")
@output_option
def config(check: str | None, reload: bool, path: bool, explain: bool, output: str) -> None:
    """Show, check or reload the configuration.

    Show the configuration, check one, or have it read again.
    """
    if explain:
        from tutti.local.explained import explained  # noqa: PLC0415 - the engine comes with it

        click.echo(explained(), nl=False)
        return
    if path:
        where = str(home().config)
        show({"schema": "tutti/v1", "path": where, "text": ""}, output, lambda: [where], [where])
        return
    if check is not None:
        from tutti.local.settings import read_settings  # noqa: PLC0415 - the engine comes with it

        file = Path(check) if check else home().config
        if not file.exists():
            raise NotFound(f"there is no file {str(file)!r}")
        read_settings(file)
        said([{"schema": "tutti/v1", "done": True, "said": f"{file} is well formed", "names": [str(file)]}], output)
        return
    client = Client()
    if reload:
        said([client.post("/v1/config/reload")], output)
        return
    answer = client.get("/v1/config") if client.is_up() else _without_daemon()
    none = (
        "# its text is for administrators"
        if client.home.is_shared
        else "# empty: everything is the default; `tutti config --explain` lists what there is"
    )
    show(answer, output, lambda: [f"# {answer['path']}", answer["text"].rstrip() or none])


def _without_daemon() -> dict[str, Any]:
    path = home().config
    text = path.read_text() if path.exists() else ""
    return {"schema": "tutti/v1", "path": str(path), "text": text}


@click.command()
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, help="How many entries (20).")
@output_option
def audit(limit: int, output: str) -> None:
    """Show who did what.

    Show who did what, newest first.
    """
    answer = empty_without_daemon(lambda: Client().get("/v1/audit", limit=limit), {"entries": []})
    entries = answer["entries"]

    def lines() -> list[str]:
        from tutti.views.table import table  # noqa: PLC0415

        return table([[e["at"][:19], e["who"], e["what"], e["target"], e["detail"][:60]] for e in entries], right=False)

    show(answer, output, lines, [entry["target"] for entry in entries])
