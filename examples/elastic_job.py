"""A job that can change its size while it runs, without torch: rank 0 talks to the scheduler, all ranks do 'steps'.

What a real loop gets from `tutti.train` is done by hand here, to show how little the protocol asks for.
"""

import os
import signal
import sys
import time

from tutti.train.agent.channel import Accepted, Done, Leave, Progress, Released, Resize
from tutti.train.agent.client import Client

STEP_S = 0.1
REPORT_EVERY = 5


def work() -> None:
    """What every rank does: here nothing, until it is told to go."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(76))
    while True:
        time.sleep(STEP_S)


def lead(size: int) -> None:
    """What rank 0 does beside: report progress, and agree to every change of size."""
    client = Client(os.environ["TUTTI_CHANNEL"], run=os.environ["TUTTI_RUN"])
    step = 0
    while True:
        for asked in client.requests():
            client.answer(Accepted(asked.id, step))
            if isinstance(asked, Resize):
                grows, size = asked.target > size, asked.target
                print(f"step {step}: {size} members now", flush=True)
                client.answer(Done(asked.id, step) if grows else Released(asked.id, step))
            elif isinstance(asked, Leave):
                client.answer(Released(asked.id, step))
                sys.exit(75)
        step += 1
        if step % REPORT_EVERY == 0:
            client.report(
                Progress(step, rate=size / STEP_S / 8, world=size, snapshot_step=step, legal=tuple(range(1, 9)))
            )
        time.sleep(STEP_S)


if __name__ == "__main__":
    lead(int(os.environ["WORLD_SIZE"])) if os.environ["RANK"] == "0" else work()
