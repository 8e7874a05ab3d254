"""The search of small problems: its books against recomputed sums, limits, and the best costs that are known."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model import CostWeights, cost_under, measured_traffic
from stormwright.optimize.search.dense import MAX_DENSE, DensePlacement, keep, restore
from stormwright.optimize.search.tabu import improve_small, is_small, search, settle_workers
from tests.case_files import case_files, case_name, case_problem, read_case
from tests.optimize.layout.test_layout import placed_layout, slots_of
from tests.schedulers.builders import load, nodes, problem, topology

CASES = [path for path in case_files("placement") if case_name(path)[0] == "s"]


def small_layout(path, seed=0):
    layout = placed_layout(case_problem(path), seed)
    assert is_small(layout)
    return layout


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_books_are_right_after_many_steps(path, seed):
    dense = DensePlacement.of(small_layout(path, seed))
    search(dense, 1_234)
    problem, state = case_problem(path), dense.state[0].copy()
    node = dense.node[dense.worker]
    tps = measured_traffic(problem)
    between = dense.worker[tps.source] != dense.worker[tps.target]
    away = node[tps.source] != node[tps.target]
    assert state["cost"] == pytest.approx(float(np.sum(tps.tps * (0.2 * between + 0.8 * away))))
    for name, left in (("cpu_hz", dense.cpu_left), ("memory_mb", dense.memory_left)):
        demand = getattr(problem, f"executor_{name}")
        room, used = getattr(problem, f"node_{name}"), np.bincount(node, demand, len(problem.supervisors))
        assert left * demand.mean() == pytest.approx(room - used, abs=1e-9 * room.max())
    assert np.array_equal(dense.size, np.bincount(dense.worker, minlength=len(dense.node)))
    assert dense.size.min() >= 1
    assert np.all(dense.size <= dense.most[0])
    assert np.all(np.bincount(dense.node, minlength=len(dense.ports)) <= dense.ports)
    overload = sum(-np.minimum(left, 0.0).sum() for left in (dense.cpu_left, dense.memory_left))
    assert state["overload"] == pytest.approx(overload, abs=1e-9)
    reach = dense.reach.copy()
    dense.best.worker[:], dense.best.node[:] = dense.worker, dense.node
    restore(dense, dense.best)
    assert dense.reach == pytest.approx(reach)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_the_best_known_cost_is_reached(path, seed):
    layout, problem = small_layout(path, seed), case_problem(path)
    dense, made = improve_small(layout, 3_000_000, lambda: False)
    assert made >= 3_000_000
    assert dense.best.rank[0] == 0
    layout.executors["worker"], layout.workers["node"] = dense.worker, dense.node
    layout.workers["at"] = [np.sum(dense.node[:worker] == node) for worker, node in enumerate(dense.node)]
    cost = cost_under(problem, slots_of(problem, layout), measured_traffic(problem), CostWeights()).total
    assert cost == pytest.approx(dense.best.rank[1])
    assert cost <= read_case(path)["reference"]["cost"] * (1 + 1e-9)


def test_immovable_worker_stays_in_tabu_search():
    layout = small_layout(CASES[0])
    held = layout.executors["worker"] == layout.free_workers[0]
    node = int(layout.workers["node"][layout.free_workers[0]])
    layout.workers["movable"][layout.free_workers[0]] = False
    dense, _ = improve_small(layout, 200_000, lambda: False)
    assert np.array_equal(dense.worker == layout.free_workers[0], held)
    assert dense.node[layout.free_workers[0]] == node


def test_tabu_search_is_limited_to_small_problems():
    path = next(path for path in case_files("placement") if case_name(path).startswith("m01"))
    assert case_problem(path).num_executors > MAX_DENSE
    assert not is_small(placed_layout(case_problem(path)))


def test_overloaded_nodes_are_relieved_though_nothing_is_exchanged():
    """Four nodes are filled to the brim by executors of every size: only a few of all placements are valid."""
    rng = np.random.default_rng(31)
    parts = np.concatenate([np.diff([0.0, *np.sort(rng.uniform(0, 0.985, 4)), 0.985]) for _ in range(4)])
    of = problem(nodes(1, 1, 1, 1, ports=5), (topology("t", 20, 20), load(20, cpu_ghz=rng.permutation(parts))))
    layout = placed_layout(of)
    dense, _ = improve_small(layout, 200_000, lambda: False)
    assert DensePlacement.of(layout).state["overload"] > 0
    used = np.bincount(dense.node[dense.worker], of.executor_cpu_hz, 4)
    assert np.all(used <= of.node_cpu_hz)


@pytest.mark.parametrize("path", CASES[:6], ids=case_name)
def test_tabu_search_result_has_no_improving_single_worker_move(path):
    """From any nodes; the model computes the cost of a placement."""
    problem, layout = case_problem(path), small_layout(path)
    dense = DensePlacement.of(layout)
    ports = dense.ports
    dense.node[:] = np.random.default_rng(1).permutation(np.repeat(np.arange(len(ports)), ports))[: len(dense.node)]
    keep(dense, dense.best)
    restore(dense, dense.best)

    def now() -> tuple[float, float]:
        layout.workers["node"], layout.executors["worker"] = dense.node, dense.worker
        layout.workers["at"] = [np.count_nonzero(dense.node[:w] == node) for w, node in enumerate(dense.node)]
        keep(dense, dense.best)
        restore(dense, dense.best)
        slots = slots_of(problem, layout)
        cost = cost_under(problem, slots, measured_traffic(problem), CostWeights()).total
        return float(dense.state["overload"][0]), cost

    before = now()
    settle_workers(dense)
    overload, cost = now()
    assert overload <= before[0] + 1e-9
    assert cost < before[1]
    for worker in dense.free_workers:
        own = dense.node[worker]
        for node in np.flatnonzero(dense.used < ports):
            dense.node[worker] = node
            other = now()
            assert other[1] >= cost - 1e-6 or other[0] > overload
        dense.node[worker] = own
        now()
