"""Policies with a name: a place to start from, each with the trade-off it makes."""

from .model import DAY, MINUTE, Data
from .policy import ALL, Growth, Order, Policy, Reclaim, Reservation, Rotation, Term

DEFAULT = "balanced"

NOTHING_BACK = Reclaim(surplus=False, priority=False, quota=False)
NO_GROWTH = Growth(on=False)
NO_TURNS = Rotation(on=False)
BY_AGE = Order(terms=(Term.PRIORITY, Term.SLACK, Term.AGE))


class Preset(Data, frozen=True):
    """A policy, and what it gives up for what."""

    about: str
    policy: Policy


def _line(name: str, about: str, terms: tuple[Term, ...], reserve: Reservation, strict: bool = False) -> Preset:
    """One line for all, nothing taken back, no gang resized: how batch systems are studied."""
    order = Order(terms=terms, fair_share=False, strict=strict)
    return Preset(about, Policy(name, order, reserve, NOTHING_BACK, NO_GROWTH, rotate=NO_TURNS))


def _ranked(name: str, about: str, *terms: Term) -> Preset:
    """A published order with a reservation for the head of the line."""
    return _line(name, about, terms, Reservation(depth=1, backfill=Term.AGE, max_wait=0, lend=0))


_ALL = (
    _line(
        "fcfs",
        "First come, first served, nobody passes: simple to predict, and leaves the most room idle.",
        (Term.AGE,),
        Reservation(depth=0, backfill=Term.AGE, max_wait=0, lend=0),
        strict=True,
    ),
    _line(
        "easy",
        "A promise for the head of the line, all others backfill: good use, but only the first knows its start.",
        (Term.AGE,),
        Reservation(depth=1, backfill=Term.AGE, max_wait=0, lend=0),
    ),
    _line(
        "conservative",
        "A promise for everybody, in the order of arrival: every start is known, backfill has fewer gaps to use.",
        (Term.AGE,),
        Reservation(depth=ALL, backfill=Term.AGE, max_wait=0, lend=0),
    ),
    Preset(
        "Queues take turns by what they used and deserve, guarantees are taken back: fair first, fewer long plans.",
        Policy(
            "fair",
            Order(terms=(Term.PRIORITY, Term.AGE)),
            Reservation(depth=1, backfill=Term.AGE, max_wait=1 * DAY),
            Reclaim(surplus=True, priority=False, quota=True),
        ),
    ),
    Preset(
        "Nothing is resized or interrupted and promises reach far: calm for jobs that cannot restart, less goodput.",
        Policy(
            "rigid",
            BY_AGE,
            Reservation(depth=64, backfill=Term.AGE, max_wait=1 * DAY, lend=0),
            NOTHING_BACK,
            NO_GROWTH,
            rotate=NO_TURNS,
        ),
    ),
    Preset(
        "Waits in proportion to run times, one promise, the shortest backfill first: the default, no extreme.",
        Policy(),
    ),
    Preset(
        "Short gangs backfill first, gangs grow eagerly, one promise: the most work done, starts harder to foretell.",
        Policy(
            "throughput",
            Order(),
            Reservation(depth=1),
            Reclaim(min_run=5 * MINUTE),
            Growth(cool_down=1 * MINUTE, least_gain=1),
        ),
    ),
    _line(
        "easy-sjbf",
        "EASY with the shortest gangs backfilled first: shorter waits on average, longer ones for long gangs.",
        (Term.AGE,),
        Reservation(depth=1, max_wait=0, lend=0),
    ),
    _ranked("sjf", "Shortest first: low average wait, long gangs may starve.", Term.SHORTEST),
    _ranked("wfp3", "WFP3: waiting relative to run time, cubed, times width: favours wide gangs that wait.", Term.WFP3),
    _ranked("uni", "UNICEF: waiting relative to run time and width: favours small gangs that wait.", Term.UNI),
    _ranked("f1", "F1: a fitted mix of run time, width and arrival: low slowdown on batch logs.", Term.F1),
    _ranked("las", "Least attained service in doubling steps: good without estimates.", Term.LEAST_ATTAINED, Term.AGE),
)

PRESETS: dict[str, Preset] = {preset.policy.name: preset for preset in _ALL}
