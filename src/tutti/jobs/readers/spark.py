"""spark-submit: a driver, and executors that come and go."""

from collections.abc import Sequence

from tutti.jobs.draft import Draft
from tutti.jobs.flags import spec
from tutti.jobs.shell import Word

TABLE = spec(
    "spark-submit",
    "master deploy-mode class name jars packages exclude-packages repositories py-files files archives conf "
    "properties-file "
    "driver-memory driver-java-options driver-library-path driver-class-path executor-memory proxy-user driver-cores "
    "total-executor-cores executor-cores num-executors queue principal keytab",
    "supervise verbose usage-error",
)


def read(words: Sequence[Word], draft: Draft) -> tuple[Word, ...]:
    """Driver and executors as roles of one gang; executors are loose."""
    found = draft.options(tuple(words), TABLE)
    flags = found.flags
    draft.launcher = "spark"
    draft.framework("spark", draft.place("spark-submit"))
    if flag := flags.get("queue"):
        draft.say("queue", flag.text, draft.place(flag.spelling))
    if flag := flags.get("name"):
        draft.say("name", flag.text.replace(" ", "-"), draft.place(flag.spelling))
    executors = draft.number(flags.get("num-executors"))
    if executors:
        driver = {"workers": 1, "gpus": 0, "cpus": draft.number(flags.get("driver-cores")) or 1}
        executor = {"workers": executors, "gpus": 0, "cpus": draft.number(flags.get("executor-cores")) or 1}
        for part, option in ((driver, "driver-memory"), (executor, "executor-memory")):
            if option in flags:
                part["mem"] = flags[option].text  # type: ignore[assignment]  # texts and numbers side by side
        roles = {"driver": driver, "executor": {**executor, "coupling": "loose"}}
        draft.say("roles", roles, draft.place("--num-executors"))
        draft.warn("executors are started by Spark; a master it can ask for them has to be there")
    else:
        draft.say("gpus", 0, "Spark asks for cores")
    return found.rest
