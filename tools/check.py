"""`make check`: every check, two at a time, one line each; what a failing one said comes last."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BIN = str(Path(sys.executable).parent)
FOLDERS = [name for name in ("src", "tools", "tests", "bench", "examples") if any((ROOT / name).rglob("*.py"))]

CHECKS = {
    "types": [f"{BIN}/mypy", *FOLDERS],
    "style": [f"{BIN}/ruff", "check", "--quiet"],
    "format": [f"{BIN}/ruff", "format", "--check", "--quiet"],
    "layers": [f"{BIN}/lint-imports", "--no-logo"],
    "purity": [sys.executable, "tools/purity.py"],
    "links": [sys.executable, "tools/links.py"],
    "shape": [sys.executable, "tools/shape.py"],
    "words": [sys.executable, "tools/words.py"],
}


class Outcome(NamedTuple):
    name: str
    passed: bool
    said: str
    took_s: float


def run(name: str) -> Outcome:
    started = time.monotonic()
    done = subprocess.run(CHECKS[name], cwd=ROOT, capture_output=True, text=True, check=False)
    return Outcome(name, done.returncode == 0, done.stdout + done.stderr, time.monotonic() - started)


def main() -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = list(pool.map(run, CHECKS))
    print("check:", ", ".join(f"{o.name} {'ok' if o.passed else 'FAILED'} {o.took_s:.1f} s" for o in outcomes))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        print(f"\n{outcome.name}:\n{outcome.said.strip()}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
