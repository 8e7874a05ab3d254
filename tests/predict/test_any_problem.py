"""Problems of every kind are predicted without a fault, and what is predicted makes sense."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.model import UNPLACED
from stormwright.predict.answer import predict
from stormwright.testing.strategies import problems
from tests.examples import examples


@pytest.mark.long
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_any_problem_can_be_predicted(data):
    problem = data.draw(problems())
    slot = st.integers(-1 if data.draw(st.booleans()) or not problem.slots else 0, max(len(problem.slots) - 1, -1))
    executors = problem.num_executors
    slots = np.array(data.draw(st.lists(slot, min_size=executors, max_size=executors)), np.int32)
    found = predict(problem, slots)
    assert len(found.topologies) == len(problem.topologies)
    assert len(found.nodes) == len(problem.supervisors)
    assert str(found)
    orjson.dumps(found.as_dict())
    for index, one in enumerate(found.topologies):
        placed = np.all(slots[problem.executors_of(index)] != UNPLACED)
        assert placed or one.highest_tps.value == 0
        for interval in (one.highest_tps, one.pending_tps, one.latency_ms, one.p99_ms):
            if interval is not None:
                assert 0 <= interval.low <= interval.value <= interval.high
        if one.pending_tps is not None:
            assert one.pending_tps.value <= one.highest_tps.value * (1 + 1e-9)
        if one.latency_ms is not None and one.p99_ms is not None:
            assert one.rate_tps < one.highest_tps.value * (1 + 1e-9)
