"""What an answer to a problem must be, each promise a function that raises `AssertionError` where it is broken."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.formats import assignment_from_dict, assignment_to_dict
from stormwright.model import UNPLACED, Assignment, Problem, cost_of, violations
from stormwright.testing import alike, oracles


def each_executor_is_placed_once_or_explained(problem: Problem, answer: Assignment) -> None:
    """An executor has one slot of the problem, or a line with counted reasons, and its topology a status."""
    assert answer.slot_of_executor.shape == (problem.num_executors,)
    assert np.all((answer.slot_of_executor >= UNPLACED) & (answer.slot_of_executor < len(problem.slots)))
    without_slot = {
        executor
        for executor, slot in zip(oracles.executors(problem), answer.slot_of_executor, strict=True)
        if slot == UNPLACED
    }
    explained = [(executor.topology, executor.executor) for executor in answer.unplaced]
    assert sorted(explained) == sorted(without_slot)
    for executor in answer.unplaced:
        topology = problem.topologies[problem.topology_index[executor.topology]]
        assert executor.component == topology.components[topology.executor_component[executor.executor]].id
        assert executor.reasons
        assert all(any(char.isdigit() for char in reason) for reason in executor.reasons), "reasons are counted"
    assert set(answer.status) >= {executor.topology for executor in answer.unplaced}


def a_slot_holds_one_topology(problem: Problem, answer: Assignment) -> None:
    """As Storm's workers do."""
    owners: dict[int, int] = {}
    for slot, topology in zip(answer.slot_of_executor.tolist(), problem.executor_topology.tolist(), strict=True):
        assert slot == UNPLACED or owners.setdefault(slot, topology) == topology


def nothing_new_comes_to_a_blacklisted_host(problem: Problem, answer: Assignment) -> None:
    """What runs there may stay."""
    slots = answer.slot_of_executor
    arriving = slots[(slots != problem.current_slot) & (slots != UNPLACED)]
    hosts = {problem.supervisors[node].host for node in problem.slot_node[arriving]}
    assert not hosts & problem.blacklisted_hosts


def the_answer_survives_its_file_format(problem: Problem, answer: Assignment) -> None:
    """Written and read again it is the same."""
    again = assignment_from_dict(assignment_to_dict(problem, answer), problem)
    assert np.array_equal(again.slot_of_executor, answer.slot_of_executor)
    assert again.unplaced == answer.unplaced
    assert again.status == dict(answer.status)


def what_runs_is_not_stopped(problem: Problem, answer: Assignment) -> None:
    """A live executor keeps a slot, whatever lacks."""
    assert np.all(answer.slot_of_executor[problem.current_slot != UNPLACED] != UNPLACED)


def a_placement_is_worth_the_same_in_any_order(problem: Problem, answer: Assignment) -> None:
    """Of topologies: what a placement costs, and whether it is valid, is read from either problem alike."""
    turned = alike.with_topologies_turned(problem)
    back = turned.with_current(answer.by_topology(problem)).current_slot
    assert cost_of(turned, back).total == pytest.approx(cost_of(problem, answer.slot_of_executor).total)
    assert len(violations(turned, back)) == len(violations(problem, answer.slot_of_executor))


#: What holds for every scheduler and problem.
OF_ANY = (
    each_executor_is_placed_once_or_explained,
    a_slot_holds_one_topology,
    nothing_new_comes_to_a_blacklisted_host,
    the_answer_survives_its_file_format,
    what_runs_is_not_stopped,
    a_placement_is_worth_the_same_in_any_order,
)


def what_runs_stays_where_it_is(problem: Problem, answer: Assignment) -> None:
    """Executors that run keep their slots."""
    runs = problem.current_slot != UNPLACED
    assert np.array_equal(answer.slot_of_executor[runs], problem.current_slot[runs])


def limits_are_kept(problem: Problem, answer: Assignment) -> None:
    """By topologies of which nothing is left out; and by all, as plain loops see it, where that holds for all."""
    left_out = {executor.topology for executor in answer.unplaced}
    found = violations(problem, answer.slot_of_executor)
    assert [str(violation) for violation in found if violation.topology not in left_out] == []
    if not left_out:
        assert oracles.is_valid(problem, answer.slot_of_executor.tolist())


def topologies_are_placed_as_a_whole(problem: Problem, answer: Assignment) -> None:
    """Or not at all."""
    for topology in range(len(problem.topologies)):
        placed = answer.slot_of_executor[problem.executors_of(topology)] != UNPLACED
        assert placed.all() or not placed.any()
