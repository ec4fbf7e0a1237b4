"""`python -m tutti.train`: run an elastic job on one machine, with torchrun's flags and variables."""

from __future__ import annotations

import argparse
import os
import secrets
import select
import shutil
import signal
import sys
import time
from pathlib import Path

from tutti.train import bill, status
from tutti.train.agent.agent import LOOK_S, Agent
from tutti.train.agent.bill import Bill, add_state
from tutti.train.agent.cabinet import rehearsed, shelves_in
from tutti.train.agent.exits import Exit
from tutti.train.agent.folder import Folder, Taken, folder_of
from tutti.train.agent.hang import Hangs
from tutti.train.agent.journal import Held
from tutti.train.agent.roster import Roster
from tutti.train.agent.shelf import free_bytes, megabytes
from tutti.train.agent.sizes import SizeRule
from tutti.train.agent.story import Story, to_stderr
from tutti.train.dialogue import Dialogue
from tutti.train.hands import CannotStart, Command, Hands, Machine, may_join, read_command
from tutti.train.machines import Deputy, Machines, gather, machines_of, meet_at
from tutti.train.tiers import Tier

USAGE = 2
OWN_FAILURE = 125
IGNORED = (
    "node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-conf", "monitor-interval", "master-addr", "master-port",
    "local-addr",
)  # fmt: skip
"""Some of it only counts on several machines."""
UNDONE = (
    "start-method", "log-dir", "redirects", "tee", "local-ranks-filter", "logs-specs", "event-log-handler",
    "duplicate-stdout-filters", "duplicate-stderr-filters", "signals-to-handle", "numa-binding", "shutdown-timeout",
)  # fmt: skip
SHORT = {"redirects": "-r", "tee": "-t"}
LEAST = {
    "min": 1, "max": 0, "slots": 0, "standby": 0, "max_restarts": 0, "snapshot_every": 0, "disk_every": 0,
    "durable_every": 0, "grace": 0, "hang_after": 0, "domains": 1, "wait": 0,
}  # fmt: skip
MOST_MEMBERS = 256
NOT_BY_VARIABLE = ("help", "command", "quiet", "story", "min", "max")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tutti.train", description="Run an elastic training job on this machine."
    )
    parser.add_argument(
        "--workers", "--nproc-per-node", "--nproc_per_node", dest="workers", default="1", help="members, or MIN:MAX"
    )
    parser.add_argument("--min", type=int, default=1, help="least members that may compute (1)")
    parser.add_argument("--max", type=int, default=0, help="most members (as many as --workers)")
    parser.add_argument("--sizes", default="", help="legal sizes, as 1,2,4 (all between --min and --max)")
    parser.add_argument(
        "--max-restarts", "--max_restarts", type=int, default=3, help="replacements for lost members (3)"
    )
    parser.add_argument("--standby", type=int, default=0, help="members kept warm beside the ones that compute (0)")
    parser.add_argument(
        "--run-id",
        "--rdzv-id",
        "--rdzv_id",
        dest="run",
        default="",
        help="name of the run; the same name goes on from its memory",
    )
    add_state(parser)
    parser.add_argument(
        "--snapshot-every", type=int, default=0, help="steps between snapshots (0: chosen from cost and failures)"
    )
    parser.add_argument("--disk", type=Path, help="folder on this machine's disk, for when memory is gone")
    parser.add_argument("--disk-every", type=float, default=60.0, help="seconds between its snapshots (60)")
    parser.add_argument("--durable", type=Path, help="folder for checkpoints that outlive this machine's memory")
    parser.add_argument("--durable-every", type=float, default=300.0, help="seconds between them (300)")
    parser.add_argument(
        "--hang-after",
        type=float,
        default=0.0,
        help="seconds after which a member that all others wait for is replaced (0: learned, and only if it is idle)",
    )
    parser.add_argument(
        "--grace", type=float, default=30.0, help="seconds to save and leave after a first SIGTERM (30)"
    )
    parser.add_argument(
        "--nnodes",
        default="1",
        help="machines that take part, or MIN:MAX; the same line on each, with --node-rank and --master-addr (1)",
    )
    parser.add_argument("--wait", type=float, default=600.0, help="seconds to wait for the other machines (600)")
    parser.add_argument("--no-attach", action="store_true", help="leave programs that do not join exactly as they are")
    parser.add_argument("--story", type=Path, help="write the run's events to this file, one JSON object per line")
    parser.add_argument("--quiet", action="store_true", help="say nothing on the error stream")
    parser.add_argument("-m", "--module", action="store_true", help="the command is a Python module")
    add_torchrun_words(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="python loop.py ...")
    return parser


def status_arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tutti train status", description="How the runs on this machine are.")
    parser.add_argument("names", nargs="*", help="runs to show (all)")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="text or json (text)")
    return parser


