"""What is predicted of the demonstration's placements."""

from __future__ import annotations

import pytest

from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.costs import Costs
from stormwright.testing.word_counts import WordCount
from stormwright.workbench.demo.promise import promise

PROBLEM = WordCount(cores=0.4).problem()
(TOPOLOGY,) = (topology.id for topology in PROBLEM.topologies)


def test_unrated_spouts_are_predicted_at_sustainable_rate():
    (expected,) = predict(PROBLEM).topologies
    promised = promise(PROBLEM, PROBLEM.current, {})
    found = promised.topologies[TOPOLOGY]
    assert found.rate_tps == expected.reachable_tps
    assert found.latency_ms == expected.pending_latency_ms
    assert found.bottleneck == "the CPU of node n0"
    assert promised.nodes["n0"].cpu.value == pytest.approx(1.0, rel=0.01)
    assert promised.nodes["n1"].cpu.value == 0


def test_rated_spouts_are_predicted_at_their_rate_if_sustained():
    found = promise(PROBLEM, PROBLEM.current, {TOPOLOGY: 500.0}, Assumptions(Costs(worker_cores=0.02)))
    held = found.topologies[TOPOLOGY]
    assert (held.rate_tps.value, held.rate_tps.low, held.rate_tps.high) == (500, 500, 500)
    assert held.bottleneck == "its spouts, which begin 500 trees/s"
    assert held.latency_ms.value < 5
    assert found.nodes["n0"].cpu.value < 0.1
    more = promise(PROBLEM, PROBLEM.current, {TOPOLOGY: 1e6}).topologies[TOPOLOGY]
    assert more.rate_tps.value < 20_000
    assert more.bottleneck == "the CPU of node n0"
