"""Joined executors against plain loops and dense sums, and searches level by level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import CostWeights, Problem, cost_under, measured_traffic
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.optimize.construction.topologies import construct
from stormwright.optimize.layout import coarsen as coarsening
from stormwright.optimize.layout import start
from stormwright.optimize.layout.coarsen import coarsen, find_large, match
from stormwright.optimize.layout.links import Links
from stormwright.optimize.search.anneal import AnnealEffort, SearchedPlacement
from stormwright.optimize.search.budget import Budget, has_levels, search_levels
from stormwright.optimize.search.refine import refine
from tests.case_files import case_files, case_name, case_problem
from tests.optimize.layout.test_layout import layout_of, placed_layout, slots_of
from tests.schedulers.builders import load, nodes, problem, topology

#: Steps that are enough for levels of every case.
MANY = AnnealEffort(30_000, 0.0)

CASES = [path for path in case_files("placement") if case_name(path)[0] in "ml"]


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    """Join also what is small."""
    monkeypatch.setattr(coarsening, "_FEWEST", 0)
    monkeypatch.setattr(start, "_MAX_WHOLE", 0)


@st.composite
def placed(draw):
    """A layout of one topology, its executors in any of its workers, which are on three nodes."""
    count = draw(st.integers(2, 24))
    executors = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(executors, executors, st.integers(1, 9)), max_size=60))
    of = problem(nodes(9, 9, 9, memory_mb=1e6), (topology("t", count, 3), load(count, pairs)))
    worker = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    none = np.zeros(3, bool)
    workers = start.Workers(worker, np.zeros(3, int), np.arange(3), none, none)
    most = np.array([count])
    return start.make_layout(of, Links.following(of), workers, of.node_usable, most, CostWeights(), 0)


def dense(layout):
    """What executors exchange, as a table."""
    table = np.zeros((len(layout.executors), len(layout.executors)))
    for executor, row in enumerate(layout.executors):
        for link in layout.links[row["first"] : row["last"]]:
            table[executor, link["executor"]] += link["tps"]
    return table


@pytest.mark.long
@given(placed(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_matching_by_plain_loops(layout, most, random):
    table, worker = dense(layout), layout.executors["worker"].tolist()
    places = [random.randint(1, 3) for _ in worker]
    layout.executors["places"] = places
    order = random.sample(range(len(worker)), len(worker))
    wanted = {}
    for one in order:
        free = [other for other in range(len(worker)) if other not in wanted and other != one]
        fit = [o for o in free if worker[o] == worker[one] and places[o] + places[one] <= most and table[one, o] > 0]
        if one not in wanted:
            other = max(fit, key=lambda o: (table[one, o], -o), default=one)
            wanted[one], wanted[other] = other, one
    partner = np.full(len(worker), -1)
    match(layout, np.ones(1, bool), most, np.array(order), partner)
    assert partner.tolist() == [wanted[one] for one in range(len(worker))]


@pytest.mark.long
@given(placed(), st.integers(0, 9))
def test_coarsening_preserves_sums_of_traffic_and_demand(layout, seed):
    start.add_up_cost(layout)
    table, demand = dense(layout), layout.executors[["cpu_hz", "memory_mb"]].tolist()
    cost, worker, size = layout.totals["cost"][0], layout.executors["worker"].copy(), layout.workers["size"].copy()
    coarse, of = coarsen(layout, np.ones(1, bool), 2, np.random.default_rng(seed))

    of_dense = np.eye(len(coarse.executors))[of]
    joined = of_dense.T @ table @ of_dense
    inside = np.trace(joined)
    assert table.sum() == pytest.approx(dense(coarse).sum() + inside, rel=1e-12)
    assert np.array_equal(dense(coarse), joined - np.diag(np.diag(joined)))
    assert np.array_equal(coarse.executors["tps"], dense(coarse).sum(axis=1))
    assert np.array_equal(coarse.executors["places"], of_dense.sum(axis=0))
    for name, each in zip(("cpu_hz", "memory_mb"), np.array(demand).T, strict=True):
        assert coarse.executors[name] == pytest.approx(of_dense.T @ each)
    assert np.array_equal(coarse.executors["worker"][of], worker), "joined only within workers"
    assert np.array_equal(coarse.workers["size"], size)
    assert coarse.totals["cost"][0] == cost, "what is inside a worker costs nothing"
    for row in coarse.links:
        assert 0 <= row["executor"] < len(coarse.executors)
    for row in coarse.executors:
        assert (np.diff(coarse.links["executor"][row["first"] : row["last"]]) > 0).all(), "looked up by halving"

    start.rearrange(layout, worker, layout.workers["node"].copy())
    assert layout.totals["cost"][0] == cost
    assert np.array_equal(layout.workers["size"], size)


@pytest.mark.parametrize("temperature", [0.0, 5.0])
@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_pair_moves_preserve_accounting_and_limits(path, temperature):
    problem = case_problem(path)
    fine = placed_layout(problem)
    large = find_large(fine)
    layout, of = coarsen(fine, large, 2, np.random.default_rng(0))
    overloaded = (layout.nodes["cpu_hz_left"] < 0) | (layout.nodes["memory_mb_left"] < 0)
    assert len(layout.executors) < 0.9 * problem.num_executors or not large.all()
    refine(layout, 20_000, temperature * layout.executors["tps"].mean())

    worker, node = layout.executors["worker"][of], layout.workers["node"].copy()
    sizes = np.bincount(worker, minlength=len(node))
    assert np.array_equal(layout.workers["size"], sizes)
    assert sizes.min() >= 1
    assert (sizes <= layout.workers["most"]).all()
    now = (layout.nodes["cpu_hz_left"] < 0) | (layout.nodes["memory_mb_left"] < 0)
    assert not (now & ~overloaded).any()
    booked = layout.totals["cost"][0]
    start.rearrange(fine, worker, node)
    cost = cost_under(problem, slots_of(problem, fine), measured_traffic(problem), CostWeights()).total
    assert booked == pytest.approx(cost, rel=1e-9)
    assert fine.totals["cost"][0] == pytest.approx(cost, rel=1e-9)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_a_search_by_levels_is_valid_deterministic_and_no_worse(path, threads):
    problem = case_problem(path)
    found = []
    for _ in range(2):
        layout = placed_layout(problem)
        start.add_up_cost(layout)
        before = SearchedPlacement.of(layout)
        best, made = search_levels(layout, MANY, threads)
        assert best.rank <= before.rank
        assert made >= 30_000
        start.rearrange(layout, best.worker, best.node)
        assert SearchedPlacement.of(layout).cost == pytest.approx(best.cost, rel=1e-9)
        assert (layout.workers["size"] <= layout.workers["most"]).all()
        table = layout.table.copy()
        start.rearrange(layout, layout.executors["worker"].copy(), layout.workers["node"].copy())
        assert np.array_equal(layout.table, table)
        found.append(best)
    assert np.array_equal(found[0].worker, found[1].worker)
    assert np.array_equal(found[0].node, found[1].node)


def test_multilevel_search_respects_time_limit():
    layout = placed_layout(case_problem(CASES[-1]))
    start.add_up_cost(layout)
    before = SearchedPlacement.of(layout)
    best, made = search_levels(layout, AnnealEffort(0, 1e-9), 1)
    assert best.rank <= before.rank
    assert made < 10_000


def groups_of(size: int, groups: int, workers_each: int, tps: float = 100.0) -> Problem:
    """One topology of groups that exchange tuples only within; every node has room for one group."""
    count = size * groups
    pairs = [(g + groups * n, g + groups * m, tps) for g in range(groups) for n in range(size) for m in range(n)]
    most = {MAX_EXECUTORS_PER_WORKER: size // workers_each}
    the_load = load(count, pairs, cpu_ghz=0.1, memory_mb=1.0)
    return problem(nodes(*[0.1 * size] * groups), (topology("t", count, groups * workers_each, **most), the_load))


def test_a_very_large_topology_is_cut_where_nothing_is_exchanged():
    of = groups_of(size=10, groups=220, workers_each=2)
    layout = layout_of(of)
    construct(layout, np.arange(1))
    node = layout.workers["node"][layout.executors["worker"]]
    assert all(len(set(node[group::220])) == 1 for group in range(220))
    assert (layout.nodes["cpu_hz_left"] >= 0).all()
    assert (layout.workers["size"] == 5).all()


def test_very_large_topology_is_placed_despite_insufficient_capacity():
    of = groups_of(size=10, groups=220, workers_each=2)
    crowded = problem(nodes(*[0.5] * 220), (of.topologies[0], of.load.topologies["t"]))
    layout = layout_of(crowded)
    construct(layout, np.arange(1))
    assert (layout.executors["worker"] >= 0).all()
    assert layout.workers["size"].min() >= 1
    assert (layout.workers["size"] <= layout.workers["most"]).all()


def test_coarsening_requires_large_and_movable_topologies(monkeypatch):
    layout = placed_layout(groups_of(size=10, groups=60, workers_each=2, tps=5.0))
    assert has_levels(layout, MANY)
    assert not has_levels(layout, AnnealEffort(2_000, 0.0))
    assert not has_levels(layout, AnnealEffort(0, 0.002))
    assert not has_levels(layout._replace(move_price=1.0), MANY)
    assert not has_levels(layout._replace(max_restarts=3), MANY)
    layout.workers["movable"][7] = False
    assert not has_levels(layout, MANY)
    layout.workers["movable"][7] = True
    layout.executors["home"][3] = 0
    assert not has_levels(layout, MANY)
    layout.executors["home"][3] = -1
    monkeypatch.setattr(coarsening, "_FEWEST", 601)
    assert not has_levels(layout, MANY)


def test_coarsening_excludes_shuffle_sources_and_unplaced_executors():
    """What sends shuffled traffic is not joined, nor what has no worker."""
    of = case_problem(CASES[-1])
    layout = placed_layout(of)
    assert has_levels(layout, MANY)
    assert find_large(layout).all()
    assert not find_large(layout_of(of)).any()
    flowing = layout.topologies.copy()
    flowing["last_sink"] = flowing["first_sink"] + 1
    assert not has_levels(layout._replace(topologies=flowing), MANY)


def test_iteration_budget_is_spent_on_multilevel_search():
    """Pairs that exchange much are found again, wherever construction put them."""
    layout = placed_layout(groups_of(size=10, groups=60, workers_each=2, tps=5.0))
    worker, node = layout.executors["worker"].copy(), layout.workers["node"].copy()
    start.rearrange(layout, np.random.default_rng(0).permutation(worker), node)
    before = SearchedPlacement.of(layout)
    budget = Budget(0.0, 100_000)
    best = budget.improve(layout)
    assert best.rank < before.rank
    assert best.overload == 0
    assert 100_000 <= budget.made < 110_000
