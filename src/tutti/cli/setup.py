"""`tutti setup`: one service for all users of a machine, or none of it any more."""

import os
import sys
from pathlib import Path

import click

from tutti.api.home import SHARED
from tutti.cli.output import hint
from tutti.errors import Misused, Refused

UNIT = Path("/etc/systemd/system/tutti.service")
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
TasksMax=infinity

[Install]
WantedBy=multi-user.target
"""


@click.command()
@click.option("--system", is_flag=True, help="One service for all users, started by systemd.")
@click.option("--remove", is_flag=True, help="Take the service away again; jobs must have ended.")
@click.option("--dry-run", is_flag=True, help="Only print what would be written.")
def setup(system: bool, remove: bool, dry_run: bool) -> None:
    """Set up one service for all users.

    Members run as whoever submitted them; only the owner of a job or an administrator may end it. The service keeps
    everything in /var/lib/tutti, and every user's commands find it there.
    """
    if not system:
        raise Misused("what to set up?", hint="tutti setup --system; a daemon of your own needs no set-up")
    text = TEXT.format(home=SHARED, python=sys.executable)
    if dry_run:
        click.echo(f"# {UNIT}\n{text}", nl=False)
        return
    if os.getuid() != 0:
        raise Refused("only root can set up a service", hint="sudo tutti setup --system")
    if remove:
        _remove()
        return
    UNIT.write_text(text)
    hint(f"wrote {UNIT}; now: systemctl daemon-reload && systemctl enable --now tutti")


def _remove() -> None:
    """Nothing is left but the history, which is named so that somebody can look at it before removing it."""
    if (SHARED / "daemon.sock").exists():
        raise Refused("the service is running", hint="systemctl disable --now tutti, then again")
    UNIT.unlink(missing_ok=True)
    hint(f"the unit is gone; `rm -r {SHARED}` removes the history and the logs too")
