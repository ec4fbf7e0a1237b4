"""The table of commands. `tutti --help` is printed from it, without importing any of them."""

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives and what it is for, in a few words."""

    target: str
    says: str
    #: Exit code for our own failures, where the command's usual codes belong to the job it ran.
    own_failure: int | None = None


COMMANDS = {
    "why": Entry("tutti.cli.why:why", "Say why a gang waits, and what would start it."),
    "replay": Entry("tutti.cli.replay:replay", "Make the decision about a recorded view again."),
    "simulate": Entry("tutti.cli.simulate:simulate", "Play a scene or a trace through the engine in virtual time."),
    "what-if": Entry("tutti.cli.what_if:what_if", "Say what would start when if the cluster were different."),
    "explain-job": Entry("tutti.cli.explain_job:explain_job", "Say what Tutti understands of a job you have."),
    "train": Entry("tutti.cli.train:train", "Run an elastic training loop on this machine, without a scheduler.", 125),
    "kube": Entry("tutti.cli.kube:kube", "Schedule whole gangs on a Kubernetes cluster."),
    "version": Entry("tutti.cli.version:version", "Print the version of Tutti and of what it runs on."),
}
