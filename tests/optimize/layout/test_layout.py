"""The books of a layout against recomputed sums, after many steps of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model import CostWeights, cost_under, measured_traffic
from stormwright.optimize.construction.topologies import construct
from stormwright.optimize.layout import start
from stormwright.optimize.layout.links import Links
from stormwright.optimize.layout.objective import Prices
from stormwright.optimize.search.refine import refine
from stormwright.schedulers.toolkit.limits import max_executors_per_worker, num_workers
from tests.case_files import case_files, case_name, case_problem
from tests.schedulers.builders import running

CASES = [path for path in case_files("placement") if case_name(path)[0] in "slm"]


def layout_of(problem, seed=0):
    """A layout with nothing placed."""
    counts = [num_workers(topology) for topology in problem.topologies]
    workers = start.Workers(
        of_executor=np.full(problem.num_executors, -1),
        topology=np.repeat(np.arange(len(counts)), counts),
        node=np.full(sum(counts), -1),
        runs=np.zeros(sum(counts), bool),
        held=np.zeros(sum(counts), bool),
    )
    most = np.array([max_executors_per_worker(topology) for topology in problem.topologies])
    links = Links.following(problem)
    return start.make_layout(problem, links, workers, problem.node_usable, most, CostWeights(), seed)


def placed_layout(problem, seed=0):
    """One with everything placed, whether valid or not, and what may move as the scheduler sees it."""
    first = layout_of(problem, seed)
    construct(first, np.arange(len(problem.topologies)))
    workers = start.Workers(
        first.executors["worker"].copy(),
        first.workers["topology"].copy(),
        first.workers["node"].copy(),
        np.zeros(len(first.workers), bool),
        np.zeros(len(first.workers), bool),
    )
    links = Links.following(problem)
    most = first.topologies["most"]
    return start.make_layout(problem, links, workers, problem.node_usable, most, CostWeights(), seed)


def slots_of(problem, layout):
    """The first slots of every node, in the order in which its workers stand."""
    ports = np.array([len(node.ports) for node in problem.supervisors])
    slot = (np.cumsum(ports) - ports)[layout.workers["node"]] + layout.workers["at"]
    return slot[layout.executors["worker"]].astype(np.int32)


@pytest.mark.parametrize("most_tabled", [0, 256])
@pytest.mark.parametrize("temperature", [0.0, 0.05, 5.0])
@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_books_are_right_after_many_steps(path, temperature, most_tabled, monkeypatch):
    monkeypatch.setattr(start, "_MAX_TABLED", most_tabled)
    problem = case_problem(path)
    layout = placed_layout(problem)
    start.add_up_cost(layout)
    refine(layout, 30_000, temperature * layout.executors["tps"].mean())

    cost = cost_under(problem, slots_of(problem, layout), measured_traffic(problem), CostWeights()).total
    assert layout.totals["cost"][0] == pytest.approx(cost, rel=1e-9)
    worker, node = layout.executors["worker"], layout.workers["node"]
    assert np.array_equal(layout.workers["size"], np.bincount(worker, minlength=len(node)))
    assert layout.workers["size"].min() >= 1
    assert np.array_equal(layout.nodes["used"], np.bincount(node, minlength=len(layout.nodes)))
    for name, demand, capacity in (
        ("cpu_hz_left", problem.executor_cpu_hz, problem.node_cpu_hz),
        ("memory_mb_left", problem.executor_memory_mb, problem.node_memory_mb),
    ):
        left = capacity - np.bincount(node[worker], demand, len(layout.nodes))
        assert layout.nodes[name] == pytest.approx(left, rel=1e-6, abs=1e-6 * capacity.max())
    before = layout.table.copy()
    start.rearrange(layout, layout.executors["worker"].copy(), layout.workers["node"].copy())
    assert np.array_equal(layout.table, before), "sums of rates are exact"


@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_worker_distances_equal_distances_of_their_nodes(path):
    """Weights of a tuple by default: 0.2 on one node, 1 in a rack, 2 between racks."""
    layout = placed_layout(case_problem(path))
    refine(layout, 30_000, 0.05 * layout.executors["tps"].mean())

    node, rack = layout.workers["node"], layout.workers["rack"]
    wanted = np.where(node[:, None] == node, 0.2, np.where(rack[:, None] == rack, 1.0, 2.0))
    np.fill_diagonal(wanted, 0.0)
    for topology in layout.topologies:
        own = slice(topology["first_worker"], topology["last_worker"])
        count = own.stop - own.start
        rows = layout.workers["row"][own] + count * count
        assert np.array_equal(layout.table[rows[:, None] + np.arange(count)], wanted[own, own])


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_priced_quantities_are_exact_after_many_steps(path, near):
    """Nodes in use and squares of their load by recomputed sums; what moved and restarts by sets of executors."""
    problem = case_problem(path)
    first = placed_layout(problem)
    prices = Prices(node=300.0, imbalance=5e4, **({"move": 0.5, "max_restarts": 9, "restart": 1.0} if near else {}))
    workers = start.Workers(
        first.executors["worker"].copy(),
        first.workers["topology"].copy(),
        first.workers["node"].copy(),
        np.full(len(first.workers), near),
        np.zeros(len(first.workers), bool),
    )
    problem = running(problem, slots_of(problem, first).tolist())
    links, most = Links.following(problem), first.topologies["most"]
    layout = start.make_layout(problem, links, workers, problem.node_usable, most, CostWeights(), 1, prices)
    refine(layout, 30_000, 0.1 * layout.executors["tps"].mean())

    worker, node = layout.executors["worker"], layout.workers["node"]
    used = np.bincount(node[worker], problem.executor_cpu_hz, len(problem.node_cpu_hz))
    squares = used**2 / problem.node_cpu_hz / problem.node_cpu_hz.mean()
    wanted = 300.0 * len(np.unique(node)) + 5e4 * squares.sum()
    assert layout.totals["use_cost"][0] == pytest.approx(wanted, rel=1e-6)
    before = [(first.workers["node"][w], set(np.flatnonzero(first.executors["worker"] == w))) for w in range(len(node))]
    after = [(node[w], set(np.flatnonzero(worker == w))) for w in range(len(node))]
    restarted = sum(a != b for a, b in zip(before, after, strict=True))
    assert layout.totals["restarted"][0] == (restarted if near else 0)
    if near:
        assert 0 < restarted <= 9
        stays = sum(len(a & b) for (at, a), (now, b) in zip(before, after, strict=True) if at == now)
        assert layout.totals["moved"][0] == problem.num_executors - stays > 0


@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_workers_are_rings_of_their_executors(path):
    layout = placed_layout(case_problem(path))
    refine(layout, 20_000, 0.05 * layout.executors["tps"].mean())
    for worker in range(len(layout.workers)):
        ring, executor = [], int(layout.workers["any"][worker])
        for _ in range(layout.workers["size"][worker]):
            ring.append(executor)
            assert layout.executors["previous"][layout.executors["next"][executor]] == executor
            executor = int(layout.executors["next"][executor])
        assert executor == ring[0]
        assert sorted(ring) == np.flatnonzero(layout.executors["worker"] == worker).tolist()


def test_an_overload_never_grows():
    problem = case_problem(CASES[0])
    layout = placed_layout(problem)
    layout.nodes["cpu_hz_left"] -= 0.5 * problem.node_cpu_hz
    worst = np.minimum(layout.nodes["cpu_hz_left"], 0)
    for _ in range(50):
        refine(layout, 100, layout.executors["tps"].mean())
        left = np.minimum(layout.nodes["cpu_hz_left"], 0)
        assert np.all(left >= worst - 1e-6 * problem.node_cpu_hz)
        worst = left
