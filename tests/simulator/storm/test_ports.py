"""A worker that starts accepts messages before its executors run: they wait for them, and are not lost."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.predict.costs import Costs
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from stormwright.testing.word_counts import SPOUTS, WordCount

RATE_TPS, STARTUP_S = 50.0, 6.0


@pytest.mark.parametrize("port_opens_s", [2.0, 4.0, 9.0])
def test_tuples_sent_to_a_starting_worker_are_lost_until_its_port_is_open(port_opens_s: float) -> None:
    problem = WordCount(cores=4.0, rate_tps=RATE_TPS).problem()
    settings = SimulatorSettings(Costs(), startup_s=STARTUP_S, port_opens_s=port_opens_s, reliable=False)
    slots = np.where(np.isin(np.arange(problem.num_executors), SPOUTS), 0, 1).astype(np.int32)
    events = Events(problem, slots, settings)
    events.until(10.0)
    events.kill(1)
    events.until(30.0)
    lost_s = min(port_opens_s, STARTUP_S)
    assert events.lost.sum() == pytest.approx(lost_s * RATE_TPS, rel=0.15)
    completed = events.counts.topologies["completed"].sum()
    assert completed == pytest.approx((30.0 - lost_s) * RATE_TPS, rel=0.05)
