"""What every scheduler promises, as tests to inherit.

A scheduler's own test module subclasses `SchedulerContract`, says how to make one, and which of the optional promises
it gives::

    class TestMine(SchedulerContract):
        never_moves = True

        def make(self):
            return MyScheduler()

Not in the contract: that a placement is good.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st

from stormwright.formats import problem_to_dict
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
from stormwright.schedulers.toolkit.from_scratch import Anew
from stormwright.testing import alike, checks
from stormwright.testing.alike import Once
from stormwright.testing.shared import for_any, only_if
from stormwright.testing.strategies import problems, roomy

#: One call each: tests of the same problems share them, and what a scheduler says of each is asked once.
_any_problem = for_any(problem=problems())
_nothing_runs = for_any(problem=problems(running=False))


def several() -> st.SearchStrategy[Problem]:
    """Problems of two topologies or more, of which nothing runs, with room for most of them every other time."""
    found = problems(running=False).filter(lambda of: len(of.topologies) > 1)
    return found | found.map(roomy)


def _require(promised: bool, otherwise: str) -> None:
    """Skip a test of what a scheduler does not promise."""
    if not promised:
        pytest.skip(otherwise)


def _as_first_seen(names: IndexArray) -> list[int]:
    """Names numbered in the order in which they come, so that what is only renamed is equal; -1 stays what it is."""
    seen: dict[int, int] = {UNPLACED: UNPLACED}
    return [seen.setdefault(name, len(seen)) for name in names.tolist()]


class _Asked:
    """In the place of a scheduler of which it is known what it answers to one problem: it is asked that, and no other.

    Parameters
    ----------
    problem, answer
        What it is asked, and what it says.
    """

    def __init__(self, problem: Problem, answer: Assignment) -> None:
        self._problem, self._answer = problem, answer

    def schedule(self, problem: Problem) -> Assignment:
        """The answer that is known."""
        known = self._problem
        assert (problem.cluster, problem.workload, problem.demand) == (known.cluster, known.workload, known.demand)
        assert problem.current == known.current
        assert np.array_equal(problem.measured_slot, known.measured_slot)
        return self._answer


class SchedulerContract(ABC):
    """Tests that hold for every scheduler, and some that hold for those that promise more."""

    #: Examples of each property at most, for a scheduler that takes long; None for as many as the Hypothesis profile in
    #: force says.
    examples: int | None = None
    #: Placed executors break no limit of CPU, memory, worker count and executors per worker.
    keeps_limits = True
    #: A topology is placed as a whole or not at all.
    all_or_nothing = True
    #: Names of topologies, components, supervisors, hosts and racks have no influence.
    ignores_names = True
    #: The order of supervisors in the problem has no influence.
    ignores_order_of_supervisors = False
    #: The order of topologies in the problem has no influence; whoever takes them in turn cannot promise that.
    ignores_order_of_topologies = False
    #: The order of topologies that run has no influence on where one goes that waits.
    ignores_order_of_what_runs = True
    #: Executors that run stay where they are.
    never_moves = False

    _known: ClassVar[dict[type, Once]] = {}

    @abstractmethod
    def make(self) -> Scheduler:
        """A fresh scheduler, set as all others that it makes."""

    def answer(self, problem: Problem) -> Assignment:
        """What a fresh scheduler says."""
        return self.make().schedule(problem)

    def known(self, problem: Problem) -> Assignment:
        """The same, asked once of a problem that several tests share: it says the same each time, by a test here."""
        # Its own class's: who inherits the tests of another has another scheduler.
        ask = self._known.setdefault(type(self), Once(self._leaving_it))
        answer: Assignment = ask(problem)
        return answer

    def _leaving_it(self, problem: Problem) -> Assignment:
        """What a fresh scheduler says, and does nothing to the problem."""
        before = problem_to_dict(problem)
        answer = self.answer(problem)
        assert problem_to_dict(problem) == before, "the problem is left as it was"
        return answer

    # Every scheduler ----------------------------------------------------------------------------

    @_any_problem
    def test_an_answer_is_sound(self, problem: Problem) -> None:
        """Of any problem, whatever lacks in it: each of `checks.OF_ANY` is a promise of its own."""
        answer = self.known(problem)
        for check in checks.OF_ANY:
            check(problem, answer)
        again = self.answer(replace(problem))
        assert np.array_equal(answer.slot_of_executor, again.slot_of_executor), "same problem, same answer"
        assert replace(answer, slot_of_executor=again.slot_of_executor) == again, "same problem, same reasons"

    @for_any(problem=problems(flows=False), seed=st.integers(0, 2**32 - 1))
    def test_order_of_traffic_pairs_has_no_influence(self, problem: Problem, seed: int) -> None:
        mixed = alike.with_pairs_shuffled(problem, seed)
        assert np.array_equal(self.answer(mixed).slot_of_executor, self.answer(problem).slot_of_executor)

    @for_any(problem=problems(flows=False, running=False))
    def test_its_own_answer_needs_no_change(self, problem: Problem) -> None:
        """Where traffic does not follow the placement, and nothing ran before."""
        answer = self.answer(problem)
        again = self.answer(problem.with_current(answer.by_topology(problem)))
        placed = answer.slot_of_executor != UNPLACED
        assert np.array_equal(again.slot_of_executor[placed], answer.slot_of_executor[placed])

    @_any_problem
    def test_anew_is_the_first_answer_in_other_slots(self, problem: Problem) -> None:
        """Workers, nodes and racks hold the same executors as if nothing ran, and no more moves than without renaming.

        What is placed is as valid, and costs as much. Asked again by the same load, once that runs, it says the same.
        """
        as_if_first = problem.with_nothing_running()
        first = self.known(as_if_first)
        asked = Anew(_Asked(as_if_first, first))
        anew = asked.schedule(problem)
        assert (anew.unplaced, anew.status) == (first.unplaced, first.status)
        before, after = first.slot_of_executor, anew.slot_of_executor
        node, rack = np.append(problem.slot_node, UNPLACED), np.append(problem.node_rack, UNPLACED)
        assert _as_first_seen(before) == _as_first_seen(after)
        assert _as_first_seen(node[before]) == _as_first_seen(node[after])
        assert _as_first_seen(rack[node[before]]) == _as_first_seen(rack[node[after]])
        assert cost_of(problem, after).total == pytest.approx(cost_of(problem, before).total)
        assert len(violations(problem, after)) == len(violations(problem, before))
        now = problem.current_slot
        assert len(diff(problem, now, after).moved_executors) <= len(diff(problem, now, before).moved_executors)
        then = problem.with_moved(anew.by_topology(problem))
        assert np.array_equal(asked.schedule(then).slot_of_executor, after)

    # Those that promise it ----------------------------------------------------------------------

    @_nothing_runs
    def test_limits_are_kept(self, problem: Problem) -> None:
        _require(self.keeps_limits, "it does not promise to keep limits")
        checks.limits_are_kept(problem, self.known(problem))

    @_nothing_runs
    def test_topologies_are_placed_as_a_whole(self, problem: Problem) -> None:
        _require(self.all_or_nothing, "it may place a part of a topology")
        checks.topologies_are_placed_as_a_whole(problem, self.known(problem))

    @_any_problem
    def test_names_have_no_influence(self, problem: Problem) -> None:
        """Where ids have one, those of components, hosts and racks and the names of topologies still have none."""
        other = alike.renamed(problem, self.ignores_names)
        assert np.array_equal(self.answer(other).slot_of_executor, self.known(problem).slot_of_executor)

    @_any_problem
    def test_order_of_supervisors_has_no_influence(self, problem: Problem) -> None:
        _require(self.ignores_order_of_supervisors, "among equal nodes it takes the first")
        turned = alike.with_supervisors_turned(problem)
        assert self.answer(turned).by_topology(turned) == self.known(problem).by_topology(problem)

    @_any_problem
    def test_order_of_topologies_has_no_influence(self, problem: Problem) -> None:
        _require(self.ignores_order_of_topologies, "it takes topologies in turn")
        turned = alike.with_topologies_turned(problem)
        assert self.answer(turned).by_topology(turned) == self.known(problem).by_topology(problem)

    @for_any(problem=several(), seed=st.integers(0, 2**32 - 1))
    def test_order_of_topologies_that_run_has_no_influence(self, problem: Problem, seed: int) -> None:
        """Of a cluster as it is most of the time: one topology is new, all that has slots keeps them."""
        _require(self.never_moves, "what is moved first may have the best place")
        _require(self.ignores_order_of_what_runs, "it does not promise that the order of what runs has no influence")
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
        checks.what_runs_stays_where_it_is(problem, self.known(problem))
