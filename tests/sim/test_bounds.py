"""Bounds are never above what a schedule reaches, and tight where they can be."""

from hypothesis import given
from hypothesis import strategies as st

from tutti.sim.bounds import Job, bounds, busy_time_flow, makespan, squashed_flow

jobs = st.lists(st.builds(Job, st.integers(0, 50), st.integers(1, 4), st.integers(1, 30)), min_size=1, max_size=12)


def first_come(entries, devices):
    """Start and end of every job under strict first come, first served."""
    running: list[tuple[float, int]] = []
    found: list[tuple[Job, float]] = []
    now = 0.0
    for job in sorted(entries, key=lambda job: job.release):
        now = max(now, job.release)
        while sum(width for end, width in running if end > now) + job.width > devices:
            now = min(end for end, _ in running if end > now)
        running.append((now + job.run, job.width))
        found.append((job, now + job.run))
    return found


@given(jobs)
def test_no_schedule_beats_a_bound(entries):
    played = first_come(entries, 4)
    best = bounds(entries, 4)
    flow = sum(end - job.release for job, end in played) / len(played)
    span = max(end for _, end in played) - min(job.release for job, _ in played)
    slow = sum(max((end - job.release) / max(job.run, 10), 1) for job, end in played) / len(played)
    assert best.avg_flow_s <= flow + 1e-6
    assert best.makespan_s <= span + 1e-6
    assert best.avg_bounded_slowdown <= slow + 1e-6


def test_a_full_machine_leaves_no_slack():
    entries = [Job(0, 4, 10), Job(0, 4, 20)]
    assert makespan(entries, 4) == 30
    assert squashed_flow(entries, 4) == 20
    assert busy_time_flow(entries, 4) == 20


def test_jobs_wider_than_half_exclude_each_other():
    assert makespan([Job(0, 3, 10), Job(0, 3, 10)], 4) == 20


def test_a_lonely_job_is_bounded_by_its_run_time():
    best = bounds([Job(5, 1, 10)], 100)
    assert (best.avg_flow_s, best.makespan_s, best.by) == (10, 10, "run-time")
