"""What is captured when a job is submitted: folder, environment, the framework that its command uses."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FRAMEWORKS = ("torchrun", "torch", "jax", "tensorflow", "mpi", "train")
IMPORTS = re.compile(rb"^\s*(?:import|from)\s+(jax|tensorflow|mpi4py|torch|horovod)\b", re.MULTILINE)
OF_MODULE = {b"jax": "jax", b"tensorflow": "tensorflow", b"mpi4py": "mpi", b"horovod": "mpi", b"torch": "torch"}
LAUNCHERS = {
    "torchrun": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "tutti.train": "train",
}
MOST = 64 << 10
FIRST_OF = (b"jax", b"tensorflow", b"mpi4py", b"horovod", b"torch")


def context(job: Mapping[str, Any]) -> dict[str, Any]:
    """Where this process is, and as what it would run the job."""
    cwd = str(Path(job.get("cwd") or Path.cwd()).absolute())
    command = job.get("command") or ()
    words = command.split() if isinstance(command, str) else list(command)
    mask = os.umask(0)
    os.umask(mask)
    return {"cwd": cwd, "env": dict(os.environ), "umask": mask, "framework": recognised(words, cwd)}


def recognised(words: Sequence[str], cwd: str) -> str:
    """The framework a command uses: by its launcher, or by what its script imports. Empty where neither says so."""
    for word in words[:3]:
        if (found := LAUNCHERS.get(Path(word).name)) is not None:
            return found
    if len(words) > 1 and Path(words[0]).name == "tutti" and words[1] == "train":
        return "train"
    script = next((word for word in words[:4] if word.endswith(".py")), "")
    return _by_imports(Path(cwd, script)) if script else ""


def _by_imports(script: Path) -> str:
    try:
        with script.open("rb") as file:
            found = set(IMPORTS.findall(file.read(MOST)))
    except OSError:
        return ""
    return next((OF_MODULE[name] for name in FIRST_OF if name in found), "")
