"""Public cases of other schedulers, told in our own words and played against the real API server."""

from pathlib import Path

import pytest
import yaml

from tests.kube.script import Script

CASES = {
    f"{path.stem}: {name}": lines
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml"))
    for name, lines in yaml.safe_load(path.read_text()).items()
}


@pytest.mark.parametrize("name", CASES)
def test_case(play, name):
    async def scene(play):
        assert await Script(play).run(CASES[name]) > 0

    play(scene)


def test_there_are_many():
    assert len(CASES) >= 80
