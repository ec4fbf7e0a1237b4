"""Whole-number arithmetic of shell scripts, `$((NODES * 8))`, worked out without running anything."""

import ast
import operator
from collections.abc import Callable, Mapping

MOST_TEXT = 200
MOST_VALUE = 1 << 62
OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(text: str, known: Mapping[str, str]) -> int | None:
    """The value of an expression, or None where it is not plain arithmetic over known numbers."""
    if len(text) > MOST_TEXT:
        return None
    try:
        tree = ast.parse(
            text.replace("$", "").replace("{", "").replace("}", "").replace("/", "//").strip(), mode="eval"
        )
        return _value(tree.body, known)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, known: Mapping[str, str]) -> int:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name):
            return _bounded(int(known.get(name, "")))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, known)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _bounded(OPERATORS[type(op)](_value(left, known), _value(right, known)))
    raise ValueError


def _bounded(number: int) -> int:
    if abs(number) > MOST_VALUE:
        raise ValueError
    return number
