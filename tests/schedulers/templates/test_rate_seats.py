"""Starts of searches by rates: topologies in one worker each, the fullest first, on the node that has most room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import UNPLACED, Problem
from stormwright.optimize.throughput.improve import ImprovedPlacement
from stormwright.schedulers.templates.rate_seats import Seating
from stormwright.testing.word_counts import WordCount

CORES = (2.0, 2.0, 3.0, 1.0, 4.0)


def several(count: int) -> Problem:
    """Word counts of unlike rates on unlike nodes of two ports, three workers each as far as these go."""
    made = [
        WordCount(nodes=len(CORES), name=f"w{number}", rate_tps=100.0 * (1 + number % 3)) for number in range(count)
    ]
    problem = made[0].problem()
    assert problem.load is not None
    return replace(
        problem,
        supervisors=tuple(replace(n, cpu_hz=c * 1e9) for n, c in zip(problem.supervisors, CORES, strict=True)),
        topologies=tuple(each.topology() for each in made),
        current={},
        load=replace(problem.load, topologies={each.topology().id: each.load() for each in made}),
    )


def roomiest(problem: Problem, count: int) -> dict[int, int]:
    """Topology → node, looking at every node for each topology."""
    nodes = np.argsort(-problem.node_cpu_hz, kind="stable")[:count]
    room, left, found = problem.node_cpu_hz.copy(), np.full(len(CORES), 2), {}
    of = np.bincount(problem.executor_topology, problem.executor_cpu_hz)
    for topology in np.argsort(-of, kind="stable").tolist():
        open_to = [node for node in nodes.tolist() if left[node]]
        if open_to:
            found[topology] = node = max(open_to, key=room.__getitem__)
            room[node], left[node] = room[node] - of[topology], left[node] - 1
    return found


@pytest.mark.parametrize("count", [1, 3, 7])
def test_topologies_gather_on_nodes_with_most_free_capacity(count):
    problem = several(count)
    slots = np.concatenate([np.full(12, topology % len(problem.slots)) for topology in range(count)]).astype(np.int32)
    seating = Seating(problem, np.ones(count, bool), "free")
    starts = list(seating.gathered(slots))
    assert len(starts) == 4  # on 1, 2, 4 and 5 nodes
    for nodes, seats in zip((1, 2, 4, 5), starts, strict=True):
        expected = roomiest(problem, nodes)
        for topology in range(count):
            own = np.unique(seats.worker[problem.executors_of(topology)])
            assert len(own) == 1
            assert seats.topology[own[0]] == topology
            stays = problem.slot_node[slots[problem.executors_of(topology)][0]]
            assert seats.node[own[0]] == expected.get(topology, stays)


def test_unchanged_seats_convert_back_to_the_original_placement():
    problem = several(3)
    rng = np.random.default_rng(2)
    slots = np.concatenate([rng.choice([2 * t, 2 * t + 1], 12) for t in range(3)]).astype(np.int32)
    slots[problem.executors_of(1)] = UNPLACED
    seating = Seating(problem, np.ones(3, bool), "free")
    seats = seating.seats(slots)
    found = seating.slots(seats, ImprovedPlacement(seats.worker, seats.node, 0.0, 0.0))
    assert np.array_equal(found == UNPLACED, slots == UNPLACED)
    placed = slots != UNPLACED
    assert np.array_equal(problem.slot_node[found[placed]], problem.slot_node[slots[placed]])
    for a, b in ((0, 1), (5, 9), (24, 30)):
        assert (found[a] == found[b]) == (slots[a] == slots[b])


def test_seats_contain_all_permitted_workers_from_the_start():
    problem = several(2)
    slots = np.repeat([0, 2], 12).astype(np.int32)
    for workers, most in (("exactly", 1), ("at_most", 3), ("free", 5)):
        seats = Seating(problem, np.ones(2, bool), workers).seats(slots)
        assert np.bincount(seats.topology).tolist() == [most, most]
