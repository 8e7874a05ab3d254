"""Timeouts of trees: each spout checks every 30 s after the start of its worker, as in Storm."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.predict.costs import Costs
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from stormwright.testing.word_counts import SPOUTS, WordCount

TIMEOUT_S = 30.0


@pytest.mark.parametrize("start_s", [4.0, 11.0])
def test_trees_fail_at_the_second_check_after_the_start_of_their_spout(start_s: float) -> None:
    problem = WordCount(cores=4.0, rate_tps=100.0).problem()
    settings = SimulatorSettings(Costs(), startup_s=start_s)
    slots = np.where(np.isin(np.arange(problem.num_executors), SPOUTS), 0, 1).astype(np.int32)
    events = Events(problem, np.full(problem.num_executors, -1, np.int32), settings)
    events.place(slots)
    # Between the first check and the second one the other worker dies for longer than trees are waited for.
    events.until(start_s + 1.2 * TIMEOUT_S)
    events.place(np.where(slots == 1, -1, slots).astype(np.int32))
    checks = start_s + 3 * TIMEOUT_S
    events.until(checks - 0.1)
    assert events.lost.sum() > 100
    assert events.counts.topologies["timed_out"].sum() == 0
    events.until(checks + 0.1)
    assert events.counts.topologies["timed_out"].sum() > 100
