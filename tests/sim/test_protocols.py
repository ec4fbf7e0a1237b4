"""The rules of published studies, on logs small enough to follow by hand."""

import math

import pytest

from tutti.engine.model import SECOND
from tutti.engine.presets import PRESETS
from tutti.errors import Misused
from tutti.sim.cluster import plain
from tutti.sim.intake import Cut, Estimates, Tasks
from tutti.sim.predict import LastTwo
from tutti.sim.profiles import Batch
from tutti.sim.protocols import pollux, pyss, rlscheduler
from tutti.sim.protocols.log import Size
from tutti.sim.protocols.run import Rules, played
from tutti.sim.run import Simulation


def log(tmp_path, jobs, header="; MaxProcs: 4\n"):
    """Jobs as (submit, run, width, estimate)."""
    path = tmp_path / "log.swf"
    lines = [f"{n} {s} -1 {r} {w} -1 -1 {w} {e} -1 1 1 1 -1 -1 -1 -1 -1" for n, (s, r, w, e) in enumerate(jobs, 1)]
    path.write_text(header + "\n".join(lines) + "\n")
    return path


STANDARD = [(0, 100, 3, 100), (1, 50, 4, 50), (2, 90, 1, 90), (3, 10, 1, 10)]
"""A job on three of four, a head that wants all four, a long and a short one that could pass."""


