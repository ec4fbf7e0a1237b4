"""Make this clone's `.venv` out of cached layers of packages.

A layer is a virtual environment built once per machine, outside any clone, and named after a hash of what is in it.
The clone's own `.venv` is thin: it points at the layers and at `src`. So the first clone pays for the downloads and
every later one takes seconds. Runs on the bare interpreter: standard library only.

    python tools/environment.py base train adapters frameworks
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ORDER = ("base", "train", "adapters", "frameworks")
COSTS = {
    "base": "about 200 MB, under a minute",
    "train": "torch, about 5 GB, several minutes",
    "adapters": "transformers, Lightning and datasets, about 550 MB, under two minutes",
    "frameworks": "JAX and Dask, about 600 MB, under a minute",
}
#: Not on the clone's path: an environment of its own over the base layer, for jobs that bring other packages than ours.
BESIDE = "frameworks"
SECTION = re.compile(rf"^# ({'|'.join(ORDER[1:])}):", re.MULTILINE)
SITE = Path("lib") / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


class Failed(Exception):
    """Something a person has to put right, said in a sentence."""


def main(wanted: list[str]) -> None:
    try:
        prepare(ROOT, cache_folder(), [name for name in ORDER if name in (wanted or ORDER)])
    except Failed as failure:
        sys.exit(f"error: {failure}")


def prepare(root: Path, cache: Path, wanted: list[str]) -> None:
    """Bring `.venv` up to date with the layers asked for, doing nothing when it already is."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    folders = layer_folders(project, (root / "constraints.txt").read_text(), cache)
    with locked(root / "pyproject.toml"):
        linked = read_stamp(root).get("layers", {})
        names = [name for name in ORDER if name in wanted or name in linked]
        stamp = {
            "clone": str(root),
            "project": digest(project["project"], project["build-system"]),
            "layers": {name: str(folders[name]) for name in names},
        }
        if stamp == read_stamp(root) and is_usable(root, stamp):
            return
        below: list[Path] = []
        for name in names:
            under = below[:1] if name == BESIDE else below
            build_layer(name, folders[name], under, requirements(project, name), root / "constraints.txt")
            if name != BESIDE:
                below.append(folders[name])
        link_clone(root, below)
        compile_sources(root)
        write_atomically(root / ".venv" / "layers.json", json.dumps(stamp, indent=1))


def compile_sources(root: Path) -> None:
    """Commands start faster where bytecode is ready, and some machines forbid that it is written on the way."""
    command = [str(root / ".venv" / "bin" / "python"), "-m", "compileall", "-q", str(root / "src")]
    with contextlib.suppress(OSError):
        subprocess.run(command, check=False, capture_output=True)


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tutti"


def requirements(project: dict[str, Any], layer: str) -> list[str]:
    runtime = project["project"]["dependencies"] if layer == "base" else []
    return sorted([*runtime, *project["dependency-groups"][layer]])


def layer_folders(project: dict[str, Any], constraints: str, cache: Path) -> dict[str, Path]:
    """Where each layer lives: the name changes whenever what is in the layer would."""
    folders: dict[str, Path] = {}
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for name in ORDER:
        key = digest(requirements(project, name), pins(section(constraints, name)), sysconfig.get_platform())
        folders[name] = cache / f"deps-{name}-{python}-{key}"
    return folders


def section(constraints: str, layer: str) -> str:
    """The pins of one layer: from its heading to the next layer's. A new checker must not cost a new torch."""
    first, *rest = SECTION.split(constraints)
    return first if layer == ORDER[0] else "".join(rest[at + 1] for at in range(0, len(rest), 2) if rest[at] == layer)


def pins(constraints: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in constraints.splitlines())
    return sorted(line for line in lines if line)


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def build_layer(name: str, folder: Path, below: list[Path], wanted: list[str], constraints: Path) -> None:
    """Build under another name and rename at the end, so that a layer is there whole or not at all.

    The other name is different each time: an installer may outlive the build that started it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if folder.exists():
            return
        say(f"building the {name} layer once for all clones ({COSTS[name]})")
        started = time.monotonic()
        for leftover in folder.parent.glob(f"{folder.name}.building-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        half_built = folder.with_name(f"{folder.name}.building-{os.getpid()}")
        run([sys.executable, "-m", "venv", str(half_built)], hint="Debian and Ubuntu: apt install python3-venv")
        write_paths(half_built, "layers.pth", [layer / SITE for layer in below])
        pip(half_built, "--no-cache-dir", "--constraint", str(constraints), *wanted)
        half_built.rename(folder)
        say(f"built {folder} in {time.monotonic() - started:.0f} s")


def link_clone(root: Path, layers: list[Path]) -> None:
    """The thin part: an interpreter, paths to the layers, their commands, and this clone itself."""
    venv = root / ".venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)], hint="is another program using .venv?")
    write_paths(venv, "layers.pth", [layer / SITE for layer in layers])
    for layer in layers:
        for command in sorted((layer / "bin").iterdir()):
            link_command(command, venv / "bin" / command.name)
    pip(venv, "--no-deps", "--no-build-isolation", "--no-index", "--editable", str(root))
    say(f"ready: .venv over {', '.join(layer.name for layer in layers)}")


def link_command(source: Path, target: Path) -> None:
    """Give a layer's command to the clone: scripts run under the clone's interpreter, programs are linked."""
    if source.name.startswith(("python", "activate", "Activate")):
        return
    target.unlink(missing_ok=True)
    content = source.read_bytes()
    first_line, _, rest = content.partition(b"\n")
    if first_line.startswith(b"#!") and b"python" in first_line:
        target.write_bytes(b"#!" + str(target.parent / "python").encode() + b"\n" + rest)
        target.chmod(0o755)
    else:
        target.symlink_to(source)


def write_paths(venv: Path, name: str, folders: list[Path]) -> None:
    if folders:
        write_atomically(venv / SITE / name, "".join(f"{folder}\n" for folder in folders))


def write_atomically(path: Path, text: str) -> None:
    half_written = path.with_name(f"{path.name}.{os.getpid()}")
    half_written.write_text(text)
    half_written.replace(path)


def read_stamp(root: Path) -> dict[str, Any]:
    try:
        stamp: dict[str, Any] = json.loads((root / ".venv" / "layers.json").read_text())
    except (OSError, ValueError):
        return {}
    return stamp


def is_usable(root: Path, stamp: dict[str, Any]) -> bool:
    return (root / ".venv" / "bin" / "python").exists() and all(Path(f).is_dir() for f in stamp["layers"].values())


def pip(venv: Path, *arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", *quiet, *arguments]
    run(command, hint="is the package index reachable?")


def run(command: list[str], hint: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise Failed(f"`{' '.join(command[1:4])} ...` failed.\n  {complaint}\n  try: {hint}")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time; the lock goes with the process, however that ends."""
    with path.open("r" if path.suffix == ".toml" else "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    print(f"venv: {text}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
