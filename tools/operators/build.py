"""Build the operators that the scheduler is tried beside: once, from the Go module beside this file.

Nothing of theirs is kept in this project. The binaries go to the cache folder of the user, under a name that changes
with the versions; definitions of kinds and webhooks are read out of Go's own cache of modules.

    python -m tools.operators.build
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.control_plane import build as control_plane
from tools.control_plane.build import Impossible, go, is_built, locked

HERE = Path(__file__).resolve().parent
WORDS = (HERE / "go.mod").read_text()


@dataclass(frozen=True)
class Program:
    """What is built: which package of which module, and the one line of it that is changed first."""

    module: str
    package: str
    file: str = ""
    """The file with that line. Some listen on every interface and have no setting for it; here they must not."""
    was: str = ""
    becomes: str = ""


PROGRAMS = {
    "training-operator": Program(
        "github.com/kubeflow/training-operator",
        "cmd/training-operator.v1",
        "cmd/training-operator.v1/main.go",
        "Port: webhookServerPort,",
        'Host: "127.0.0.1", Port: webhookServerPort,',
    ),
    "mpi-operator": Program(
        "github.com/kubeflow/mpi-operator",
        "cmd/mpi-operator",
        "cmd/mpi-operator/app/server.go",
        'fmt.Sprintf(":%d", healthCheckPort),',
        '"127.0.0.1:0",',
    ),
    "kueue": Program("sigs.k8s.io/kueue", "cmd/kueue"),
    "jobset": Program("sigs.k8s.io/jobset", ""),
    "trainer": Program("github.com/kubeflow/trainer/v2", "cmd/trainer-controller-manager"),
    "controller-gen": Program("sigs.k8s.io/controller-tools", "cmd/controller-gen"),
}
GENERATED = "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
"""Volcano's module brings types without definitions; those are made from the types."""


def version(module: str) -> str:
    """What the module beside this file requires."""
    found = re.search(rf"^\s+{re.escape(module)} (v\S+)$", WORDS, re.MULTILINE)
    if found is None:
        raise Impossible(f"go.mod does not require {module}")
    return found.group(1)


def cached() -> Path:
    """Where they are, built or not."""
    return control_plane.cached().parent / f"operators-{hashlib.sha256(WORDS.encode()).hexdigest()[:12]}"


def binary(name: str) -> Path:
    """One of the programs, built if need be. Raises Impossible."""
    folder = cached()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not is_built(folder / name):
            _build(folder, name)
    return folder / name


def source(module: str) -> Path:
    """Where Go keeps a module: definitions and webhooks are read there."""
    return _fetched(_work(cached()), module)


def generated() -> Path:
    """Definitions that are made from types, in a folder."""
    made = cached() / "definitions"
    if not made.exists():
        tool, new = binary("controller-gen"), cached() / "work" / "definitions"
        shutil.rmtree(new, ignore_errors=True)
        command = [str(tool), "crd", f"paths={GENERATED}", f"output:crd:dir={new}"]
        environment = _environment() | {"PATH": f"{Path(go()).parent}:{os.environ['PATH']}"}
        _said(
            subprocess.run(command, cwd=_work(cached()), env=environment, capture_output=True, text=True, check=False)
        )
        new.replace(made)
    return made


def _build(folder: Path, name: str) -> None:
    program, work = PROGRAMS[name], _work(folder)
    print(f"building {name} {version(program.module)} (once; minutes on two cores) ...", file=sys.stderr, flush=True)
    started, made = time.monotonic(), work / name
    package = f"{program.module}/{program.package}".rstrip("/")
    _run(work, "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), package)
    made.replace(folder / name)
    print(f"built {name} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def _work(folder: Path) -> Path:
    """A copy of the module. The checksums that Kueue ships go with it: one of its parts is not in the public log."""
    work = folder / "work"
    if not (work / "go.sum").exists():
        work.mkdir(parents=True, exist_ok=True)
        (work / "go.mod").write_text(WORDS)
        changed = [_changed(work, program) for program in PROGRAMS.values() if program.file]
        (work / "go.mod").write_text(WORDS + "".join(changed))
        shutil.copyfile(_fetched(work, PROGRAMS["kueue"].module) / "go.sum", work / "go.sum")
    return work


def _fetched(work: Path, module: str) -> Path:
    return Path(json.loads(_run(work, "mod", "download", "-json", f"{module}@{version(module)}"))["Dir"])


def _changed(work: Path, program: Program) -> str:
    """A copy of a module with its one line changed; answers with the line of go.mod that names it."""
    copy = work / program.package.replace("/", "-")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(_fetched(work, program.module), copy, copy_function=shutil.copyfile)
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)
    file = copy / program.file
    text = file.read_text()
    if text.count(program.was) != 1:
        raise Impossible(
            f"{program.module} {version(program.module)} has no {program.was!r} in {program.file} any more"
        )
    file.write_text(text.replace(program.was, program.becomes))
    return f"replace {program.module} => ./{copy.name}\n"


def _run(work: Path, *arguments: str) -> str:
    command = [go(), *arguments]
    return _said(subprocess.run(command, cwd=work, env=_environment(), capture_output=True, text=True, check=False))


def _environment() -> dict[str, str]:
    return os.environ | {"GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode:
        raise Impossible(f"{' '.join(done.args[:3])}: {done.stderr.strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        for each in PROGRAMS:
            print(binary(each))
        print(generated())
    except Impossible as problem:
        sys.exit(f"error: {problem}")