def starts(tmp_path, policy, jobs=STANDARD):
    study = pyss.prepare(log(tmp_path, jobs))
    tasks = Tasks(study.log, Cut("slot", 1, whole_nodes=False), Estimates())
    simulation = Simulation(tasks, plain(4, 1, "slot"), PRESETS[policy].policy, "slot", one_by_one=True)
    return [at // SECOND for at in simulation.run().started]


def test_pyss_fcfs_nobody_passes(tmp_path):
    assert starts(tmp_path, "fcfs") == [0, 100, 150, 150]


def test_pyss_easy_passes_where_the_head_is_not_delayed(tmp_path):
    assert starts(tmp_path, "easy") == [0, 100, 2, 150]


def test_pyss_reports_the_usual_averages(tmp_path):
    found = pyss.prepare(log(tmp_path, STANDARD)).result(PRESETS["fcfs"].policy)
    assert found.jobs == 4
    assert found.avg_wait_s == (0 + 99 + 148 + 147) / 4
    assert found.avg_flow_s == (100 + 149 + 238 + 157) / 4
    assert found.makespan_s == 240
    assert found.avg_bounded_slowdown == pytest.approx((1 + 149 / 50 + 238 / 90 + 157 / 10) / 4)


def test_pyss_cuts_runs_at_the_request(tmp_path):
    study = pyss.prepare(log(tmp_path, [(0, 100, 1, 60)]))
    assert study.log.rows[0].run == 60 * SECOND


@pytest.mark.parametrize(("policy", "waits"), [("wfp3", (99, 149)), ("uni", (99, 109)), ("f1", (99, 109))])
def test_pyss_weighs_jobs_by_their_processors(tmp_path, policy, waits):
    """Two that asked for as long at the same time, on two and on three of four: only one of them has room at first."""
    jobs = [(0, 100, 4, 100), (1, 10, 2, 50), (1, 50, 3, 50)]
    found = pyss.prepare(log(tmp_path, jobs)).result(PRESETS[policy].policy)
    assert found.avg_wait_s * 3 == pytest.approx(sum(waits))


def test_pyss_knows_waiting_times_to_the_second(tmp_path):
    """The one that came first has waited 4 of 40 seconds, the other 3 of 29: a minute would not tell them apart."""
    jobs = [(0, 10, 4, 10), (6, 40, 4, 40), (7, 29, 4, 29)]
    found = pyss.prepare(log(tmp_path, jobs)).result(PRESETS["wfp3"].policy)
    assert found.avg_wait_s * 3 == pytest.approx(3 + 33)


def test_pyss_says_of_each_policy_that_it_is_over(tmp_path):
    heard = []
    played(log(tmp_path, STANDARD), ["fcfs", "easy"], Rules("pyss"), lambda *words: heard.append(words))
    assert [words for words in heard if words[1] == words[2]] == [("fcfs", 4, 4), ("easy", 4, 4)]


def test_pyss_refuses_a_job_wider_than_the_machine_with_its_line(tmp_path):
    with pytest.raises(Misused, match="line 3"):
        pyss.prepare(log(tmp_path, [(0, 1, 1, 1), (0, 1, 9, 1)]))


def test_the_machine_comes_from_the_command_line_where_the_header_is_silent(tmp_path):
    path = log(tmp_path, STANDARD, header="")
    with pytest.raises(Misused, match="--cluster"):
        pyss.prepare(path)
    assert played(path, ["fcfs"], Rules("pyss", cluster="4x1")).results[0].makespan_s == 240


def test_rlscheduler_without_backfill_keeps_the_chosen_job(tmp_path):
    found = rlscheduler.prepare(log(tmp_path, STANDARD)).result("fcfs", backfill=False)
    assert found.avg_wait_s == (0 + 99 + 148 + 147) / 4


def test_rlscheduler_backfill_needs_an_end_strictly_before(tmp_path):
    # At second 3 the long job would end at 93, before the head can start at 100.
    found = rlscheduler.prepare(log(tmp_path, STANDARD)).result("fcfs", backfill=True)
    assert found.avg_wait_s == (0 + 99 + 0 + 147) / 4
    exact = [(0, 100, 3, 100), (1, 50, 4, 50), (2, 98, 1, 98)]
    found = rlscheduler.prepare(log(tmp_path, exact)).result("fcfs", backfill=True)
    assert found.avg_wait_s == (0 + 99 + 148) / 3


def test_rlscheduler_reads_its_logs_in_its_own_way(tmp_path):
    jobs = [(0, 0, 1, 10), (1, -1, 2, -1), (2, 30, 1, 60)]
    study = rlscheduler.prepare(log(tmp_path, jobs))
    assert [(job.run, job.estimate) for job in study.jobs] == [(10, 10), (30, 60)]


def test_rlscheduler_takes_whole_nodes_where_the_header_says_so(tmp_path):
    study = rlscheduler.prepare(log(tmp_path, [(0, 5, 3, 5)], header="; MaxNodes: 4\n; MaxProcs: 8\n"))
    assert study.size == Size(4, 8)
    assert study.jobs[0].nodes == 2


def test_rlscheduler_has_ten_sequences_where_the_log_is_long_enough():
    assert len(rlscheduler.starts_in(10_000)) == 10
    assert rlscheduler.starts_in(3_000) == [0]
    assert rlscheduler.starts_in(4_000) == [1981, 2756, 2714]


@pytest.mark.parametrize(
    ("jobs", "note"),
    [
        (1_500, ["its first 1,024 jobs were played instead"]),
        (3_005, ["1 of them were played"]),
        (4_000, ["3 of them were played"]),
        (10_000, []),
    ],
)
def test_rlscheduler_says_so_where_a_log_is_too_short_for_all_sequences(jobs, note):
    one = rlscheduler.Entry(0, 1, 1, 1, 1)
    study = rlscheduler.Study([one] * jobs, Size(4, 4), rlscheduler.starts_in(jobs))
    assert [each.partition(": ")[2] for each in study.notes] == note


def test_what_a_reader_of_a_protocol_has_to_know_is_told_with_the_figures(tmp_path):
    assert "4 jobs, too few" in played(log(tmp_path, STANDARD), ["fcfs"], Rules("rlscheduler")).notes[0]


def test_rlscheduler_knows_only_the_policies_of_the_study(tmp_path):
    with pytest.raises(Misused, match="no policy 'conservative'") as caught:
        played(log(tmp_path, STANDARD), ["conservative"], Rules("rlscheduler"))
    assert "--protocol pyss" in str(caught.value)


def test_rlscheduler_calls_first_come_first_served_with_backfill_easy(tmp_path):
    study = rlscheduler.prepare(log(tmp_path, STANDARD))
    easy, fcfs = study.result("easy", backfill=False), study.result("fcfs", backfill=True)
    assert easy.policy == "easy"
    assert easy.avg_wait_s == fcfs.avg_wait_s < study.result("fcfs", backfill=False).avg_wait_s


def test_rlscheduler_ends_of_the_same_second_come_as_its_list_was_last_sorted(tmp_path):
    # The second was expected to end first, so its end is seen first, and the last job fits before the third does.
    jobs = [(0, 100, 2, 300), (0, 100, 3, 200), (1, 10, 4, 10), (2, 50, 3, 50)]
    found = rlscheduler.prepare(log(tmp_path, jobs, "; MaxProcs: 5\n")).result("fcfs", backfill=True)
    assert found.avg_wait_s == (0 + 0 + 149 + 98) / 4


def test_a_request_of_no_time_is_taken_as_it_is_where_nothing_is_divided_by_it(tmp_path):
    study = rlscheduler.prepare(log(tmp_path, [(0, 5, 1, 0), (1, 5, 1, 7)]))
    assert [job.estimate for job in study.jobs] == [0, 7]
    assert all(study.result(policy, backfill=False).jobs == 2 for policy in rlscheduler.SCORES)


def test_a_machine_may_be_given_as_a_number_of_processors(tmp_path):
    path = log(tmp_path, STANDARD, header="")
    assert played(path, ["fcfs"], Rules("pyss", cluster="4")).results[0].avg_wait_s == (0 + 99 + 148 + 147) / 4
    with pytest.raises(Misused, match="'0' is no machine"):
        played(path, ["fcfs"], Rules("pyss", cluster="0"))


def test_backfill_is_an_option_of_one_protocol(tmp_path):
    with pytest.raises(Misused, match="--policy easy"):
        played(log(tmp_path, STANDARD), ["fcfs"], Rules("pyss", backfill=True))


@pytest.mark.parametrize("protocol", ["rlscheduler", "pyss"])
def test_what_a_protocol_does_not_play_is_listed(tmp_path, protocol):
    path = log(tmp_path, [(0, 5, 1, 5), (1, 5, -1, 5), (-1, 5, 1, 5), (2, 5, 9, 5), (3, 7, 2, 7)])
    with pytest.raises(Misused, match="9 wide"):
        played(path, ["fcfs"], Rules(protocol))
    found = played(path, ["fcfs"], Rules(protocol, skip_bad=True))
    assert found.results[0].jobs == 2
    assert [bad.line for bad in found.left_out] == [3, 4, 5]
    assert "processors" in found.left_out[0].what


def test_interrupted_a_protocol_has_the_policies_that_were_played(tmp_path, monkeypatch):
    whole, left = rlscheduler.Study.result, 2

    def once(study, policy, backfill):
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return whole(study, policy, backfill)

    monkeypatch.setattr(rlscheduler.Study, "result", once)
    found = played(log(tmp_path, STANDARD), ["fcfs", "sjf"], Rules("rlscheduler"))
    assert [result.policy for result in found.results] == ["fcfs"]
    assert found.interrupted
    left = 1
    with pytest.raises(KeyboardInterrupt):
        played(log(tmp_path, STANDARD), ["fcfs", "sjf"], Rules("rlscheduler"))


@pytest.mark.parametrize("protocol", ["pyss", "rlscheduler"])
def test_speed_is_counted_in_processor_time_so_that_a_busy_machine_does_not_show(tmp_path, monkeypatch, protocol):
    clock = iter([10.0, 12.0])
    monkeypatch.setattr(f"tutti.sim.protocols.{protocol}.time.process_time", lambda: next(clock))
    (found,) = played(log(tmp_path, STANDARD), ["fcfs"], Rules(protocol)).results
    assert found.jobs_per_s == 2


def test_a_protocol_is_about_logs_of_one_format(tmp_path):
    path = tmp_path / "philly.csv"
    path.write_text("timestamp,duration,num_gpus\n2017-10-09 07:01:55,66.0,1\n")
    with pytest.raises(Misused, match="Standard Workload Format"):
        played(path, ["fcfs"], Rules("pyss"))


def test_the_prediction_is_the_mean_of_the_last_two_runs_and_never_above_the_request(tmp_path):
    study = pyss.prepare(log(tmp_path, [(0, 10, 1, 100), (0, 30, 1, 100), (0, 50, 1, 15)]))
    tasks = list(Tasks(study.log, Cut("slot", 1, whole_nodes=False), Estimates()))
    last = LastTwo()
    assert last.estimate(tasks[0]) == tasks[0].gang.estimate
    last.learn(tasks[0], 10 * SECOND)
    assert last.estimate(tasks[1]) == tasks[1].gang.estimate
    last.learn(tasks[1], 31 * SECOND)
    assert last.estimate(tasks[0]).p90 == 20 * SECOND + 1
    assert last.estimate(tasks[2]).p90 == tasks[2].gang.estimate.limit


def test_tiresias_puts_jobs_with_much_service_behind():
    class Short:
        name = "short"

    policy = pollux.Tiresias()
    jobs = [pollux.Trainee(name, Short(), 0, 40, 1) for name in ("a", "b")]  # type: ignore[arg-type]
    assert policy.sizes(jobs, 60) == {"a": 40}
    assert policy.sizes(jobs, 60 + 1440) == {"b": 40}


class Straight:
    """An application whose speed grows with its GPUs to a power, whatever the batch."""

    name, least_local, most_batch, first_batch = "straight", 1, 64, 1

    def __init__(self, power):
        self.power = power

    def split(self, batch, replicas, careful):
        return Batch(1, 0)

    def step(self, placement, local):
        return 1 / sum(placement) ** self.power, 0.0

    def gradients(self, batch, epoch):
        return 1.0, 0.0


def test_the_next_gpu_goes_to_whom_it_helps_most_in_proportion():
    policy = pollux.Marginal()
    jobs = [pollux.Trainee(name, Straight(power), 0, 1, 1) for name, power in (("good", 0.9), ("poor", 0.3))]  # type: ignore[arg-type]
    sizes = policy.sizes(jobs, 0)
    assert sizes == {"good": 48, "poor": 16}
    assert policy.sizes(jobs[:1], 60) == {"good": 64}
    many = [pollux.Trainee(f"j{at}", Straight(0.5), 0, 1, 1) for at in range(70)]  # type: ignore[arg-type]
    assert sorted(policy.sizes(many, 120).values()) == [0] * 6 + [1] * 64


def test_places_are_kept_by_those_who_keep_their_size():
    held = pollux.place({"a": 6, "b": 4}, {})
    assert held == {"a": [0, 0, 0, 0, 1, 1], "b": [2, 2, 2, 2]}
    again = pollux.place({"c": 2, "a": 6, "b": 5}, held)
    assert again["a"] == held["a"]
    assert again["c"] == [2, 2]
    assert len(again["b"]) == 5


def test_averages_are_exact_sums():
    assert math.isclose(rlscheduler._mean([0.1] * 10), 0.1)
