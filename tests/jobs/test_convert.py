"""A gang written in a dialect and read back is the same gang, as far as the dialect can say it."""

import json

import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.golden_files import HERE
from tutti.cli.main import run
from tutti.engine.model import (
    HOUR,
    NEVER,
    SECOND,
    Coupling,
    Estimate,
    Gang,
    OnLoss,
    Resizing,
    Role,
    Segment,
    Shape,
    SizeRule,
    Source,
)
from tutti.jobs.convert.differences import differences
from tutti.jobs.convert.groups import DIALECTS
from tutti.jobs.convert.write import NAMES, convert, read_back, written
from tutti.jobs.finish import of_gang
from tutti.jobs.understand import understand, understand_text

ABLE = {
    "native": {"elastic", "priority", "within"},
    "native-1.36": {"elastic", "priority", "within"},
    "native-1.35": {"elastic"},
    "coscheduling": {"elastic"},
    "volcano": {"elastic", "queue", "priority", "within", "parts", "preemptible"},
    "koordinator": {"elastic", "within", "near", "segment"},
    "kai": {"elastic", "queue", "priority", "within", "near", "parts", "preemptible"},
    "yunikorn": {"elastic", "queue", "parts"},
    "kueue": {"within", "near", "segment"},
    "kube-batch": {"elastic", "queue"},
    "job": {
        "elastic",
        "queue",
        "priority",
        "within",
        "near",
        "segment",
        "parts",
        "preemptible",
        "most",
        "rule",
        "after",
    },
}
"""What each dialect can say beyond members, asks and a time limit."""
WORDS = st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True)


@st.composite
def roles(draw, able, name):
    want = draw(st.integers(1, 40))
    low = draw(st.integers(1, want)) if "elastic" in able else want
    high = draw(st.integers(want, 64)) if "most" in able else want
    ask = {"gpu": draw(st.integers(1, 16))}
    if draw(st.booleans()):
        ask["cpu"] = draw(st.integers(1, 64_000))
    if draw(st.booleans()):
        ask["memory"] = draw(st.integers(1, 1 << 40))
    rule = SizeRule(multiple=draw(st.integers(1, 4))) if "rule" in able else SizeRule()
    return Role(name, low, want, high, (Shape(ask),), rule=rule)


@st.composite
def gangs(draw, able):
    names = draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
    # Without a word for the least of each part, only whole parts can be said of several.
    each = able if "parts" in able or len(names) == 1 else able - {"elastic"}
    found = tuple(draw(roles(each, name)) for name in names)
    segment = Segment(draw(WORDS), draw(st.integers(2, 4))) if "segment" in able and len(found) == 1 else None
    if segment and draw(st.booleans()):
        size = segment.members * draw(st.integers(1, 6))
        found = (Role(names[0], size, size, size, found[0].shapes, segment=segment),)
    limit = draw(st.integers(1, 1_000_000)) * SECOND if draw(st.booleans()) else NEVER
    role_level = "job" if {"most", "rule"} <= able else ""
    level = draw(WORDS) if "within" in able and draw(st.booleans()) else ""
    if role_level and level:
        found = tuple(Role(r.name, r.min, r.want, r.max, r.shapes, rule=r.rule, within=level) for r in found)
    return Gang(
        name="default/some-job",
        roles=found,
        queue=draw(WORDS) if "queue" in able else "default",
        priority=draw(st.integers(-1000, 1000)) if "priority" in able else 0,
        estimate=Estimate(limit, source=Source.DECLARED) if limit < NEVER else Estimate(),
        within="" if role_level else level,
        preemptible=draw(st.booleans()) if "preemptible" in able else True,
        resizing=Resizing.LIVE,
        on_loss=OnLoss.REPAIR,
        after=tuple(draw(st.lists(WORDS, max_size=2, unique=True))) if "after" in able else (),
    )


