"""Policy files: what they may say, what is said to those who say something else, and the presets."""

import tomllib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.policy_page import PAGE, page
from tutti.engine.model import DAY, HOUR, MINUTE, SECOND, Data
from tutti.engine.policy import ALL, Order, Policy, Reservation, Term
from tutti.engine.presets import DEFAULT, PRESETS
from tutti.engine.read_policy import BadPolicy, duration, read_policy, spelled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", Policy(), id="an empty file is the default"),
        pytest.param('preset = "easy"', PRESETS["easy"].policy, id="a preset as it is"),
        pytest.param("[reserve]\ndepth = 7", Policy(reserve=Reservation(depth=7)), id="one thing changed"),
        pytest.param("reserve.depth = 7", Policy(reserve=Reservation(depth=7)), id="the same with a dotted key"),
        pytest.param("reserve = { depth = 7 }", Policy(reserve=Reservation(depth=7)), id="the same in one line"),
        pytest.param('reserve.depth = "all"', Policy(reserve=Reservation(depth=ALL)), id="all is a depth"),
        pytest.param('order.terms = ["f1"]', Policy(order=Order(terms=(Term.F1,))), id="words become terms"),
        pytest.param('order.half_life = "2h30m"', Policy(order=Order(half_life=9000 * SECOND)), id="a duration"),
        pytest.param("order.half_life = 90", Policy(order=Order(half_life=90 * SECOND)), id="a duration in seconds"),
        pytest.param("order.half_life = 0", Policy(order=Order(half_life=0)), id="zero where it has a meaning"),
        pytest.param('name = "ours"', Policy(name="ours"), id="a name of its own"),
    ],
)
def test_a_policy_file_is_read(text, expected):
    assert read_policy(text) == expected


def test_what_a_file_does_not_say_stays_as_in_its_preset():
    policy = read_policy('preset = "rigid"\n[reserve]\nmax_wait = "1h"\n')
    rigid = PRESETS["rigid"].policy
    assert policy.reserve == msgspec.structs.replace(rigid.reserve, max_wait=HOUR)
    assert msgspec.structs.replace(policy, reserve=rigid.reserve) == rigid


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            "[order]\nhalf_live = 1",
            "line 2: order.half_live: no such key; did you mean 'half_life'?",
            id="a misspelt key",
        ),
        pytest.param("\nordr = 1", "line 2: ordr: no such key; did you mean 'order'?", id="a misspelt table"),
        pytest.param('prest = "easy"', "did you mean 'preset'?", id="preset misspelt"),
        pytest.param(
            "depth = 4", "line 1: depth: no such key; it belongs under [reserve]", id="a key outside its table"
        ),
        pytest.param("on = true", "it belongs under [grow] or [rotate]", id="a key that two tables have"),
        pytest.param('[order]\npreset = "easy"', "it belongs at the top of the file", id="the preset inside a table"),
        pytest.param("[place]\nqqq = 1", "there are migrate, one_wide_gang_per_node", id="a key like no other"),
        pytest.param('preset = "esay"', "there is no preset 'esay'; did you mean 'easy'?", id="a misspelt preset"),
        pytest.param("preset = 1", "there is no preset 1; there are balanced,", id="a preset that is no text"),
        pytest.param("order = 3", "order: 3 is not a table; write [order]", id="a number for a table"),
        pytest.param("[[order]]\nstrict = true", "line 1: order: ", id="a list of tables"),
        pytest.param('order.terms = "age"', "'age' is not a list; write ['age']", id="a word for a list"),
        pytest.param(
            'order.terms = ["agee"]', "'agee' is not one of its words; did you mean 'age'?", id="a misspelt term"
        ),
        pytest.param('order.terms = ["age", "age"]', "'age' is there twice; name it once", id="a term twice"),
        pytest.param('order.strict = "yes"', "'yes' will not do; write true or false", id="a text for a switch"),
        pytest.param("order.strict = 1", "1 will not do; write true or false", id="a number for a switch"),
        pytest.param("order.measure = 1", "1 will not do; write a text in quotes", id="a number for a name"),
        pytest.param(
            'order.half_life = "soon"',
            "'soon' is not a duration; write a number of seconds",
            id="a duration nobody knows",
        ),
        pytest.param('order.half_life = "1.5h"', "'1.5h' is not a duration", id="a fraction of an hour"),
        pytest.param("order.half_life = 1.5", "1.5 is not a duration", id="a fraction of a second"),
        pytest.param("order.half_life = true", "true is not a duration", id="a switch for a duration"),
        pytest.param(
            "order.half_life = -1",
            "-1 is out of range; write something from '0s' to '36500d'",
            id="a time before it began",
        ),
        pytest.param('order.refresh = "0s"', "write something from '1s' to '36500d'", id="no time at all"),
        pytest.param("order.half_life = 99999999999999999999", "is out of range", id="for ever and a day"),
        pytest.param(
            "reserve.depth = -1",
            "-1 is not a depth; write 'all', or a number from 0",
            id="all, the way the engine says it",
        ),
        pytest.param('reserve.depth = "most"', "'most' is not a depth", id="a depth in other words"),
        pytest.param(
            "reserve.quantile = 0", "0 is out of range; write something from 1 to 100", id="a percentile of none"
        ),
        pytest.param("effort.victims = 1.5", "1.5 will not do; write a whole number", id="one gang and a half"),
        pytest.param("repair.lemon_after = true", "true will not do; write a whole number", id="a switch for a number"),
        pytest.param("a = = 1", "line 1: not TOML", id="not TOML at all"),
        pytest.param("[order]\nstrict = true\nstrict = true", "line 3: not TOML", id="a key twice"),
    ],
)
def test_a_mistake_is_named_with_what_to_write(text, complaint):
    with pytest.raises(BadPolicy) as caught:
        read_policy(text, "site.toml")
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("error: site.toml is not a policy\n")


