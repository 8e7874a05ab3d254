"""The offline scheduler: rules of the paper on topologies small enough to follow by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stormwright.errors import InputError
from stormwright.model import Component, Grouping, Problem, Topology, default_executor_runs
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import nodes


def chain(*parallelism: int, workers: int) -> Topology:
    """Components ``c0`` → ``c1`` → … with that many executors."""
    components = tuple(
        Component(f"c{i}", "bolt" if i else "spout", count, (Grouping(f"c{i - 1}"),) if i else ())
        for i, count in enumerate(parallelism)
    )
    return Topology("t", "t", workers, components, default_executor_runs(components))


def workers(topology: Topology, **settings: float) -> list[list[str]]:
    """Component names of the executors of every worker."""
    problem = Problem(nodes(*[10.0] * 8), (topology,))
    slots = make_scheduler("offline", settings).schedule(problem).slot_of_executor.tolist()
    names = [topology.components[c].id for c in topology.executor_component]
    return [[n for n, s in zip(names, slots, strict=True) if s == slot] for slot in sorted(set(slots))]


def test_executors_join_workers_of_their_source_components():
    """As many workers as spouts, all of one size: every worker holds a whole chain."""
    assert workers(chain(2, 2, 2, workers=2), epsilon=1) == [["c0", "c1", "c2"], ["c0", "c1", "c2"]]


def test_alpha_zero_makes_workers_equal():
    assert sorted(len(w) for w in workers(chain(1, 7, workers=4))) == [2, 2, 2, 2]


def test_alpha_one_permits_all_executors_but_one_per_other_worker():
    """M(1) = E - W + 1; without empty workers first, the bolts join the only spout."""
    sizes = sorted(len(w) for w in workers(chain(1, 7, workers=4), alpha=1, epsilon=1))
    assert sizes == [1, 1, 1, 5]


def test_epsilon_zero_uses_empty_workers_first():
    """Of several the last, as the authors' code puts each in front of those before."""
    assert workers(chain(1, 1, 1, workers=3), alpha=1, epsilon=0) == [["c2"], ["c1"], ["c0"]]


def test_empty_workers_alternate_with_upstream_workers():
    """M = 5. Workers 3 and 2 are empty; six bolts go to 3, 2, 0, 1, 3, 2, so that all four have two executors."""
    sizes = [len(w) for w in workers(chain(2, 6, workers=4), alpha=1, epsilon=0.5)]
    assert sizes == [2, 2, 2, 2]


def test_a_full_worker_leaves_the_turns():
    """M = 2. Five bolts go to 2, 1, 0, then 0 with its spout is full: 2 and 1 follow."""
    assert workers(chain(1, 5, workers=3), epsilon=0.5) == [["c0", "c1"], ["c1", "c1"], ["c1", "c1"]]


def test_a_topology_s_own_parameters_go_before_the_scheduler_s():
    own = {"stormwright.alpha": 1, "stormwright.epsilon": 1.0, "stormwright.beta": 0}
    configured = replace(chain(1, 7, workers=4), conf=own)
    assert sorted(len(w) for w in workers(configured, alpha=0, epsilon=0)) == [1, 1, 1, 5]
    problem = Problem(nodes(*[10.0] * 8), (configured,))
    assert len(set(problem.slot_node[make_scheduler("offline").schedule(problem).slot_of_executor].tolist())) == 1


def test_all_out_of_range_topology_parameters_are_listed():
    own = {"stormwright.alpha": 1.5, "stormwright.beta": "0.5", "stormwright.epsilon": True, "stormwright.gamma": 0.5}
    with pytest.raises(InputError) as error:
        Problem(nodes(10.0), (replace(chain(1, 1, workers=1), conf=own),))
    assert [fault.path.rpartition("[")[2] for fault in error.value.faults] == [f'"{key}"]' for key in own]
    assert [fault.message for fault in error.value.faults] == [
        "should be a number from 0 to 1, got 1.5",
        "should be a number from 0 to 1, got '0.5'",
        "should be a number from 0 to 1, got True",
        "should be a number from 1 to 1e+09, got 0.5",
    ]


def test_beta_determines_the_node_count():
    def nodes_used(beta: float) -> int:
        problem = Problem(nodes(*[10.0] * 8), (chain(4, 4, workers=4),))
        slots = make_scheduler("offline", {"beta": beta}).schedule(problem).slot_of_executor
        return len(set(problem.slot_node[slots].tolist()))

    assert [nodes_used(beta) for beta in (0, 0.5, 1)] == [1, 3, 4]


def test_a_cycle_is_no_obstacle():
    components = (
        Component("a", "spout", 1),
        Component("b", "bolt", 2, (Grouping("a"), Grouping("c"))),
        Component("c", "bolt", 2, (Grouping("b"),)),
    )
    problem = Problem(nodes(10.0, 10.0), (Topology("t", "t", 2, components, default_executor_runs(components)),))
    assert not make_scheduler("offline").schedule(problem).unplaced
