"""What may stay where it runs: as much as is good enough, and nothing that is in another's way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import Assignment, Problem
from stormwright.model.constraints.violations import broken_limits
from stormwright.schedulers.templates import unnecessary_moves
from stormwright.schedulers.templates.unnecessary_moves import move_back
from stormwright.testing.word_counts import WordCount

TOPOLOGIES, EXECUTORS = 8, 12


def several(nodes: int = TOPOLOGIES) -> Problem:
    """Word counts, the one with number t running in the first slot of node t."""
    made = [WordCount(nodes=nodes, cores=64.0, name=f"w{number}") for number in range(TOPOLOGIES)]
    problem = made[0].problem()
    topologies = tuple(each.topology() for each in made)
    loads = {topology.id: each.load() for topology, each in zip(topologies, made, strict=True)}
    assert problem.load is not None
    problem = replace(problem, topologies=topologies, current={}, load=replace(problem.load, topologies=loads))
    return problem.with_current(Assignment(placed(range(0, 2 * TOPOLOGIES, 2))).by_topology(problem))


def placed(slots) -> np.ndarray:
    """Every topology in one slot."""
    return np.repeat(np.fromiter(slots, int), EXECUTORS).astype(np.int32)


@pytest.mark.long
@given(st.sets(st.integers(0, TOPOLOGIES - 1), min_size=1, max_size=TOPOLOGIES))
def test_only_useless_moves_are_reverted(worth_it):
    problem = several()
    slots = placed(range(1, 2 * TOPOLOGIES, 2))

    def badness(of: np.ndarray) -> float:
        return float(sum(np.any(of[problem.executors_of(t)] != slots[problem.executors_of(t)]) for t in worth_it))

    found = move_back(problem, slots, badness, 0.5)
    stays = [t for t in range(TOPOLOGIES) if np.all(found[problem.executors_of(t)] == slots[problem.executors_of(t)])]
    assert set(stays) == worth_it
    assert np.all((found == slots) | (found == problem.current_slot))


def test_two_swapped_topologies_return_together():
    problem = several()
    slots = problem.current_slot.copy()
    slots[problem.executors_of(0)], slots[problem.executors_of(1)] = 2, 0
    slots[problem.executors_of(5)] = 11

    def badness(of: np.ndarray) -> float:
        return 0.0 if of[problem.executors_of(5)][0] == 11 else 1.0

    found = move_back(problem, slots, badness, 0.5)
    assert found[problem.executors_of(0)][0] == 0
    assert found[problem.executors_of(1)][0] == 2
    assert found[problem.executors_of(5)][0] == 11


def test_cyclic_slot_dependency_is_examined_once(monkeypatch):
    """Where each has the next one's slot all go back or none: parts of a part lead to the same."""
    problem = several()
    slots = placed([*range(2, 2 * TOPOLOGIES, 2), 0])
    looked, looks = [], unnecessary_moves._with_those_in_the_way  # noqa: SLF001
    monkeypatch.setattr(unnecessary_moves, "_with_those_in_the_way", lambda *of: looked.append(of) or looks(*of))
    found = move_back(problem, slots, lambda _: 1.0, 0.5)
    assert np.array_equal(found, slots)
    assert len(looked) == 2  # its halves


def test_topology_does_not_return_to_a_slot_needed_by_another():
    problem = several()
    slots = problem.current_slot.copy()
    slots[problem.executors_of(0)], slots[problem.executors_of(1)] = 2, 1  # 1 has left its slot to 0

    def badness(of: np.ndarray) -> float:
        return 0.0 if of[problem.executors_of(0)][0] == 2 else 1.0

    found = move_back(problem, slots, badness, 0.5)
    assert np.array_equal(found, slots)
    assert broken_limits(problem, found) == []


@pytest.mark.parametrize(("some", "expected"), [(3, 10), (12, 12), (100, 14)])
def test_evaluated_placements_are_limited(some, expected, monkeypatch):
    """Two halves, four quarters and eight topologies by themselves are 14."""
    problem = several()
    monkeypatch.setattr("stormwright.schedulers.templates.unnecessary_moves._MAX_EVALUATED", problem.num_executors * 10)
    monkeypatch.setattr("stormwright.schedulers.templates.unnecessary_moves._SOME", some)
    evaluated = []

    def badness(of: np.ndarray) -> float:
        evaluated.append(of)
        return 1.0

    move_back(problem, placed(range(1, 2 * TOPOLOGIES, 2)), badness, 0.5)
    assert len(evaluated) == expected
    evaluated.clear()
    move_back(problem, placed(range(1, 2 * TOPOLOGIES, 2)), badness, 0.5, end_s=0.0)
    assert evaluated == []