def test_all_mistakes_are_reported_together_in_the_order_of_the_file():
    with pytest.raises(BadPolicy) as caught:
        read_policy('[reserve]\ndepth = -3\nquantile = 0\n[order]\nstrict = 1\nterms = ["x"]\n')
    assert [(problem.line, problem.where) for problem in caught.value.problems] == [
        (2, "reserve.depth"),
        (3, "reserve.quantile"),
        (5, "order.strict"),
        (6, "order.terms"),
    ]


def tried(text):
    """The policy, or the problems."""
    try:
        return read_policy(text), ()
    except BadPolicy as complaint:
        return None, complaint.problems


@given(st.text(max_size=60))
def test_any_text_is_a_policy_or_a_complaint(text):
    read, problems = tried(text)
    assert (read is None) == bool(problems)


VALUES = ["1", "0", "-1", "true", '"x"', '"all"', '"1h"', "[]", '["age"]', "1.5", "{}", "1e300", "1979-05-27"]
tables = st.sampled_from([field.name for field in msgspec.structs.fields(Policy) if isinstance(field.default, Data)])


@given(st.data())
def test_any_value_for_any_key_is_read_or_complained_about(data):
    table = data.draw(tables)
    key = data.draw(st.sampled_from(getattr(Policy(), table).__struct_fields__))
    value = data.draw(
        st.sampled_from(["1", "0", "-1", "true", '"x"', '"all"', '"1h"', "[]", '["age"]', "1.5", "{}", "1e300"])
    )
    policy, problems = tried(f"[{table}]\n{key} = {value}")
    if policy is None:
        assert [problem.line for problem in problems] == [2]
    else:
        assert msgspec.convert(msgspec.to_builtins(policy), Policy) == policy, "within the bounds of its types"


# -- durations


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(90, 90 * SECOND, id="seconds"),
        pytest.param("30m", 30 * MINUTE, id="minutes"),
        pytest.param("2h30m", 2 * HOUR + 30 * MINUTE, id="hours and minutes"),
        pytest.param("2h 30m", 2 * HOUR + 30 * MINUTE, id="with a space"),
        pytest.param("1w", 7 * DAY, id="a week"),
    ],
)
def test_a_duration_is_read(written, expected):
    assert duration(written) == expected


@pytest.mark.parametrize("written", ["", "5", "h", "5 parsecs", "-5s", "1h-5m", None, True, 1.0, "٣s", [5]])
def test_anything_else_is_not_a_duration(written):
    with pytest.raises(ValueError, match="is not a duration"):
        duration(written)


@given(st.integers(0, 10**9))
def test_a_duration_is_written_as_it_is_read(seconds):
    assert duration(spelled(seconds * SECOND)) == seconds * SECOND


# -- presets


def test_the_default_is_balanced_and_is_what_a_policy_is_without_more_words():
    assert PRESETS[DEFAULT].policy == Policy()
    assert DEFAULT == "balanced" == Policy().name


def test_the_presets_are_those_that_were_announced():
    assert list(PRESETS) == [
        *("fcfs", "easy", "conservative", "fair", "rigid", "balanced", "throughput"),
        *("easy-sjbf", "sjf", "wfp3", "uni", "f1", "las"),
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_its_trade_off_in_one_line_and_is_within_its_own_bounds(name):
    preset = PRESETS[name]
    assert preset.about.endswith(".")
    assert "\n" not in preset.about
    assert msgspec.convert(msgspec.to_builtins(preset.policy), Policy) == preset.policy


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        pytest.param("fcfs", lambda p: p.order.strict and not p.reserve.depth, id="fcfs: nobody passes"),
        pytest.param("easy", lambda p: p.reserve.depth == 1, id="easy: one promise"),
        pytest.param("conservative", lambda p: p.reserve.depth == ALL, id="conservative: a promise for all"),
        pytest.param("fair", lambda p: p.order.fair_share and p.reclaim.quota, id="fair: shares and guarantees"),
        pytest.param("rigid", lambda p: not (p.grow.on or p.reclaim.priority or p.rotate.on), id="rigid: left alone"),
        pytest.param("throughput", lambda p: p.grow.cool_down < Policy().grow.cool_down, id="throughput: eager"),
        pytest.param("balanced", lambda p: p.reserve.max_wait and p.reclaim.surplus, id="balanced: bounded waits"),
    ],
)
def test_a_preset_does_what_its_name_says(name, claim):
    assert claim(PRESETS[name].policy)


# -- the page


def test_the_page_is_made_from_the_types():
    assert PAGE.read_text() == page(), "run: python -m tests.engine.policy_page"


def test_the_example_on_the_page_is_a_policy():
    example = PAGE.read_text().split("```toml\n")[1].split("```")[0]
    assert read_policy(example).reserve.depth == ALL
    assert tomllib.loads(example)["preset"] == "easy"
