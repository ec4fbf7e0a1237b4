"""What a job says on its channel, at the keeper's end."""

import selectors
import socket
from typing import Any

from tutti.local.keeper.talk import JobTalk
from tutti.train.agent.channel import Hello, Progress, to_message
from tutti.train.agent.lines import Lines


def say(path: str, run: str, steps: range) -> None:
    """A job that comes, reports its steps and is gone."""
    with socket.socket(socket.AF_UNIX) as job:
        job.connect(path)
        line = Lines(job)
        line.send(to_message(Hello(run=run, pid=1)))
        for step in steps:
            line.send(to_message(Progress(step=step)))


def test_what_a_job_said_before_it_ended_is_heard_after_it(tmp_path):
    told: list[dict[str, Any]] = []
    with selectors.DefaultSelector() as selector:
        talk = JobTalk(str(tmp_path / "channel"), -1, selector, told.append)
        for run in ("first", "second"):
            say(str(tmp_path / "channel"), run, range(1, 4))
        talk.hear_out()
        talk.close()
    heard = [(one["run"], one["word"]["step"]) for one in told if one["say"] == "heard"]
    assert sorted(heard) == [(run, step) for run in ("first", "second") for step in range(1, 4)]
