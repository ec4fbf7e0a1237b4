"""How long jobs run on one box: only runs of the same command and size tell anything."""

from tutti.drive.estimates import History
from tutti.engine.model import Gang


class CommandHistory(History):
    """A lab's jobs differ too much for the last run of the same user to say anything about the next one."""

    def _best(self, gang: Gang) -> tuple[int, ...]:
        return self._runs.get(self.keys(gang)[0], ())
