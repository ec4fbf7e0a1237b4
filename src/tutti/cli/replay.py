"""`tutti replay`: the decision about a recorded view, made again."""

import json

import click

from tutti.cli.output import output_option, show
from tutti.errors import Refused


@click.command()
@click.argument("file")
@output_option
def replay(file: str, output: str) -> None:
    """Make the decision about a recorded view again."""
    from tutti.cli.recording import read  # noqa: PLC0415 - numpy and the engine are not needed for --help
    from tutti.engine.decide import decide  # noqa: PLC0415
    from tutti.engine.record import encode_plan  # noqa: PLC0415
    from tutti.views.plan import plan_lines  # noqa: PLC0415

    recorded = read(file)
    plan = decide(recorded.view, recorded.now, recorded.policy)
    data = encode_plan(plan)
    same = None if recorded.plan is None else data == recorded.plan
    whole = {**json.loads(data), **({} if same is None else {"identical": same})}
    show(whole, output, lambda: plan_lines(recorded.view, plan), sorted(by_gang(whole["plan"])))
    if same is not None:
        say(same, data, recorded.plan or b"")


def say(same: bool, data: bytes, kept: bytes) -> None:
    """Whether the plan is the recorded one; where they differ, that is an error."""
    if not same:
        names = ", ".join(different(json.loads(data)["plan"], json.loads(kept)["plan"])) or "the rest of the plan"
        raise Refused("this is not the plan that was recorded.", where=f"different: {names}", hint="tutti version")
    click.echo("identical to the recorded plan, to the byte", err=True)


def different(mine: dict[str, object], kept: dict[str, object]) -> list[str]:
    """The gangs that two plans do not agree about."""
    sides = [by_gang(plan) for plan in (mine, kept)]
    return sorted(name for name in {*sides[0], *sides[1]} if sides[0].get(name) != sides[1].get(name))


def by_gang(plan: dict[str, object]) -> dict[str, list[object]]:
    """What a plan says about each gang."""
    said: dict[str, list[object]] = {}
    actions, answers = plan.get("actions"), plan.get("answers")
    for action in actions if isinstance(actions, list) else []:
        said.setdefault(str(action.get("gang")), []).append(action)
    for name, reason in (answers if isinstance(answers, dict) else {}).items():
        said.setdefault(name, []).append(reason)
    return said
