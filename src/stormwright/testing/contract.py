"""Contract of every scheduler, as tests to inherit.

A scheduler's own test module subclasses `SchedulerContract`, defines how to create one, and which optional promises it
gives::

    class TestMine(SchedulerContract):
        never_moves = True

        def make(self):
            return MyScheduler()

The quality of placements is not part of the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st

from stormwright.formats import assignment_from_dict, assignment_to_dict, problem_to_dict
from stormwright.model import (
    UNPLACED,
    Assignment,
    Problem,
    Scheduler,
    cost_of,
    diff,
    violations,
)
from stormwright.model.arrays import IndexArray
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.testing import oracles, shared
from stormwright.testing.shared import SharedExamples, for_any, only_if
from stormwright.testing.strategies import problems, roomy


def each_executor_is_placed_once_or_explained(problem: Problem, answer: Assignment) -> None:
    """Assert that an executor has a slot, or counted reasons and its topology a status."""
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
    """Assert that a slot holds one topology, as in Storm."""
    owners: dict[int, int] = {}
    for slot, topology in zip(answer.slot_of_executor.tolist(), problem.executor_topology.tolist(), strict=True):
        assert slot == UNPLACED or owners.setdefault(slot, topology) == topology


def nothing_new_comes_to_a_blacklisted_host(problem: Problem, answer: Assignment) -> None:
    """Assert that blacklisted hosts get no new executors; running ones may stay."""
    slots = answer.slot_of_executor
    arriving = slots[(slots != problem.current_slot) & (slots != UNPLACED)]
    hosts = {problem.supervisors[node].host for node in problem.slot_node[arriving]}
    assert not hosts & problem.blacklisted_hosts


def the_answer_survives_its_file_format(problem: Problem, answer: Assignment) -> None:
    """Assert that writing and reading preserves the answer."""
    again = assignment_from_dict(assignment_to_dict(problem, answer), problem)
    assert np.array_equal(again.slot_of_executor, answer.slot_of_executor)
    assert again.unplaced == answer.unplaced
    assert again.status == dict(answer.status)


def running_executors_go_on(problem: Problem, answer: Assignment) -> None:
    """Assert that a live executor has a slot, whatever is short."""
    assert np.all(answer.slot_of_executor[problem.current_slot != UNPLACED] != UNPLACED)


def a_placement_is_worth_the_same_in_any_order(problem: Problem, answer: Assignment) -> None:
    """Assert that cost and validity do not depend on the order of topologies."""
    turned = shared.with_topologies_turned(problem)
    back = turned.with_current(answer.by_topology(problem)).current_slot
    assert cost_of(turned, back).total == pytest.approx(cost_of(problem, answer.slot_of_executor).total)
    assert len(violations(turned, back)) == len(violations(problem, answer.slot_of_executor))


#: Promises of every scheduler for any problem.
OF_ANY = (
    each_executor_is_placed_once_or_explained,
    a_slot_holds_one_topology,
    nothing_new_comes_to_a_blacklisted_host,
    the_answer_survives_its_file_format,
    running_executors_go_on,
    a_placement_is_worth_the_same_in_any_order,
)


def running_executors_stay(problem: Problem, answer: Assignment) -> None:
    """Assert that running executors do not change their slots."""
    runs = problem.current_slot != UNPLACED
    assert np.array_equal(answer.slot_of_executor[runs], problem.current_slot[runs])


def constraints_are_satisfied(problem: Problem, answer: Assignment) -> None:
    """Assert that fully placed topologies violate no constraint, and if possible that nothing does, by plain loops."""
    left_out = {executor.topology for executor in answer.unplaced}
    found = violations(problem, answer.slot_of_executor)
    assert [str(violation) for violation in found if violation.topology not in left_out] == []
    if not left_out:
        assert oracles.is_valid(problem, answer.slot_of_executor.tolist())


def topologies_are_placed_as_a_whole(problem: Problem, answer: Assignment) -> None:
    """Assert that topologies are placed as a whole or not at all."""
    for topology in range(len(problem.topologies)):
        placed = answer.slot_of_executor[problem.executors_of(topology)] != UNPLACED
        assert placed.all() or not placed.any()


#: Answers cached by problem, as tests share problems.
_any_problem = for_any(problem=problems())
_nothing_runs = for_any(problem=problems(running=False))


def several() -> st.SearchStrategy[Problem]:
    """Return problems of two or more topologies without running executors, every other one with enough resources."""
    found = problems(running=False).filter(lambda problem: len(problem.topologies) > 1)
    return found | found.map(roomy)


def _require(promised: bool, otherwise: str) -> None:
    """Skip a test of a promise that a scheduler does not give."""
    if not promised:
        pytest.skip(otherwise)


def _by_first_occurrence(names: IndexArray) -> list[int]:
    """Number names in order of first occurrence, so that renamed results are equal; -1 stays."""
    numbers_by_name: dict[int, int] = {UNPLACED: UNPLACED}
    return [numbers_by_name.setdefault(name, len(numbers_by_name)) for name in names.tolist()]


class _KnownAnswer:
    """Stand-in for a scheduler with a known answer to one problem.

    Parameters
    ----------
    problem, answer
        The problem and its answer.
    """

    def __init__(self, problem: Problem, answer: Assignment) -> None:
        self._problem, self._answer = problem, answer

    def schedule(self, problem: Problem) -> Assignment:
        """Return the known answer."""
        known = self._problem
        assert (problem.cluster, problem.workload, problem.demand) == (known.cluster, known.workload, known.demand)
        assert problem.current == known.current
        assert np.array_equal(problem.measured_slot, known.measured_slot)
        return self._answer


class SchedulerContract(ABC):
    """Tests of promises of every scheduler, and of optional ones."""

    #: Examples of each property at most, for a scheduler that takes long; None for as many as the Hypothesis profile in
    #: force says.
    examples: int | None = None
    #: Placed executors violate no constraint of CPU, memory, worker count and executors per worker.
    keeps_limits = True
    #: A topology is placed as a whole or not at all.
    all_or_nothing = True
    #: Names of topologies, components, supervisors, hosts and racks have no influence.
    ignores_names = True
    #: The order of supervisors in the problem has no influence.
    ignores_order_of_supervisors = False
    #: The order of topologies in the problem has no influence; schedulers that place them in turn cannot promise that.
    ignores_order_of_topologies = False
    #: The order of running topologies has no influence on the placement of a waiting one.
    ignores_order_of_running = True
    #: Running executors do not move.
    never_moves = False

    _known: ClassVar[dict[type, SharedExamples]] = {}

    @abstractmethod
    def make(self) -> Scheduler:
        """Return a new scheduler with the same settings each time."""

    def answer(self, problem: Problem) -> Assignment:
        """Return the answer of a new scheduler."""
        return self.make().schedule(problem)

    def known(self, problem: Problem) -> Assignment:
        """Return the cached answer for a problem that several tests share."""
        # Cached per class, as a subclass tests another scheduler.
        ask = self._known.setdefault(type(self), SharedExamples(self._leaving_it))
        answer: Assignment = ask(problem)
        return answer

    def _leaving_it(self, problem: Problem) -> Assignment:
        """Return the answer of a new scheduler, and assert that the problem is unchanged."""
        before = problem_to_dict(problem)
        answer = self.answer(problem)
        assert problem_to_dict(problem) == before, "the problem is left as it was"
        return answer

    @_any_problem
    def test_an_answer_is_sound(self, problem: Problem) -> None:
        """Test each promise of `OF_ANY` for any problem, whatever is short."""
        answer = self.known(problem)
        for check in OF_ANY:
            check(problem, answer)
        again = self.answer(replace(problem))
        assert np.array_equal(answer.slot_of_executor, again.slot_of_executor), "same problem, same answer"
        assert replace(answer, slot_of_executor=again.slot_of_executor) == again, "same problem, same reasons"

    @for_any(problem=problems(flows=False), seed=st.integers(0, 2**32 - 1))
    def test_order_of_traffic_pairs_has_no_influence(self, problem: Problem, seed: int) -> None:
        mixed = shared.with_pairs_shuffled(problem, seed)
        assert np.array_equal(self.answer(mixed).slot_of_executor, self.answer(problem).slot_of_executor)

    @for_any(problem=problems(flows=False, running=False))
    def test_its_own_answer_needs_no_change(self, problem: Problem) -> None:
        """Test stability if traffic does not follow the placement, and nothing ran before."""
        answer = self.answer(problem)
        again = self.answer(problem.with_current(answer.by_topology(problem)))
        placed = answer.slot_of_executor != UNPLACED
        assert np.array_equal(again.slot_of_executor[placed], answer.slot_of_executor[placed])

    @_any_problem
    def test_from_scratch_is_the_first_answer_in_other_slots(self, problem: Problem) -> None:
        """Test that from scratch equals the first answer up to equivalent slots, with no more moves.

        Validity and cost are equal. Run again with the same load, once that runs, the answer is the same.
        """
        as_if_first = problem.with_nothing_running()
        first = self.known(as_if_first)
        answers = FromScratchScheduler(_KnownAnswer(as_if_first, first))
        from_scratch = answers.schedule(problem)
        assert (from_scratch.unplaced, from_scratch.status) == (first.unplaced, first.status)
        before, after = first.slot_of_executor, from_scratch.slot_of_executor
        node, rack = np.append(problem.slot_node, UNPLACED), np.append(problem.node_rack, UNPLACED)
        assert _by_first_occurrence(before) == _by_first_occurrence(after)
        assert _by_first_occurrence(node[before]) == _by_first_occurrence(node[after])
        assert _by_first_occurrence(rack[node[before]]) == _by_first_occurrence(rack[node[after]])
        assert cost_of(problem, after).total == pytest.approx(cost_of(problem, before).total)
        assert len(violations(problem, after)) == len(violations(problem, before))
        now = problem.current_slot
        assert len(diff(problem, now, after).moved_executors) <= len(diff(problem, now, before).moved_executors)
        then = problem.with_moved(from_scratch.by_topology(problem))
        assert np.array_equal(answers.schedule(then).slot_of_executor, after)

    @_nothing_runs
    def test_constraints_are_satisfied(self, problem: Problem) -> None:
        _require(self.keeps_limits, "it does not promise to keep limits")
        constraints_are_satisfied(problem, self.known(problem))

    @_nothing_runs
    def test_topologies_are_placed_as_a_whole(self, problem: Problem) -> None:
        _require(self.all_or_nothing, "it may place a part of a topology")
        topologies_are_placed_as_a_whole(problem, self.known(problem))

    @_any_problem
    def test_names_have_no_influence(self, problem: Problem) -> None:
        """Test that names, apart from ids if these matter, have no influence."""
        other = shared.renamed(problem, self.ignores_names)
        assert np.array_equal(self.answer(other).slot_of_executor, self.known(problem).slot_of_executor)

    @_any_problem
    def test_order_of_supervisors_has_no_influence(self, problem: Problem) -> None:
        _require(self.ignores_order_of_supervisors, "among equal nodes it takes the first")
        turned = shared.with_supervisors_turned(problem)
        assert self.answer(turned).by_topology(turned) == self.known(problem).by_topology(problem)

    @_any_problem
    def test_order_of_topologies_has_no_influence(self, problem: Problem) -> None:
        _require(self.ignores_order_of_topologies, "it takes topologies in turn")
        turned = shared.with_topologies_turned(problem)
        assert self.answer(turned).by_topology(turned) == self.known(problem).by_topology(problem)

    @for_any(problem=several(), seed=st.integers(0, 2**32 - 1))
    def test_order_of_topologies_that_run_has_no_influence(self, problem: Problem, seed: int) -> None:
        """Test the usual case: one topology is new, all others stay."""
        _require(self.never_moves, "what is moved first may have the best place")
        _require(self.ignores_order_of_running, "it does not promise that the order of what runs has no influence")
        placed = self.answer(problem).by_topology(problem)
        new = list(placed)[seed % len(placed)]
        waiting = {id_ for id_, own in placed.items() if id_ == new or UNPLACED in own.slot_of_executor}
        before = problem.with_current({id_: own for id_, own in placed.items() if id_ != new})
        in_turn = tuple(topology for topology in before.topologies if topology.id in waiting)
        running = [topology for topology in before.topologies if topology.id not in waiting]
        only_if(running)
        rng = np.random.default_rng(seed)
        mixed = tuple(running[n] for n in rng.permutation(len(running)))
        ahead = int(rng.integers(0, len(mixed) + 1))
        other = replace(before, topologies=(*mixed[:ahead], *in_turn, *mixed[ahead:]))
        assert self.answer(other).by_topology(other) == self.answer(before).by_topology(before)

    @_any_problem
    def test_what_runs_never_moves(self, problem: Problem) -> None:
        _require(self.never_moves, "it may move what runs")
        running_executors_stay(problem, self.known(problem))
