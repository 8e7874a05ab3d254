"""Ahead-of-time loading of the simulator's machine code: before measurements, and at installation."""

from __future__ import annotations

from functools import cache

import numpy as np

from stormwright.model import Problem
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events


@cache
def ready_simulator() -> None:
    """Load the machine code, which is the same for all clusters."""
    Events(Problem((), ()), np.empty(0, np.int32), SimulatorSettings()).until(0.0)
