"""Canonical forms of problems, and what goes by them."""

from __future__ import annotations

import numpy as np

from stormwright.model import UNPLACED, Assignment
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.even import EvenScheduler
from stormwright.schedulers.portfolio.members import MemberAnswer, best_of
from stormwright.schedulers.toolkit.canonical import named_by_position, with_sorted_pairs
from stormwright.testing import shared
from stormwright.testing.shared import for_any
from stormwright.testing.strategies import problems, renamed
from tests.examples import examples
from tests.schedulers.builders import load, nodes, problem, topology


@for_any(examples(30), of=problems())
def test_positions_as_names_do_not_depend_on_names(of):
    found, other = named_by_position(of), named_by_position(renamed(of))
    assert [node.id for node in found.supervisors] == [node.id for node in other.supervisors]
    assert np.array_equal(found.current_slot, of.current_slot)
    assert np.array_equal(found.node_usable, of.node_usable)
    answers = [EvenScheduler().schedule(each).slot_of_executor for each in (found, other)]
    assert np.array_equal(*answers)


@for_any(examples(30), of=problems(flows=False))
def test_sorted_pairs_do_not_depend_on_their_order(of):
    if of.load is not None:
        assert with_sorted_pairs(of) == with_sorted_pairs(shared.with_pairs_shuffled(of, 1))


def test_differences_by_rounding_are_ties():
    given = [("a", 0.3), ("b", 0.1 + 0.2), ("c", 0.1), ("d", 0.1 * (1 - 1e-15))]
    nothing = Assignment(np.empty(0, np.int32))
    answers = [MemberAnswer(name, nothing, (0, 0, badness), moves=False) for name, badness in given]
    assert [each.name for each in best_of(answers)] == ["c", "d", "a", "b"]
    assert [each.name for each in best_of(answers[::-1])] == ["d", "c", "b", "a"]


def test_what_runs_stays_if_a_topology_has_no_place():
    """The topology left out has none of its workers, which is no fault of what runs."""
    of = problem(
        nodes(9, 9, ports=1),
        (topology("runs", 2, 2), load(2, [(0, 1, 10)])),
        (topology("waits", 1, 1), load(1, [(0, 0, 10)])),
    )
    settings = {"iterations": 2000}
    first = make_scheduler("optimizer", settings).schedule(of)
    assert first.slot_of_executor.tolist().count(UNPLACED) == 1
    again = make_scheduler("optimizer", settings).schedule(of.with_current(first.by_topology(of)))
    assert again.slot_of_executor.tolist() == first.slot_of_executor.tolist()
