"""Benchmark topologies as a virtual cluster runs them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.formats import problem_from_dict
from stormwright.predict.flow.layout import MAX_SPOUT_PENDING
from stormwright.testing.word_counts import WordCount
from stormwright.workbench.demo.topologies import SHAPES, parse_submissions
from stormwright.workbench.simulated.topologies import simulated_topologies

#: Starts of a real cluster.
RECORDED = Path(__file__).parents[3] / "docs" / "results" / "prediction-cells"


def test_simulated_word_count_matches_measurements():
    (found,) = simulated_topologies(parse_submissions(["word-count"]))
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
    (found,) = simulated_topologies(
        parse_submissions(["exclamation:spouts=3,workers=2,ackers=0,rate=500,pending=7,name=e"])
    )
    assert {c.id: c.parallelism for c in found.topology.components} == {"word": 3, "exclaim1": 3, "exclaim2": 2}
    assert (found.topology.name, found.topology.num_workers, found.offered_tps) == ("e", 2, 500)
    assert found.topology.conf[MAX_SPOUT_PENDING] == 7


@pytest.mark.parametrize("kind", ["word-count", *SHAPES])
def test_simulated_topologies_have_the_components_and_streams_of_real_ones(kind):
    """As a real cluster reported them when starts were recorded."""
    recorded = json.loads(gzip.decompress((RECORDED / f"{kind}.one.0.json.gz").read_bytes()))
    (real,) = problem_from_dict(recorded["problem"], kind).topologies
    (found,) = simulated_topologies(parse_submissions([kind]))

    def structure(topology):
        return {
            component.id: (component.type, component.parallelism, {(g.source, g.kind) for g in component.inputs})
            for component in topology.components
            if not component.id.startswith("__")
        }

    assert structure(found.topology) == structure(real)


def test_a_reference_topology_has_stages_in_turn():
    (found,) = simulated_topologies(parse_submissions(["reference:stages=3,replication=4,payload=500"]))
    own = [component for component in found.topology.components if not component.id.startswith("__")]
    assert {c.id: [g.kind for g in c.inputs] for c in own} == {
        "spout": [],
        "simple-1": ["shuffle"],
        "stateful-2": ["fields"],
        "simple-3": ["shuffle"],
        "ack": ["shuffle"],
    }
    assert {component.parallelism for component in own} == {4}
    assert found.load.bytes_per_tuple == 516


def test_invalid_arguments_of_simulated_topologies_are_reported_at_once():
    with pytest.raises(InputError) as refused:
        simulated_topologies(
            parse_submissions(["linear:bolt-9=1", "word-count:split=0,colour=red", "exclamation:rate=-1"])
        )
    assert [(fault.path, fault.message) for fault in refused.value.faults] == [
        ("--topology[0]", "'bolt-9' has no effect on a simulated linear-1"),
        ("--topology[1]", "split should be a whole number from 1 to 1000000, is '0'"),
        ("--topology[1]", "'colour' has no effect on a simulated word-count-2"),
        ("--topology[2]", "rate should be a whole number from 0 to 1000000, is '-1'"),
    ]
