"""Slurm: `#SBATCH` lines, and the options of sbatch and srun."""

import re
from collections.abc import Sequence

from tutti.engine.model import MINUTE, SECOND
from tutti.jobs.amounts import binary_memory, legal_name
from tutti.jobs.arrays import array
from tutti.jobs.draft import Draft
from tutti.jobs.durations import clock
from tutti.jobs.flags import Flag, Given, Spec, spec
from tutti.jobs.lazy import pattern
from tutti.jobs.output_files import OutputFiles
from tutti.jobs.problems import Misread
from tutti.jobs.shell import Word

from . import moments

TABLE = spec(
    "sbatch",
    "nodes ntasks ntasks-per-node ntasks-per-gpu ntasks-per-socket ntasks-per-core cpus-per-task cpus-per-gpu "
    "gpus gpus-per-node "
    "gpus-per-task gpus-per-socket gres gres-flags tres-per-task mem mem-per-cpu mem-per-gpu time time-min job-name "
    "partition account qos array dependency signal begin deadline chdir output error input export export-file "
    "constraint "
    "cluster-constraint nodelist nodefile exclude mail-type mail-user licenses reservation comment wckey switches "
    "priority hint distribution sockets-per-node cores-per-socket threads-per-core core-spec tmp open-mode profile "
    "kill-on-invalid-dep clusters wrap uid gid acctg-freq bb bbf container cpu-freq extra prefer power "
    "segment stepmgr mem-bind cpu-bind gpu-bind gpu-freq mpi network label-prefix jobid relative "
    "multi-prog epilog prolog task-epilog task-prolog slurmd-debug wait-time thread-spec mcs-label delay-boot",
    "nice get-user-env propagate resv-ports bcast hold requeue no-requeue exclusive contiguous overcommit "
    "oversubscribe "
    "parsable quiet verbose wait test-only "
    "no-kill spread-job use-min-nodes ignore-pbs reboot label unbuffered exact overlap kill-on-bad-exit pty "
    "disable-status preserve-env no-allocate",
    N="nodes",
    n="ntasks",
    c="cpus-per-task",
    G="gpus",
    t="time",
    J="job-name",
    p="partition",
    A="account",
    q="qos",
    a="array",
    d="dependency",
    b="begin",
    D="chdir",
    o="output",
    e="error",
    i="input",
    C="constraint",
    w="nodelist",
    x="exclude",
    L="licenses",
    H="hold",
    s="oversubscribe",
    O="overcommit",
    Q="quiet",
    v="verbose",
    W="wait",
    k="no-kill",
    m="distribution",
    M="clusters",
    l="label",
    u="unbuffered",
    K="kill-on-bad-exit",
    S="core-spec",
    B="extra-node-info",
)
HEEDED = (
    "nodes ntasks ntasks-per-node cpus-per-task cpus-per-gpu tres-per-task gpus gpus-per-node gpus-per-task gres mem "
    "mem-per-cpu mem-per-gpu time "
    "job-name partition array dependency signal chdir constraint hold requeue no-requeue priority nice spread-job "
    "begin deadline export "
    "output error open-mode wrap parsable quiet verbose wait test-only label kill-on-bad-exit unbuffered"
)
DEPENDENCY = {"afterok": "ok", "afterany": "any", "afternotok": "failed"}
GRES = pattern(r"(?:gres/)?gpu(?::([A-Za-z][\w.-]*))?(?:[:=]([0-9]{1,6}))?(?:\(.*\))?")
TYPED = pattern(r"(?:([A-Za-z][\w.-]*):)?([0-9]{1,6})")
SIGNAL = pattern(r"(?:[RB]+:)?(?:SIG)?([A-Za-z0-9]+)(?:@([0-9]{1,6}))?")
TRES = {"cpu": "cpus-per-task", "gres/gpu": "gpus-per-task"}
UNLIMITED = {"UNLIMITED", "INFINITE", "0"}
NOT_HERE = {
    "account": "nobody is charged by account here; queues are",
    "qos": "queues and priorities say it here",
    "nodelist": "nodes are not chosen by name",
    "nodefile": "nodes are not chosen by name",
    "exclude": "nodes are not excluded by name; drain them",
    "reservation": "windows are made by the administrator",
    "licenses": "licences are not counted",
    "mail-type": "no e-mail; a hook can send it",
    "mail-user": "no e-mail; a hook can send it",
    "input": "members read from nothing",
    "clusters": "there is one cluster",
    "uid": "jobs run as who submits them",
    "gid": "jobs run as who submits them",
    "bb": "there is no burst buffer",
    "switches": "say `near` or `within` in a job file",
    "distribution": "ranks follow the topology",
    "exclusive": "devices and cores are never shared; whole nodes are not set aside",
    "container": "no container is started",
    "tmp": "disk is not counted",
    "time-min": "a limit does not shrink to fit a gap",
}


