"""What was understood of a job, from where, and what was not."""

from tutti.engine.model import Data, Gang

from .job import Job
from .output_files import OutputFiles
from .world_size import WorldRule


class Ignored(Data, frozen=True):
    """Something that was written and changes nothing here, and why."""

    text: str
    why: str


class Understood(Data, frozen=True, kw_only=True):
    """A job as Tutti sees it."""

    job: Job
    gang: Gang
    what: str
    """What kind of thing it was read from, in a few words."""
    framework: str = ""
    launcher: str = ""
    """The program that starts the ranks on each node, where the line has one; it is run as written."""
    manager: str = ""
    """The batch system the script was written for."""
    elastic_class: str = "rigid"
    """rigid, moldable (its size is chosen at the start) or malleable (it may change later)."""
    elastic_level: str = "L0"
    ranks_per_member: int = 1
    nodes: int = 0
    """Nodes of a batch job, where they are not its members."""
    world: WorldRule = WorldRule()
    tensor_group: int = 1
    """So many consecutive ranks must share an NVLink domain."""
    legal_sizes: tuple[int, ...] = ()
    """Of the elastic role, in members."""
    sources: dict[str, str] = {}
    ignored: tuple[Ignored, ...] = ()
    warnings: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    """What has to be said before the job can be trusted to run: asked, not guessed."""
    delivers: tuple[str, ...] = ()
    """Names of the variables each member will find."""
    files: tuple[str, ...] = ()
    """Files that were read besides the job itself."""
    output: OutputFiles | None = None
    """The files a batch script wants its output in."""
    copies: int = 1
    """Gangs alike that a manifest makes, each by itself."""
    commands: dict[str, tuple[str, ...]] = {}
    """What the first container of each role runs, where it was read from a manifest."""
    others: "tuple[Understood, ...]" = ()
    """Further gangs of the same file."""
