"""Many gangs meet at once, each at a port of its own: no two at the same one.

`python -m tests.local.meeting [ROUNDS]` is part of `make soak`; the test suite does one small round.
"""

import os
import sys

from tests.local.stage import Box, box, until
from tutti.api.client import job_path

GANGS = 50
MEET = """
import os, socket, time
port, name = int(os.environ["MASTER_PORT"]), os.environ["TUTTI_JOB"]
if os.environ["RANK"] == "0":
    server = socket.create_server(("127.0.0.1", port))
    line, _ = server.accept()
    assert line.recv(99).decode() == name
    line.send(b"yes")
    open("met-" + name, "w").write(str(port))
    while not os.path.exists("go"):
        time.sleep(0.2)
else:
    while True:
        try:
            line = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    line.send(name.encode())
    assert line.recv(9) == b"yes"
"""
"""All gangs hold their ports until every one of them has met."""


def round_of(made: Box, number: int, gangs: int) -> list[str]:
    """So many gangs of two at once: all meet, and nobody meets somebody else's; answers with their ports."""
    jobs = [
        made.submit(sys.executable, "-ISc", MEET, workers=2, name=f"r{number}-{at}", retries=0, grace="0s")
        for at in range(gangs)
    ]

    def met() -> list[str]:
        states = [made.client.get(job_path(job.name))["job"]["state"] for job in jobs[:1]]
        assert "failed" not in states, made.log(jobs[0].name)
        found = [path for path in made.path.glob(f"met-r{number}-*") if path.read_text()]
        return [path.read_text() for path in found] if len(found) == gangs else []

    ports = until(met, f"all {gangs} meetings of round {number}", 120)
    (made.path / "go").touch()
    assert [job.wait() for job in jobs] == [0] * gangs
    (made.path / "go").unlink()
    return sorted(ports)


def meetings(rounds: int, gangs: int = GANGS) -> list[list[str]]:
    """Round after round, on one box that is large enough: the ports of each."""
    with box(str(2 * gangs)) as made:
        made.env["PATH"] = os.environ["PATH"]
        return [round_of(made, number, gangs) for number in range(rounds)]


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    assert all(len(set(ports)) == GANGS for ports in meetings(wanted))
    print(f"{wanted} rounds of {GANGS} gangs at once: no two met at the same port")
