"""What changes between two placements, counted by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.model import UNPLACED, diff
from stormwright.testing.strategies import problems, slots_of


def workers(problem, slots):
    found = {}
    for executor, slot in enumerate(slots.tolist()):
        if slot != UNPLACED:
            found.setdefault(problem.slots[slot], set()).add(executor)
    return found


@pytest.mark.long
@given(problems(), st.data())
def test_moves_and_workers(problem, data):
    before, after = data.draw(slots_of(problem)), data.draw(slots_of(problem))
    changes = diff(problem, before, after)
    assert set(changes.moved_executors) == {e for e in range(len(after)) if before[e] not in (UNPLACED, after[e])}
    assert set(changes.started_executors) == {e for e in range(len(after)) if before[e] == UNPLACED != after[e]}
    old, new = workers(problem, before), workers(problem, after)
    assert set(changes.unchanged_workers) == {slot for slot in new if old.get(slot) == new[slot]}
    assert set(changes.stopped_workers) == set(old) - set(changes.unchanged_workers)
    assert set(changes.started_workers) == set(new) - set(changes.unchanged_workers)
    moved = {problem.topologies[t].id for t in problem.executor_topology[before != after]}
    assert set(changes.topologies) == moved
    assert changes.empty == np.array_equal(before, after)
