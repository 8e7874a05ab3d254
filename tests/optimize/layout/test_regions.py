"""Regions of a layout, searches on several threads, and nodes that have too much."""

from __future__ import annotations

import itertools
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import CostWeights, cost_of, cost_under, measured_traffic
from stormwright.optimize.layout.links import Links
from stormwright.optimize.layout.regions import cut_into_regions
from stormwright.optimize.layout.start import Workers, add_up_cost, make_layout
from stormwright.optimize.search import budget
from stormwright.optimize.search.anneal import AnnealEffort
from stormwright.optimize.search.budget import Budget
from stormwright.optimize.search.cooling import Cooling
from stormwright.optimize.search.refine import relieve
from tests.case_files import case_files, case_name, case_problem
from tests.optimize.layout.test_layout import placed_layout, slots_of
from tests.schedulers.builders import load, nodes, problem, topology

LARGE = next(path for path in case_files("placement") if case_name(path).startswith("l04"))


@pytest.fixture
def many_regions(monkeypatch):
    """Cut also what is small."""
    monkeypatch.setattr(budget, "_REGION", 100)
    monkeypatch.setattr(budget, "_OF_LARGEST", 2)
    monkeypatch.setattr(budget, "_FEWEST", 2)


@pytest.mark.parametrize("racks", [1, 4])
def test_regions_have_nothing_in_common(racks):
    problem = case_problem(LARGE)
    nodes = tuple(replace(node, rack=f"r{n * racks // 64}") for n, node in enumerate(problem.supervisors))
    layout = placed_layout(replace(problem, supervisors=nodes))
    movable = layout.workers["movable"].copy()
    with cut_into_regions(layout, 4, np.random.default_rng(0)) as regions:
        assert len(regions) == 4
        assert sorted(np.concatenate([region.rack_nodes for region in regions])) == list(range(64))
        free = np.concatenate([region.free_executors for region in regions])
        assert len(np.unique(free)) == len(free) > problem.num_executors / 3
        for region in regions:
            topologies = np.unique(layout.executors["topology"][region.free_executors])
            workers = np.flatnonzero(np.isin(layout.workers["topology"], topologies))
            assert np.isin(layout.workers["node"][workers], region.rack_nodes).all()
            assert np.array_equal(workers, np.sort(region.free_workers))
            for rack, (first, last) in enumerate(region.racks.tolist()):
                assert (layout.nodes["rack"][region.rack_nodes[first:last]] == rack).all()
        assert sorted(np.flatnonzero(layout.workers["movable"])) == sorted(
            np.concatenate([region.free_workers for region in regions])
        )
    assert np.array_equal(layout.workers["movable"], movable)


def _fail(masked):
    assert masked, "what lies across does not move"
    raise ZeroDivisionError


def test_failing_region_restores_masked_workers_and_topologies():
    problem = case_problem(LARGE)
    layout = placed_layout(replace(problem, supervisors=tuple(replace(each, rack="r") for each in problem.supervisors)))
    movable, whole = layout.workers["movable"].copy(), layout.topologies["whole"].copy()
    with pytest.raises(ZeroDivisionError), cut_into_regions(layout, 32, np.random.default_rng(0)):
        _fail(masked=not np.array_equal(layout.workers["movable"], movable))
    assert np.array_equal(layout.workers["movable"], movable)
    assert np.array_equal(layout.topologies["whole"], whole)


def test_failure_in_one_region_stops_search_of_the_others(many_regions, monkeypatch):
    """Threads that go on would change a layout that is put together again."""
    running = []

    def fail_or_wait(regions, **_):
        if not running:
            running.append(True)
            time.sleep(0.3)
            running.append(False)
        else:
            raise ZeroDivisionError

    monkeypatch.setattr(budget, "_refine_in_turn", fail_or_wait)
    layout = placed_layout(case_problem(LARGE))
    add_up_cost(layout)
    cooling = Cooling.of(layout, 1000)
    noted = []
    monkeypatch.setattr(budget, "cut_into_regions", lambda *given: _noting(cut_into_regions(*given), noted, running))
    with pytest.raises(ZeroDivisionError):
        budget.search_regions(layout, cooling, AnnealEffort(1000, 0.0), 4, 2)
    assert noted == [[True, False]]


@contextmanager
def _noting(cut, noted, running):
    """What was running when regions were put together again."""
    with cut as regions:
        try:
            yield regions
        finally:
            noted.append(list(running))


