"""What runs stays where that costs nothing: whole nodes exchanged, topologies put back, slots preserved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stormwright.model import UNPLACED, CostWeights, cost_under, measured_traffic
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.staying import (
    choose_slots,
    restore_cheaper,
    running_workers,
    runs_well,
    swap_nodes,
)
from stormwright.schedulers.toolkit.traffic import Rates
from stormwright.testing.strategies import problems
from tests.schedulers.builders import load, nodes, problem, running, topology


def partial_placement_of(of, workers, on_nodes):
    """A draft of workers, each given by its executors, on nodes."""
    placement = PartialPlacement.empty(of, of.node_usable)
    for executors, node in zip(workers, on_nodes, strict=True):
        placement.add_worker(int(of.executor_topology[executors[0]]), executors, node)
    return placement


FOUR = (topology("t", 4, 4), load(4, [(0, 1, 9), (2, 3, 9)], cpu_ghz=0.4))


def test_node_contents_are_swapped_to_match_running_placement():
    of = running(problem(nodes(1, 1), FOUR), [4, 5, 0, 1])
    placement = partial_placement_of(of, [[0], [1], [2], [3]], [0, 0, 1, 1])
    swap_nodes(placement)
    assert placement.node == [1, 1, 0, 0]
    assert choose_slots(placement).tolist() == [4, 5, 0, 1]


def test_three_nodes_are_turned_by_two_exchanges():
    of = running(problem(nodes(1, 1, 1), (topology("t", 3, 3), load(3))), [4, 8, 0])
    placement = partial_placement_of(of, [[0], [1], [2]], [0, 1, 2])
    swap_nodes(placement)
    assert choose_slots(placement).tolist() == [4, 8, 0]


@pytest.mark.parametrize("supervisors", [nodes(1, 0.5), (*nodes(1), *nodes(1, 1, ports=1)[1:])], ids=["CPU", "slots"])
def test_node_contents_stay_if_the_other_node_is_too_small(supervisors):
    of = running(problem(supervisors, (FOUR[0], load(4, cpu_ghz=0.3))), [4, 4, 4, 0])
    placement = partial_placement_of(of, [[0], [1, 2], [3]], [0, 0, 1])
    swap_nodes(placement)
    assert placement.node == [0, 0, 1]


def test_contents_stay_in_their_rack():
    of = problem(nodes(1, 1), FOUR)
    of = type(of)(
        supervisors=tuple(type(n)(n.id, n.host, n.ports, n.cpu_hz, rack=n.id) for n in of.supervisors),
        topologies=of.topologies,
        load=of.load,
    )
    placement = partial_placement_of(running(of, [4, 5, 0, 1]), [[0], [1], [2], [3]], [0, 0, 1, 1])
    swap_nodes(placement)
    assert placement.node == [0, 0, 1, 1]


def test_new_worker_takes_an_unused_port():
    of = running(problem(nodes(1), (topology("t", 3, 2), load(3))), [0, 0, 1])
    placement = partial_placement_of(of, [[0], [1, 2]], [0, 0])
    assert choose_slots(placement).tolist() == [2, 3, 3]


def test_new_worker_takes_a_used_port_if_all_are_used():
    of = running(problem(nodes(1, ports=2), (topology("t", 3, 2), load(3))), [0, 0, 1])
    assert choose_slots(partial_placement_of(of, [[0], [1, 2]], [0, 0])).tolist() == [0, 1, 1]
    assert choose_slots(partial_placement_of(of, [[0, 1], [2]], [0, 0])).tolist() == [0, 0, 1]


def test_cheaper_running_placement_is_restored_and_a_more_expensive_one_is_not():
    of = problem(nodes(9, 9), *((topology(name, 2, 2), load(2, [(0, 1, 9)])) for name in "ab"))
    of = running(of, [0, 1, 2, 4])
    placement = partial_placement_of(of, [[0], [1], [2], [3]], [0, 1, 1, 1])
    restore_cheaper(placement, Rates.of(of, measured_traffic(of)), CostWeights())
    assert placement.node_of_executor().tolist() == [0, 0, 1, 1]


def test_topology_left_out_is_put_back_at_any_cost():
    of = running(problem(nodes(9, 9), (topology("t", 2, 2), load(2, [(0, 1, 9)]))), [0, 4])
    placement = PartialPlacement.empty(of, of.node_usable)
    placement.reasons[0] = ("because",)
    restore_cheaper(placement, Rates.of(of, measured_traffic(of)), CostWeights())
    assert placement.node_of_executor().tolist() == [0, 1]
    assert placement.reasons == {}


def test_topology_is_not_put_back_over_a_limit():
    """Both want the one node that only one of them fits on; the first may go back."""
    of = problem(nodes(1, 1), *((topology(name, 1, 1), load(1, cpu_ghz=0.8)) for name in "ab"))
    of = running(of, [0, 1])
    placement = partial_placement_of(of, [[0], [1]], [1, 0])
    restore_cheaper(placement, Rates.of(of, measured_traffic(of)), CostWeights())
    assert placement.node_of_executor().tolist() == [1, 0]


@pytest.mark.long
@given(problems(), st.data())
def test_staying_never_costs_more_and_keeps_compositions(of, data):
    """From any draft that puts every executor somewhere."""
    assume(len(of.slots) and of.node_usable.any())
    placement = PartialPlacement.empty(of, of.node_usable)
    room = [len(node.ports) for node in of.supervisors]
    for index in range(len(of.topologies)):
        executors = list(range(*of.executors_of(index).indices(of.num_executors)))
        node = data.draw(st.integers(0, len(room) - 1))
        if executors and room[node]:
            room[node] -= 1
            placement.add_worker(index, executors, node)
    traffic = measured_traffic(of)
    before = cost_under(of, choose_slots(placement), traffic)
    together = {tuple(np.flatnonzero(placement.worker == w)) for w in range(len(placement.node))}
    swap_nodes(placement)
    slots = choose_slots(placement)
    assert cost_under(of, slots, traffic).total == pytest.approx(before.total)
    assert {tuple(np.flatnonzero(placement.worker == w)) for w in range(len(placement.node))} == together
    owners = {}
    for slot, worker in zip(slots.tolist(), placement.worker.tolist(), strict=True):
        assert slot == UNPLACED or owners.setdefault(slot, worker) == worker


@pytest.mark.long
@given(problems())
def test_running_workers_are_the_slots_with_executors(of):
    found = running_workers(of)
    assert {slot: members.tolist() for slot, members in found.items()} == {
        slot: np.flatnonzero(of.current_slot == slot).tolist() for slot in set(of.current_slot.tolist()) - {UNPLACED}
    }


@pytest.mark.parametrize(
    ("slots", "well"), [([0, 0, 1], True), ([0, 0, 0], False), ([0, 1, 2], False), ([0, 1, UNPLACED], False)]
)
def test_topology_runs_well_if_complete_with_the_wanted_worker_count(slots, well):
    of = running(problem(nodes(9), (topology("t", 3, 2), load(3))), slots)
    assert runs_well(of, 0) == well
