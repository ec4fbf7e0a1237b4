import itertools
import os
from pathlib import Path

import pytest

from tests.train.stage import Run, Theatre

_numbers = itertools.count()


@pytest.fixture(scope="session")
def theatre():
    theatre = Theatre()
    yield theatre
    theatre.close()


@pytest.fixture
def launch(tmp_path, theatre):
    """Starts runs that are ended with the test, whatever happens in it."""
    started = []

    def start(*options, loop=None, folder=None, home=None, **named):
        number = next(_numbers)
        home = home or Path(f"/dev/shm/tutti-test-{os.getpid()}-{number}")
        run = Run(theatre, tmp_path / (folder or f"run{number}"), home, options, loop, **named)
        started.append(run)
        return run

    yield start
    for run in started:
        run.close()