@pytest.mark.parametrize("cores", [1, 2])
def test_a_search_by_regions_keeps_the_books(cores, many_regions):
    problem = case_problem(LARGE)
    costs, workers = [], []
    for _ in range(2):
        layout = placed_layout(problem)
        add_up_cost(layout)
        begun = float(layout.totals["cost"][0])
        assert budget.count_regions(layout, cores) > 2
        allowed = Budget(0.0, 100_000, cores)
        placed = allowed.improve(layout)
        cost = cost_under(problem, slots_of(problem, layout), measured_traffic(problem), CostWeights()).total
        assert layout.totals["cost"][0] == pytest.approx(cost, rel=1e-9)
        assert 100_000 <= allowed.made <= 200_000
        assert placed.overload == 0
        assert placed.cost < 0.97 * begun
        costs.append(placed.cost)
        workers.append(placed.worker)
    assert costs[0] == costs[1]
    assert np.array_equal(*workers), "whichever thread is faster"


@pytest.mark.parametrize("effort", [Budget(0.0, 1_000), Budget(0.05)])
def test_topology_spread_across_all_regions_stays(effort, many_regions):
    """Every topology has a worker on each of two nodes, and each node is a region."""
    of = problem(
        nodes(99, 99, ports=99, memory_mb=1e6), *((topology(f"t{n}", 4, 2), load(4, [(0, 1, 1)])) for n in range(60))
    )
    slots = np.concatenate([[n, n, 99 + n, 99 + n] for n in range(60)])
    layout = placed_layout(of)
    workers = Workers(
        np.repeat(np.arange(120), 2), np.repeat(np.arange(60), 2), np.tile([0, 1], 60), *np.zeros((2, 120), bool)
    )
    most = layout.topologies["most"]
    layout = make_layout(of, Links.following(of), workers, of.node_usable, most, CostWeights(), 0)
    assert budget.count_regions(layout, 1) == 2
    assert np.array_equal(effort.improve(layout).node, workers.node)
    assert cost_of(of, slots.astype(np.int32)).total == layout.totals["cost"][0]


def test_limits_of_moves_are_for_all_regions_together(many_regions):
    assert budget.count_regions(placed_layout(case_problem(LARGE))._replace(max_moves=5), 1) == 1


def test_more_threads_are_no_worse_and_share_nothing():
    problem = case_problem(LARGE)
    alone, layout = placed_layout(problem), placed_layout(problem)
    one, two = Budget(0.0, 30_000), Budget(0.0, 30_000, threads=2)
    found, better = one.improve(alone), two.improve(layout)
    assert better.rank <= found.rank
    assert two.made > 1.9 * one.made
    assert np.array_equal(layout.executors["worker"], alone.executors["worker"]), (
        "the first thread's search is the same"
    )
    assert np.array_equal(two.improve(placed_layout(problem)).worker, better.worker)


def test_a_search_by_regions_ends_in_time(many_regions, monkeypatch):
    """By a clock that goes on by a millisecond at each look, however long others keep the process from its core."""
    looks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(looks) / 1000)
    layout = placed_layout(case_problem(LARGE))
    budget = Budget(0.3)
    assert budget.improve(layout).overload == 0
    assert budget.made > 0
    assert next(looks) < 1000


def test_overloaded_nodes_are_relieved():
    layout = placed_layout(case_problem(LARGE))
    layout.nodes["cpu_hz_left"][:3] -= 0.5 * case_problem(LARGE).node_cpu_hz[:3]
    assert (layout.nodes["cpu_hz_left"] < 0).any()
    add_up_cost(layout)
    relieve(layout, np.arange(len(layout.nodes)))
    assert (layout.nodes["cpu_hz_left"] >= 0).all()
    assert layout.totals["steps"][0] == 0, "no steps of the search"
    booked = float(layout.totals["cost"][0])
    add_up_cost(layout)
    assert booked == pytest.approx(float(layout.totals["cost"][0]), rel=1e-9)


def test_relieving_stops_when_time_is_up():
    layout = placed_layout(case_problem(LARGE))
    layout.nodes["cpu_hz_left"][:3] -= 0.5 * case_problem(LARGE).node_cpu_hz[:3]
    workers = layout.workers["node"].copy()
    Budget(1e-9).improve(layout)
    assert (layout.nodes["cpu_hz_left"] < 0).any()
    assert np.array_equal(layout.workers["node"], workers)


def test_few_regions_are_worth_cutting_only_for_many_steps(monkeypatch):
    layout = placed_layout(case_problem(LARGE))
    executors = len(layout.free_executors)
    monkeypatch.setattr(budget, "_REGION", executors // 4)
    monkeypatch.setattr(budget, "_OF_LARGEST", 1)
    assert budget.count_regions(layout, 1, 100 * executors) == 1
    assert budget.count_regions(layout, 1, 1000 * executors) == 4
