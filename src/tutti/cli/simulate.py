"""`tutti simulate`: a scene or a trace, played through the real engine in virtual time."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from tutti.cli.interrupt import INTERRUPTED
from tutti.errors import Misused

if TYPE_CHECKING:
    from tutti.engine.policy import Policy
    from tutti.sim.experiment import Case, Options, Outcome
    from tutti.sim.generate import Load
    from tutti.sim.traces.log import Bad, Log

COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow")
MOST_LISTED = 10
ELSEWHERE = "--out with a folder of your own"
DEFAULT_POLICIES = ("easy", "balanced")
JOB_POLICIES = ("balanced",)
OF_TRACES = {
    "load": "--load",
    "estimates": "--estimates",
    "faults": "--faults",
    "seeds": "--seeds",
    "warm_up": "--warm-up",
    "jobs": "--jobs",
    "fit": "--fit",
    "protocol": "--protocol",
    "backfill": "--backfill",
}
"""Options that change how a trace is played, and nothing else."""
JOB_FILES = (".toml", ".yaml", ".yml", ".json", ".sbatch", ".slurm", ".pbs", ".lsf", ".bsub", ".flux", ".sh")


@click.command()
@click.argument("what", required=False)
@click.option("--scenes", is_flag=True, help="List the scenes that ship with Tutti.")
@click.option("--cluster", default="", metavar="SPEC|FILE", help="128x8, 16x4:h100,8x8:a100, or a file.")
@click.option("--policy", "policies", multiple=True, metavar="NAME|FILE", help="A policy; give several to compare.")
@click.option("--load", type=float, default=0.0, metavar="X", help="Move arrivals so that this load is offered.")
@click.option("--estimates", default="", metavar="SOURCE", help="declared, exact, history, none or scaled:F.")
@click.option("--faults", default="", metavar="FILE", help="What breaks, and when.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of everything that is drawn.")
@click.option("--seeds", type=click.IntRange(1, 100), default=1, metavar="N", help="Play N draws; say how sure it is.")
@click.option("--warm-up", type=click.FloatRange(0, 0.9), default=0.0, metavar="PART", help="Part not measured: 0.1.")
@click.option("--jobs", type=click.IntRange(0), default=0, metavar="N", help="Only the first N jobs of the trace.")
@click.option("--fit", is_flag=True, help="Print a [generate] file that is like the trace.")
@click.option("--protocol", type=click.Choice(["rlscheduler", "pyss"]), help="Play by the rules of a published study.")
@click.option("--backfill", type=click.Choice(["none", "easy"]), default="none", help="With --protocol rlscheduler.")
@click.option("--skip-bad", is_flag=True, help="Leave out entries that cannot be used, and list them.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the report into this folder.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the results.")
def simulate(what: str | None, scenes: bool, output: str, policies: tuple[str, ...], **rest: object) -> None:
    """Play a scene, a trace or a job in virtual time.

    A job is what you have: a manifest, a batch script, a job file.
    """
    check_out(rest["out"])
    if scenes:
        list_scenes(output)
    elif what is None:
        raise Misused("nothing to simulate", hint="tutti simulate deadlock, or tutti simulate --scenes")
    elif is_job(what):
        refuse(rest, {**OF_TRACES, "out": "--out"}, "a job")
        play_job(Path(what), str(rest["cluster"]), policies or JOB_POLICIES, output)
    elif is_scene(what):
        refuse(rest, {"cluster": "--cluster", **OF_TRACES}, "a scene, which brings its own cluster and faults")
        play_scene(what, policies, output, rest["out"])
    elif rest["fit"]:
        print_fit(Path(what), rest)
    elif rest["protocol"]:
        play_protocol(Path(what), str(rest["protocol"]), policies, rest, output)
    else:
        refuse(rest, {"backfill": "--backfill"}, "a trace without --protocol rlscheduler")
        play_trace(Path(what), policies or DEFAULT_POLICIES, rest, output)


def check_out(folder: object) -> None:
    """A report that cannot be written is told of before anything is played."""
    if not isinstance(folder, Path):
        return
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise Misused(f"cannot write into {folder}: {there} is not a folder that you may write to", hint=ELSEWHERE)


def refuse(rest: dict[str, object], options: dict[str, str], to: str) -> None:
    """An option that would be without effect is an error, not a silence."""
    told = [spelled for name, spelled in options.items() if rest[name] and rest[name] != USUAL.get(name)]
    if told:
        raise Misused(f"{', '.join(told)} cannot be applied to {to}", hint="leave it out, or give a trace")


USUAL = {"seeds": 1, "backfill": "none"}
"""Values that options have when nobody gives them, where these are not nothing."""


def is_scene(what: str) -> bool:
    """Whether a word means a scene rather than a trace: a bare name that is no file, or a scene file."""
    path = Path(what)
    if path.suffix == ".toml" and path.is_file():
        return "[generate]" not in path.read_text(errors="replace")
    return path.suffix in {"", ".toml"} and path.parent == Path() and not path.exists()


def is_job(what: str) -> bool:
    """Whether a word names the file of a job."""
    if not what.endswith(JOB_FILES) or not Path(what).is_file():
        return False
    from tutti.sim import brought  # noqa: PLC0415 - numpy and the engine are not needed for --help

    return brought.is_job(Path(what))


def play_job(path: Path, cluster: str, policies: tuple[str, ...], output: str) -> None:
    """Play the gangs of a job's file on a cluster that is otherwise empty."""
    from tutti.sim.brought import never_started, scene_of  # noqa: PLC0415 - numpy and the engine, see above
    from tutti.sim.play import play  # noqa: PLC0415
    from tutti.sim.tell import as_results, told  # noqa: PLC0415

    scene = scene_of(path, cluster, policies)
    variants = play(scene)
    reasons = {played.name: never_started(played) for played in variants}
    if output == "json":
        click.echo(json.dumps({"schema": "tutti/v1", "job": str(path), "results": as_results(variants)}))
        return
    width = min(shutil.get_terminal_size((100, 30)).columns, 110)
    for line in told(scene, variants, width):
        click.echo(coloured(line) if sys.stdout.isatty() else line)
    for lines in reasons.values():
        click.echo("\n".join(("", *lines)) if lines else "", nl=bool(lines))


