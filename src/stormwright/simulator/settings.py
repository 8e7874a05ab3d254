"""Settings of a virtual cluster besides the problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from stormwright.model import Problem
from stormwright.predict.calibration.document import costs_of
from stormwright.predict.costs import Correction, Costs
from stormwright.simulator.storm.warm_up import WarmUp


@dataclass(frozen=True)
class SimulatorSettings:
    """Settings of a virtual cluster besides the problem.

    Parameters
    ----------
    costs, corrections
        Costs of messages and workers; corrections of topologies, by id.
    varies
        Squared coefficient of variation of executors' service times: 0 for constant ones, 1 for exponential ones.
    arrivals_vary
        The same for times between trees offered to spouts.
    saturated
        Whether spouts begin trees as fast as possible, instead of at the measured rate.
    offered_tps
        Topology id → offered trees/s, inf for as fast as possible; the measured rate for topologies without an entry.
    backlog_s
        Longest time whose offered trees wait while a spout cannot begin them, such as during a pause; older ones are
        dropped. inf for a source that stores all of them.
    reliable
        Whether spouts replay trees that have timed out.
    startup_s
        Seconds from a worker's assignment until it is up.
    port_opens_s
        Seconds from a worker's assignment until others can connect to it, at most `startup_s`: messages are lost
        before, and wait for its executors afterwards. A JVM that starts cold opens its port after 2.6 of 4.65 s, on 0.4
        cores, some 1.1 s after the assignment.
    link_buffer_bytes
        Buffer size of every node's link.
    link_burst_bytes
        Burst size of an idle link, as in ``tc``'s token buckets; 0 for wires.
    core_wait_s
        Maximum delay, uniformly distributed, until a waking thread gets a core of a node with a quota, as other
        processes share the machine.
    tuples_at_once
        Maximum number of equal tuples per event; fewer if few trees may be pending. 1 follows each of them; more is
        proportionally faster with less accurate latencies (`stormwright.simulator.storm.placing`).
    warm_up
        Speed of a worker after its start by the CPU time that it has used; None if workers are warm at once. Workers
        that are up from the beginning are warm.
    seed
        Seed of the random numbers.
    """

    costs: Costs = field(default_factory=Costs)
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    varies: float = 1.0
    arrivals_vary: float = 1.0
    saturated: bool = False
    offered_tps: Mapping[str, float] = field(default_factory=dict)
    backlog_s: float = inf
    reliable: bool = True
    startup_s: float = 6.0
    port_opens_s: float = 3.7
    link_buffer_bytes: float = 262_144.0
    link_burst_bytes: float = 0.0
    core_wait_s: float = 0.0
    tuples_at_once: int = 1
    warm_up: WarmUp | None = None
    seed: int = 0

    @classmethod
    def of(cls, problem: Problem, **others: Any) -> SimulatorSettings:
        """Return settings with the costs of the problem's load, or those measured elsewhere."""
        return cls(*costs_of(problem), **others)
