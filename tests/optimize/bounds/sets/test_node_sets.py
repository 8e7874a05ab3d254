"""Sets of executors on a node against all subsets and all ways to split them into workers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stormwright.optimize.bounds.sets.node_sets import find_sets
from stormwright.optimize.bounds.sets.small_problem import Executors, FoundSets, Kind, Scratch, SetPrices

NEAR, INNER, COUNT = 0.8, 0.2, 8


def worth(executors, prices, members, ports):
    """The most that members are worth in workers that take them, with few places empty; -inf if there are none."""
    most, spare = int(executors.most[0]), int(executors.spare[0])
    best = -np.inf
    for split in itertools.product(range(ports), repeat=len(members)):
        sizes = np.bincount(split)
        if sizes.max() > most or sizes.min() == 0 or len(sizes) * most - len(members) > spare:
            continue
        saved = sum(
            executors.tps[members[a], members[b]] * (NEAR + INNER * (split[a] == split[b]))
            for a, b in itertools.combinations(range(len(members)), 2)
        )
        paid = prices.executor[list(members)].sum() + prices.worker[0] * len(sizes) - prices.node
        best = max(best, saved - paid)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_node_sets_are_enumerated_completely_with_correct_value(seed):
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(2, 5))
    most, ports = -(-COUNT // workers) + seed % 2, int(rng.integers(1, 4))
    tps = np.triu(rng.integers(0, 50, (COUNT, COUNT)), 1).astype(float)
    tps += tps.T
    executors = Executors(
        tps,
        rng.uniform(0.2, 1.0, (2, COUNT)),
        np.zeros(COUNT, np.int64),
        np.array([most]),
        np.array([workers * most - COUNT]),
        NEAR,
        INNER,
        (NEAR + INNER) * tps,
        np.zeros(COUNT),
    )
    prices = SetPrices.of(rng.uniform(0, 60, COUNT), rng.uniform(-40, 40, 1), float(rng.uniform(0, 10)), executors)
    capacity, above = rng.uniform(1.5, 4.0, 2), float(rng.uniform(0, 20))
    expected = {}
    for size in range(1, COUNT + 1):
        for members in itertools.combinations(range(COUNT), size):
            if np.all(executors.demand[:, list(members)].sum(axis=1) <= capacity):
                value = worth(executors, prices, members, ports)
                if value > above:
                    expected[sum(1 << member for member in members)] = value
    room = 1 << COUNT
    found = FoundSets(np.zeros(room, np.int64), np.zeros(room), np.zeros((room, 1), np.int64))
    scratch = Scratch.of(executors)
    count, complete, _ = find_sets(executors, prices, Kind(capacity, ports, 1), above, np.inf, found, scratch, 10**6)
    assert complete
    assert dict(zip(found.bits[:count].tolist(), found.worth[:count], strict=True)) == pytest.approx(expected)
    _, complete, top = find_sets(executors, prices, Kind(capacity, ports, 1), above, 0.0, found, scratch, 10**6)
    assert complete
    assert top == pytest.approx(max(expected.values(), default=above))