def list_scenes(output: str) -> None:
    """Name and title of each scene."""
    from tutti.sim.scenes import find_scene, scene_names  # noqa: PLC0415 - only when asked for

    found = [(name, find_scene(name)) for name in scene_names()]
    if output == "json":
        rows = [{"name": name, "title": scene.title, "moral": scene.moral} for name, scene in found]
        click.echo(json.dumps({"schema": "tutti/v1", "scenes": rows}))
        return
    for name, scene in found:
        click.echo(f"{name:<14} {scene.title.partition(': ')[2]}")


def play_scene(name: str, policies: tuple[str, ...], output: str, out: object = None) -> None:
    """Tell a scene, or print its results; with policies, under these instead of its own."""
    from tutti.sim.play import as_case, play  # noqa: PLC0415 - numpy and the engine are not needed for --help
    from tutti.sim.scenes import find_scene, read_scene, under  # noqa: PLC0415
    from tutti.sim.tell import as_results, told  # noqa: PLC0415

    scene = read_scene(Path(name)) if name.endswith(".toml") else find_scene(name)
    scene = under(scene, policies) if policies else scene
    variants = play(scene)
    if out:
        write(*as_case(scene, variants), Path(str(out)))
    if output == "json":
        click.echo(json.dumps({"schema": "tutti/v1", "scene": scene.name, "results": as_results(variants)}))
        return
    width = min(shutil.get_terminal_size((100, 30)).columns, 110)
    for line in told(scene, variants, width):
        click.echo(coloured(line) if sys.stdout.isatty() else line)


