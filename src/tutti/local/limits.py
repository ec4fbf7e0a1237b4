"""What a submitter's own processes may use, as the kernel knows it: members may use the same."""

import re
import resource
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
LINE = re.compile(r"^(.+?) {2,}(\d+|unlimited) +(\d+|unlimited)", re.MULTILINE)


def limits_of(pid: int) -> dict[str, tuple[int, int]]:
    """The limits, soft and hard, of the process at the other end of a line; none where they cannot be read."""
    try:
        text = Path(f"/proc/{pid}/limits").read_text() if pid > 0 else ""
    except OSError:
        return {}
    return {NAMES[what]: (_number(soft), _number(hard)) for what, soft, hard in LINE.findall(text) if what in NAMES}


def _number(text: str) -> int:
    return resource.RLIM_INFINITY if text == "unlimited" else int(text)
