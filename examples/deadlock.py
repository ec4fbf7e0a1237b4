"""Two gangs of four on four cards, in virtual time: placed pod by pod they deadlock, placed whole both finish."""

import sys

from tutti.cli.main import run

sys.exit(run(["simulate", "deadlock"]))
