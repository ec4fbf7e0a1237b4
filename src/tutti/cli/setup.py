"""`tutti setup`: one service for all users of a machine, or none of it any more."""

import contextlib
import os
import sys
from pathlib import Path

import click

import tutti
from tutti.api.client import Client
from tutti.api.home import SHARED, UNIT, Home, home
from tutti.cli.output import hint
from tutti.errors import Misused, Refused
from tutti.local.devices import shared_locks

TEXT = """[Unit]
Description=Tutti, a gang scheduler for this machine
After=network.target

[Service]
Environment=TUTTI_HOME={home}
ExecStart={python} -m tutti.local.daemon --system
ExecReload=/bin/kill -HUP $MAINPID
Delegate=yes
KillMode=process
LimitNOFILE=1048576
OOMPolicy=continue
Restart=always
TasksMax=90%

[Install]
WantedBy=multi-user.target
"""


@click.command()
@click.option("--system", is_flag=True, help="One service for all users, started by systemd.")
@click.option("--remove", is_flag=True, help="Take away the service, or all that is kept for you.")
@click.option("--yes", is_flag=True, help="Do not ask before history and logs are removed.")
@click.option("--dry-run", is_flag=True, help="Only print what would be written or removed.")
def setup(system: bool, remove: bool, yes: bool, dry_run: bool) -> None:
    """Set up one service for all users.

    Members run as whoever submitted them; only the owner of a job or an administrator may end it. The service keeps
    everything in /var/lib/tutti, and every user's commands find it there. A daemon of your own needs no set-up;
    `tutti setup --remove` takes away all that it keeps.
    """
    if remove and not system:
        _check_quiet(home())
        _take_away(home(), yes, dry_run)
        return
    if not system:
        raise Misused("what to set up?", hint="tutti setup --system; a daemon of your own needs no set-up")
    text = TEXT.format(home=SHARED, python=sys.executable)
    if dry_run and remove:
        click.echo("\n".join(map(str, filter(Path.exists, (UNIT, SHARED)))))
        return
    if dry_run:
        click.echo(f"# {UNIT}\n{text}", nl=False)
        return
    if os.getuid() != 0:
        raise Refused("only root can set up a service", hint="sudo tutti setup --system")
    if remove:
        _remove(yes)
        return
    UNIT.write_text(text)
    hint(f"wrote {UNIT}; now: systemctl daemon-reload && systemctl enable --now tutti")
    if closed := _closed_to_others(Path(tutti.__file__), Path(sys.executable).resolve()):
        hint(f"other users cannot look into {closed}, so they cannot use this installation: put it elsewhere, or")
        hint(f"  chmod o+x {closed}")


def _closed_to_others(*paths: Path) -> Path | None:
    """The first folder on the way to what everybody needs that only its owner may enter."""
    folders = [folder for path in paths for folder in reversed(path.parents)]
    return next((folder for folder in folders if not folder.stat().st_mode & 0o001), None)


def _remove(yes: bool) -> None:
    """The service, and if that is wanted everything that it has kept."""
    _check_quiet(Home(SHARED), "systemctl disable --now tutti, then again")
    UNIT.unlink(missing_ok=True)
    hint(f"the unit is gone: {UNIT}")
    if yes or (sys.stdin.isatty() and SHARED.exists()):
        _take_away(Home(SHARED), yes)
    elif SHARED.exists():
        hint(f"history and logs are still in {SHARED}; with --yes they are removed too")


def _take_away(where: Home, yes: bool, dry_run: bool = False) -> None:
    """Everything of a daemon: history, logs, configuration, lock files."""
    import shutil  # noqa: PLC0415 - only for those who leave

    locks = shared_locks()
    gone = [path for path in (where.path, *_locks(locks)) if path.exists()]
    if not gone:
        hint("nothing is kept here")
        return
    for path in gone[:1] if not dry_run else gone:
        click.echo(path)
    if dry_run:
        return
    if not yes:
        click.confirm("Remove it, with all history and logs?", abort=True, err=True)
    for path in gone:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        locks.rmdir()
    hint("nothing is left")


def _check_quiet(where: Home, stopping: str = "tutti stop, then again") -> None:
    """Nothing of this home may be running."""
    from tutti.local.keeper import records  # noqa: PLC0415

    if Client(where).is_up():
        raise Refused("the daemon is running", hint=stopping)
    runs = list(where.runs.iterdir()) if where.runs.exists() else []
    if any(records.claim_is_alive(records.claimed_by(str(run))) for run in runs):
        raise Refused("jobs are still running", hint="tutti queue, and cancel them first")


def _locks(folder: Path) -> list[Path]:
    """Lock files of real devices and ports that this user made and nobody holds."""
    from tutti.local.keeper.locks import is_held  # noqa: PLC0415

    return [path for path in folder.iterdir() if path.stat().st_uid == os.getuid() and not is_held(str(path))]