def coloured(line: str) -> str:
    """The letters of a picture's row in the colour of their gang; other lines stay as they are."""
    head, _, cells = line.lstrip().partition(" ")
    if "." not in head or not cells or set(cells) - set("·-+") - set(map(chr, range(48, 123))):
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return indent + head + " " + "".join(_cell(letter) for letter in cells)


def _cell(letter: str) -> str:
    if not letter.isalnum():
        return click.style(letter, dim=True)
    return click.style(letter, fg=COLOURS[ord(letter.upper()) % len(COLOURS)], dim=letter.islower())


def play_protocol(path: Path, protocol: str, policies: tuple[str, ...], rest: dict[str, object], output: str) -> None:
    """Play a log by the rules of a published study."""
    others = {name: spelled for name, spelled in OF_TRACES.items() if name not in {"estimates", "protocol", "backfill"}}
    refuse(rest, {**others, "out": "--out"}, f"--protocol {protocol}")
    from tutti.sim.protocols.run import Rules, played  # noqa: PLC0415

    rules = Rules(
        protocol,
        backfill=rest["backfill"] == "easy",
        cluster=str(rest["cluster"]),
        estimates=str(rest["estimates"]),
        skip_bad=bool(rest["skip_bad"]),
    )
    bar = Bar()
    found = played(path, policies or ("fcfs",), rules, bar.tell)
    bar.clear()
    rows = [{field: getattr(result, field) for field in result.__struct_fields__} for result in found.results]
    if output == "json":
        more = {"left_out": as_entries(found.left_out), "interrupted": found.interrupted, "notes": found.notes}
        click.echo(json.dumps({"schema": "tutti/v1", "protocol": protocol, "results": rows, **more}))
        end_as(found.interrupted)
        return
    from tutti.views.table import table  # noqa: PLC0415

    names = list(rows[0])
    lines = [names, *([_plain(row[name]) for name in names] for row in rows)]
    click.echo("\n".join(table([list(column) for column in zip(*lines, strict=True)])))
    list_left_out(found.left_out)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    if found.interrupted:
        click.echo("interrupted: the policies that had been played by then", err=True)
    end_as(found.interrupted)


def end_as(interrupted: bool) -> None:
    """What was interrupted says so to scripts too, whatever it could still print."""
    if interrupted:
        click.get_current_context().exit(INTERRUPTED)


def as_entries(left_out: list["Bad"]) -> list[dict[str, object]]:
    """Entries that were not played, for machines."""
    return [{"line": bad.line, "what": bad.what} for bad in left_out]


def list_left_out(left_out: list["Bad"]) -> None:
    """Count and list on the error stream what was not played."""
    if left_out:
        click.echo(f"left out: {len(left_out):,} {'entry' if len(left_out) == 1 else 'entries'}", err=True)
    for bad in left_out[:MOST_LISTED]:
        click.echo(f"  {bad}", err=True)
    if len(left_out) > MOST_LISTED:
        click.echo(f"  and {len(left_out) - MOST_LISTED:,} more; -o json lists them all", err=True)


def _plain(value: object) -> str:
    return f"{value:,.4f}" if isinstance(value, float) else str(value)


def print_fit(path: Path, rest: dict[str, object]) -> None:
    """Print the load to generate that is like a trace, and say how like it is."""
    from tutti.sim.experiment import prepare  # noqa: PLC0415
    from tutti.sim.fit import as_text, closeness, fitted  # noqa: PLC0415
    from tutti.sim.traces.read import read_trace  # noqa: PLC0415
    from tutti.views.table import table  # noqa: PLC0415

    case = prepare(read_trace(path, bool(rest["skip_bad"])), options_of(rest))
    load = fitted(case)
    click.echo(as_text(load, case.log.source), nl=False)
    rows = [(what, f"{theirs:,.1f}", f"{ours:,.1f}") for what, theirs, ours in closeness(case, load)]
    click.echo("\n".join(table([("", "trace", "drawn"), *rows])), err=True)


