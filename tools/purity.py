"""The parts that must stay pure or portable import only what is on their short list.

import-linter forbids the known sins; a short list of what is allowed also stops the ones nobody thought of.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ENGINE = {
    "tutti.engine", "tutti.errors", "numpy", "msgspec",
    "__future__", "abc", "array", "bisect", "collections", "copy", "dataclasses", "difflib", "enum", "fractions",
    "functools", "hashlib", "heapq", "itertools", "math", "operator", "re", "statistics", "string", "tomllib", "types",
    "typing", "weakref",
}  # fmt: skip
AGENT = {"tutti.train.agent", *sys.stdlib_module_names}

#: Folder (or file) under src -> what it may import. A name covers everything below it.
ALLOWED = {
    "tutti/engine": ENGINE,
    "tutti/train/agent": AGENT,
    "tutti/train/agent.py": AGENT,
    "tutti/local/keeper": {"tutti.local.keeper", *AGENT},
    "tutti/errors.py": set(),
    "tutti/__init__.py": {"tutti.api.client"},
}
#: In the engine, these reach the world or chance without an import.
IMPURE_NAMES = {"open", "print", "input", "eval", "exec", "breakpoint", "__import__"}


def main(src: Path = ROOT / "src") -> int:
    problems = [problem for place in ALLOWED for problem in problems_in(src, place)]
    print("\n".join(problems) or "pure")
    return 1 if problems else 0


def problems_in(src: Path, place: str) -> Iterator[str]:
    root = src / place
    for path in sorted(root.rglob("*.py")) if root.is_dir() else [root] if root.exists() else []:
        tree = ast.parse(path.read_text())
        for line, name in imports(tree, package_of(path, src)):
            if not any(name == allowed or name.startswith(f"{allowed}.") for allowed in ALLOWED[place]):
                yield f"{path.relative_to(src.parent)}:{line}: {place} may not import {name}"
        if place == "tutti/engine":
            for line, name in impure_uses(tree):
                yield f"{path.relative_to(src.parent)}:{line}: {place} may not use {name}"


def package_of(path: Path, src: Path) -> list[str]:
    return list(path.relative_to(src).parent.parts)


def imports(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, relative imports resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def impure_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_NAMES:
            yield node.lineno, node.id
        if isinstance(node, ast.Attribute) and node.attr == "random" and ast.unparse(node.value) in {"np", "numpy"}:
            yield node.lineno, "numpy.random"


if __name__ == "__main__":
    sys.exit(main())
