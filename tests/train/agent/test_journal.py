import pytest

from tutti.train.agent.generation import NOBODY, Generation
from tutti.train.agent.journal import Held, Journal, Stale


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
