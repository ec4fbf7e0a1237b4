"""IBM Spectrum LSF: `#BSUB` lines."""

import re
from collections.abc import Sequence

from tutti.jobs.amounts import binary_memory
from tutti.jobs.arrays import array
from tutti.jobs.draft import Draft
from tutti.jobs.flags import Flag, spec
from tutti.jobs.lazy import pattern
from tutti.jobs.output_files import OutputFiles
from tutti.jobs.problems import Misread
from tutti.jobs.shell import Word

from . import moments

TABLE = spec(
    "bsub",
    "n R gpu W We J q w M sp wa wt cwd o oo e eo P G u app b t m c v D F S T C i is k env a L Lp g data hl "
    "jsdl K outdir nnodes "
    "core_isolation alloc_flags",
    "H r rn N B x K I Is Ip Ep q_hold csm",
    n="n", R="R", W="W", J="J", q="q", w="w", M="M", o="o", e="e", P="P", G="G", u="u", b="b", t="t", m="m", c="c",
    v="v", D="D", F="F", S="S", T="T", C="C", i="i", k="k", a="a", L="L", g="g", H="H", r="r", N="N", B="B", x="x",
    K="K", I="I",
)  # fmt: skip
PTILE = pattern(r"span\[[^\[\]]{0,400}ptile\s*=\s*([0-9]{1,6})[^\[\]]{0,400}\]")
ONE_HOST = pattern(r"span\[[^\[\]]{0,400}hosts\s*=\s*1[^\[\]]{0,400}\]")
RUSAGE_MEM = pattern(r"rusage\[[^\[\]]{0,400}\bmem\s*=\s*([0-9.]{1,12}\s*[A-Za-z]*)")
RUSAGE_GPU = pattern(r"rusage\[[^\[\]]{0,400}\b(?:ngpus_physical|ngpus_excl_p|ngpus)\s*=\s*([0-9]{1,6})")
GPU_NUM = pattern(r"(?:^|:)num=([0-9]{1,6})(/task)?")
GPU_KIND = pattern(r"(?:^|:)gmodel=([\w.-]+)")
NAME = pattern(r"([^\[\]]*)(?:\[([^\]]*)\](?:%([0-9]{1,7}))?)?")
CONDITION = pattern(r"(done|ended|exit|started|post_done)\(\s*\"?([\w.@+-]+)\"?[^()]{0,400}\)")
DEPENDENCY = {"done": "ok", "post_done": "ok", "ended": "any", "exit": "failed"}
HEEDED = "n R gpu W J q w M sp wa wt cwd H r rn nnodes o oo e eo b t"
NOT_HERE = {
    "P": "nobody is charged by project here; queues are",
    "G": "nobody is charged by group here; queues are",
    "N": "no e-mail; a hook can send it",
    "B": "no e-mail; a hook can send it",
    "u": "no e-mail; a hook can send it",
    "m": "nodes are not chosen by name",
    "x": "devices and cores are never shared; whole nodes are not set aside",
    "L": "the environment of the submission is kept whole",
    "env": "the environment of the submission is kept whole",
    "app": "there are no application profiles",
    "I": "use `tutti shell`",
    "Is": "use `tutti shell`",
    "Ip": "use `tutti shell`",
    "K": "use `tutti wait`",
}


def read(words: Sequence[Word], draft: Draft) -> None:
    """The options of the directives, all of them together."""
    found = draft.options(tuple(words), TABLE._replace(strict=True), stop_at_word=False)
    draft.strays(found)
    flags = found.flags
    needs = " ".join(flag.text for name, flag in found.every if name == "R")
    _members(flags, needs, draft)
    _memory(flags, needs, draft)
    _simple(flags, draft)
    _name(flags.get("J"), draft)
    _conditions(flags.get("w"), draft)
    if flag := flags.get("W"):
        _time(flag, draft)
    draft.parsed("begin", flags.get("b"), moments.lsf)
    draft.parsed("deadline", flags.get("t"), moments.lsf)
    out, err = (flag.text if (flag := _either(found.flags, name)) else "" for name in ("o", "e"))
    if out or err:
        draft.output = OutputFiles("lsf", out, err, append="oo" not in found.flags)
        draft.sources["output"] = draft.place("-o" if out else "-e")
    draft.without_effect(found, NOT_HERE, HEEDED)


def _either(flags: dict[str, Flag], name: str) -> Flag | None:
    """`-o` appends and `-oo` does not."""
    return flags.get(f"{name}o") or flags.get(name)