def show_status(words: list[str]) -> int:
    asked = status_arguments().parse_args(words)
    return status.show(asked.names, asked.output == "json")


def add_torchrun_words(parser: argparse.ArgumentParser) -> None:
    """What torchrun also takes: some of it changes nothing on one machine, some is not done, which is said."""
    parser.add_argument("--role", default="default", help=argparse.SUPPRESS)
    for name in (*IGNORED, *UNDONE):
        spellings = [*filter(None, [SHORT.get(name)]), *spelt(name)]
        parser.add_argument(*spellings, dest=name.replace("-", "_"), help=argparse.SUPPRESS)
    for name in ("standalone", "no-python", "run-path", "virtual-local-rank"):
        parser.add_argument(*spelt(name), dest=name.replace("-", "_"), action="store_true", help=argparse.SUPPRESS)


def spelt(name: str) -> list[str]:
    """Both ways in which torchrun writes an option."""
    return list(dict.fromkeys((f"--{name}", f"--{name.replace('-', '_')}")))


def tell_undone(options: argparse.Namespace) -> None:
    """Say which of torchrun's options were given and do nothing here."""
    given = [f"--{name}" for name in UNDONE if getattr(options, name.replace("-", "_")) is not None]
    if given and not options.quiet:
        sys.stderr.write(
            f"tutti train: not done here, and ignored: {', '.join(given)} (members write to this stream)\n"
        )


def from_environment(parser: argparse.ArgumentParser) -> None:
    """Each option of torchrun may come from a variable as well: `PET_NPROC_PER_NODE=4`."""
    found = {}
    for action in parser._actions:
        for spelling in action.option_strings:
            text = os.environ.get(f"PET_{spelling.lstrip('-').replace('-', '_').upper()}")
            if text is not None and spelling.startswith("--") and action.dest not in NOT_BY_VARIABLE:
                found[action.dest] = text not in ("", "0", "false") if action.nargs == 0 else text
    parser.set_defaults(**found)


