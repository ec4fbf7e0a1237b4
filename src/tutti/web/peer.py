"""Who is at the other end of a connection within this machine: the kernel knows which user made a socket."""

import ipaddress
import socket
import sys
from pathlib import Path

TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
LOCAL, REMOTE, UID = 1, 2, 7


def is_loopback(host: str) -> bool:
    """Whether a name or a number stays within this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def peer_uid(theirs: tuple[str, int], ours: tuple[str, int], tables: dict[int, Path] = TABLES) -> int:
    """The user who made the socket at the other end; -1 where it is not on this machine, or not known."""
    if not is_loopback(theirs[0]):
        return -1
    wanted = [_spelled(*theirs), _spelled(*ours)]
    version = ipaddress.ip_address(theirs[0]).version
    try:
        lines = tables[version].read_text().splitlines()
    except OSError:
        return -1
    for line in lines:
        cells = line.split()
        if len(cells) > UID and [cells[LOCAL], cells[REMOTE]] == wanted:
            return int(cells[UID])
    return -1


def _spelled(host: str, port: int) -> str:
    """An address as the kernel's table spells it: words of four bytes, each in this machine's order."""
    address = ipaddress.ip_address(host)
    packed = socket.inet_pton(socket.AF_INET if address.version == 4 else socket.AF_INET6, host)
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    order = -1 if sys.byteorder == "little" else 1
    return "".join(word[::order].hex().upper() for word in words) + f":{port:04X}"
