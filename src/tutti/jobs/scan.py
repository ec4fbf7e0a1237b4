"""What a Python script imports and which telling calls it makes, from its syntax tree. It is never run."""

import ast
import warnings
from collections.abc import Iterator
from typing import Any

from tutti.engine.model import Data

MOST_TEXT = 1 << 20
TELLING = {
    "Trainer",
    "Fabric",
    "ScalingConfig",
    "initialize",
    "init_process_group",
    "MultiWorkerMirroredStrategy",
    "ParameterServerStrategy",
    "ParameterServerStrategyV2",
    "fully_shard",
    "FullyShardedDataParallel",
    "DistributedDataParallel",
}


class Call(Data, frozen=True):
    """A call by name, with the keywords whose values stand there plainly."""

    name: str
    path: str
    """The whole dotted name: jax.distributed.initialize."""
    keywords: dict[str, Any]
    opaque: tuple[str, ...]
    """Keywords whose values only a run would tell."""
    place: str


class Scan(Data, frozen=True):
    """What was found."""

    imports: dict[str, int]
    """Modules by dotted name, and the first line that imports each."""
    calls: tuple[Call, ...]
    broken: str = ""
    """Why it could not be read."""

    def line_of(self, module: str) -> int:
        """The line that imports a module or something inside it; 0 where nothing does."""
        inside = [line for name, line in self.imports.items() if name == module or name.startswith(f"{module}.")]
        return min(inside, default=0)


def scan(text: str, source: str) -> Scan:
    """Imports and telling calls of a script. Never raises: a script that cannot be parsed says so."""
    if len(text) > MOST_TEXT:
        return Scan({}, (), "it is larger than 1 MiB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        return Scan(dict(_imports(tree)), tuple(_calls(tree, source)))
    except SyntaxError as wrong:
        return Scan({}, (), f"line {wrong.lineno or 0} is not Python")
    except (ValueError, RecursionError, MemoryError):
        return Scan({}, (), "it is not Python that anybody would write")


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.setdefault(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.setdefault(node.module, node.lineno)
            for alias in node.names:
                found.setdefault(f"{node.module}.{alias.name}", node.lineno)
    yield from found.items()


def _calls(tree: ast.Module, source: str) -> Iterator[Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            path = _dotted(node.func)
            name = path.rpartition(".")[2]
            if name in TELLING:
                yield _call(node, name, path, source)


def _call(node: ast.Call, name: str, path: str, source: str) -> Call:
    keywords: dict[str, Any] = {}
    opaque: list[str] = []
    for keyword in node.keywords:
        if keyword.arg is None:
            continue
        try:
            keywords[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            opaque.append(keyword.arg)
    return Call(name, path, keywords, tuple(opaque), f"{source}:{node.lineno}")


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < 32:
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))
