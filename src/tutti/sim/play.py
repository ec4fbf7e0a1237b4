"""Play a scene in each of its variants and say what came of it."""

import time

import msgspec

from tutti.drive.account import Counting
from tutti.drive.ledger import Ledger
from tutti.drive.notice import Notice
from tutti.engine.model import MINUTE, NEVER, Listing, State
from tutti.engine.policy import Policy
from tutti.views.gantt import Bar

from .backend import devices as devices_of
from .cluster import devices
from .experiment import Case, Outcome, Samples, offered_load, sample
from .faults import FaultFile, drawn_up, put_on
from .intake import Estimates
from .metrics import measure
from .pods import POD_FIFO, PodByPod
from .record import Record
from .run import Simulation
from .scenes import Scene, SceneTasks, Variant, cluster_of, policy_of
from .task import PLAIN, Workload
from .traces.log import Log, Row


class Played(msgspec.Struct):
    """One variant after it was played."""

    name: str
    says: str
    simulation: Simulation
    cluster: Listing
    end: int
    notices: list[Notice]
    policy: Policy
    samples: Samples
    took_s: float
    """Processor time that it took to play it."""

    @property
    def record(self) -> Record:
        """What came of every gang."""
        return self.simulation.record

    @property
    def finished(self) -> list[str]:
        """Gangs that did all their work."""
        rows = range(len(self.record))
        return [self.record.names[row] for row in rows if self.record.state_of(row) is State.FINISHED]

    @property
    def unfinished(self) -> list[str]:
        """Gangs that never ended."""
        return [self.record.names[row] for row in range(len(self.record)) if self.record.state_of(row) is None]


def play(scene: Scene) -> list[Played]:
    """Every variant of the scene."""
    return [play_variant(scene, name, variant) for name, variant in scene.variants.items()]


def play_variant(scene: Scene, name: str, variant: Variant) -> Played:
    """One variant of the scene, to its end or to its horizon."""
    cluster, policy = cluster_of(scene), policy_of(variant, name)
    workload: Workload = SceneTasks(scene, variant.arrange)
    if policy.name == POD_FIFO.name:
        workload = PodByPod(workload)
    notices: list[Notice] = []
    ledger = Ledger("gpu", counting=Counting.RUN_TIME)
    simulation = Simulation(workload, cluster, policy, "gpu", ledger=ledger, keep_nodes=True, tell=notices.append)
    faults = drawn_up(FaultFile(scene.fault), cluster, scene.horizon, seed=0)
    put_on(simulation.agenda, simulation.cluster, simulation.driver.world.node_index, faults)
    samples: Samples = []
    sample(simulation, ledger, samples, 0, MINUTE)
    begun = time.process_time()
    simulation.run(until=scene.horizon)
    took = time.process_time() - begun
    return Played(name, variant.says, simulation, cluster, _end(simulation, scene), notices, policy, samples, took)


def _end(simulation: Simulation, scene: Scene) -> int:
    """When the last gang ended, or when nobody looked any longer."""
    if simulation.stuck:
        return scene.horizon if scene.horizon < NEVER else max(simulation.now, 1)
    return max(simulation.record.ended, default=1)


def as_case(scene: Scene, variants: list[Played]) -> tuple[Case, list[Outcome]]:
    """The scene as if it were a trace, for the report."""
    rows = [
        Row(task.gang.name, task.gang.submitted, task.work, devices_of(task.gang, "gpu")) for task in SceneTasks(scene)
    ]
    cluster = cluster_of(scene)
    size = devices(cluster, "gpu")
    log = Log("scene", scene.title, rows, notes=[" ".join(scene.story.split()), f"Moral: {scene.moral}"])
    faults = drawn_up(FaultFile(scene.fault), cluster, scene.horizon, seed=0)
    habits = next((task.habits for task in SceneTasks(scene) if task.habits is not PLAIN), PLAIN)
    offered = offered_load(rows, size)
    case = Case(
        log, cluster, Estimates(), size, offered, faults, habits, keep_nodes=True, costs_from="as the scene has them"
    )
    return case, [outcome_of(played) for played in variants]


def outcome_of(played: Played) -> Outcome:
    """One variant as if it were a policy on a trace."""
    size = devices(played.cluster, "gpu")
    ledger = played.simulation.driver.ledger
    assert ledger is not None
    report = ledger.report(played.simulation.driver.world, played.end)
    metrics = measure(played.record, played.name, size, report.goodput_ppm / 1e6, played.took_s, until=played.end)
    samples = [each for each in played.samples if each[0] < report.at]
    samples.append((report.at, report.total))
    return Outcome(played.policy, metrics, played.record, report, False, samples, played.notices)


def bars(played: Played) -> list[Bar]:
    """Who held what, for a picture."""
    spells, record = played.record.spells, played.record
    nodes = played.simulation.driver.world.nodes
    found = []
    for index, where in enumerate(spells.where or []):
        ended = spells.ended[index] if spells.ended[index] >= 0 else played.end
        for node, held in where:
            there = nodes[node]
            name = there.name if there is not None else "?"
            job = record.names[spells.task[index]]
            found.append(Bar(job, name, held, spells.begun[index], spells.up[index], ended))
    return found