def _members(flags: dict[str, Flag], needs: str, draft: Draft) -> None:
    slots = flags.get("n")
    least, most = _slots(slots, draft)
    tile = PTILE.search(needs)
    if nodes := draft.number(flags.get("nnodes")):
        fewest, hosts, source = nodes, nodes, draft.place("-nnodes")
    elif tile:
        fewest, hosts = (-(-count // max(int(tile[1]), 1)) for count in (least, most))
        source = draft.place(f"-n and {tile[0]}")
    else:
        fewest = hosts = 1
        source = (
            draft.place("span[hosts=1]")
            if ONE_HOST.search(needs)
            else "default: one host, as nothing spreads the slots"
        )
    on_each = -(-most // hosts)
    draft.say("workers", f"{fewest}:{hosts}" if fewest < hosts else hosts, source)
    draft.ranks = on_each
    draft.say("cpus", on_each, f"{draft.place('-n')}, one core per slot" if slots else "default: one slot")
    _gpus(flags.get("gpu"), needs, on_each, draft)


def _slots(flag: Flag | None, draft: Draft) -> tuple[int, int]:
    """`-n 8`, or `-n 2,8` for at least and at most."""
    if flag is None:
        return 1, 1
    low, comma, high = flag.text.partition(",")
    least = draft.number(Flag("-n", Word(low, flag.value.unknown))) or 1
    most = (draft.number(Flag("-n", Word(high, flag.value.unknown))) if comma else least) or least
    if most < least:
        draft.problem(f"-n {flag.text}: at most is less than at least", hint=f"write {high},{low}")
    return least, max(least, most)


def _gpus(flag: Flag | None, needs: str, slots: int, draft: Draft) -> None:
    if flag is not None:
        found = GPU_NUM.search(flag.text)
        number = int(found[1]) * (slots if found[2] else 1) if found else 1
        draft.say("gpus", number, draft.place("-gpu"))
        if kind := GPU_KIND.search(flag.text):
            draft.say("kind", [kind[1]], draft.place("-gpu"))
    elif found := RUSAGE_GPU.search(needs):
        draft.say("gpus", int(found[1]), draft.place("-R rusage"))
    else:
        draft.say("gpus", 0, "default: no device is asked for")


def _memory(flags: dict[str, Flag], needs: str, draft: Draft) -> None:
    found = RUSAGE_MEM.search(needs)
    flag = flags.get("M")
    text, source = (found[1], "-R rusage[mem]") if found else (flag.text, "-M") if flag else ("", "")
    if not text:
        return
    try:
        amount = binary_memory(text, "M")
    except Misread as wrong:
        draft.problem(f"{source}: {wrong.what}", text, wrong.hint)
        return
    if re.fullmatch(r"[0-9.]+", text.strip()):
        draft.warn(f"{source} {text}: taken as MB, which is what LSF means unless it was set up otherwise")
    draft.say("mem", amount, draft.place(source))


def _simple(flags: dict[str, Flag], draft: Draft) -> None:
    for option, field in (("q", "queue"), ("cwd", "cwd")):
        if (flag := flags.get(option)) and not flag.value.unknown:
            draft.say(field, flag.text.split()[0] if flag.text.split() else "default", draft.place(flag.spelling))
    if (flag := flags.get("sp")) and (number := draft.number(flag, 0)) is not None:
        draft.say("priority", number, draft.place("-sp"))
    if flag := flags.get("H"):
        draft.say("held", True, draft.place("-H"))
    if flag := flags.get("rn"):
        draft.say("on_loss", "fail", draft.place("-rn"))
    if flag := flags.get("wa"):
        before = flags.get("wt")
        minutes = _minutes(before.text) if before else 1
        draft.say("signal", f"{flag.text.upper().removeprefix('SIG')}@{minutes}m", draft.place("-wa"))


def _name(flag: Flag | None, draft: Draft) -> None:
    """`-J "sweep[1-100]%5"`: name, array and how many at once."""
    if flag is None or flag.value.unknown:
        return
    found = NAME.fullmatch(flag.text.strip())
    if not found:
        draft.problem(f"-J: {flag.text!r} is no name", flag.text, 'write "name" or "name[1-100]%5"')
        return
    if found[1]:
        draft.say("name", re.sub(r"[^\w.@+-]+", "-", found[1]).strip("-.") or "job", draft.place("-J"))
    if found[2] is not None:
        text = found[2] + (f"%{found[3]}" if found[3] else "")
        try:
            draft.say("array", str(array(text, bare_is_count=False)), draft.place("-J"))
        except Misread as wrong:
            draft.problem(f"-J: {wrong.what}", flag.text, wrong.hint)


def _conditions(flag: Flag | None, draft: Draft) -> None:
    """`-w "done(a) && ended(b)"`."""
    if flag is None:
        return
    if flag.value.unknown:
        draft.ask(f"-w {flag.text}: known only when it runs; say it with --after")
        return
    found = CONDITION.findall(flag.text)
    left = re.sub(r"[\s&|()]", "", CONDITION.sub("", flag.text))
    if left or "||" in flag.text or "!" in flag.text or not found:
        draft.ignore(f"-w {flag.text}", "only done(), ended() and exit(), all of them together, are known here")
        return
    after = [f"{DEPENDENCY[kind]}:{job}" for kind, job in found if kind in DEPENDENCY]
    if len(after) < len(found):
        draft.ignore(f"-w {flag.text}", "waiting for a start is not known here")
    if after:
        draft.say("after", after, draft.place("-w"))


def _time(flag: Flag, draft: Draft) -> None:
    """`-W [hours:]minutes`, perhaps with a host after a slash."""
    minutes = _minutes(flag.text.partition("/")[0])
    if minutes is None:
        draft.problem(f"-W: {flag.text!r} is no time", f"-W {flag.text}", "write minutes, or hours:minutes")
    else:
        draft.say("time", minutes * 60, draft.place("-W"))


def _minutes(text: str) -> int | None:
    hours, colon, minutes = text.strip().rpartition(":")
    if not re.fullmatch(r"[0-9]{1,6}", minutes) or (colon and not re.fullmatch(r"[0-9]{1,6}", hours)):
        return None
    return int(hours or 0) * 60 + int(minutes)
