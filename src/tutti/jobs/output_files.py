"""Where a batch script wants its output: file names with the batch system's own marks, as text for the shell."""

import re
import shlex

from tutti.engine.model import Data

MARKS = {
    "slurm": {
        "%j": "$SLURM_JOB_ID",
        "%J": "$SLURM_JOB_ID",
        "%A": "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}",
        "%a": "${SLURM_ARRAY_TASK_ID:-0}",
        "%x": "$SLURM_JOB_NAME",
        "%N": "$SLURMD_NODENAME",
        "%u": "$USER",
        "%n": "0",
        "%t": "0",
        "%s": "batch",
        "%%": "%",
    },
    "pbs": {"^array_index^": "${PBS_ARRAY_INDEX:-0}"},
    "lsf": {"%J": "$LSB_JOBID", "%I": "${LSB_JOBINDEX:-0}"},
}
"""What stands for something in a file name, and where the script finds it when it runs."""
PBS_NAME = {"out": "${PBS_JOBNAME}.o${PBS_JOBID%%.*}", "err": "${PBS_JOBNAME}.e${PBS_JOBID%%.*}"}


class OutputFiles(Data, frozen=True):
    """File names as they are written; no name for errors means that they go where the rest goes."""

    manager: str
    out: str = ""
    err: str = ""
    append: bool = False

    def wrapped(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The command, with its output in those files; what `tutti logs` shows is where that is."""
        arrow = ">>" if self.append else ">"
        parts = [f"o={self._text(self.out, 'out')}"] if self.out else []
        parts += [f"e={self._text(self.err, 'err')}"] if self.err else []
        says = " ".join(f'"${name}"' for name, said in (("o", self.out), ("e", self.err)) if said)
        sends = f' {arrow}"$o"' if self.out else ""
        sends += f' 2{arrow}"$e"' if self.err else " 2>&1" if self.out else ""
        return ("/bin/sh", "-c", f'{"; ".join(parts)}; echo output: {says}; exec "$@"{sends}', "sh", *words)

    def _text(self, written: str, which: str) -> str:
        """A name as the shell puts it together when the job runs."""
        if self.manager == "pbs":
            written = re.sub(r"^[\w.-]*:(?=[/~.\w])", "", written)
        marks = MARKS[self.manager]
        pattern = "|".join(re.escape(mark) for mark in marks)
        if self.manager == "slurm":
            # A number says how many digits; without them the name is as unique.
            written = re.sub(r"%\d{1,2}(?=[jJAa])", "%", written)
        pieces = re.split(f"({pattern})", written)
        text = "".join(f'"{marks[piece]}"' if piece in marks else shlex.quote(piece) for piece in pieces if piece)
        return text + (f'"{PBS_NAME[which]}"' if self.manager == "pbs" and written.endswith("/") else "")

    @property
    def says(self) -> str:
        """For people."""
        return ", ".join(filter(None, (self.out, f"errors in {self.err}" if self.err else "")))