@given(st.sampled_from(sorted(ABLE)), st.data())
def test_what_a_dialect_can_say_comes_back_the_same(dialect, data):
    gang = data.draw(gangs(ABLE[dialect]))
    found = of_gang(gang, "a gang")
    back = read_back(written(found, dialect), dialect).gang
    assert differences(gang, back) == ()


@given(st.sampled_from([*ABLE, "sbatch"]), gangs(ABLE["job"]))
def test_whatever_is_lost_is_named(dialect, gang):
    """Reading back never fails, and the list is empty only where nothing changed."""
    result = convert(of_gang(gang, "a gang"), dialect)
    assert isinstance(result.cannot, tuple)
    if "after" not in ABLE.get(dialect, {"after"}) and gang.after:
        assert any("waits for" in entry for entry in result.cannot)


@given(st.integers(1, 8), st.integers(0, 8), st.integers(0, 8), st.integers(1, 64), st.integers(60, 10**6))
def test_batch_scripts_come_back_the_same(low, more, gpus, cores, seconds):
    ask = {"gpu": gpus, "cpu": 1000 * cores} if gpus else {"cpu": 1000 * cores}
    role = Role("worker", low, low + more, low + more, (Shape(ask),))
    estimate = Estimate(seconds * SECOND, source=Source.DECLARED)
    gang = Gang("night", (role,), queue="gpu", priority=4, estimate=estimate, after=("a", "any:b", "failed:c"))
    back = read_back(written(of_gang(gang, "a gang"), "sbatch"), "sbatch").gang
    assert differences(gang, back) == ()


def test_a_pytorchjob_becomes_volcano_without_loss():
    text = (HERE / "manifests" / "pytorchjob-policy.yaml").read_text()
    result = convert(understand_text(text, "m.yaml"), "volcano")
    assert result.cannot == ()
    kinds = [entry["kind"] for entry in yaml.safe_load_all(result.text)]
    assert kinds == ["PriorityClass", "PodGroup", "Job", "Job"]


def test_loose_roles_are_named_where_they_cannot_be_said():
    worker = Role("worker", 1, 8, 8, (Shape({"gpu": 1}),), Coupling.LOOSE)
    gang = Gang(
        "tf", (Role("ps", 2, 2, 2, (Shape({"cpu": 1000}),)), worker), estimate=Estimate(HOUR, source=Source.DECLARED)
    )
    result = convert(of_gang(gang, "a gang"), "coscheduling")
    assert result.cannot == ("role worker: members, at least 1 (it becomes 0)",)
    assert convert(of_gang(gang, "a gang"), "job").cannot == ()


def test_every_dialect_is_offered():
    assert set(DIALECTS) < set(NAMES)
    assert set(ABLE) | {"sbatch"} == set(NAMES)


def test_the_command_prints_text_and_losses(capsys):
    line = ["torchrun", "--nnodes", "2:4", "--nproc-per-node", "8", "train.py"]
    assert run(["convert", "--to", "coscheduling", *line]) == 0
    out, err = capsys.readouterr()
    assert [entry["kind"] for entry in yaml.safe_load_all(out)] == ["PodGroup", "Job"]
    assert "torchrun" in out
    assert err == ""
    assert run(["convert", *line, "--to", "kueue", "--strict", "-o", "json"]) == 4
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "tutti/v1"
    assert said["cannot"] == ["members, at least 2 (it becomes 4)"]


def test_an_unknown_dialect_is_a_mistake(capsys):
    assert run(["convert", "--to", "volcanoo", "python", "x.py"]) == 2
    assert "did you mean 'volcano'?" in capsys.readouterr().err


def test_a_launch_line_becomes_a_job_file_that_says_the_same():
    before = understand(["torchrun", "--nnodes", "2:4", "--nproc-per-node", "8", "train.py"])
    after = read_back(written(before, "job"), "job")
    assert differences(before.gang, after.gang) == ()
    assert after.job.command == before.job.command
