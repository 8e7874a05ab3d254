"""Searches by rates under limits beside memory and ports: what they find is the best of all that keeps these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise, permutations, product
from typing import Any

import numpy as np
import pytest

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.optimize.throughput.improve import ImproveEffort, improve
from stormwright.optimize.throughput.score import THROUGHPUT
from stormwright.optimize.throughput.start import Aim, MeasuredLoad, make_placement_state
from stormwright.predict.flow.profile import Profile
from stormwright.testing.word_counts import WordCount
from tests.optimize.throughput.test_rates import COSTS, seats_of, use_of

#: Executors of ackers, counts, splits and spouts; each is as good as the others of its component.
EXECUTORS = 2, 4, 4, 2

APART = {
    "split": {"incompatibleComponents": ["count"], "maxNodeCoLocationCnt": 3},
    "spout": {"maxNodeCoLocationCnt": 1},
}
FALLBACK = {"storm.scheduler": "stormwright.PlacementScheduler", "stormwright.fallback": "ResourceAwareScheduler"}


def limited(conf: dict[str, Any], cluster: dict[str, Any]) -> Problem:
    """A word count on two nodes with two ports each, whose executors ask for 128 MB of heap."""
    problem = WordCount(nodes=2, cores=0.4, link_bps=None).problem()
    topology = problem.topologies[0]
    requested = {"onheap.memory.mb": 128.0, "cpu.pcore.percent": 1.0}
    components = tuple(replace(each, resources=requested) for each in topology.components)
    topology = replace(topology, components=components, conf={**topology.conf, **conf})
    return replace(problem, topologies=(topology,), current={}, conf=cluster)


def placements(keeps: Callable[[IntArray], BoolArray]) -> set[tuple[int, ...]]:
    """Slots of executors of all placements that remain; of those that differ by names of nodes and ports, one."""
    ways = (combinations_with_replacement(range(4), count) for count in EXECUTORS)
    every = np.array([sum(each, ()) for each in product(*ways)], np.int32)
    component = np.repeat(np.arange(4), EXECUTORS)
    counts = np.stack([[(every[:, component == c] == slot).sum(axis=1) for slot in range(4)] for c in range(4)])
    return {_first_named(each) for each in every[keeps(counts)].tolist()}


def _first_named(slots: list[int]) -> tuple[int, ...]:
    names = [order for order in permutations(range(4)) if {order[0], order[1]} in ({0, 1}, {2, 3})]
    begins = np.cumsum([0, *EXECUTORS]).tolist()
    named = ([order[slot] for slot in slots] for order in names)
    return min(tuple(slot for a, b in pairwise(begins) for slot in sorted(each[a:b])) for each in named)


def keeps_apart(counts: IntArray) -> BoolArray:
    """By component and slot: no counts beside splits; three splits and one spout on a node at most."""
    on_node = counts[:, :2].sum(axis=1), counts[:, 2:].sum(axis=1)
    beside: BoolArray = np.any((counts[1] > 0) & (counts[2] > 0), axis=0)
    return ~beside & np.all([(on[2] <= 3) & (on[3] <= 1) for on in on_node], axis=0)


def keeps_heaps(counts: IntArray) -> BoolArray:
    """Three executors in a worker at most."""
    allowed: BoolArray = np.all(counts.sum(axis=0) <= 3, axis=0)
    return allowed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conf", "cluster", "keeps", "start"),
    [
        ({"topology.ras.constraints": APART}, {}, keeps_apart, [0, 0, 0, 0, 0, 0, 1, 1, 1, 3, 0, 2]),
        ({"topology.worker.max.heap.size.mb": 384.0}, FALLBACK, keeps_heaps, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]),
    ],
    ids=["components", "heaps"],
)
def test_throughput_search_with_limits_finds_the_optimum(conf, cluster, keeps, start):
    problem = limited(conf, cluster)
    profile = Profile.of(problem)
    every = placements(keeps)
    assert _first_named(start) in every
    best = min(use_of(problem, profile, np.array(slots, np.int32)).max() for slots in every)
    begin = np.array(start, np.int32)
    assert use_of(problem, profile, begin).max() > 1.01 * best
    seats, aim = seats_of(problem, begin, free=True), Aim(THROUGHPUT, profile.rate_tps)
    found = improve(make_placement_state(problem, MeasuredLoad(profile, COSTS), seats, aim), ImproveEffort(40_000))
    workers = [np.flatnonzero(found.node == node) for node in range(2)]
    used = [[worker for worker in own if worker in found.worker] for own in workers]
    assert all(len(own) <= 2 for own in used)
    slot = {worker: 2 * node + port for node, own in enumerate(used) for port, worker in enumerate(own)}
    slots = [slot[worker] for worker in found.worker.tolist()]
    assert _first_named(slots) in every
    assert use_of(problem, profile, np.array(slots, np.int32)).max() <= best * (1 + 1e-3)
