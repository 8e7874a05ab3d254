"""Ahead-of-time loading of the simulator's machine code: before measurements, and at installation."""

from __future__ import annotations

from functools import cache

import numpy as np

from stormwright.model import Problem
from stormwright.simulator.queueing_network import SimulatedNetwork, Source, Station
from stormwright.simulator.settings import Settings
from stormwright.simulator.storm.engine import Events


@cache
def ready_simulator() -> None:
    """Load the machine code, which is the same for all networks and clusters."""
    for events in (False, True):
        SimulatedNetwork([Station(1.0)], [Source(0, 1.0)], events=events).until(hops=1)
    SimulatedNetwork([Station(1.0)], inside={0: 1}).until(hops=1)
    Events(Problem((), ()), np.empty(0, np.int32), Settings()).until(0.0)
