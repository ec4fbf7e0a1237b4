"""The one family of errors that people see. Imports nothing, so that every layer may raise them."""


class TuttiError(Exception):
    """Something a person can put right: what is wrong, where, and what to try."""

    exit_code = 1

    def __init__(self, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """The message as it is printed, one thought per line."""
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"  {self.where}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


class Misused(TuttiError):
    """The command or its input is not well formed."""

    exit_code = 2


class NotFound(TuttiError):
    """The thing named does not exist."""

    exit_code = 3


class Refused(TuttiError):
    """Understood, and not allowed or not possible."""

    exit_code = 4


class NoDaemon(TuttiError):
    """Nothing is running here to ask."""

    exit_code = 5


class Died(NoDaemon):
    """A daemon was here and has not said goodbye: whoever finds that out may start it again."""
