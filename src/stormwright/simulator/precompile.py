"""All machine code of virtual time made ready at once: before a clock runs, and when the package is set up."""

from __future__ import annotations

from functools import cache

import numpy as np

from stormwright.model import Problem
from stormwright.simulator.queueing_network import SimulatedNetwork, Source, Station
from stormwright.simulator.settings import Settings
from stormwright.simulator.storm.engine import Events


@cache
def ready_simulator() -> None:
    """Nothing is simulated to speak of: the machine code is one for all networks and clusters."""
    for events in (False, True):
        SimulatedNetwork([Station(1.0)], [Source(0, 1.0)], events=events).until(hops=1)
    SimulatedNetwork([Station(1.0)], inside={0: 1}).until(hops=1)
    Events(Problem((), ()), np.empty(0, np.int32), Settings()).until(0.0)
