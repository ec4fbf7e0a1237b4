"""The table of keys on the page about job files, made from the types and what stands beside their fields.

python -m tests.jobs.job_file_page       write the table and the schema anew
"""

import ast
import json
from pathlib import Path

import msgspec

from tutti.jobs import job as module
from tutti.jobs.job import Job, Part
from tutti.jobs.schema import job_schema

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE, SCHEMA = REFERENCE / "job-file.md", REFERENCE / "job.schema.json"
BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"


def meanings() -> dict[str, str]:
    """What is written under each field."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.ClassDef) and node.name in {"Part", "Job"}:
            for field, text in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
                    found[field.target.id] = str(text.value.value) if is_text else ""  # type: ignore[attr-defined]
    return found


def table(kind: type[Part], leave_out: set[str]) -> list[str]:
    """A row for each key."""
    said = meanings()
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for field in msgspec.structs.fields(kind):
        if field.name not in leave_out:
            default = msgspec.to_builtins(field.default) if field.default is not msgspec.NODEFAULT else ""
            empty = default in ("", None, 0, ()) or field.default is msgspec.NODEFAULT
            shown = "" if empty else f"`{json.dumps(default)}`"
            lines.append(f"| `{field.name}` | {shown} | {said[field.name].replace('|', chr(92) + '|')} |")
    return lines


def keys() -> str:
    """Both tables."""
    part = {field.name for field in msgspec.structs.fields(Part)}
    own = table(Job, part)
    return (
        "\n".join(["### Of the job", "", *own, "", "### Of the job, or of each role", "", *table(Part, set())]) + "\n"
    )


def page() -> str:
    """The page with the tables as they should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n\n{keys()}\n{END}{rest.partition(END)[2]}"


def schema() -> str:
    """The schema as it is published."""
    return json.dumps(job_schema(), indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    SCHEMA.write_text(schema())
