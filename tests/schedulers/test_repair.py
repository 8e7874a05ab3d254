"""Repair takes overload away by each of its four steps, and says what is left."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.schedulers.support.draft import Draft
from stormwright.schedulers.support.repair import Repair
from tests.schedulers.builders import load, nodes, problem, topology


def repaired(of, workers, on_nodes, fixed=()):
    draft = Draft.empty(of, of.node_usable)
    for number, (executors, node) in enumerate(zip(workers, on_nodes, strict=True)):
        draft.add_worker(int(of.executor_topology[executors[0]]), executors, node, fixed=number in fixed)
    overloaded = Repair(draft).run()
    return draft, overloaded.tolist()


def test_worker_moves():
    of = problem(nodes(1, 1), (topology("t", 2, 2), load(2, cpu_ghz=0.6)))
    draft, overloaded = repaired(of, [[0], [1]], [0, 0])
    assert (draft.node, overloaded) == ([1, 0], [])


def test_workers_change_nodes():
    """Of different topologies, so their executors cannot change workers."""
    placed = [(topology(f"t{k}", 1, 1), load(1, cpu_ghz=ghz)) for k, ghz in enumerate((0.8, 0.4, 0.5, 0.2))]
    draft, overloaded = repaired(problem(nodes(1, 1, ports=2), *placed), [[0], [1], [2], [3]], [0, 0, 1, 1])
    assert overloaded == []
    assert draft.worker.tolist() == [0, 1, 2, 3]
    assert np.bincount(draft.node).tolist() == [2, 2]


def test_executor_moves():
    of = problem(nodes(1, 1, ports=1), (topology("t", 4, 2), load(4, cpu_ghz=0.45)))
    draft, overloaded = repaired(of, [[0, 1, 2], [3]], [0, 1])
    assert overloaded == []
    assert np.bincount(draft.worker).tolist() == [2, 2]


def test_executors_change_workers():
    """Both workers are full by number."""
    cpu_ghz = np.array([0.6, 0.6, 0.3, 0.3])
    limited = topology("t", 4, 2, **{"stormwright.max.executors.per.worker": 2})
    draft, overloaded = repaired(
        problem(nodes(1, 1, ports=1), (limited, load(4, cpu_ghz=cpu_ghz))), [[0, 1], [2, 3]], [0, 1]
    )
    assert overloaded == []
    assert np.bincount(draft.worker).tolist() == [2, 2]


def test_memory_counts_like_cpu():
    of = problem(nodes(9, 9, memory_mb=250.0), (topology("t", 4, 4), load(4)))
    draft, overloaded = repaired(of, [[0], [1], [2], [3]], [0, 0, 0, 1])
    assert overloaded == []
    assert np.bincount(draft.node).tolist() == [2, 2]


def test_fixed_workers_and_unusable_nodes_take_no_part():
    of = problem(nodes(1, 1, 1), (topology("t", 2, 2), load(2, cpu_ghz=0.6)))
    of = type(of)(of.supervisors, of.topologies, load=of.load, blacklisted_hosts=frozenset({"h1"}))
    draft, overloaded = repaired(of, [[0], [1]], [0, 0], fixed={0})
    assert (draft.node, overloaded) == ([0, 2], [])
    draft, overloaded = repaired(of, [[0], [1]], [0, 0], fixed={0, 1})
    assert (draft.node, overloaded) == ([0, 0], [0])


@pytest.mark.parametrize("seed", range(20))
def test_overload_never_grows_and_nothing_is_lost(seed):
    rng = np.random.default_rng(seed)
    placed = [(topology(f"t{k}", 6, 3), load(6, cpu_ghz=rng.uniform(0.1, 0.5, 6))) for k in range(3)]
    of = problem(nodes(1.5, 1.5, 1.5, 1.5), *placed)
    workers = [[6 * k + 2 * w, 6 * k + 2 * w + 1] for k in range(3) for w in range(3)]
    on_nodes = rng.integers(0, 2, 9).tolist()
    before = Draft.empty(of, of.node_usable)
    for number, (executors, node) in enumerate(zip(workers, on_nodes, strict=True)):
        before.add_worker(number // 3, executors, node)
    draft, _ = repaired(of, workers, on_nodes)
    over = [np.maximum(d.node_sum(of.executor_cpu_hz) - of.node_cpu_hz, 0).sum() for d in (before, draft)]
    assert over[1] <= over[0]
    assert np.array_equal(np.sort(np.unique(draft.worker)), np.arange(9))
    assert all(draft.topology[w] == k for w, k in zip(draft.worker, of.executor_topology, strict=True))
