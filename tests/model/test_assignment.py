"""An answer by index and by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import UNPLACED, Assignment
from stormwright.testing import oracles
from stormwright.testing.strategies import problems, slots_of


@pytest.mark.slow
@given(problems(), st.data())
def test_by_topology_lists_distinct_slots_in_order_of_first_executor(problem, data):
    slots = data.draw(slots_of(problem))
    named = Assignment(slots).by_topology(problem)
    assert list(named) == [topology.id for topology in problem.topologies]
    for (topology, executor), slot in zip(oracles.executors(problem), slots, strict=True):
        position = named[topology].slot_of_executor[executor]
        assert (position == UNPLACED) == (slot == UNPLACED)
        assert position == UNPLACED or named[topology].slots[position] == problem.slots[slot]
    for placement in named.values():
        assert len(set(placement.slots)) == len(placement.slots)
        used = [position for position in placement.slot_of_executor if position != UNPLACED]
        assert list(dict.fromkeys(used)) == list(range(len(placement.slots)))
