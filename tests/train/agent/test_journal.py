import io
import json
import resource
from contextlib import contextmanager

import pytest

from tutti.train.agent.generation import NOBODY, Generation
from tutti.train.agent.journal import Held, Journal, Stale, Unwritten
from tutti.train.agent.story import Story


@contextmanager
def full_disk(path):
    """Files cannot grow beyond what this one has and half a line: a write fails in its middle, as on a full disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def generation(number):
    return Generation(number, (f"m{number}",), "host:1", step=number)


def test_generations_follow_each_other_and_survive_the_writer(tmp_path):
    journal = Journal(tmp_path / "j")
    assert journal.current == NOBODY
    journal.advance(0, generation(1))
    journal.advance(1, generation(2))
    journal.close()
    again = Journal(tmp_path / "j")
    assert again.current == generation(2)
    again.close()


@pytest.mark.parametrize(
    ("expected", "number"),
    [
        pytest.param(0, 2, id="someone was first"),
        pytest.param(1, 1, id="the same number"),
        pytest.param(1, 0, id="backwards"),
    ],
)
def test_a_stale_announcement_is_refused(tmp_path, expected, number):
    journal = Journal(tmp_path / "j")
    journal.advance(0, generation(1))
    with pytest.raises(Stale):
        journal.advance(expected, generation(number))
    assert journal.current == generation(1)
    journal.close()


def test_two_agents_never_write_one_journal(tmp_path):
    journal = Journal(tmp_path / "j")
    with pytest.raises(Held, match="already running"):
        Journal(tmp_path / "j")
    journal.close()
    Journal(tmp_path / "j").close()


@pytest.mark.parametrize("kept", range(0, 60, 7))
def test_a_line_torn_by_a_crash_was_never_announced(tmp_path, kept):
    path = tmp_path / "j"
    journal = Journal(path)
    journal.advance(0, generation(1))
    whole = path.stat().st_size
    journal.advance(1, generation(2))
    journal.close()
    path.write_bytes(path.read_bytes()[: whole + kept])
    again = Journal(path)
    assert again.current == generation(1)
    assert again.advance(1, generation(3)).number == 3
    again.close()


def test_a_full_disk_does_not_stop_the_generations(tmp_path):
    """The next one is announced all the same; what was written stays whole, and is gone on from when there is room."""
    journal = Journal(tmp_path / "j")
    journal.advance(0, generation(1))
    with full_disk(tmp_path / "j"), pytest.raises(Unwritten):
        journal.advance(1, generation(2))
    assert journal.current == generation(2)
    journal.advance(2, generation(3))
    journal.close()
    assert [json.loads(line)["number"] for line in (tmp_path / "j").read_text().splitlines()] == [1, 3]


def test_a_story_without_room_goes_on_and_says_what_is_missing(tmp_path):
    out = io.StringIO()
    story = Story(tmp_path / "s", out, clock=lambda: 7.0)
    story.tell("one", "it begins")
    with full_disk(tmp_path / "s"):
        story.tell("two", "nobody reads this")
        story.tell("three", "nor this")
    story.tell("four", "it ends")
    story.close()
    assert [json.loads(line)["event"] for line in (tmp_path / "s").read_text().splitlines()] == ["one", "gap", "four"]
    said = out.getvalue().splitlines()
    assert len(said) == 5
    assert "the story cannot be written to its file" in said[2]