def play_trace(path: Path, policies: tuple[str, ...], rest: dict[str, object], output: str) -> None:
    """Play a trace under each policy and print them side by side."""
    from tutti.sim.experiment import prepare  # noqa: PLC0415
    from tutti.sim.generate import load_of  # noqa: PLC0415
    from tutti.sim.policies import find_policies  # noqa: PLC0415
    from tutti.sim.seeds import drawn_anew  # noqa: PLC0415
    from tutti.sim.traces.read import read_trace  # noqa: PLC0415

    chosen = find_policies(policies)
    options = options_of(rest)
    load = load_of(path, options.seed)
    if load is not None and not options.load:
        # A few long and wide jobs make the load of a short draw: what was asked for is what is offered.
        options = msgspec.structs.replace(options, load=load.load)
    log = drawn_anew(read_trace(path, options.skip_bad), load, 0)
    seeds = int(str(rest["seeds"]))
    case = prepare(log, options)
    again = [partial(draw_again, log, load, options, draw) for draw in range(1, seeds)]
    found = played([lambda: case, *again], chosen)
    show(case, found[0], output, found if seeds > 1 else [])
    if rest["out"]:
        write(case, found[0], Path(str(rest["out"])))
    end_as(any(outcome.interrupted for draw in found for outcome in draw))


def draw_again(log: "Log", load: "Load | None", options: "Options", draw: int) -> "Case":
    """The same kind of trace once more, made when it is played."""
    from tutti.sim.experiment import prepare  # noqa: PLC0415
    from tutti.sim.seeds import drawn_anew  # noqa: PLC0415

    options = msgspec.structs.replace(options, seed=options.seed + draw, keep_nodes=False)
    return prepare(drawn_anew(log, load, draw), options)


def played(cases: list[Callable[[], "Case"]], policies: list["Policy"]) -> list[list["Outcome"]]:
    """Each case under each policy, as many at once as there are cores, until somebody interrupts it."""
    from tutti.sim.abreast import Play, play_all  # noqa: PLC0415

    bar = Bar()
    found = play_all([Play(case, policy) for case in cases for policy in policies], bar.tell)
    bar.clear()
    return [found[at : at + len(policies)] for at in range(0, len(found), len(policies))]


def options_of(rest: dict[str, object]) -> "Options":
    """The options of the command line as the experiment takes them."""
    from tutti.sim.experiment import Options  # noqa: PLC0415
    from tutti.sim.intake import read_estimates  # noqa: PLC0415

    load = rest["load"]
    assert isinstance(load, float)
    if not 0 <= load <= 100:
        raise Misused(f"--load {load:g} is no load", hint="0.9 is a cluster that is asked for nine tenths of its time")
    return Options(
        cluster=str(rest["cluster"]),
        load=load,
        estimates=read_estimates(str(rest["estimates"])) if rest["estimates"] else None,
        faults=str(rest["faults"]),
        seed=int(str(rest["seed"])),
        skip_bad=bool(rest["skip_bad"]),
        keep_nodes=rest["out"] is not None,
        jobs=int(str(rest["jobs"])),
        warm_up=float(str(rest["warm_up"])),
    )


def show(case: "Case", found: list["Outcome"], output: str, draws: list[list["Outcome"]]) -> None:
    """Print what came of it; what was left out and assumed goes to the error stream."""
    from tutti.sim.results import side_by_side, with_intervals  # noqa: PLC0415

    best = case.bounds()
    if output == "json":
        click.echo(json.dumps(as_json(case, found, draws)))
        return
    head = f"{case.log.source} ({case.log.kind}): {len(case.log.rows):,} jobs on {case.devices:,} devices"
    click.echo(f"{head}, offered load {case.offered:.2f}, estimates {case.estimates}\n")
    click.echo("\n".join(side_by_side(found, best)))
    if draws:
        click.echo(f"\nover {len(draws)} seeds, 95 % intervals of the mean\n" + "\n".join(with_intervals(draws)))
    for note in (*case.log.notes, case.fidelity):
        click.echo(f"note: {note}", err=True)
    list_left_out(case.log.left_out)
    for outcome in found:
        for notice in outcome.troubles[:3]:
            click.echo(f"trouble under {outcome.metrics.policy}: {notice.sentence}", err=True)
    if any(outcome.interrupted for outcome in found):
        click.echo("interrupted: the figures are of what had ended by then", err=True)