def main(argv: list[str] | None = None) -> int:
    """Run a job; the exit code is the job's, or 125 for a failure of ours."""
    words = sys.argv[1:] if argv is None else argv
    other = {"status": show_status, "bill": bill.show, "clean": status.clean}.get(words[0] if words else "")
    if other:
        return other(words[1:])
    parser = arguments()
    from_environment(parser)
    options = parser.parse_args(words)
    try:
        machines = machines_of(options)
        rule, want = sizes(options, machines)
        words = command_words(options)
        check_command(read_command(words))
        check_tiers(options)
        check_story(options.story)
        folder = folder_of(run_name(options, machines))
        tell_undone(options)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return USAGE
    try:
        return run(options, folder, words, Roster(rule, want, options.max_restarts, options.standby), machines)
    except (CannotStart, Held, Taken, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return OWN_FAILURE
    except Stopped as stopped:
        sys.stderr.write("tutti train: it was ended before it had begun\n")
        return 128 + stopped.number


class Stopped(Exception):
    """A signal came before there was anybody who could save anything."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_name(options: argparse.Namespace, machines: Machines) -> str:
    """One that was given, or one that nobody else has; on several machines all must find the same."""
    if not machines.are_many:
        return options.run or f"r-{secrets.token_hex(4)}"
    name = options.run or f"r-{machines.port}"
    return f"{name}.{machines.name}" if machines.rank else name


def run(options: argparse.Namespace, folder: Folder, words: list[str], roster: Roster, machines: Machines) -> int:
    """Own the folder until the job ends, and leave none that holds nothing."""
    try:
        was_here = folder.take()
    except OSError as error:
        raise CannotStart(
            f"{folder.path}: {error.strerror or error}; TUTTI_TRAIN_HOME may name another folder"
        ) from error
    is_ours = True
    try:
        domains = max(options.domains, machines.count)
        check_memory(folder, Bill(options.state, roster.want, options.slots, domains, options.sharded), machines)
        return attend(options, folder, words, roster, was_here, machines)
    except Held:
        is_ours = False
        raise
    finally:
        if is_ours and not is_filled(folder):
            folder.remove()


def attend(
    options: argparse.Namespace, folder: Folder, words: list[str], roster: Roster, was_here: bool, machines: Machines
) -> int:
    """Start the members, and stay until the job ends."""
    os.environ.update(TUTTI_TRAIN_SLOTS=str(options.slots), TUTTI_TRAIN_EVERY=str(options.snapshot_every))
    os.environ["TUTTI_TRAIN_ATTACH"] = str(int(not options.no_attach))
    os.environ.update(ROLE_NAME=options.role, TORCHELASTIC_MAX_RESTARTS=str(options.max_restarts))
    tiers = tiers_of(options)
    os.environ["TUTTI_TRAIN_TIERS"] = os.pathsep.join(f"{name}={path}" for name, (path, _) in tiers.items())
    os.environ["TUTTI_TRAIN_FIRST"] = str(folder.first_size(roster.want))
    story = to_stderr(options.story, options.quiet)
    if was_here:
        snapshots = "the snapshots that are in memory" if is_filled(folder) else "nothing in memory"
        story.tell("adopted", f"run {folder.path.name} goes on with {snapshots}", run=folder.path.name)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if machines.are_many:
        meet_at(machines)
    hands = Hands(read_command(words), folder, options.run or folder.path.name)
    hands.tell = lambda text: story.tell("renewed", text)
    try:
        if machines.rank:
            return serve(options, folder, hands, story, machines, room_of(roster, machines))
        roster.may_join = may_join(read_command(words))
        roster.may_grow = machines.are_many or "TUTTI_CHANNEL" in os.environ
        return decide(options, folder, hands, story, machines, roster)
    finally:
        hands.close()
        story.close()


def room_of(roster: Roster, machines: Machines) -> int:
    """Members that each machine has room for."""
    return -(-(roster.rule.most + roster.spares) // machines.count)


def decide(
    options: argparse.Namespace, folder: Folder, hands: Hands, story: Story, machines: Machines, roster: Roster
) -> int:
    """On the machine that decides, which mostly is the only one."""
    posts = gather(machines, folder.path.name, options.wait, story) if machines.are_many else None
    hands.machine = Machine(0, machines.count, machines.host)
    address = hands.store()
    story.tell("store", f"groups meet at {address}", pid=hands.store_watch().pid)
    agent = Agent(folder, roster, hands, story, (machines.name,) if posts else rehearsed(options.domains))
    agent.hangs = Hangs(options.hang_after)
    tiers = tiers_of(options).items()
    kept = {name: Tier(folder, path, every, story, dict(os.environ)) for name, (path, every) in tiers}
    dialogue = Dialogue(agent, options.grace, story, kept)
    try:
        if posts:
            agent.reach_out(posts, room_of(roster, machines))
        return watch_over(agent, dialogue)
    finally:
        agent.close()
        if posts:
            if agent.code is not None:
                posts.say_all({"say": "end", "code": agent.code, "saved": bool(dialogue.saved_in)})
            posts.close()
        leave_folder(folder, agent.code, bool(dialogue.saved_in), bool(options.run))


def serve(
    options: argparse.Namespace, folder: Folder, hands: Hands, story: Story, machines: Machines, room: int
) -> int:
    """On another machine: until the run has ended, or the first one is gone for good."""
    run = options.run or f"r-{machines.port}"
    end = Deputy(machines, folder, run, room, story).serve(hands, options.wait, options.grace)
    is_over = end.code in (Exit.FINISHED, Exit.RELEASED)
    leave_folder(folder, Exit.FINISHED if is_over else end.code, end.is_saved, bool(options.run), run)
    return OWN_FAILURE if end.code is None else end.code


def stop(number: int, _frame: object) -> None:
    raise Stopped(number)


def is_filled(folder: Folder) -> bool:
    """Whether anything is kept in a run's folder."""
    return any(shelf.entries() for shelf in shelves_in(folder.slots))


def check_memory(folder: Folder, bill: Bill, machines: Machines) -> None:
    """Refuse a state whose snapshots will not fit, before anybody has computed anything."""
    free, needed = free_bytes(folder.path), -(-bill.total_bytes // machines.count)
    if needed > free:
        raise CannotStart(
            f"the snapshots of {megabytes(bill.state_bytes)} of state need {megabytes(needed)} of memory and "
            f"{megabytes(free)} are free: ask for more memory, or start with fewer --slots (0 for none)"
        )


def watch_over(agent: Agent, dialogue: Dialogue) -> int:
    """Turn the agent until the job has a code; a signal asks it to save and leave, a second one ends it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, _: dialogue.signalled(signum))
    while agent.code is None:
        await_news(agent, dialogue)
        dialogue.turn()
        agent.turn(0)
    dialogue.turn()
    dialogue.close()
    return agent.code


def await_news(agent: Agent, dialogue: Dialogue) -> None:
    """Until a member, a process or the scheduler has something to say, or it is time to look."""
    poll = select.poll()
    for number in (agent.fileno(), dialogue.fileno()):
        if number is not None:
            poll.register(number, select.POLLIN)
    until, pause_ms = time.monotonic() + LOOK_S, agent.glance_s * 1000
    while not poll.poll(pause_ms) and not agent.glance() and time.monotonic() < until:
        pass


def leave_folder(folder: Folder, code: int | None, is_saved: bool, is_named: bool, run: str = "") -> None:
    """State is kept in memory only when someone may go on from it, and it is nowhere else: after a crash by whoever
    gave the run its name, after a failure of this launcher (which leaves no code) by anybody.
    """
    is_failed = code is None or (is_named and code not in (Exit.FINISHED, Exit.PREEMPTED))
    is_wanted = is_failed or (code == Exit.PREEMPTED and not is_saved)
    if is_wanted and is_filled(folder):
        folder.let_go()
        sys.stderr.write(f"tutti train: the state stays in memory; go on with --run-id {run or folder.path.name}\n")
    else:
        folder.remove()


def tiers_of(options: argparse.Namespace) -> dict[str, tuple[Path, float]]:
    """The tiers behind memory, nearest first: where, and how often."""
    wanted = {"disk": (options.disk, options.disk_every), "durable": (options.durable, options.durable_every)}
    return {name: (path.resolve(), every) for name, (path, every) in wanted.items() if path}


def sizes(options: argparse.Namespace, machines: Machines) -> tuple[SizeRule, int]:
    """The legal sizes and the wanted one, from --workers N or MIN:MAX (on each machine), --min, --max and --sizes."""
    low, _, high = counted(str(options.workers)).partition(":")
    want = number("--workers", high or low) * machines.count
    least = number("--workers", low) if high else options.min
    if machines.is_range:
        least = max(least, number("--workers", low) * machines.least)
    listed = tuple(number("--sizes", size) for size in options.sizes.split(",") if size)
    check_counts(options)
    check_sizes(options, least, want)
    rule = SizeRule(least, max(options.max, want), listed=listed)
    why = rule.why_not(want)
    if why:
        raise ValueError(f"--workers {want}: {why}; legal sizes are {', '.join(map(str, rule.legal())) or 'none'}")
    return rule, want


def counted(text: str) -> str:
    """The number of members that torchrun's words stand for: one for each device, or for each processor."""
    if text in ("auto", "gpu"):
        import torch  # noqa: PLC0415 - only to count devices

        devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if text == "gpu" and not devices:
            raise ValueError("--workers gpu: there is no GPU here; write a number, or cpu")
        return str(devices or os.cpu_count() or 1)
    return str(os.cpu_count() or 1) if text == "cpu" else text


def number(option: str, text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"{option}: {text!r} is not a number of members; write 4, or 2:8 for a range")
    return int(text)


def check_counts(options: argparse.Namespace) -> None:
    """Refuse what this launcher would otherwise have to ignore."""
    for name, least in LEAST.items():
        given = getattr(options, name)
        if not given >= least:
            raise ValueError(f"--{name.replace('_', '-')} {given:g}: it is at least {least}")


def check_sizes(options: argparse.Namespace, least: int, want: int) -> None:
    """Refuse bounds that no number of members is between."""
    most = max(options.max, want)
    if want < 1:
        raise ValueError(f"--workers {options.workers}: a job has at least one member; write 4, or 2:8 for a range")
    if least > most:
        raise ValueError(f"--workers {options.workers}: at least {least} members and at most {most} is no number")
    if most + options.standby > MOST_MEMBERS:
        raise ValueError(f"--workers {options.workers}: one machine runs at most {MOST_MEMBERS} members")
    if options.domains > want:
        raise ValueError(
            f"--domains {options.domains}: {want} members are in at most {want} failure domains; "
            f"use more --workers or fewer --domains"
        )


def check_command(command: Command) -> None:
    """Refuse a program that is not there, before members are started again and again for it."""
    program = command.argv[0]
    if command.is_python and program != "-m" and not Path(program).is_file():
        raise ValueError(f"there is no program {program} here")
    if not command.is_python and shutil.which(program) is None:
        raise ValueError(f"there is no program {program!r} that can be run; Python programs: -- python {program}.py")
    if command.is_python and shutil.which(command.interpreter) is None:
        raise ValueError(f"there is no interpreter {command.interpreter!r}")


def check_tiers(options: argparse.Namespace) -> None:
    """Refuse a folder for checkpoints that cannot be written: it would be found out when it is needed."""
    for name, (path, _) in tiers_of(options).items():
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"--{name} {path}: {error.strerror or error}") from error
        if not os.access(path, os.W_OK | os.X_OK):
            raise ValueError(f"--{name} {path}: it cannot be written")


def check_story(path: Path | None) -> None:
    if path and not path.parent.is_dir():
        raise ValueError(f"--story {path}: there is no folder {path.parent}")


def command_words(options: argparse.Namespace) -> list[str]:
    words: list[str] = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not words:
        raise ValueError("no command: python -m tutti.train --workers 4 -- python loop.py")
    if options.no_python and options.module:
        raise ValueError("--no-python and --module exclude each other")
    if options.virtual_local_rank:
        raise ValueError("--virtual-local-rank: it is not done here; each member has a LOCAL_RANK of its own")
    if options.run_path and not Path(words[0]).name.startswith("python"):
        return ["python", *words]
    return ["-m", *words] if options.module else words
