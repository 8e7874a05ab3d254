"""Canonical forms of problems, and what goes by them."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model import UNPLACED, Assignment
from stormwright.schedulers.even import EvenScheduler
from stormwright.schedulers.portfolio.members import MemberAnswer, best_of
from stormwright.schedulers.templates.rate_seats import Seating
from stormwright.schedulers.toolkit.canonical import named_by_position, with_sorted_pairs
from stormwright.testing import shared
from stormwright.testing.shared import for_any
from stormwright.testing.strategies import problems, renamed
from tests.examples import examples
from tests.schedulers.builders import load, nodes, problem, topology


@pytest.mark.long
@for_any(examples(30), of=problems())
def test_positions_as_names_do_not_depend_on_names(of):
    found, other = named_by_position(of), named_by_position(renamed(of))
    assert [node.id for node in found.supervisors] == [node.id for node in other.supervisors]
    assert np.array_equal(found.current_slot, of.current_slot)
    assert np.array_equal(found.node_usable, of.node_usable)
    answers = [EvenScheduler().schedule(each).slot_of_executor for each in (found, other)]
    assert np.array_equal(*answers)


@pytest.mark.long
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


def test_a_topology_left_out_has_no_wrong_number_of_workers():
    """Else what runs is no start of a search by rates where another topology has no place."""
    of = problem(nodes(9, 9, ports=2), (topology("runs", 2, 2), load(2)), (topology("waits", 3, 3), load(3)))
    seating = Seating(of, np.array([True, True]), "exactly")
    slots = np.array([0, 1, UNPLACED, UNPLACED, UNPLACED], np.int32)
    assert seating.may_use(slots, 0)
    assert seating.may_use(slots, 1)
    assert not seating.may_use(np.array([0, 0, 2, 2, 3], np.int32), 0)
    assert not seating.may_use(np.array([0, 0, 2, 2, 3], np.int32), 1)
