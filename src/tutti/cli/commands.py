"""The table of commands. `tutti --help` is printed from it, without importing any of them."""

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives and what it is for, in a few words."""

    target: str
    says: str
    #: Exit code for our own failures, where the command's usual codes belong to the job it ran.
    own_failure: int | None = None


COMMANDS = {
    "run": Entry("tutti.cli.run:run", "Run a command as a gang and follow it.", 125),
    "submit": Entry("tutti.cli.submit:submit", "Hand a job over and return."),
    "wait": Entry("tutti.cli.wait:wait", "Wait until jobs have ended.", 125),
    "shell": Entry("tutti.cli.shell:shell", "Open a shell with devices of its own.", 125),
    "queue": Entry("tutti.cli.queue:queue", "List jobs: who runs, who waits and for what."),
    "why": Entry("tutti.cli.why:why", "Say why a gang waits, and what would start it."),
    "story": Entry("tutti.cli.story:story", "Tell what happened to a job."),
    "show": Entry("tutti.cli.show:show_job", "Show everything about a job."),
    "logs": Entry("tutti.cli.logs:logs", "Show the output of a job."),
    "top": Entry("tutti.cli.top:top", "Watch the queue and the devices."),
    "cancel": Entry("tutti.cli.orders:cancel", "End jobs."),
    "hold": Entry("tutti.cli.orders:hold", "Keep waiting jobs from starting."),
    "release": Entry("tutti.cli.orders:release", "Let jobs on hold start again."),
    "retry": Entry("tutti.cli.orders:retry", "Submit jobs that are over once more."),
    "update": Entry("tutti.cli.change:update", "Change time, priority ... of a job."),
    "resize": Entry("tutti.cli.change:resize", "Give a waiting or elastic job another size."),
    "move": Entry("tutti.cli.change:move", "Put a waiting job into another queue."),
    "attach": Entry("tutti.cli.attach:attach", "Open a shell beside a rank of a running job.", 125),
    "nodes": Entry("tutti.cli.nodes:nodes", "Show nodes and devices."),
    "drain": Entry("tutti.cli.nodes:drain", "Give devices nothing new."),
    "undrain": Entry("tutti.cli.nodes:undrain", "Use devices again."),
    "queues": Entry("tutti.cli.queues:queues", "List queues, their limits and their use."),
    "report": Entry("tutti.cli.report:report", "Say where every device-second went."),
    "plan": Entry("tutti.cli.plan:plan", "Show the plan, or what would happen to a job."),
    "what-if": Entry("tutti.cli.what_if:what_if", "Say what would start when if the cluster were different."),
    "snapshot": Entry("tutti.cli.snapshot:snapshot", "Write the world to a file."),
    "replay": Entry("tutti.cli.replay:replay", "Make the decision about a recorded view again."),
    "simulate": Entry("tutti.cli.simulate:simulate", "Play a scene, a trace or a job in virtual time."),
    "explain-job": Entry("tutti.cli.explain_job:explain_job", "Say what Tutti understands of a job you have."),
    "convert": Entry("tutti.cli.convert:convert", "Write a job you have in another dialect."),
    "sbatch": Entry("tutti.cli.sbatch:sbatch", "Submit a batch script as Slurm's sbatch does."),
    "squeue": Entry("tutti.cli.squeue:squeue", "List jobs as Slurm's squeue does."),
    "scancel": Entry("tutti.cli.scancel:scancel", "End jobs, or send them a signal, as Slurm's scancel does."),
    "sinfo": Entry("tutti.cli.sinfo:sinfo", "Show nodes as Slurm's sinfo does."),
    "srun": Entry("tutti.cli.srun:srun", "Run tasks as Slurm's srun does.", 125),
    "train": Entry("tutti.cli.train:train", "Run an elastic training loop here, without a scheduler.", 125),
    "kube": Entry("tutti.cli.kube:kube", "Schedule whole gangs on a Kubernetes cluster."),
    "serve": Entry("tutti.cli.serve:serve", "Open the page."),
    "stop": Entry("tutti.cli.daemon:stop", "End the daemon; jobs go on."),
    "config": Entry("tutti.cli.daemon:config", "Show, check or reload the configuration."),
    "backup": Entry("tutti.cli.daemon:backup", "Copy or restore the journal."),
    "audit": Entry("tutti.cli.daemon:audit", "Show who did what."),
    "setup": Entry("tutti.cli.setup:setup", "Set up one service for all users."),
    "doctor": Entry("tutti.cli.doctor:doctor", "Look for what is wrong with this installation."),
    "completion": Entry("tutti.cli.completion:completion", "Print the completion script of a shell."),
    "version": Entry("tutti.cli.version:version", "Print the version of Tutti and of what it runs on."),
}