def read(words: Sequence[Word], draft: Draft, program: str = "#SBATCH") -> Given:
    """Options into fields; whatever changes nothing here is named with the reason."""
    table = Spec(program, TABLE.takes, TABLE.alias, strict=True)
    found = draft.options(tuple(words), table, stop_at_word=program != "#SBATCH")
    _repeated(found, draft)
    draft.strays(found)
    fields(found, draft)
    return found


def _repeated(found: Given, draft: Draft) -> None:
    """Of an option that is given twice, Slurm heeds the last."""
    for name, flag in found.every:
        if flag != found.flags[name]:
            draft.ignore(
                f"{flag.spelling} {flag.text}".strip(),
                f"{found.flags[name].spelling} comes later, and the last one counts",
            )


def fields(found: Given, draft: Draft) -> None:
    """What the options mean for the job."""
    flags = found.flags
    resources(flags, draft)
    _simple(flags, draft)
    draft.parsed("time", flags.get("time"), slurm_time)
    draft.parsed("array", flags.get("array"), lambda text: str(array(text, bare_is_count=False)))
    draft.parsed("signal", flags.get("signal"), _signal)
    draft.parsed("begin", flags.get("begin"), moments.slurm)
    draft.parsed("deadline", flags.get("deadline"), moments.slurm)
    _dependencies(flags.get("dependency"), draft)
    _export(flags.get("export"), draft)
    _output(flags, draft)
    draft.without_effect(found, NOT_HERE, HEEDED)


def _simple(flags: dict[str, Flag], draft: Draft) -> None:
    for option, field in (("job-name", "name"), ("partition", "queue"), ("chdir", "cwd")):
        if (flag := flags.get(option)) and not flag.value.unknown:
            text, _, others = flag.text.partition(",") if option == "partition" else (flag.text, "", "")
            draft.say(field, legal_name(text) if field == "name" else text, draft.place(flag.spelling))
            if others:
                draft.ignore(f"{flag.spelling} {others}", f"a job waits in one queue, and {text} is the first")
    if flag := flags.get("constraint"):
        _constraint(flag, draft)
    if flag := flags.get("hold"):
        draft.say("held", True, draft.place(flag.spelling))
    if flag := flags.get("no-requeue"):
        draft.say("on_loss", "fail", draft.place(flag.spelling))
        draft.say("retries", 0, draft.place(flag.spelling))
    if (flag := flags.get("priority")) and (number := draft.number(flag, 0)) is not None:
        draft.say("priority", number, draft.place(flag.spelling))
    elif (flag := flags.get("nice")) and re.fullmatch(r"-?[0-9]{1,9}", flag.text or "100"):
        draft.say("priority", -int(flag.text or "100"), draft.place(flag.spelling))
    if flag := flags.get("spread-job"):
        draft.say("arrange", "spread", draft.place(flag.spelling))


def _export(flag: Flag | None, draft: Draft) -> None:
    """`--export=ALL,NAME=value`: variables are set; which of the others come along cannot be chosen."""
    if flag is None:
        return
    env = dict(part.partition("=")[::2] for part in flag.text.split(",") if "=" in part)
    if env:
        draft.say("env", env, draft.place(flag.spelling))
    for name in (part for part in flag.text.split(",") if part and "=" not in part and part != "ALL"):
        draft.ignore(f"{flag.spelling} {name}", "the environment of the submission is kept whole")


def _constraint(flag: Flag, draft: Draft) -> None:
    """Kinds of node that will do; a second feature that must hold as well is not known here."""
    first, *others = re.split(r"[&,]", flag.text)
    if kinds := [part for part in re.split(r"[|\[\]()*]", first) if part][:8]:
        draft.say("kind", kinds, draft.place(flag.spelling))
    for other in others:
        draft.ignore(f"{flag.spelling} {other}", "one feature of a node is heeded, and the first was taken")


def resources(flags: dict[str, Flag], draft: Draft) -> None:
    """Nodes as members where the job counts in nodes, tasks as members where it does not."""
    asked = _Asked(_with_tres(flags), draft)
    if asked.by_nodes:
        low, high = asked.nodes
        tasks = asked.tasks_on_a_node
        draft.say("workers", f"{low}:{high}" if high > low else low, asked.nodes_source)
        draft.ranks = tasks
        asked.say_gpus(asked.gpus_on_a_node(tasks))
        asked.say_cpus(tasks)
    else:
        draft.say(
            "workers", asked.tasks, draft.place(asked.flag("ntasks").spelling) if "ntasks" in flags else "default"
        )
        draft.ranks = 1
        asked.say_gpus(asked.gpus_of_a_task())
        asked.say_cpus(1)
    asked.say_memory()


