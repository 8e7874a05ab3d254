"""What executors exchange, against a dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given

from stormwright.model import Problem, measured_traffic
from stormwright.schedulers.toolkit.traffic import Exchange
from stormwright.testing.strategies import problems
from tests.schedulers.builders import load, nodes, topology
from tests.schedulers.builders import problem as problem_of


@pytest.mark.long
@given(problem=problems())
def test_traffic_rows_sums_and_parts_equal_dense_matrix(problem: Problem):
    count = problem.num_executors
    assume(count)
    dense = np.zeros((count, count))
    traffic = measured_traffic(problem)
    np.add.at(dense, (traffic.source, traffic.target), traffic.tps)
    dense += dense.T
    np.fill_diagonal(dense, 0)
    exchange = Exchange.of(problem)
    for executor in range(count):
        partners, tps = exchange.of_executor(executor)
        assert partners.tolist() == np.flatnonzero(dense[executor]).tolist()
        assert np.allclose(tps, dense[executor][partners], rtol=1e-12)
    assert np.allclose(exchange.total(), dense.sum(axis=1))
    some = np.arange(0, count, 2)
    assert np.allclose(exchange.within(some).toarray(), dense[np.ix_(some, some)], rtol=1e-12)


def test_topology_sums_are_unaffected_by_rounding_of_other_topologies():
    of = problem_of(
        nodes(1), (topology("a", 2, 1), load(2, [(0, 1, 0.1)])), (topology("b", 2, 1), load(2, [(0, 1, 0.2)]))
    )
    assert Exchange.of(of).total().tolist() == [0.1, 0.1, 0.2, 0.2]
