"""A problem in a line has what the line says, and the fault of a wrong line is reported with its place."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.formats.sketch import sketch
from stormwright.model import Supervisor, Topology


def test_a_chain_is_a_topology():
    problem = sketch("lines 2 -> split 4 -> count 3 fields", nodes=2, cores=2, memory_mb=100, slots=3, rate_tps=10)
    (topology,) = problem.topologies
    found = [(c.id, c.type, c.parallelism, [(g.source, g.kind) for g in c.inputs]) for c in topology.components]
    assert found == [
        ("lines", "spout", 2, []),
        ("split", "bolt", 4, [("lines", "shuffle")]),
        ("count", "bolt", 3, [("split", "fields")]),
    ]
    assert topology.num_workers == 2
    assert problem.node_cpu_hz.tolist() == [6e9, 6e9]
    assert problem.node_memory_mb.tolist() == [100, 100]
    assert len(problem.slots) == 6
    (load,) = problem.loads
    # Two spouts of 10 tuples/s each, which split passes on, a third of it to each count.
    assert load.flow_tps.tolist() == [10, 10]
    assert load.pair_tps.sum() == pytest.approx(20)


def test_chains_of_one_topology_share_their_components():
    problem = sketch({"diamond": ["in 2 -> left 4 -> out 2", "in -> right 4 -> out fields"]}, workers=3)
    (topology,) = problem.topologies
    assert (topology.name, topology.num_workers, topology.num_executors) == ("diamond", 3, 12)
    out = topology.components[topology.component_index["out"]]
    assert [(g.source, g.kind) for g in out.inputs] == [("left", "shuffle"), ("right", "fields")]


def test_sketch_accepts_custom_racks_and_supervisors():
    assert sketch("a 1", nodes=5, racks=2).node_rack.tolist() == [0, 1, 0, 1, 0]
    own = Supervisor("big", "big", (1, 2), 9e9)
    problem = sketch({"t": "a 1"}, nodes=[own])
    assert problem.supervisors == (own,)
    again = sketch(problem.topologies, nodes=[own])
    assert isinstance(again.topologies[0], Topology)
    assert np.array_equal(again.executor_cpu_hz, problem.executor_cpu_hz)


def test_sketch_survives_a_document_round_trip():
    problem = sketch({"a": "x 3 -> y 5 -> z 2 global", "b": "x 1 -> y 2 all"}, nodes=4, racks=2)
    assert problem_to_dict(problem_from_dict(problem_to_dict(problem), "again")) == problem_to_dict(problem)


@pytest.mark.parametrize(
    ("chain", "why"),
    [
        ("a -> b 2", "no number of executors: say a 4"),
        ("a 2 -> b 3 sideways", "no grouping 'sideways'; there are shuffle, fields"),
        ("a 0", "from 1 to 1,000,000 executors"),
        ("a 99999999999999999999", "from 1 to 1,000,000 executors"),
        ("a 2 -> -> b 1", "should be NAME NUMBER"),
        ("", "should be NAME NUMBER"),
        (["a 2 -> b 1", "a 3 -> c 1"], "a: 2 executors before, 3 here"),
        ([], "no chain"),
    ],
)
def test_invalid_component_chain_is_rejected(chain, why):
    with pytest.raises(InputError, match=why):
        sketch({"t": chain})


@pytest.mark.parametrize("nodes", ["3", 2.5, None])
def test_invalid_node_argument_of_sketch_is_rejected(nodes):
    with pytest.raises(InputError, match="should be a number of nodes, or supervisors, got"):
        sketch("a 1 -> b 2", nodes=nodes)


def test_all_faults_at_once():
    with pytest.raises(InputError) as caught:
        sketch({"t": "a -> b"}, nodes=0, cores=-1, rate_tps=float("nan"))
    assert len(caught.value.faults) == 5
