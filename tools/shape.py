"""Code comes in small pieces: short functions, short files, modules named for the question they answer."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "tools", "tests", "bench", "examples")
FUNCTION_MEDIAN = 10
FUNCTION_LINES = 60
FILE_LINES = 600
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}


def main(root: Path = ROOT) -> int:
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    problems = [f"{path.relative_to(root)}{problem}" for path in files for problem in problems_of(path)]
    sizes = [size for path in files if path.is_relative_to(root / "src") for _, _, size in functions(path)]
    middle = median(sizes) if sizes else 0
    if middle >= FUNCTION_MEDIAN:
        problems.append(f"src: the median function has {middle} lines; keep it under {FUNCTION_MEDIAN}")
    print("\n".join(problems) or f"{len(files)} files, {len(sizes)} functions in src, median {middle} lines")
    return 1 if problems else 0


def problems_of(path: Path) -> Iterator[str]:
    lines = len(path.read_text().splitlines())
    if lines >= FILE_LINES:
        yield f": {lines} lines; keep it under {FILE_LINES}"
    if path.stem in VAGUE:
        yield ": name it for the question it answers"
    for name, line, size in functions(path):
        if size > FUNCTION_LINES:
            yield f":{line}: {name} has {size} lines; at most {FUNCTION_LINES}"


def functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, line and length of each function, decorators and docstring not counted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start, end = node.lineno, node.end_lineno or node.lineno
            docstring = node.body[0] if ast.get_docstring(node) else None
            spoken = (docstring.end_lineno or 0) - docstring.lineno + 1 if docstring else 0
            yield node.name, start, end - start + 1 - spoken


if __name__ == "__main__":
    sys.exit(main())
