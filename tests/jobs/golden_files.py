"""The golden inputs, what is understood of each, and the table of them for the documentation.

python -m tests.jobs.golden_files        write the expectations and the table anew, to be read through and committed
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tutti.jobs.explain import as_json, cores
from tutti.jobs.files import Files
from tutti.jobs.problems import BadJob
from tutti.jobs.understand import understand_line, understand_text
from tutti.jobs.understood import Understood

HERE = Path(__file__).parent / "golden"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "intake.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
GROUPS = {"lines": "Launch lines", "scripts": "Scripts", "jobs": "Job files", "manifests": "Kubernetes manifests"}


class Beside(Files):
    """The files that inputs name. Scripts are kept as text: they are read here, not checked and not run."""

    def text(self, name: str) -> str | None:
        found = super().text(f"{name}.txt" if name.endswith(".py") else name)
        self.read = {read.removesuffix(".txt"): text for read, text in self.read.items()}
        return found


class Case(NamedTuple):
    """One input."""

    group: str
    path: Path

    @property
    def name(self) -> str:
        return f"{self.group}/{self.path.name}"

    @property
    def expected(self) -> Path:
        return self.path.with_name(f"{self.path.name}.expected.json")


def cases() -> list[Case]:
    """Every input, in a fixed order."""
    found = []
    for group in GROUPS:
        paths = sorted(path for path in (HERE / group).iterdir() if not path.name.endswith(".expected.json"))
        found += [Case(group, path) for path in paths]
    return found


def understood(case: Case) -> Understood:
    """What is understood of an input."""
    files = Beside(HERE / "files")
    text = case.path.read_text()
    if case.group == "lines":
        return understand_line(text, None, files, {})
    return understand_text(text, case.path.name, None, files, {})


def outcome(case: Case) -> dict[str, Any]:
    """The same as data, or what is said to be wrong with it."""
    try:
        found = understood(case)
        return _short(as_json(found), found)
    except BadJob as wrong:
        return {"error": str(wrong).splitlines()}


def _short(said: dict[str, Any], found: Understood) -> dict[str, Any]:
    """Without the names of variables, which have tests of their own, and without what is only a default."""
    del said["delivers"]
    said["sources"] = {field: source for field, source in found.sources.items() if source != "default"}
    said["others"] = [_short(other, one) for other, one in zip(said["others"], found.others, strict=True)]
    for empty in [key for key in ("ignored", "warnings", "asks", "files", "others") if not said[key]]:
        del said[empty]
    return said


def written(said: dict[str, Any]) -> str:
    """An expectation as it is kept."""
    return json.dumps(said, indent=1, ensure_ascii=False) + "\n"


def table() -> str:
    """What you have, and what Tutti understands: a row for each input."""
    lines: list[str] = []
    for group, title in GROUPS.items():
        lines += ["", f"### {title}", "", "| what you have | what Tutti understands |", "|---|---|"]
        lines += [row for case in cases() if case.group == group for row in rows(case)]
    return "\n".join(lines).strip() + "\n"


def rows(case: Case) -> Iterator[str]:
    """The row of an input."""
    if case.group == "lines":
        line = " ".join(case.path.read_text().replace("\\\n", " ").split())
        have = _code(line if len(line) <= 110 else f"{line[:107]}...")
    else:
        have = f"`{case.path.name}`"
    yield f"| {have} | {_escaped(summary(json.loads(case.expected.read_text())))} |"


def summary(said: dict[str, Any]) -> str:
    """An outcome in a line."""
    if "error" in said:
        return f"refused: {said['error'][min(1, len(said['error']) - 1)].strip()}"
    gang = said["gang"]
    parts = [_role(role) for role in gang["roles"]]
    text = f"{gang['framework'] or said['what']}: {'; '.join(parts)}"
    text += f"; sizes {', '.join(map(str, gang['legal_sizes'][:8]))}" if gang["elastic_class"] != "rigid" else ""
    text += f"; {gang['limit_s']} s" if gang["limit_s"] else ""
    text += f"; **asks:** {said['asks'][0]}" if said.get("asks") else ""
    return text + (f"; and {len(said['others'])} more" if said.get("others") else "")


def _role(role: dict[str, Any]) -> str:
    low, high = role["min"], role["max"]
    size = str(low) if low == high else f"{low} to {high}"
    ask = role["ask"]
    each = [f"{ask['gpu']} gpu"] if ask["gpu"] else []
    each += [cores(ask["cpu_milli"])] if ask["cpu_milli"] else []
    loose = ", loose" if role["coupling"] == "loose" else ""
    return f"{size} x {role['name']} ({' + '.join(each) or 'nothing'}{loose})"


def _code(text: str) -> str:
    """A text as code, whatever it is made of."""
    plain = text.replace("|", "\\|")
    return f"`` {plain} ``" if "`" in plain else f"`{plain}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def page() -> str:
    """The page of the documentation with the table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def main() -> None:
    """Write all expectations, then the table."""
    for case in cases():
        case.expected.write_text(written(outcome(case)))
    if PAGE.exists():
        PAGE.write_text(page())
    print(f"{len(cases())} inputs")


if __name__ == "__main__":
    main()
