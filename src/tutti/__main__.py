"""`python -m tutti` is the command `tutti`: from the first line on, Ctrl-C ends it without a word about imports."""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)

from tutti.cli.main import main  # noqa: E402 - what comes first is why this file is the way in

if __name__ == "__main__":
    main()