def as_json(case: "Case", found: list["Outcome"], draws: list[list["Outcome"]]) -> dict[str, object]:
    """The results for machines."""
    from tutti.sim.seeds import intervals  # noqa: PLC0415

    best = case.bounds()
    sure = [intervals([draw[at] for draw in draws if len(draw) > at]) for at in range(len(found))] if draws else []
    return {
        "schema": "tutti/v1",
        "trace": case.log.source,
        "format": case.log.kind,
        "devices": case.devices,
        "offered_load": case.offered,
        "estimates": str(case.estimates),
        "fidelity": {"level": case.fidelity.level, "says": case.fidelity.says},
        "results": [
            {**outcome.metrics.as_json(), "interrupted": outcome.interrupted, "troubles": len(outcome.troubles)}
            for outcome in found
        ],
        "seeds": max(len(draws), 1),
        "intervals": [
            {
                "policy": outcome.metrics.policy,
                **{name: {"mean": each.mean, "half": each.half} for name, each in sheet.items()},
            }
            for outcome, sheet in zip(found, sure, strict=False)
        ],
        "bound": {field: getattr(best, field) for field in best.__struct_fields__},
        "notes": case.log.notes,
        "left_out": as_entries(case.log.left_out),
    }


def write(case: "Case", found: list["Outcome"], folder: Path) -> None:
    """Write the report."""
    from tutti.sim.report.write import write_report  # noqa: PLC0415

    try:
        written = write_report(case, found, folder)
    except OSError as problem:
        raise Misused(f"cannot write into {folder}: {problem.strerror or problem}", hint=ELSEWHERE) from problem
    for path in written:
        click.echo(f"wrote {path}", err=True)


class Bar:
    """A line on the error stream that says how far it is; silent where nobody looks."""

    def __init__(self) -> None:
        self.shown = False
        self.begun: dict[str, tuple[float, int]] = {}
        """When a policy was first heard of, and how many jobs were over by then."""
        self.far: dict[str, tuple[int, int]] = {}
        """How many jobs are over of how many, under each policy that is being played."""
        self.last = 0.0

    def tell(self, policy: str, done: int, total: int) -> None:
        """So many of so many are over."""
        now = time.monotonic()
        if done < self.far.get(policy, (0, 0))[0]:
            del self.begun[policy]
        self.begun.setdefault(policy, (now, done))
        self.far[policy] = done, total
        if not sys.stderr.isatty() or now - self.last < 0.2:
            return
        self.last, self.shown = now, True
        click.echo(f"\r{self.line(now)}\x1b[K", err=True, nl=False)

    def line(self, now: float) -> str:
        """Everybody who plays now: who, how far together, how fast, how long yet."""
        far = {policy: each for policy, each in self.far.items() if each[0] < each[1]}
        done, total = (sum(each) for each in zip(*far.values(), strict=True)) if far else (1, 1)
        rate, left = 0.0, 0.0
        for policy, (mine, all_of_them) in far.items():
            since, before = self.begun[policy]
            pace = (mine - before) / (now - since) if now > since else 0.0
            rate += pace
            left = max(left, (all_of_them - mine) / pace) if pace else left
        filled = 24 * done // max(total, 1)
        gauge = "#" * filled + "." * (24 - filled)
        speed = f"  {rate:,.0f} jobs/s  {left:,.0f} s left" if rate else ""
        return f"{', '.join(far):<14} [{gauge}] {done:,}/{total:,}{speed}"

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            click.echo("\r\x1b[K", err=True, nl=False)
