"""What a virtual cluster takes for given besides the problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stormwright.model import Problem
from stormwright.predict.calibration.document import costs_of
from stormwright.predict.costs import Correction, Costs


@dataclass(frozen=True)
class Settings:
    """What the virtual cluster takes for given besides the problem.

    Parameters
    ----------
    costs, corrections
        What messages and workers cost; what is known of single topologies, by id.
    varies
        Squared coefficient of variation of executors' times of service: 0 for constant ones, 1 for exponential ones.
    arrivals_vary
        The same of the times between trees that spouts are offered.
    saturated
        Whether spouts begin as many trees as go, instead of those they are offered at the measured rate.
    reliable
        Whether spouts begin trees again that have timed out.
    startup_s
        From a worker's assignment until it is up.
    link_buffer_bytes
        Of every node, for what waits for its link.
    link_burst_bytes
        What a link that was idle lets pass at once, as ``tc``'s token buckets do; 0 for wires.
    core_wait_s
        Until a thread that wakes has a core of a node with a quota, at most, any time up to that being as likely:
        others are on it where the machine is not such nodes' alone.
    tuples_at_once
        How many like tuples are one event at most; fewer where few trees may be pending. 1 follows each of them, more
        is as much faster and tells less of latencies (`stormwright.simulator.storm.placing`).
    seed
        Of the random numbers.
    """

    costs: Costs = field(default_factory=Costs)
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    varies: float = 1.0
    arrivals_vary: float = 1.0
    saturated: bool = False
    reliable: bool = True
    startup_s: float = 6.0
    link_buffer_bytes: float = 262_144.0
    link_burst_bytes: float = 0.0
    core_wait_s: float = 0.0
    tuples_at_once: int = 1
    seed: int = 0

    @classmethod
    def of(cls, problem: Problem, **others: Any) -> Settings:
        """With the costs that come with the problem's load, or those that were measured elsewhere."""
        return cls(*costs_of(problem), **others)
