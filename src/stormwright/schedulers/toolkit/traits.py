"""What the class of a scheduler declares of itself, so that nobody has to know it by name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from stormwright.model import Component, Problem, Scheduler, Supervisor, Topology, default_executor_runs
from stormwright.schedulers.toolkit.triggers import NEVER, Adaptation

# Constraints --------------------------------------------------------------------------------------
# Which limits, besides those that hold for every placement, a scheduler heeds: as its traits declare them.


# Warm-up ------------------------------------------------------------------------------------------
# A scheduler's first call may compile for seconds, or start a JVM: this is made before it counts.


def warm_up(scheduler: Scheduler) -> None:
    """Have a scheduler place two executors on one node, unless it tells its time itself.

    Compiled loops are typed by their arrays alone, so those of this problem serve for every other.
    """
    if declared(scheduler).times_itself:
        return
    components = (Component("spout", "spout", 2),)
    topology = Topology("warm-up", "warm-up", 2, components, default_executor_runs(components))
    # What fails here fails again, and is told, when it counts.
    with suppress(Exception):
        scheduler.schedule(Problem((Supervisor("node", "node", (6700, 6701), cpu_hz=1e9),), (topology,)))


# Traits -------------------------------------------------------------------------------------------

#: Executors of problems of any size.
ANY_NUMBER = 10**9


@dataclass(frozen=True)
class Traits:
    """Attributes that a scheduler or its class may have; each that it leaves out counts as its default here.

    Parameters
    ----------
    heeds_limits
        It keeps to what nodes have: CPU, memory, generic resources, and hosts that are set apart.
    heeds_requests
        It keeps to what is asked of nodes and of the heaps of workers, where the cluster's own scheduler goes by that.
    handles_isolation
        It gives isolated topologies hosts of their own by itself; for others `IsolatingScheduler` does.
    heeds_tags
        Executors go only where the tags of their component are. What another package's class does not tell is not
        known, and taken for yes.
    keeps_untagged_apart
        Executors without a tag go only where there are no tags.
    cpu_percent_parameter
        Name of the parameter that says how much of a node's CPU, in percent, executors may use; empty: all of it.
    takes_turns
        Topologies that wait are placed one after the other, and which one the problem has first may decide.
    uses_forecast
        A service is to keep forecasts for it.
    times_itself
        Its answer tells how long it took, without what comes before its first answer: so it needs no warming up.
    keeps_time_limit
        It ends by itself after the time that it is given.
    moves_running
        As it is set, it moves what runs by itself, where that pays; others leave it where it is.
    near_what_runs
        As it is set, its answer is to be near to what runs, so that it cannot be asked as if nothing ran.
    adapts
        When its source places anew what runs; by default it never does.
    asks_others
        It decides between the answers of other schedulers.
    quick_up_to
        Executors up to which it usually answers within a second or two, as it is by default.
    """

    heeds_limits: bool = True
    heeds_requests: bool = False
    handles_isolation: bool = False
    heeds_tags: bool = False
    keeps_untagged_apart: bool = False
    cpu_percent_parameter: str = ""
    takes_turns: bool = True
    uses_forecast: bool = False
    times_itself: bool = False
    keeps_time_limit: bool = False
    moves_running: bool = False
    near_what_runs: bool = False
    adapts: Adaptation = NEVER
    asks_others: bool = False
    quick_up_to: int = ANY_NUMBER


def declared(kind: object, **otherwise: Any) -> Traits:
    """The traits of a scheduler or of its class.

    Parameters
    ----------
    otherwise
        Traits that hold where it declares none.
    """
    defaults = Traits(**otherwise)
    return Traits(**{of.name: getattr(kind, of.name, getattr(defaults, of.name)) for of in fields(Traits)})


#: What holds of a scheduler also where another one is around it.
_PASSED_ON = ("uses_forecast", "heeds_requests", "moves_running", "near_what_runs", "adapts")


def passed_on(scheduler: object, traits: Traits) -> dict[str, Any]:
    """Traits that what is around a scheduler has, too: what it declares as it is set, else those of its class."""
    return {name: getattr(scheduler, name, getattr(traits, name)) for name in _PASSED_ON}
