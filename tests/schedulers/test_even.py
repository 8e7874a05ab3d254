"""EvenScheduler against what Storm 2.8.3's own class answered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import (
    UNPLACED,
    Component,
    Problem,
    Supervisor,
    TopologyAssignment,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.even import EvenScheduler
from stormwright.schedulers.toolkit.traits import declared
from tests.case_files import case_files, case_name, case_problem, placed_by, placed_in, read_case
from tests.schedulers.builders import topology


@pytest.mark.parametrize("path", case_files("peer"), ids=case_name)
def test_same_slot_for_every_executor_as_storm(path):
    problem = case_problem(path)
    expected = read_case(path)["answers"]["EvenScheduler"]
    assert placed_by(EvenScheduler().schedule(problem), problem) == placed_in(expected, problem)


def cluster(*ports: int) -> tuple[Supervisor, ...]:
    return tuple(Supervisor(f"s{n}", f"h{n}", tuple(range(6700, 6700 + p)), 1e9) for n, p in enumerate(ports))


def test_a_topology_short_of_workers_with_nothing_to_place_takes_no_slots():
    """Storm counts it as needing scheduling; the slots must still go to the next one."""
    wide, next_one = topology("wide", 2, 5), topology("next", 2, 2)
    current = {"wide": TopologyAssignment((WorkerSlot("s0", 6700), WorkerSlot("s0", 6701)), (0, 1))}
    problem = Problem(cluster(4), (wide, next_one), current=current)
    assert EvenScheduler().schedule(problem).slot_of_executor.tolist() == [0, 1, 2, 3]


def test_lost_executor_without_a_lost_worker_stays_unplaced():
    """Storm 2.8.3 throws here; its caller would end Nimbus."""
    current = {"t": TopologyAssignment((WorkerSlot("s0", 6700),), (0, -1))}
    answer = EvenScheduler().schedule(Problem(cluster(4), (topology("t", 2, 1),), current=current))
    assert answer.slot_of_executor.tolist() == [0, UNPLACED]
    assert answer.unplaced[0].reasons == (
        "its 1 workers all live, and EvenScheduler adds no executor to a live worker",
    )


def test_slots_on_blacklisted_hosts_are_counted_in_the_reason():
    problem = Problem(cluster(2, 1), (topology("t", 2, 1),), blacklisted_hosts=frozenset({"h0", "h1"}))
    answer = EvenScheduler().schedule(problem)
    reason = "no free worker slot: 0 of 3 in use, 3 on blacklisted hosts"
    assert answer.unplaced[0].reasons == (reason,)
    assert answer.status == {
        "t": "2 of 2 executors unplaced: no free worker slot: 0 of 3 in use, 3 on blacklisted hosts"
    }


def test_supervisor_ids_are_ordered_as_java_orders_strings():
    """By UTF-16 code units: an emoji sorts before U+FFxx, by code points it would sort after."""
    nodes = (Supervisor("\uff5a", "a", (1,), 1e9), Supervisor("\U0001f600", "b", (1,), 1e9))
    answer = EvenScheduler().schedule(Problem(nodes, (topology("t", 2, 2),)))
    assert answer.slot_of_executor.tolist() == [1, 0]


def test_executors_go_by_task_not_by_position():
    components = (Component("a", "spout", 1), Component("b", "bolt", 2))
    runs = default_executor_runs(components)
    mixed = replace(topology("t", 3, 3), components=components, executor_runs=runs[::-1])
    answer = EvenScheduler().schedule(Problem(cluster(1, 1, 1), (mixed,)))
    by_task = np.argsort(mixed.executor_start_task)
    assert answer.slot_of_executor[by_task].tolist() == [0, 1, 2]


def all_on_the_first(workers: int, *ports: int, names: str = "t") -> Problem:
    """Topologies of an executor per worker; all workers run on the first node."""
    topologies = tuple(topology(name, workers, workers) for name in names)
    slots = [WorkerSlot("s0", 6700 + n) for n in range(workers * len(names))]
    current = {
        name: TopologyAssignment(tuple(slots[n * workers : (n + 1) * workers]), tuple(range(workers)))
        for n, name in enumerate(names)
    }
    return Problem(cluster(*ports), topologies, current=current)


def nodes_of(problem: Problem, **settings: object) -> list[int]:
    slots = make_scheduler("even", settings).schedule(problem).slot_of_executor
    return problem.slot_node[slots].tolist()


def test_nothing_that_runs_moves_by_default():
    assert nodes_of(all_on_the_first(4, 4, 4)) == [0, 0, 0, 0]
    assert not declared(make_scheduler("even")).moves_running


def test_share_of_the_workers_moves_to_an_idle_node_from_the_highest_port_on():
    assert nodes_of(all_on_the_first(4, 4, 4), idle_nodes=True) == [0, 0, 1, 1]
    assert declared(make_scheduler("even", {"idle_nodes": True})).moves_running


def test_moves_to_idle_nodes_are_limited_per_topology():
    assert nodes_of(all_on_the_first(4, 4, 4), idle_nodes=True, idle_moves=1) == [0, 0, 0, 1]


def test_topologies_take_turns_for_slots_of_idle_nodes():
    assert nodes_of(all_on_the_first(2, 6, 3, names="abc"), idle_nodes=True) == [0, 1, 0, 1, 0, 1]
    assert nodes_of(all_on_the_first(4, 8, 2, names="ab"), idle_nodes=True) == [0, 0, 0, 1, 0, 0, 0, 1]


def test_topology_with_fewer_workers_than_nodes_does_not_move():
    assert nodes_of(all_on_the_first(2, 4, 4, 4), idle_nodes=True) == [0, 0]


def test_last_worker_of_a_node_stays():
    problem = all_on_the_first(2, 4, 4)
    alone = replace(problem, topologies=(topology("t", 2, 8),))
    assert nodes_of(alone, idle_nodes=True, idle_moves=3) == [0, 1]


def test_blacklisted_idle_node_takes_nothing():
    problem = replace(all_on_the_first(4, 4, 4), blacklisted_hosts=frozenset({"h1"}))
    assert nodes_of(problem, idle_nodes=True) == [0, 0, 0, 0]
