"""`convert`: a gang in another dialect, and the list of what that dialect cannot say, found by reading it back."""

from collections.abc import Callable
from typing import Any

from tutti.engine.model import Data
from tutti.jobs.files import NoFiles
from tutti.jobs.problems import BadJob, Problem, nearest
from tutti.jobs.understand import understand_text
from tutti.jobs.understood import Understood

from .batch_script import sbatch
from .differences import differences
from .groups import DIALECTS
from .job_file import job_file
from .manifests import IMAGE, manifests

TEXTS: dict[str, tuple[str, Callable[[Understood], str]]] = {
    "job": ("job.toml", job_file),
    "sbatch": ("job.sbatch", sbatch),
}
"""What is not Kubernetes: the name it is read back under, and who writes it."""
NAMES = (*DIALECTS, *TEXTS)


class Converted(Data, frozen=True):
    """The text, and what it does not say."""

    text: str
    cannot: tuple[str, ...]


def convert(found: Understood, dialect: str, image: str = IMAGE) -> Converted:
    """Write what was understood in another dialect. Raises BadJob for one nobody knows."""
    if dialect not in NAMES:
        hint = nearest(dialect, NAMES, f"one of {', '.join(NAMES)}")
        raise BadJob([Problem(f"there is no dialect {dialect!r}", hint=hint)], "--to")
    text = written(found, dialect, image)
    after = read_back(text, dialect)
    return Converted(text, differences(found.gang, after.gang))


def written(found: Understood, dialect: str, image: str = IMAGE) -> str:
    """The text alone."""
    if dialect in TEXTS:
        return TEXTS[dialect][1](found)
    import yaml  # noqa: PLC0415 - only for this kind

    objects: list[Any] = manifests(found.gang, dialect, found.job.words, image)
    return "---\n".join(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True) for entry in objects)


def read_back(text: str, dialect: str) -> Understood:
    """The same text, as we would read it from somebody else."""
    name = TEXTS[dialect][0] if dialect in TEXTS else "converted.yaml"
    return understand_text(text, name, None, NoFiles(), {})
