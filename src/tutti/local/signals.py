"""Signals by name."""

import signal

from tutti.errors import Misused


def number_of(name: str) -> int:
    """The number of a signal: 'USR1', 'SIGUSR1' or '10'."""
    text = name.upper().removeprefix("SIG")
    if text.isdigit():
        return int(text)
    try:
        return int(signal.Signals[f"SIG{text}"])
    except KeyError:
        raise Misused(f"there is no signal {name!r}", hint="USR1, TERM, INT ...") from None
