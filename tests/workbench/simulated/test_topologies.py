"""Benchmark topologies as a virtual cluster runs them."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.predict.flow.layout import MAX_SPOUT_PENDING
from stormwright.testing.word_counts import WordCount
from stormwright.workbench.demo.settings import parse_submissions
from stormwright.workbench.simulated.topologies import simulated


def test_simulated_word_count_matches_measurements():
    (found,) = simulated(parse_submissions(["word-count"]))
    known = WordCount()
    assert found.topology.executor_runs == known.topology().executor_runs
    load, measured = found.load, known.load()
    assert load.cpu_hz == pytest.approx(measured.cpu_hz)
    assert load.flow_tps == pytest.approx(measured.flow_tps)

    def between(of):
        rates = np.zeros((12, 12))
        np.add.at(rates, (of.pair_source, of.pair_target), of.pair_tps)
        return rates

    assert between(load) == pytest.approx(between(measured))
    assert found.offered_tps == np.inf


def test_simulated_topology_arguments_match_real_ones():
    (found,) = simulated(parse_submissions(["exclamation:spouts=3,workers=2,ackers=0,rate=500,pending=7,name=e"]))
    assert {c.id: c.parallelism for c in found.topology.components} == {"word": 3, "exclaim1": 3, "exclaim2": 2}
    assert (found.topology.name, found.topology.num_workers, found.offered_tps) == ("e", 2, 500)
    assert found.topology.conf[MAX_SPOUT_PENDING] == 7


def test_unsupported_simulated_topologies_are_reported_at_once():
    with pytest.raises(InputError) as refused:
        simulated(parse_submissions(["linear", "word-count:split=0,colour=red", "exclamation:rate=-1"]))
    told = str(refused.value)
    assert "4 faults" in told
    assert "--topology[0]: linear-1 cannot be simulated; there are word-count, exclamation" in told
    assert "--topology[1]: split should be a whole number from 1 to 1000000, is '0'" in told
    assert "--topology[1]: 'colour' has no effect on a simulated word-count-2" in told
    assert "--topology[2]: rate should be a whole number from 0 to 1000000, is '-1'" in told
