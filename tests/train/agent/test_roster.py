"""Decisions about membership: facts in, orders out. No process is started here."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tutti.train.agent.exits import Exit
from tutti.train.agent.roster import Announce, Dismiss, EndAll, Finish, Park, Roster, Spawn, Stage
from tutti.train.agent.sizes import SizeRule


class Play:
    """Carries orders out at once, as an agent with perfect hands would."""

    def __init__(self, want=4, least=1, restarts=3, spares=0, **rule_options):
        self.roster = Roster(SizeRule(least, 8, **rule_options), want, restarts, spares)
        self.count = 0
        self.said = []
        self.code = None

    def go(self):
        orders = []
        for _ in range(20):
            orders = [order for order in self.roster.orders() if self.carry_out(order)]
            if not orders:
                return self
        raise AssertionError(f"no rest: {orders}")

    def carry_out(self, order):
        if isinstance(order, Spawn):
            for _ in range(order.count):
                self.roster.started(f"m{self.count}")
                self.count += 1
        elif isinstance(order, Announce):
            self.roster.announced(order.generation)
        elif isinstance(order, EndAll):
            self.roster.is_ending = True
            for member in self.here():
                self.roster.gone(member, -9)
            self.roster.is_ending = False
        elif isinstance(order, Dismiss):
            for name in self.roster.dismiss(order.names):
                self.roster.gone(name, -9)
        elif isinstance(order, Finish):
            self.code = order.code
            return False
        elif isinstance(order, Park):
            fresh = order not in self.said
            self.said.append(order)
            return fresh
        return True

    def here(self, *stages):
        members = self.roster.members.values()
        return [member.name for member in members if member.is_here and (not stages or member.stage in stages)]

    def join_all(self):
        for name in self.here(Stage.STARTING):
            self.roster.joined(name)
        for name in self.here(Stage.BUILDING):
            self.roster.is_ready(name)
        return self.go()

    def form(self):
        for name in self.roster.generation.members:
            if self.roster.members[name].is_here:
                self.roster.formed(name, self.roster.generation.number)
        return self.go()

    def lose(self, name, code=-9):
        self.roster.gone(name, code)
        return self.go()

    @property
    def members(self):
        return self.roster.generation.members


def started(**options):
    return Play(**options).go().join_all().form()


def test_a_run_starts_whole():
    play = Play(want=3).go()
    for name in ("m0", "m1"):
        play.roster.joined(name)
        assert play.go().members == ()
    play.roster.joined("m2")
    assert play.go().members == ("m0", "m1", "m2")


def test_a_lost_member_is_left_out_at_once_and_replaced_later():
    play = started()
    assert play.lose("m1").members == ("m0", "m2", "m3")
    assert play.form().join_all().members == ("m0", "m2", "m3", "m4")


def test_a_standby_takes_the_place_in_the_same_generation():
    play = started(spares=1).join_all()
    assert play.lose("m2").members == ("m0", "m1", "m3", "m4")


def test_without_restarts_the_run_goes_on_smaller():
    play = started(restarts=0)
    assert play.lose("m1").form().join_all().members == ("m0", "m2", "m3")
    assert play.here() == ["m0", "m2", "m3"]


def test_below_the_least_it_parks_and_does_not_compute():
    play = started(least=4, restarts=0)
    number = play.roster.generation.number
    play.lose("m1")
    assert play.roster.generation.number == number
    assert "4 is the least" in play.said[0].reason


def test_below_the_least_it_ends_where_nobody_could_bring_more():
    play = started(least=4, restarts=0)
    play.roster.may_grow = False
    play.lose("m1")
    assert (play.code, play.here(), play.said) == (137, [], [])


def test_one_that_stands_by_in_vain_says_nothing_about_those_that_compute():
    play = started(least=4, restarts=0, spares=1).join_all()
    play.roster.may_grow = False
    play.lose("m4")
    assert (play.code, play.members) == (None, ("m0", "m1", "m2", "m3"))


def test_too_few_for_a_generation_that_never_formed_are_joined_by_others():
    """One more is lost before the next generation has formed: what is left waits, and a replacement is started."""
    play = started(want=4, unit=2)
    play.lose("m1")
    assert play.members == ("m0", "m2")
    play.lose("m0")
    assert play.here(Stage.STARTING) != []
    assert play.join_all().members == ("m2", "m4", "m5", "m6")


def test_those_that_cannot_change_their_number_all_start_again_together():
    play = started(want=4, spares=1).join_all()
    play.roster.is_renewing = True
    play.lose("m0", Exit.AGAIN)
    assert play.members == ("m0", "m1", "m2", "m3"), "nobody is announced to those that are about to go"
    for name in ("m1", "m2", "m3"):
        play.lose(name, Exit.AGAIN)
    assert play.here(Stage.STARTING) == play.here() == ["m5", "m6", "m7", "m8", "m9"]
    assert play.join_all().members == ("m5", "m6", "m7", "m8")


def test_one_that_does_not_go_by_itself_is_not_waited_for():
    play = started(want=2)
    play.roster.is_renewing = True
    play.lose("m0", Exit.AGAIN)
    assert play.here() == ["m1"]
    play.roster.is_overdue = True
    assert play.go().here() == ["m2", "m3"]


@pytest.mark.parametrize("code", [Exit.FINISHED, 3])
def test_those_that_never_ask_for_a_batch_are_let_come_to_their_end(code):
    play = Play(want=3).go().join_all()
    play.lose("m0", Exit.FINISHED)
    assert play.here() == ["m1", "m2"]
    play.lose("m1", Exit.FINISHED)
    play.lose("m2", code)
    assert play.code == code


@pytest.mark.parametrize(("code", "expected"), [(3, 3), (1, 1), (-9, 0), (Exit.AGAIN, 0)])
@pytest.mark.parametrize("first", ["m0", "m1"])
def test_one_that_fails_when_the_work_is_done_fails_the_run(first, code, expected):
    play = started(want=2)
    for name in (first, *({"m0", "m1"} - {first})):
        play.lose(name, code if name == "m1" else Exit.FINISHED)
    for name in play.here():
        play.lose(name)
    assert play.code == expected


def test_one_that_failed_before_the_others_went_on_does_not():
    play = started(want=2)
    play.lose("m1", 3).form().join_all().form()
    assert play.members == ("m0", "m2")
    for name in play.members:
        play.lose(name, Exit.FINISHED)
    assert play.code == 0


def test_an_illegal_size_is_never_announced():
    play = started(listed=(2, 4), restarts=0)
    assert play.lose("m3").members == ("m0", "m1")


def test_everyone_lost_starts_again_until_no_restart_is_left():
    play = started(want=2, restarts=2)
    play.lose("m0")
    play.lose("m1")
    assert play.join_all().members == ("m2", "m3")
    play.form().lose("m2")
    play.lose("m3")
    assert play.code == 137


def test_stuck_without_a_loss_forms_again():
    play = started()
    for name in play.members:
        play.roster.stuck(name, 1)
    assert play.go().roster.generation.number == 2


def test_whoever_waits_for_one_that_is_stuck_is_called_into_the_next():
    play = started()
    number = play.roster.generation.number
    play.roster.stuck("m0", number)
    assert play.go().roster.generation.number == number
    play.roster.is_vain = True
    following = play.roster.orders()[0].generation
    assert (following.number, following.members, following.is_urgent) == (number + 1, play.members, True)


def test_who_is_not_wanted_and_does_not_compute_is_ended_at_once_and_costs_nothing():
    play = started(want=4, spares=1)
    play.join_all()
    ready = play.here(Stage.READY)
    play.roster.want = 3
    assert play.roster.dismiss(["m3", *ready, "gone"]) == ready
    assert play.roster.joined(ready[0]), "its last word comes late"
    play.roster.gone(ready[0], -9)
    play.go()
    assert play.roster.generation.members == ("m0", "m1", "m2")
    assert (play.roster.restarts_left, play.roster.holes) == (3, 0)


def test_who_came_for_a_size_that_is_not_wanted_any_more_is_ended_the_last_to_be_ready_first():
    play = started(want=2)
    play.roster.want = 5
    assert play.go().here() == ["m0", "m1", "m2", "m3", "m4"]
    play.roster.joined("m3")
    play.roster.want = 3
    assert play.go().here() == ["m0", "m1", "m3"]
    assert play.roster.restarts_left == 3


def test_when_the_last_that_compute_have_left_nobody_stands_by_for_them():
    play = started(want=2, spares=1).join_all()
    play.roster.is_leaving = True
    assert play.lose("m0", Exit.PREEMPTED).here() == ["m1", "m2"]
    assert play.lose("m1", Exit.PREEMPTED).here() == []
    assert play.code == Exit.PREEMPTED


def test_losses_that_were_their_machines_are_given_back():
    play = started(want=4, restarts=1)
    for name in ("m2", "m3"):
        assert play.roster.gone(name, -9)
    assert (play.roster.restarts_left, play.roster.holes) == (0, 1)
    play.roster.forgive(2)
    assert (play.roster.restarts_left, play.roster.holes) == (1, 0)
    assert not play.roster.gone("m1", -9, with_machine=True)
    assert (play.roster.restarts_left, play.roster.holes) == (1, 0)


def test_who_came_in_time_and_found_no_place_stands_by():
    play = Play(want=4, restarts=0, listed=(2, 4)).go()
    for name in ("m0", "m1", "m2"):
        play.roster.joined(name)
    assert play.lose("m3").members == ("m0", "m1")
    assert play.form().join_all().lose("m1").members == ("m0", "m2")


def test_stuck_for_ever_is_a_failure_with_a_reason():
    play = started()
    for number in range(1, 30):
        for name in play.here():
            play.roster.stuck(name, number)
        play.go()
    assert play.code == Exit.CRASHED


def test_two_crashes_at_one_step_are_the_loop_s_fault():
    play = started()
    play.roster.committed(7)
    play.lose("m0", 1)
    assert play.code is None
    play.form().lose("m1", 1)
    assert play.code == 1


def test_crashes_of_those_who_never_came_in_leave_the_others_alone():
    play = started(restarts=2, spares=1)
    for _ in range(3):
        (beside,) = play.here(Stage.STARTING, Stage.BUILDING)
        play.lose(beside, 1)
        assert play.code is None
    assert play.here() == ["m0", "m1", "m2", "m3"], "no restart is left for another"


def test_do_not_retry_is_obeyed():
    assert started().lose("m0", Exit.NO_RETRY).code == Exit.NO_RETRY


def test_finished_members_are_not_lost_and_a_late_standby_is_sent_away():
    play = started(spares=1).join_all()
    for name in ("m0", "m1", "m2", "m3"):
        play.lose(name, 0)
    assert play.code == 0
    assert play.roster.generation.number == 1


def test_one_in_doubt_at_the_end_may_finish_alone():
    play = started(least=2)
    for name in ("m0", "m1", "m2"):
        play.lose(name, 0)
    play.roster.stuck("m3", 1)
    assert play.go().members == ("m3",)


def test_members_that_never_join_start_again_together():
    play = Play(want=2, restarts=4).go()
    play.lose("m0", 1)
    assert play.here() == ["m2", "m3"]


def test_members_that_never_join_each_end_in_their_own_time():
    play = Play(want=3).go().lose("m0", Exit.FINISHED)
    assert play.here() == ["m1", "m2"]
    play.lose("m2", Exit.FINISHED)
    assert (play.here(), play.code) == (["m1"], None)
    assert play.lose("m1", Exit.FINISHED).code == Exit.FINISHED


def test_one_that_never_joins_and_fails_late_is_not_covered_by_those_that_ended_well():
    play = Play(want=3, restarts=1).go().lose("m0", Exit.FINISHED).lose("m1", 3)
    assert play.here() == ["m3", "m4", "m5"], "all start again"
    for name in play.here():
        play.lose(name, Exit.FINISHED)
    assert play.code == Exit.FINISHED


def test_without_restarts_those_that_never_join_end_with_the_code_of_the_first_that_failed():
    assert Play(want=3, restarts=0).go().lose("m1", 3).code == 3
    assert Play(want=3, restarts=0).go().lose("m1", -9).code == 137


def test_those_that_would_have_joined_start_again_with_fewer():
    play = Play(want=3, restarts=0)
    play.roster.may_join = True
    assert play.go().lose("m1").here() == ["m3", "m4"]
    assert play.join_all().members == ("m3", "m4")


def test_one_that_ends_without_joining_does_not_keep_the_others_waiting_for_it():
    play = Play(want=2).go()
    play.roster.joined("m0")
    assert play.lose("m1", Exit.FINISHED).code == Exit.FINISHED


def test_shrink_and_grow():
    play = started()
    play.roster.want = 2
    assert play.go().form().members == ("m0", "m1")
    for name in ("m2", "m3"):
        play.lose(name, Exit.RELEASED)
    play.roster.want = 3
    assert play.go().join_all().members == ("m0", "m1", "m4")


class Storm(RuleBasedStateMachine):
    """Whatever happens in whatever order, the promises of a generation hold."""

    def __init__(self):
        super().__init__()
        self.play = Play(want=4, least=2, restarts=1000, spares=1).go()
        self.seen = [0]

    @rule()
    def join(self):
        self.play.join_all()

    @rule()
    def form(self):
        self.play.form()

    @rule(choice=st.integers(0, 20), code=st.sampled_from([-9, -15, Exit.AGAIN]))
    def lose(self, choice, code):
        here = self.play.here()
        if here:
            self.play.lose(here[choice % len(here)], code)

    @precondition(lambda self: self.play.here(Stage.LEAVING))
    @rule()
    def leave(self):
        self.play.lose(self.play.here(Stage.LEAVING)[0], Exit.RELEASED)

    @rule(want=st.integers(2, 8))
    def resize(self, want):
        self.play.roster.want = want
        self.play.go()

    @rule()
    def stuck(self):
        for name in self.play.here(Stage.ACTIVE):
            self.play.roster.stuck(name, self.play.roster.generation.number)
        self.play.roster.committed(self.play.roster.step + 1)
        self.play.go()

    @invariant()
    def numbers_only_grow(self):
        assert self.play.roster.generation.number >= self.seen[-1]
        self.seen.append(self.play.roster.generation.number)

    @invariant()
    def a_generation_is_legal_and_nobody_is_in_it_twice(self):
        members = self.play.members
        assert len(set(members)) == len(members)
        assert not members or 2 <= len(members) <= 8

    @invariant()
    def a_generation_without_a_dead_member_is_never_left_standing(self):
        lost = self.play.roster.lost()
        alive = [name for name in self.play.members if self.play.roster.members[name].is_here]
        assert not lost or len(alive) < 2, "a generation with a dead member and enough others goes on without it"


Storm.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestStorm = Storm.TestCase
