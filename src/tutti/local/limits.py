"""What a submitter's own processes may use, as the kernel knows it: members may use the same."""

import re
import resource
from functools import lru_cache
from pathlib import Path

NAMES = {
    "Max cpu time": "RLIMIT_CPU",
    "Max file size": "RLIMIT_FSIZE",
    "Max data size": "RLIMIT_DATA",
    "Max stack size": "RLIMIT_STACK",
    "Max core file size": "RLIMIT_CORE",
    "Max resident set": "RLIMIT_RSS",
    "Max processes": "RLIMIT_NPROC",
    "Max open files": "RLIMIT_NOFILE",
    "Max locked memory": "RLIMIT_MEMLOCK",
    "Max address space": "RLIMIT_AS",
}
MOST = 1 << 14
LINE = re.compile(r"^(.+?) {2,}(\d+|unlimited) +(\d+|unlimited)", re.MULTILINE)


def limits_of(pid: int) -> dict[str, tuple[int, int]]:
    """The limits, soft and hard, of the process at the other end of a line; none where they cannot be read."""
    try:
        with Path(f"/proc/{pid}/limits").open("rb", buffering=0) as file:
            return _read(file.read(MOST))
    except OSError:
        return {}


@lru_cache(maxsize=64)
def _read(text: bytes) -> dict[str, tuple[int, int]]:
    """Most submitters have the same limits, and have had them before. What is returned must not be changed."""
    found = LINE.findall(text.decode(errors="replace"))
    return {NAMES[what]: (_number(soft), _number(hard)) for what, soft, hard in found if what in NAMES}


def _number(text: str) -> int:
    return resource.RLIM_INFINITY if text == "unlimited" else int(text)
