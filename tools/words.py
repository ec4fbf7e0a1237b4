"""No file names a machine's own paths or a package index, and no source file puts work off."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Spelled in pieces, so that this file passes its own check.
EVERYWHERE = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:" + "work|root" + r")/|/home/" + r"\w+/"),
    "a package index": re.compile(r"(?:pypi|pythonhosted|anaconda|npmjs)\." + r"(?:org|com)"),
}
IN_SRC = {
    "work put off": re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + "X|NotImplemented" + r"Error)\b"),
}
TEXT = {".py", ".md", ".toml", ".txt", ".cfg", ".yaml", ".yml", ".json", ".svg", ".html", ".css", ".js", ".sh", ""}


def main(root: Path = ROOT) -> int:
    problems = [problem for path in files(root) for problem in problems_of(path, root)]
    print("\n".join(problems) or "nothing forbidden")
    return 1 if problems else 0


def files(root: Path) -> list[Path]:
    """What git knows or would add."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [root / name for name in sorted(names) if (root / name).is_file() and Path(name).suffix in TEXT]


def problems_of(path: Path, root: Path) -> Iterator[str]:
    rules = EVERYWHERE | IN_SRC if path.is_relative_to(root / "src") else EVERYWHERE
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        for what, pattern in rules.items():
            if found := pattern.search(line):
                yield f"{path.relative_to(root)}:{number}: {found.group()} ({what})"


if __name__ == "__main__":
    sys.exit(main())
