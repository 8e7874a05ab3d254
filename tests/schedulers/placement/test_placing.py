"""Placing: what nodes take, and workers made of what is on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import UNPLACED
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.schedulers.placement.admission import find_wanted_workers
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.placing import FreeResources, Placing, fill_empty
from stormwright.schedulers.templates.waiting import place_waiting
from stormwright.schedulers.toolkit.params import NoParams
from tests.schedulers.builders import load, nodes, problem, topology


def placing_of(supervisors, executors, workers, limit=None, **demand) -> Placing:
    """The executors of one topology about to be placed."""
    conf = {} if limit is None else {MAX_EXECUTORS_PER_WORKER: limit}
    of = problem(supervisors, (topology("t", executors, workers, **conf), load(executors, **demand)))
    placement = PartialPlacement.empty(of, of.node_usable)
    (wanted,) = find_wanted_workers(placement, keep_running=True)
    return Placing(placement, FreeResources(placement), wanted)


def workers_of(placing: Placing) -> list[tuple[int, list[int]]]:
    """Node and executors of every worker in the draft."""
    placement = placing.placement
    return [(node, np.flatnonzero(placement.worker == worker).tolist()) for worker, node in enumerate(placement.node)]


def test_node_fills_its_workers_before_opening_another():
    placing = placing_of(nodes(9.0, 9.0, ports=2), executors=6, workers=3, limit=2)
    for executor in range(4):
        placing.put(executor, 0)
    assert placing.opened == {0: 2}
    assert placing.can_take(4).tolist() == [False, True]
    placing.put(4, 1)
    assert placing.workers_left == 0
    assert placing.can_take(5).tolist() == [False, True]
    placing.put(5, 1)
    assert not placing.can_take(5).any()


def test_no_more_nodes_than_workers():
    placing = placing_of(nodes(9.0, 9.0), executors=2, workers=1)
    placing.put(0, 1)
    assert placing.can_take(1).tolist() == [False, True]


@pytest.mark.long
@given(
    choices=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    workers=st.integers(1, 6),
    limit=st.sampled_from([None, 2, 3]),
)
def test_single_node_check_equals_vectorized_check(choices, workers, limit):
    placing = placing_of(
        nodes(0.3, 0.5, 2.0, 0.1, ports=2, memory_mb=500), executors=8, workers=workers, limit=limit, cpu_ghz=0.1
    )
    for executor, node in enumerate(choices):
        can_take = placing.can_take(executor)
        assert [placing.takes(executor, n) for n in range(4)] == can_take.tolist()
        placing.put(executor, node if can_take[node] else UNPLACED)


def test_missing_workers_are_split_from_the_largest_ones():
    placing = placing_of(nodes(9.0, 9.0), executors=9, workers=4)
    for executor in range(9):
        placing.put(executor, 0 if executor < 6 else 1)
    placing.finish()
    sizes = {node: sorted(len(part) for at, part in workers_of(placing) if at == node) for node in (0, 1)}
    # 6 and 3; the first split makes it 3, 3 and 3, of which the lower node splits again.
    assert sizes == {0: [2, 2, 2], 1: [3]}


def test_remaining_executors_respect_the_worker_size_limit():
    """Four on one node, five left over, and one worker of at most four for them: the fifth joins another."""
    placing = placing_of(nodes(9.0, ports=2), executors=9, workers=3, limit=4)
    for executor in range(4):
        placing.put(executor, 0)
    for executor in range(4, 9):
        placing.put(executor, UNPLACED)
    placing.finish()
    assert sorted(len(part) for _, part in workers_of(placing)) == [2, 3, 4]
    assert [len(part) for node, part in workers_of(placing) if node == UNPLACED] == [4]


def test_workers_alternate_between_nodes_with_most_slots_first():
    placing = placing_of(nodes(9.0, ports=2) + nodes(9.0, 9.0, 9.0, ports=3)[1:], executors=6, workers=6)
    hosts = []
    for executor in range(6):
        hosts.append(placing.in_turn(placing.can_host([executor])))
        placing.put_worker([executor], hosts[-1])
    assert hosts == [1, 2, 0, 1, 2, 0]
    assert [placing.workers_on(node) for node in range(3)] == [2, 2, 2]
    assert placing.in_turn(np.zeros(3, dtype=bool)) == UNPLACED


def test_every_worker_wanted_gets_an_executor():
    placing = placing_of(nodes(9.0, ports=1), executors=5, workers=3)
    for executor in range(5):
        placing.put(executor, 0)
    placing.finish()
    assert sorted((node, len(part)) for node, part in workers_of(placing)) == [(-1, 1), (-1, 1), (0, 3)]


def test_an_empty_worker_gets_the_last_executor_of_the_fullest():
    workers = [[], [1, 2, 3], [4, 5], [], []]
    fill_empty(workers)
    assert workers == [[3], [1], [4], [2], [5]]


@pytest.mark.parametrize("soft_cpu", [False, True])
def test_remaining_executors_overload_no_node(soft_cpu):
    """All workers are open when the last executor finds no node; it must not just be added to one."""
    of = problem(nodes(1.0, 1.0), (topology("t", 3, 2), load(3, cpu_ghz=[0.6, 0.7, 0.6])))

    def make_rule(_):
        def place(placing: Placing) -> None:
            placing.put(0, 0)
            placing.put(1, 1)
            placing.put(2, UNPLACED)

        return place

    answer = place_waiting(of, "test", NoParams(), make_rule, soft_cpu=soft_cpu)
    assert len(answer.unplaced) == (0 if soft_cpu else 3)
