"""Promise 6, the other half: apply a remedy, or let happen what is waited for, change nothing else, and it starts."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.promises.outcomes import lived
from tests.worlds import NONSENSE, PLAIN, scenes
from tutti.engine.decide import decide
from tutti.engine.model import Token
from tutti.engine.plan import Resume, Start
from tutti.engine.remedy import remedies
from tutti.engine.trial import after

BUDGET = 25


def starts(view, now, policy, name):
    plan = decide(view, now, policy)
    return any(isinstance(action, Start | Resume) and action.gang == name for action in plan.actions)


@given(st.one_of(scenes(), lived(), scenes(PLAIN), scenes(NONSENSE)), st.integers(0, 7))
def test_every_remedy_starts_the_gang(scene, which):
    view = scene.view()
    names = sorted(decide(view, scene.now, scene.policy).answers)
    assume(names)
    name = names[which % len(names)]

    for remedy in remedies(view, scene.now, scene.policy, name, BUDGET):
        assert remedy.at >= scene.now
        assert remedy.short
        assert starts(after(view, remedy.steps), remedy.at, scene.policy, name), remedy


@given(scenes(PLAIN), st.integers(0, 7))
def test_a_gang_that_could_run_is_told_what_would_start_it(scene, which):
    view = scene.view()
    answers = decide(view, scene.now, scene.policy).answers
    names = sorted(name for name in answers if answers[name].token not in {Token.INVALID, Token.NEVER_FITS})
    assume(names)
    name = names[which % len(names)]

    assert remedies(view, scene.now, scene.policy, name, budget=60, most=1), answers[name]
