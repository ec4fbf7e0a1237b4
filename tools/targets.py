"""`make help`: the targets that work today, then those whose part is still to come."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = re.compile(r"^([\w$()-]+):[^#=]*## (.+)$", re.MULTILINE)
BENCHES = re.compile(r"^BENCHES := (.+)$", re.MULTILINE)
#: Targets that only run a file: they work when the file is there. `bench-x` runs bench/x.py.
NEEDS = {"demo": "examples/deadlock.py", "soak": "tests/promises", "validate": "bench/validate.py"}


def main(root: Path = ROOT) -> int:
    ready: list[str] = []
    coming: list[str] = []
    for name, says in targets((root / "Makefile").read_text()):
        needed = NEEDS.get(name) or (f"bench/{name[6:]}.py" if name.startswith("bench-") else None)
        row = f"  make {name:<14}{says}"
        (ready if needed is None or (root / needed).exists() else coming).append(row)
    print("\n".join(ready))
    if coming:
        print("\nnot there yet:", *coming, sep="\n")
    return 0


def targets(makefile: str) -> list[tuple[str, str]]:
    benches = BENCHES.search(makefile)
    rows = []
    for name, says in TARGET.findall(makefile):
        names = benches.group(1).split() if name == "$(BENCHES)" and benches else [name]
        rows += [(each, says) for each in names]
    return rows


if __name__ == "__main__":
    sys.exit(main())
