"""A scheduler's first call may compile for seconds, or start a JVM: this is made before it counts."""

from __future__ import annotations

from contextlib import suppress

from stormwright.model import Component, Problem, Scheduler, Supervisor, Topology, default_executor_runs
from stormwright.schedulers.kit.traits import declared


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
