"""A test that was left out is named, and in CI it fails the run unless it is on the list of allowed ones.

The list is tests/allowed-skips.txt: a pattern of test names and, after a space, the reason, one per line.
"""

import os
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

import pytest

ALLOWED = Path("tests") / "allowed-skips.txt"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    skipped = sorted({report.nodeid for report in reporter.stats.get("skipped", [])})
    surprises = unexpected(skipped, patterns(session.config.rootpath / ALLOWED))
    for name in skipped:
        reporter.write_line(f"\nleft out: {name}{' (not on the list)' if name in surprises else ''}")
    if surprises and os.environ.get("TUTTI_CI"):
        reporter.write_line(f"{len(surprises)} tests were left out that {ALLOWED} does not allow", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def unexpected(skipped: Iterable[str], allowed: list[str]) -> list[str]:
    return [name for name in skipped if not any(fnmatch(name, pattern) for pattern in allowed)]


def patterns(path: Path) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