def _with_tres(flags: dict[str, Flag]) -> dict[str, Flag]:
    """`--tres-per-task=cpu:4,gres/gpu:2` says what `--cpus-per-task` and `--gpus-per-task` say."""
    flag = flags.get("tres-per-task")
    said: dict[str, Flag] = {}
    for part in flag.text.split(",") if flag else ():
        name, _, value = part.strip().replace("=", ":").partition(":")
        option = TRES.get(name)
        if flag and option:
            said[option] = Flag(flag.spelling, Word(value, flag.value.unknown))
    return said | flags


class _Asked:
    """What the options ask for, together."""

    def __init__(self, flags: dict[str, Flag], draft: Draft) -> None:
        self.flags, self.draft = flags, draft
        self.tasks = draft.number(flags.get("ntasks"), field="workers") or 1
        self.per_node = draft.number(flags.get("ntasks-per-node")) or 0
        self.cpus = draft.number(flags.get("cpus-per-task"), field="cpus") or 1
        self.nodes, self.nodes_source = self._nodes()
        self.kind = ""
        per_node_things = {"gres", "gpus-per-node", "mem", "ntasks-per-node"} & set(flags)
        self.by_nodes = "nodes" in flags or bool(per_node_things) or ("gpus" in flags and self.tasks == 1)

    def flag(self, name: str) -> Flag:
        """An option that is known to be there."""
        return self.flags[name]

    def _nodes(self) -> tuple[tuple[int, int], str]:
        flag = self.flags.get("nodes")
        if flag is None:
            if self.per_node and self.tasks > 1:
                return (-(-self.tasks // self.per_node),) * 2, self.draft.place("--ntasks and --ntasks-per-node")
            return (1, 1), "default"
        low, dash, high = flag.text.partition("-")
        least = self.draft.number(Flag(flag.spelling, Word(low, flag.value.unknown)), field="workers") or 1
        most = (
            self.draft.number(Flag(flag.spelling, Word(high, flag.value.unknown)), field="workers") if dash else least
        ) or least
        if most < least:
            self.draft.problem(
                f"{flag.spelling} {flag.text}: at most is less than at least", hint=f"write {high}-{low}"
            )
        return (least, most), self.draft.place(flag.spelling)

    @property
    def tasks_on_a_node(self) -> int:
        """Ranks of a member."""
        if self.per_node:
            return self.per_node
        return max(-(-self.tasks // self.nodes[1]), 1) if "ntasks" in self.flags else 1

    def gpus_on_a_node(self, tasks: int) -> tuple[int, str]:
        """Devices of a member that is a node."""
        for option in ("gpus-per-node", "gres"):
            if found := self._devices(option):
                return found
        if found := self._devices("gpus-per-task"):
            return found[0] * tasks, f"{found[1]} x {tasks} tasks"
        if found := self._devices("gpus"):
            return -(-found[0] // self.nodes[1]), f"{found[1]} over {self.nodes[1]} nodes" if self.nodes[
                1
            ] > 1 else found[1]
        return 0, "default: no device is asked for"

    def gpus_of_a_task(self) -> tuple[int, str]:
        """Devices of a member that is a task."""
        if found := self._devices("gpus-per-task"):
            return found
        if found := self._devices("gpus"):
            return -(-found[0] // self.tasks), f"{found[1]} over {self.tasks} tasks"
        return 0, "default: no device is asked for"

    def _devices(self, option: str) -> tuple[int, str] | None:
        flag = self.flags.get(option)
        if flag is None or flag.value.unknown:
            return None
        for part in flag.text.split(","):
            found = (GRES if option == "gres" else TYPED).fullmatch(part.strip())
            if found:
                self.kind = found[1] or self.kind
                return int(found[2] or 1), self.draft.place(flag.spelling)
        if option == "gres":
            self.draft.ignore(f"{flag.spelling} {flag.text}", "only devices named gpu are counted")
        else:
            self.draft.problem(f"{flag.spelling}: {flag.text!r} is no number of devices", hint="write 4, or a100:4")
        return None

    def say_gpus(self, found: tuple[int, str]) -> None:
        """Devices, and the kind they must be."""
        self.draft.say("gpus", *found)
        if self.kind:
            self.draft.say("kind", [self.kind], found[1])

    def say_cpus(self, tasks: int) -> None:
        """Cores, by task or by device."""
        per_gpu = self.draft.number(self.flags.get("cpus-per-gpu"))
        gpus = self.draft.said.get("gpus", 0)
        if per_gpu and gpus and "cpus-per-task" not in self.flags:
            source = self.draft.place(self.flags["cpus-per-gpu"].spelling)
            self.draft.say("cpus", per_gpu * gpus, f"{source} x {gpus} devices" if gpus > 1 else source)
        else:
            self.draft.say("cpus", self.cpus * tasks, self._cpu_source(tasks))

    def _cpu_source(self, tasks: int) -> str:
        """Where the cores come from."""
        said = (
            self.draft.place(self.flags["cpus-per-task"].spelling)
            if "cpus-per-task" in self.flags
            else "default: one core per task"
        )
        return f"{said} x {tasks} tasks" if tasks > 1 else said

    def say_memory(self) -> None:
        """Memory of a member."""
        cores = self.draft.said.get("cpus", 1)
        for option, times in (("mem", 1), ("mem-per-cpu", cores), ("mem-per-gpu", self.draft.said.get("gpus", 0))):
            flag = self.flags.get(option)
            if flag is None or flag.value.unknown:
                continue
            try:
                amount = binary_memory(flag.text) * times
            except Misread as wrong:
                self.draft.problem(f"{flag.spelling}: {wrong.what}", f"{flag.spelling} {flag.text}", wrong.hint)
                continue
            if amount:
                self.draft.say("mem", amount, self.draft.place(flag.spelling))
            else:
                self.draft.ignore(f"{flag.spelling} {flag.text}", "all the memory of a node cannot be asked for")


def slurm_time(text: str) -> float | str:
    """Seconds of a Slurm time: minutes, minutes:seconds, h:m:s, days-h, days-h:m, days-h:m:s."""
    if text.upper() in UNLIMITED:
        return ""
    days, dash, rest = text.rpartition("-") if "-" in text else ("", "", text)
    parts = rest.split(":")
    numbers = [*([days] if dash else []), *parts]
    if not all(re.fullmatch(r"[0-9]{1,6}", part) for part in numbers) or len(parts) > 3:
        raise Misread(f"{text!r} is no time", "write minutes, hours:minutes:seconds or days-hours:minutes:seconds")
    if dash:
        padded: list[str | None] = [*parts, *([None] * (3 - len(parts)))]
        total = clock(days, padded[0], padded[1], padded[2])
    elif len(parts) == 1:
        total = int(parts[0]) * MINUTE
    elif len(parts) == 2:
        total = clock(None, None, parts[0], parts[1])
    else:
        total = clock(None, parts[0], parts[1], parts[2])
    return total // SECOND


def _signal(text: str) -> str:
    found = SIGNAL.fullmatch(text)
    if not found:
        raise Misread(f"{text!r} is no signal", "write B:USR1@120")
    return f"{found[1].upper()}@{found[2] or 60}s"


def _output(flags: dict[str, Flag], draft: Draft) -> None:
    """Files for what it prints; without one, logs are kept all the same."""
    out, err = (flags[name].text if name in flags else "" for name in ("output", "error"))
    if out or err:
        mode = flags["open-mode"].text if "open-mode" in flags else ""
        draft.output = OutputFiles("slurm", out, err, append=mode.startswith("a"))
        draft.sources["output"] = draft.place(flags["output" if out else "error"].spelling)
    elif "open-mode" in flags:
        draft.ignore(f"--open-mode {flags['open-mode'].text}", "no file is named for its output")


def _dependencies(flag: Flag | None, draft: Draft) -> None:
    if flag is None:
        return
    if flag.value.unknown:
        draft.ask(f"{flag.spelling} {flag.text}: known only when it runs; say it with --after")
        return
    if "?" in flag.text:
        draft.ignore(f"{flag.spelling} {flag.text}", "one of several is not expressed; all of them are waited for")
    after: list[str] = []
    for part in filter(None, re.split(r"[,?]", flag.text)):
        kind, *jobs = part.split(":")
        if kind in DEPENDENCY and jobs and all(jobs):
            after += [f"{DEPENDENCY[kind]}:{job.partition('+')[0]}" for job in jobs]
        elif kind in {"singleton", "after", "aftercorr", "afterburstbuffer"}:
            draft.ignore(f"{flag.spelling} {part}", "only afterok, afterany and afternotok are known here")
        else:
            hint = "write afterok:JOB, afterany:JOB or afternotok:JOB"
            draft.problem(f"{flag.spelling}: {part!r} is no dependency", f"{flag.spelling} {flag.text}", hint)
    if after:
        draft.say("after", after, draft.place(flag.spelling))
