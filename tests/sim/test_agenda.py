"""Virtual time: what happens when, and in which order at one moment."""

from tutti.engine.model import NEVER
from tutti.sim.agenda import Agenda, Rank


def entry(found, name):
    def happen(at):
        found.append((at, name))
        return []

    return happen


def played(agenda):
    while agenda:
        at = agenda.next_at
        agenda.pop()(at)


def test_happenings_come_in_the_order_of_time_then_rank_then_entry():
    agenda = Agenda()
    found: list[tuple[int, str]] = []
    agenda.add(20, Rank.ARRIVAL, entry(found, "late"))
    agenda.add(10, Rank.ARRIVAL, entry(found, "arrival"))
    agenda.add(10, Rank.ENDS, entry(found, "end 1"))
    agenda.add(10, Rank.ENDS, entry(found, "end 2"))
    agenda.add(10, Rank.NODES, entry(found, "node"))
    played(agenda)
    assert [name for _, name in found] == ["node", "end 1", "end 2", "arrival", "late"]


def test_an_empty_agenda_never_happens():
    assert Agenda().next_at == NEVER
    assert not Agenda()


def test_submissions_may_go_before_ends():
    assert Rank.EARLY_ARRIVAL < Rank.ENDS < Rank.ARRIVAL
